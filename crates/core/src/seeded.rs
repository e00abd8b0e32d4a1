//! Bugs planted on purpose, to prove that the tests find them.
//!
//! Without the private feature `_seeded-bugs` no bug can be planted, and the checks cost nothing.

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A release ends whatever grant the name has, whoever holds it and with whatever token.
    ReleaseByOwnerOnly = 1,
    /// A renewal finds a lease that has run out and brings it back.
    RenewalRevives = 2,
    /// Tokens start again after a release.
    TokenResets = 3,
    /// A store that did not answer in time is reported as a name that is taken.
    TimeoutAsRefusal = 4,
    /// A waiter that gives up does not let the next one move up.
    WakeUpLost = 5,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ReleaseByOwnerOnly,
        Self::RenewalRevives,
        Self::TokenResets,
        Self::TimeoutAsRefusal,
        Self::WakeUpLost,
    ];
}

#[cfg(feature = "_seeded-bugs")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants one bug in this process, or removes it.
#[cfg(feature = "_seeded-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(
        bug.map_or(0, |bug| bug as u8),
        std::sync::atomic::Ordering::SeqCst,
    );
}

/// Whether this bug is planted.
#[cfg(feature = "_seeded-bugs")]
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether this bug is planted.
#[cfg(not(feature = "_seeded-bugs"))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
