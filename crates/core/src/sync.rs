//! The synchronisation primitives of this crate, in one place so that a schedule checker can replace them.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

/// Locks, ignoring poison: every critical section here leaves its data whole, and a panic of one caller must
/// not take the locks of all others with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
