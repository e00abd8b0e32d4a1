//! Short words for the usual requests. Those that expect an answer panic if there is none.

use leasehold_core::backend::outcome::Queued;
use leasehold_core::backend::{
    Acquire, Acquired, Blocked, Confirm, Confirmed, InboxId, List, Names, Release, Released, Renew,
    RenewItem, Renewed, SetCapacity, Sweep, Swept, Withdraw, Withdrawn,
};
use leasehold_core::{Backend, Kind, Lease, Name, Owner, Record, Result, Token, Ttl};

use super::{Party, Scene};

impl Scene {
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
            Acquired::Queued(queued) => *queued,
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
        let answer = self
            .confirm(&self.confirmation(party, &lease, entity))
            .await;
        assert!(matches!(answer, Confirmed::Confirmed(_)), "{answer:?}");
        lease
    }

    /// The request that frees a claim.
    #[must_use]
    pub fn free_claim(&self, party: &Party, lease: &Lease) -> Release {
        Release::Claims {
            holder: party.holder.clone(),
            claims: [(lease.name.clone(), lease.token)].into_iter().collect(),
            spend: false,
        }
    }

    /// The request that sets a capacity.
    #[must_use]
    pub fn capacity(&self, name: &Name, units: Option<u32>) -> SetCapacity {
        SetCapacity {
            name: name.clone(),
            units,
            expect_version: None,
        }
    }

    /// What is known about a name.
    pub async fn get(&self, name: &Name) -> Option<Record> {
        let seen = self.backend.get(name).await;
        seen.expect("get must be answered").what
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
            let page = page.what;
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
            .sweep(&Sweep::all(limit))
            .await
            .expect("sweep must be answered")
    }

    /// Sweeps until nothing is left to do.
    pub async fn sweep_all(&self) {
        while self.sweep(100).await.more {}
    }
}
