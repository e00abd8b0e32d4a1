//! What a case works with: a backend, a namespace of its own, and short words for the usual requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::outcome::Queued;
use leasehold_core::backend::{
    Acquire, Acquired, Blocked, Confirm, Confirmed, InboxId, List, Names, Release, Released,
    Renew, RenewItem, Renewed, SetCapacity, Sweep, Swept, Withdraw, Withdrawn,
};
use leasehold_core::{
    Backend, Clock, Holder, Kind, Lease, Metadata, Name, Owner, Record, Result, SystemClock, Token,
    Ttl, Units,
};

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

    /// A request of `party` for one name, long enough for any case.
    #[must_use]
    pub fn ask(&self, party: &Party, name: &Name) -> Acquire {
        self.ask_for(party, name, self.long())
    }

    /// A request of `party` for one name and this long.
    #[must_use]
    pub fn ask_for(&self, party: &Party, name: &Name, ttl: Ttl) -> Acquire {
        let names = Names::one(name.clone());
        Acquire::new(names, party.holder.clone(), party.owner.clone(), ttl)
    }

    /// A request of `party` for several names.
    #[must_use]
    pub fn ask_all(&self, party: &Party, names: &[Name]) -> Acquire {
        let names = Names::new(names.iter().cloned()).expect("a case uses valid names");
        Acquire::new(
            names,
            party.holder.clone(),
            party.owner.clone(),
            self.long(),
        )
    }

    /// Sends a request that the store must answer.
    pub async fn submit(&self, request: &Acquire) -> Acquired {
        self.backend
            .acquire(request)
            .await
            .expect("acquire must be answered")
    }

    /// Sends a request for one name that must be granted.
    pub async fn grant(&self, request: &Acquire) -> Lease {
        match self.submit(request).await {
            Acquired::Granted(mut leases) => {
                assert_eq!(leases.len(), 1, "one name was asked for");
                leases.remove(0)
            }
            other => panic!("expected a grant, got {other:?}"),
        }
    }

    /// Takes a name for longer than the case lasts.
    pub async fn take(&self, party: &Party, name: &Name) -> Lease {
        self.grant(&self.ask(party, name)).await
    }

    /// Takes a name for `ttl`.
    pub async fn take_for(&self, party: &Party, name: &Name, ttl: Ttl) -> Lease {
        self.grant(&self.ask_for(party, name, ttl)).await
    }

    /// Sends a request for one name that must be refused.
    pub async fn refuse(&self, request: &Acquire) -> Blocked {
        match self.submit(request).await {
            Acquired::Held(mut blocked) => {
                assert_eq!(blocked.len(), 1, "one name was asked for");
                blocked.remove(0)
            }
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    /// Asks for a name that `party` must not get.
    pub async fn refused(&self, party: &Party, name: &Name) -> Blocked {
        self.refuse(&self.ask(party, name)).await
    }

    /// Asks for a place in the queue, which must be given.
    pub async fn enqueue(&self, request: Acquire, inbox: InboxId) -> Queued {
        match self.submit(&request.queue(inbox)).await {
            Acquired::Queued(queued) => queued,
            other => panic!("expected a place in the queue, got {other:?}"),
        }
    }

    /// Sends one item of a renewal that the store must answer.
    pub async fn renew_item(&self, item: RenewItem) -> Renewed {
        self.try_renew(item).await.expect("renew must be answered")
    }

    /// Sends one item of a renewal.
    pub async fn try_renew(&self, item: RenewItem) -> Result<Renewed> {
        let request = Renew { items: vec![item] };
        let mut answers = self.backend.renew(&request).await?;
        assert_eq!(answers.len(), 1, "one item was sent");
        answers.remove(0)
    }

    /// Prolongs a lease to `ttl`.
    pub async fn renew(&self, party: &Party, lease: &Lease, ttl: Ttl) -> Renewed {
        let item = RenewItem::lease(lease.name.clone(), party.holder.clone(), lease.token, ttl);
        self.renew_item(item).await
    }

    /// Sends a release for one name.
    pub async fn send_release(&self, request: &Release) -> Released {
        let mut answers = self
            .backend
            .release(request)
            .await
            .expect("release must be answered");
        assert_eq!(answers.len(), 1, "one name was sent");
        answers.remove(0)
    }

    /// Releases a lease and returns the answer.
    pub async fn release(&self, party: &Party, lease: &Lease) -> Released {
        let request = Release::grant(lease.name.clone(), party.holder.clone(), lease.token);
        self.send_release(&request).await
    }

    /// Releases a lease that must be held.
    pub async fn give_up(&self, party: &Party, lease: &Lease) {
        assert_eq!(self.release(party, lease).await, Released::Released);
    }

    /// Ends what a name has, by force.
    pub async fn force(&self, name: &Name, token: Option<Token>) -> Released {
        let by = Owner::new("operator").expect("a valid label");
        let request =
            Release::force(name.clone(), token, by, "stuck").expect("a valid forced release");
        self.send_release(&request).await
    }

    /// Leaves the queues of some names.
    pub async fn withdraw(&self, party: &Party, names: &[Name]) -> Withdrawn {
        let names = Names::new(names.iter().cloned()).expect("a case uses valid names");
        let holder = party.holder.clone();
        self.backend
            .withdraw(&Withdraw { names, holder })
            .await
            .expect("withdraw must be answered")
    }

    /// Reserves a name for longer than the case lasts.
    pub async fn reserve(&self, party: &Party, name: &Name) -> Lease {
        self.grant(&self.ask(party, name).kind(Kind::Reservation))
            .await
    }

    /// The request that confirms a lease.
    #[must_use]
    pub fn confirmation(&self, party: &Party, lease: &Lease, entity: &str) -> Confirm {
        Confirm::new(
            lease.name.clone(),
            lease.token,
            party.holder.clone(),
            entity,
        )
        .expect("a valid confirmation")
    }

    /// Sends a confirmation that the store must answer.
    pub async fn confirm(&self, request: &Confirm) -> Confirmed {
        self.backend
            .confirm(request)
            .await
            .expect("confirm must be answered")
    }

    /// Reserves and confirms a name.
    pub async fn claim(&self, party: &Party, name: &Name, entity: &str) -> Lease {
        let lease = self.reserve(party, name).await;
        let answer = self.confirm(&self.confirmation(party, &lease, entity)).await;
        assert!(matches!(answer, Confirmed::Confirmed(_)), "{answer:?}");
        lease
    }

    /// The request that frees a claim.
    #[must_use]
    pub fn free_claim(&self, party: &Party, lease: &Lease) -> Release {
        Release::Claims {
            holder: party.holder.clone(),
            claims: [(lease.name.clone(), lease.token)].into_iter().collect(),
        }
    }

    /// The request that sets a capacity.
    #[must_use]
    pub fn capacity(&self, name: &Name, units: Option<u32>) -> SetCapacity {
        SetCapacity {
            name: name.clone(),
            units: units.and_then(Units::new),
            expect_version: None,
        }
    }

    /// What is known about a name.
    pub async fn get(&self, name: &Name) -> Option<Record> {
        self.backend.get(name).await.expect("get must be answered")
    }

    /// What is known about a name that must be known.
    pub async fn record(&self, name: &Name) -> Record {
        self.get(name).await.expect("the name must be known")
    }

    /// Whether anybody holds the name.
    pub async fn is_held(&self, name: &Name) -> bool {
        self.get(name).await.is_some_and(|r| !r.grants.is_empty())
    }

    /// All records that a list finds, page by page.
    pub async fn list(&self, mut request: List) -> Vec<Record> {
        let mut all = Vec::new();
        loop {
            let page = self
                .backend
                .list(&request)
                .await
                .expect("list must be answered");
            let last = page.items.last().map(|record| record.name.clone());
            all.extend(page.items);
            if !page.more {
                return all;
            }
            request.after = Some(last.expect("a page with more after it is not empty"));
        }
    }

    /// Sweeps once.
    pub async fn sweep(&self, limit: usize) -> Swept {
        self.backend
            .sweep(&Sweep { limit })
            .await
            .expect("sweep must be answered")
    }

    /// Sweeps until nothing is left to do.
    pub async fn sweep_all(&self) {
        while self.sweep(100).await.more {}
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

