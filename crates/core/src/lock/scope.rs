//! Reentry: acquisitions made in the same scope share one lease and are counted.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::hold::Hold;
use crate::name::Name;
use crate::sync::{Mutex, lock};

/// An identity under which a lock may be taken again while it is held.
///
/// Clones are the same scope. A scope means something inside this process only; the store sees a fresh holder for
/// every acquisition that reaches it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(u64);

impl Scope {
    /// A scope unlike any other in this process.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.0)
    }
}

/// What is held under which scope.
#[derive(Default)]
pub(super) struct Scopes(Mutex<HashMap<(Scope, Name), Weak<Hold>>>);

impl Scopes {
    /// The acquisition of this scope for the name, with one guard more.
    pub(super) fn enter(&self, scope: &Scope, name: &Name) -> Option<Arc<Hold>> {
        let held = lock(&self.0);
        let hold = held.get(&(scope.clone(), name.clone()))?.upgrade()?;
        // Zero means that its last guard is being given up right now.
        let counted = hold
            .depth
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |depth| {
                (depth > 0).then_some(depth + 1)
            });
        counted.is_ok().then_some(hold)
    }

    pub(super) fn add(&self, scope: &Scope, hold: &Arc<Hold>) {
        let mut held = lock(&self.0);
        for (name, _) in hold.leases() {
            held.insert((scope.clone(), name.clone()), Arc::downgrade(hold));
        }
    }

    pub(super) fn is_held(&self, scope: &Scope, name: &Name) -> bool {
        let hold = lock(&self.0)
            .get(&(scope.clone(), name.clone()))
            .and_then(Weak::upgrade);
        hold.is_some_and(|hold| hold.depth.load(Ordering::Acquire) > 0 && hold.check().is_ok())
    }

    pub(super) fn remove(&self, scope: &Scope, hold: &Hold) {
        let mut held = lock(&self.0);
        for (name, _) in hold.leases() {
            let key = (scope.clone(), name.clone());
            if held
                .get(&key)
                .is_some_and(|weak| std::ptr::eq(weak.as_ptr(), hold))
            {
                held.remove(&key);
            }
        }
    }
}
