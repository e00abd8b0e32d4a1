//! A fenced value inside this process.

use std::collections::HashMap;
use std::fmt;

use super::{Applied, Stale};
use crate::lease::Token;
use crate::name::{Name, NameHash};
use crate::sync::{Mutex, lock};

/// A value that is changed only under a token at least as large as every earlier one of the same name.
///
/// For whatever lives in this process: a map, a connection, the state behind an HTTP handler. Names are fenced apart
/// from each other, and share the value.
///
/// **Memory.** A gate keeps one token for every name that has ever passed it, because it cannot know when the last
/// late write has arrived. A program that does can [`forget`](Self::forget) a name.
///
/// **Restarts.** The tokens end with the process. If the value outlives it, store the token with it, and begin the
/// next run by applying nothing under what was stored.
///
/// ```
/// use leasehold_core::fenced::{Applied, Gate};
/// use leasehold_core::{Name, Token};
///
/// let gate = Gate::new(0);
/// let name = Name::new("accounts", "alice")?;
/// let add = |amount| move |balance: &mut i32| {
///     *balance += amount;
///     *balance
/// };
/// assert_eq!(gate.apply(&name, Token::new(34), add(100)), Applied::Done(100));
/// assert!(gate.apply(&name, Token::new(33), add(1)).done().is_err());
/// assert_eq!(gate.read(|balance| *balance), 100);
/// # Ok::<(), leasehold_core::Error>(())
/// ```
pub struct Gate<T>(Mutex<Inner<T>>);

struct Inner<T> {
    value: T,
    highest: HashMap<Name, Token, NameHash>,
}

impl<T> Gate<T> {
    /// A gate in front of this value; every first token of a name is let in.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(Inner {
            value,
            highest: HashMap::default(),
        }))
    }

    /// Runs `act` on the value under this token, unless a larger one of this name has been here.
    ///
    /// A read counts as well: until a holder has been here once, its predecessor is still let in.
    ///
    /// The gate is closed to everybody else while `act` runs, so it should be short, and it must not come back to the
    /// same gate, which would wait for itself. If it panics, the value stays as it left it, and lower tokens are
    /// refused.
    pub fn apply<R>(&self, name: &Name, token: Token, act: impl FnOnce(&mut T) -> R) -> Applied<R> {
        let mut inner = lock(&self.0);
        // Raised before the act, so that one which panics half-way is not followed by an older one.
        match inner.raise(name, token) {
            Ok(()) => Applied::Done(act(&mut inner.value)),
            Err(stale) => Applied::Stale(stale),
        }
    }

    /// Looks at the value without a token, which keeps nobody out. Closed to everybody else meanwhile, as in
    /// [`apply`](Self::apply).
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.0).value)
    }

    /// The highest token this name has been here with.
    #[must_use]
    pub fn highest(&self, name: &Name) -> Option<Token> {
        lock(&self.0).highest.get(name).copied()
    }

    /// Frees the memory of a name, unless a token larger than `up_to` has been here. Says whether the name is unknown
    /// now.
    ///
    /// After that any token of the name is let in. Only do it if no write of an earlier holder can still be under
    /// way, or if it could do no harm, because what it would change is gone for good.
    pub fn forget(&self, name: &Name, up_to: Token) -> bool {
        let highest = &mut lock(&self.0).highest;
        let newer = highest.get(name).is_some_and(|seen| *seen > up_to);
        if !newer {
            highest.remove(name);
        }
        !newer
    }
}

impl<T> Inner<T> {
    fn raise(&mut self, name: &Name, token: Token) -> Result<(), Stale> {
        match self.highest.get_mut(name) {
            Some(&mut highest) if token < highest => Err(Stale {
                name: name.clone(),
                token,
                highest,
            }),
            Some(highest) => {
                *highest = token;
                Ok(())
            }
            None => {
                self.highest.insert(name.clone(), token);
                Ok(())
            }
        }
    }
}

impl<T: Default> Default for Gate<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// Shows how many names it knows, and not the value, which may be a secret or large.
impl<T> fmt::Debug for Gate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("names", &lock(&self.0).highest.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn name(key: &str) -> Name {
        Name::new("orders", key).unwrap()
    }

    fn set(gate: &Gate<u32>, key: &str, token: u64, value: u32) -> bool {
        let done = gate.apply(&name(key), Token::new(token), |it| *it = value);
        done.done().is_ok()
    }

    /// S4: lower is refused and changes nothing; equal is the same holder once more.
    #[test]
    fn a_lower_token_changes_nothing_and_an_equal_one_is_let_in() {
        let gate = Gate::new(0);
        assert!(set(&gate, "1", 34, 1));
        assert!(set(&gate, "1", 34, 2));
        assert!(!set(&gate, "1", 33, 3));
        assert_eq!(gate.read(|value| *value), 2);
        assert_eq!(gate.highest(&name("1")), Some(Token::new(34)));
        assert!(set(&gate, "1", 35, 4));
    }

    #[test]
    fn tokens_of_different_names_are_not_compared() {
        let gate = Gate::default();
        assert!(set(&gate, "1", 34, 1));
        assert!(set(&gate, "2", 5, 2));
        assert!(!set(&gate, "1", 33, 3));
        assert_eq!(gate.highest(&name("3")), None);
    }

    /// S4: without this, a late write lands between the read and the write of the next holder.
    #[test]
    fn a_read_under_a_token_keeps_the_predecessor_out() {
        let gate = Gate::new(7);
        let seen = gate.apply(&name("1"), Token::new(34), |value| *value);
        assert_eq!(seen, Applied::Done(7));
        assert!(!set(&gate, "1", 33, 8));
    }

    /// S4: a holder that fell over half-way has still been here.
    #[test]
    fn a_panic_leaves_the_fence_up_and_the_gate_usable() {
        let gate = Gate::new(0);
        let fell = catch_unwind(AssertUnwindSafe(|| {
            let _ = gate.apply(&name("1"), Token::new(34), |_| panic!("half-way"));
        }));
        assert!(fell.is_err());
        assert!(!set(&gate, "1", 33, 1));
        assert!(set(&gate, "1", 34, 2));
    }

    /// S15: a program that knows when a name is done with can bound the memory.
    #[test]
    fn a_name_is_forgotten_unless_a_newer_holder_was_here() {
        let gate = Gate::new(0);
        assert!(set(&gate, "1", 34, 1));
        assert!(!gate.forget(&name("1"), Token::new(33)));
        assert_eq!(gate.highest(&name("1")), Some(Token::new(34)));
        assert!(gate.forget(&name("1"), Token::new(34)));
        assert_eq!(gate.highest(&name("1")), None);
        assert!(gate.forget(&name("1"), Token::new(34)));
        assert_eq!(format!("{gate:?}"), "Gate { names: 0, .. }");
    }
}
