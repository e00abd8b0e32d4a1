//! Many callers over a quorum of stores on bad networks: nobody ever holds a name together with somebody else, and
//! every grant has a larger token than the one before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_conformance::fault::{FaultBackend, Faults};
use leasehold_core::backend::{Acquire, Acquired, Names, Release, Renew, RenewItem, Withdraw};
use leasehold_core::memory::Memory;
use leasehold_core::wrap::Quorum;
use leasehold_core::{Backend, Clock, Holder, Lease, ManualClock, Moment, Name, Owner, Token, Ttl};
use tokio::sync::RwLock;

const TASKS: usize = 8;
const ROUNDS: usize = 40;
const STORES: u64 = 5;
const TTL: Duration = Duration::from_secs(10);
/// How long a lease of that ttl is believed in.
const BELIEVED: Duration = Duration::from_secs(9);
const TICK: Duration = Duration::from_millis(50);

struct World {
    /// Half of the callers see the stores through one quorum and half through another, as two processes would.
    quorums: [Quorum; 2],
    clock: ManualClock,
    /// Time does not pass while somebody believes in a lease and says so.
    still: RwLock<()>,
    name: Name,
    held: AtomicBool,
    tokens: Mutex<Vec<Token>>,
    done: AtomicUsize,
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let clock = ManualClock::new();
        let stores: Vec<Arc<dyn Backend>> = (0..STORES)
            .map(|store| {
                let own = clock_ahead(&clock, store);
                let memory = Memory::with_clock(own);
                let seed = seed.wrapping_mul(STORES) + store;
                Arc::new(FaultBackend::new(memory, faults, seed)) as Arc<dyn Backend>
            })
            .collect();
        let quorum = || {
            let quorum = Quorum::new(stores.iter().cloned()).unwrap();
            quorum.with_clock(Arc::new(clock.clone()))
        };
        Self {
            quorums: [quorum(), quorum()],
            clock,
            still: RwLock::default(),
            name: Name::new("n", "k").unwrap(),
            held: AtomicBool::new(false),
            tokens: Mutex::default(),
            done: AtomicUsize::new(0),
        }
    }

    async fn caller(&self, task: usize) {
        let quorum = &self.quorums[task % 2];
        for round in 0..ROUNDS {
            let holder = Holder::random();
            // A failed request is sent again before it is given up, as callers do.
            for _ in 0..=round % 3 {
                let sent = self.clock.now();
                match quorum.acquire(&self.request(&holder)).await {
                    Ok(Acquired::Granted(leases)) => {
                        self.use_it(&leases[0], sent).await;
                        self.end(quorum, &holder, &leases[0], round).await;
                        break;
                    }
                    Ok(_) => break,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
            let names = Names::one(self.name.clone());
            drop(quorum.withdraw(&Withdraw { names, holder }).await);
            pause(round * 31 + task * 17).await;
        }
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    fn request(&self, holder: &Holder) -> Acquire {
        let owner = Owner::new("test").unwrap();
        let names = Names::one(self.name.clone());
        Acquire::new(names, holder.clone(), owner, Ttl::new(TTL).unwrap())
    }

    /// What only one may do at a time.
    async fn use_it(&self, lease: &Lease, sent: Moment) {
        let _still = self.still.read().await;
        if self.clock.now().since(sent) >= BELIEVED {
            return;
        }
        let alone = !self.held.swap(true, Ordering::SeqCst);
        assert!(alone, "{:?} is held by somebody else too", lease.token);
        self.tokens.lock().unwrap().push(lease.token);
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.held.store(false, Ordering::SeqCst);
    }

    /// Renews, releases, or walks away.
    async fn end(&self, quorum: &Quorum, holder: &Holder, lease: &Lease, round: usize) {
        if round.is_multiple_of(4) {
            let (name, ttl) = (lease.name.clone(), Ttl::new(TTL).unwrap());
            let items = vec![RenewItem::lease(name, holder.clone(), lease.token, ttl)];
            drop(quorum.renew(&Renew { items }).await);
        }
        if !round.is_multiple_of(5) {
            let release = Release::grant(lease.name.clone(), holder.clone(), lease.token);
            drop(quorum.release(&release).await);
        }
    }

    async fn time(&self) {
        while self.done.load(Ordering::SeqCst) < TASKS {
            {
                let _moves = self.still.write().await;
                self.clock.advance(TICK);
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// As waiters do, who are told at different moments to ask again.
async fn pause(number: usize) {
    for _ in 0..number * 7919 % 101 {
        tokio::task::yield_now().await;
    }
}

/// The same clock, some hours ahead.
#[derive(Debug)]
struct Ahead(ManualClock, Duration);

impl Clock for Ahead {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn wall(&self) -> leasehold_core::Timestamp {
        self.0.wall().after(self.1)
    }

    fn sleep_until(&self, at: Moment) -> leasehold_core::clock::Sleep {
        self.0.sleep_until(at)
    }
}

fn clock_ahead(clock: &ManualClock, hours: u64) -> Arc<dyn Clock> {
    Arc::new(Ahead(clock.clone(), Duration::from_secs(hours * 3600)))
}

async fn play(seed: u64, faults: Faults) {
    let world = Arc::new(World::new(seed, faults));
    let callers: Vec<_> = (0..TASKS)
        .map(|task| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.caller(task).await })
        })
        .collect();
    let time = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.time().await }
    });
    for caller in callers {
        caller
            .await
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    time.await.unwrap();
    let tokens = world.tokens.lock().unwrap();
    assert!(
        tokens.is_sorted_by(|one, next| one < next),
        "seed {seed}: {tokens:?}"
    );
    assert!(
        tokens.len() > 1,
        "seed {seed}: only {} grants",
        tokens.len()
    );
}

/// S1, S3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_shares_a_name_and_tokens_grow_under_faults() {
    let fresh = rand_seed();
    for seed in [1, 2, 3, 4, 5, fresh] {
        play(seed, Faults::SOME).await;
    }
}

/// A worse day: one call in three fails, half of them after having been done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_shares_a_name_and_tokens_grow_under_many_faults() {
    let faults = Faults {
        lost_reply: 0.15,
        lost_request: 0.15,
        ..Faults::SOME
    };
    let fresh = rand_seed();
    for seed in [11, 12, 13, 14, 15, fresh] {
        play(seed, faults).await;
    }
}

/// A seed that differs from run to run; it is shown if it finds something.
fn rand_seed() -> u64 {
    u64::from_le_bytes(Holder::random().secret()[..8].try_into().unwrap())
}
