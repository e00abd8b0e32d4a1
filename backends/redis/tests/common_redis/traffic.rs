//! Callers that take names and give them back while the server suffers. What they did and saw is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_conformance::Party;
use leasehold_conformance::history::{Did, Entry, History, Saw};
use leasehold_core::backend::Acquired;
use leasehold_core::{Backend as _, Error, Lease, Name, SystemClock};
use leasehold_redis::Redis;
use tokio::task::JoinHandle;

use super::{release, sleep, wish_for, withdraw};

/// A caller that was told something it cannot use waits this long.
const PAUSE: Duration = Duration::from_millis(2);

/// Traffic that goes on until it is stopped.
pub struct Traffic {
    history: History,
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Tally>>,
}

/// How callers deal with their leases.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub ttl: Duration,
    /// Whether a request whose answer was lost may still arrive when the server goes on.
    pub late: bool,
}

/// What one caller counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub grants: u64,
    pub errors: u64,
    /// Answers about a name nobody else wants that only make sense if somebody had it.
    pub lies: u64,
}

impl Traffic {
    /// Starts a caller on each store. All of them want `shared`, and each wants a name of its own.
    pub fn start(stores: &[Arc<Redis>], shared: &[Name], terms: Terms) -> Self {
        let history = History::new(Arc::new(SystemClock));
        let stop = Arc::new(AtomicBool::new(false));
        let callers = stores.iter().zip(0..).map(|(store, client)| {
            let caller = Caller {
                client,
                own: super::name(&format!("own-{client}")),
                store: Arc::clone(store),
                history: history.clone(),
                terms,
                holders: 0,
                tally: Tally::default(),
            };
            tokio::spawn(caller.run(shared.to_vec(), Arc::clone(&stop)))
        });
        Self {
            callers: callers.collect(),
            history,
            stop,
        }
    }

    /// How many operations there were.
    pub fn len(&self) -> usize {
        self.history.entries().len()
    }

    /// Lets everybody come to an end, and gives what they counted and recorded.
    pub async fn stop(self) -> (Tally, Vec<Entry>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for caller in self.callers {
            let tally = caller.await.unwrap();
            all.grants += tally.grants;
            all.errors += tally.errors;
            all.lies += tally.lies;
        }
        (all, self.history.entries())
    }
}

struct Caller {
    client: u32,
    /// A name that nobody else wants.
    own: Name,
    store: Arc<Redis>,
    history: History,
    terms: Terms,
    holders: u64,
    tally: Tally,
}

impl Caller {
    async fn run(mut self, shared: Vec<Name>, stop: Arc<AtomicBool>) -> Tally {
        let mut round = self.client as usize;
        while !stop.load(Ordering::Relaxed) {
            let own = self.own.clone();
            self.round(&own).await;
            if !shared.is_empty() {
                self.round(&shared[round % shared.len()]).await;
            }
            round += 1;
        }
        self.tally
    }

    /// Takes a name with a new holder and gives it back, repeating what was not answered.
    async fn round(&mut self, name: &Name) {
        self.holders += 1;
        let number = (u64::from(self.client) << 32) | self.holders;
        let party = Party::new("caller");
        let mut is_unsure = false;
        let lease = loop {
            match self.acquire(name, &party, number).await {
                Ok(lease) => break lease,
                Err(error) => is_unsure |= self.failed(&error).await,
            }
        };
        match lease {
            Some(lease) => self.give_back(&party, number, &lease).await,
            None if is_unsure => self.withdraw(name, &party, number).await,
            None => sleep(PAUSE).await,
        }
    }

    async fn acquire(
        &mut self,
        name: &Name,
        party: &Party,
        holder: u64,
    ) -> Result<Option<Lease>, Error> {
        let start = self.history.now();
        let request = wish_for(party, name, self.terms.ttl);
        let answer = self.store.acquire(&request).await;
        let ttl_ms = request.ttl.as_millis();
        let saw = Saw::acquired(&answer);
        self.note(name, start, Did::Acquire { holder, ttl_ms }, saw);
        match answer? {
            Acquired::Granted(leases) => {
                self.tally.grants += 1;
                Ok(leases.into_iter().next())
            }
            _ => {
                self.tally.lies += u64::from(*name == self.own);
                Ok(None)
            }
        }
    }

    async fn give_back(&mut self, party: &Party, holder: u64, lease: &Lease) {
        let token = lease.token.get();
        loop {
            let start = self.history.now();
            let answer = release(&self.store, party, lease).await;
            let saw = Saw::released(&answer);
            self.note(&lease.name, start, Did::Release { holder, token }, saw);
            match answer {
                Ok(_) => {
                    self.tally.lies += u64::from(saw != Saw::Done && lease.name == self.own);
                    return;
                }
                Err(error) => drop(self.failed(&error).await),
            }
        }
    }

    async fn withdraw(&mut self, name: &Name, party: &Party, holder: u64) {
        loop {
            let start = self.history.now();
            let answer = withdraw(&self.store, party, name).await;
            let saw = answer.as_ref().map_or_else(Saw::failure, |_| Saw::Done);
            self.note(name, start, Did::Withdraw { holder }, saw);
            match answer {
                Ok(_) => return,
                Err(error) => drop(self.failed(&error).await),
            }
        }
    }

    /// Counts a failure, and says whether the request may have been done.
    async fn failed(&mut self, error: &Error) -> bool {
        assert!(error.is_retryable(), "{error:?}");
        self.tally.errors += 1;
        sleep(PAUSE).await;
        Saw::failure(error) == Saw::Unknown
    }

    fn note(&self, name: &Name, start: u64, did: Did, saw: Saw) {
        if saw == Saw::Unknown && !self.terms.late {
            self.history.add_over(self.client, name, start, did);
        } else {
            self.history.add(self.client, name, start, did, saw);
        }
    }
}
