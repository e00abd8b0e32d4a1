//! What a case works with: a backend, a namespace of its own, and short words for the usual requests.

mod locks;
pub(crate) mod reservations;
mod verbs;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Backend, Clock, Holder, Metadata, Name, Owner, SystemClock, Ttl, Units};

use crate::harness::{Contention, Harness, Time};

/// The stage of one case. Cloning gives the same stage.
#[derive(Clone)]
pub struct Scene {
    harness: Arc<dyn Harness>,
    backend: Arc<dyn Backend>,
    namespace: Arc<str>,
}

/// Somebody who asks for leases: a secret holder and a label.
#[derive(Debug, Clone)]
pub struct Party {
    /// The secret.
    pub holder: Holder,
    /// The label.
    pub owner: Owner,
}

impl Party {
    /// A new holder with this label.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self {
            holder: Holder::random(),
            owner: Owner::new(label).expect("a case uses a valid label"),
        }
    }
}

impl Scene {
    /// A stage with a fresh namespace.
    #[must_use]
    pub fn new(harness: Arc<dyn Harness>, backend: Arc<dyn Backend>) -> Self {
        let namespace = format!("kit-{:016x}", rand::random::<u64>()).into();
        Self {
            harness,
            backend,
            namespace,
        }
    }

    /// The backend under test.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The same stage over another backend: a wrapper of this one, say.
    #[must_use]
    pub fn over(&self, backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            ..self.clone()
        }
    }

    /// The harness.
    #[must_use]
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The namespace of this case.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A name of this case.
    #[must_use]
    pub fn name(&self, key: &str) -> Name {
        Name::new(&self.namespace, key).expect("a case uses valid names")
    }

    /// Whether time is virtual.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.harness.time() == Time::Virtual
    }

    /// The limits of the harness.
    #[must_use]
    pub fn contention(&self) -> Contention {
        self.harness.contention()
    }

    /// The shortest lease a case may wait out.
    #[must_use]
    pub fn brief(&self) -> Ttl {
        self.clamp(self.harness.shortest_ttl())
    }

    /// A lease that outlasts any case.
    #[must_use]
    pub fn long(&self) -> Ttl {
        self.clamp(Duration::from_secs(120))
    }

    fn clamp(&self, ttl: Duration) -> Ttl {
        let can = &self.backend.describe().capabilities;
        Ttl::new(ttl)
            .unwrap_or(Ttl::MIN)
            .clamp(can.min_ttl, can.max_ttl)
    }

    /// What the store makes of a ttl: rounded up to its step.
    #[must_use]
    pub fn rounded(&self, ttl: Ttl) -> Duration {
        let step = self.backend.describe().capabilities.ttl_step.as_millis();
        Duration::from_millis(ttl.as_millis().div_ceil(step) * step)
    }

    /// Checks the time left that a store gave for a fresh lease of `ttl`.
    pub fn assert_ttl(&self, left: Duration, ttl: Ttl) {
        let most = self.rounded(ttl);
        let least = if self.is_virtual() {
            most
        } else {
            ttl.as_duration() / 2
        };
        assert!(
            least <= left && left <= most,
            "{left:?} left of a lease of {:?}, not between {least:?} and {most:?}",
            ttl.as_duration()
        );
    }

    /// Lets time pass.
    pub async fn pass(&self, by: Duration) {
        self.harness.pass_time(by).await;
    }

    /// Lets enough time pass for a lease of `ttl` to run out.
    pub async fn outlive(&self, ttl: Ttl) {
        self.pass(self.rounded(ttl) + self.harness.slack()).await;
    }

    /// Waits, in real time, until `found` gives something; fails after ten seconds.
    pub async fn eventually<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let deadline = SystemClock.now().after(Duration::from_secs(10));
        loop {
            if let Some(found) = found() {
                return found;
            }
            let now = SystemClock.now();
            assert!(now < deadline, "not within ten seconds: {what}");
            SystemClock
                .sleep_until(now.after(Duration::from_millis(5)))
                .await;
        }
    }
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene")
            .field("harness", &self.harness.name())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// A number of units.
pub(crate) fn units(count: u32) -> Units {
    Units::new(count).expect("a case asks for at least one unit")
}

/// Free text.
pub(crate) fn text(text: &str) -> Metadata {
    Metadata::new(text).expect("a case uses valid text")
}
