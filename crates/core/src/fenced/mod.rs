//! The checking half of fencing tokens: resources that refuse a writer whose lease was granted again meanwhile.
//!
//! A guard can say that its lease is over, but not stop a write that is already under way. Only the resource can, by
//! comparing the token of the write with the highest one it has seen for the name. The comparison and the write must
//! be one step, so nothing here merely checks a token: [`FencedResource::apply`] takes what is to be done along with
//! it.
//!
//! [`Gate`] does it for a value in this process. Stores bring resources of their own.

mod gate;

use std::error::Error as StdError;
use std::fmt;

use async_trait::async_trait;

pub use gate::Gate;

use crate::error::Result;
use crate::lease::Token;
use crate::name::Name;

/// A resource that acts under a fencing token, unless it has already acted under a larger one for the same name.
///
/// `A` is what it can be asked to do. A resource that can do several things implements this once for each.
///
/// Whoever implements this keeps four promises:
///
/// * Comparing the token, remembering it and acting are one step: a statement, a script, a transaction, a critical
///   section. Two steps are a race, and the paused writer wins it.
/// * The highest token is remembered per name, and as durably as what it protects.
/// * An equal token is let in, because it is the same holder once more. A lower one changes nothing at all.
/// * A refusal is [`Applied::Stale`]. An error means that the resource failed, and says whether it may have acted.
///
/// A read under a token raises the fence as a write does. A holder that decides by what it reads must read this way:
/// otherwise a late write of its predecessor may land between its read and its write.
///
/// ```
/// use async_trait::async_trait;
/// use leasehold_core::fenced::{Applied, FencedResource, Gate};
/// use leasehold_core::{Name, Result, Token};
///
/// struct Deposit(i64);
///
/// struct Account(Gate<i64>);
///
/// #[async_trait]
/// impl FencedResource<Deposit> for Account {
///     type Output = i64;
///
///     async fn apply(&self, name: &Name, token: Token, deposit: Deposit) -> Result<Applied<i64>> {
///         Ok(self.0.apply(name, token, |balance| {
///             *balance += deposit.0;
///             *balance
///         }))
///     }
/// }
/// ```
#[async_trait]
pub trait FencedResource<A: Send + 'static>: Send + Sync {
    /// What it answers once it has acted.
    type Output;

    /// Acts under this token of this name, or says that a larger one has been here.
    ///
    /// # Errors
    /// If the resource failed. After an [unknown](crate::Effect::Unknown) effect the same call may be made again
    /// under the same token; the action may then have been done twice.
    ///
    /// # Cancel safety
    /// Dropped midway, the action is done or not, and in either case under this token.
    async fn apply(&self, name: &Name, token: Token, action: A) -> Result<Applied<Self::Output>>;
}

/// What a fenced resource made of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the action may have been refused"]
pub enum Applied<T> {
    /// It was done.
    Done(T),
    /// It was refused, and nothing was changed.
    Stale(Stale),
}

impl<T> Applied<T> {
    /// The result of the action, with a refusal as an error of its own type.
    ///
    /// # Errors
    /// [`Stale`] if it was refused.
    pub fn done(self) -> Result<T, Stale> {
        match self {
            Self::Done(result) => Ok(result),
            Self::Stale(stale) => Err(stale),
        }
    }
}

/// A refusal: the name has been granted again since, and the newer holder was here first.
///
/// This is neither a failure of the resource nor the guard's own finding that its lease is over, so it is no
/// [`ErrorKind`](crate::ErrorKind). Stop, and do not try again under this token: it will never be let in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stale {
    /// The name the token belongs to.
    pub name: Name,
    /// The token that was refused.
    pub token: Token,
    /// The highest token the resource has seen for this name.
    pub highest: Token,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            token,
            highest,
        } = self;
        write!(
            f,
            "{name}: token {token} is stale, {highest} was here before"
        )
    }
}

impl StdError for Stale {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_token_came_too_late_for_what() {
        let stale = Stale {
            name: Name::new("orders", "1").unwrap(),
            token: Token::new(33),
            highest: Token::new(34),
        };
        assert_eq!(
            stale.to_string(),
            "orders/1: token 33 is stale, 34 was here before"
        );
        assert_eq!(Applied::<()>::Stale(stale.clone()).done(), Err(stale));
        assert_eq!(Applied::Done(7).done(), Ok(7));
    }
}
