//! Many callers over a bad network: what they did and saw is recorded, and judged by both checkers.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{Acquired, Names, Release, Renew, RenewItem, Withdraw};
use leasehold_core::{Backend as _, Clock as _, Error, Lease, Name, Result, SystemClock, Ttl};

use crate::case::{Case, case};
use crate::fault::{FaultBackend, Faults, is_lost_reply};
use crate::history::{Bounds, Did, History, Saw, judge};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            concurrent_traffic_is_linearizable,
            ["S1", "S2", "S3", "T2-02"],
            Fencing
        ),
        case!(
            traffic_under_faults_is_linearizable,
            ["S1", "S3", "S8", "S9", "W4-03"],
            Fencing
        ),
        case!(
            traffic_with_expiring_leases_is_linearizable,
            ["S1", "S2", "S3", "S6"],
            Fencing
        ),
        case!(the_unprotected_counter_comes_out_exact, ["T2-02", "S0-20"]),
    ]
}

/// One caller of the traffic.
struct Caller {
    client: u32,
    scene: Scene,
    history: History,
    ttl: Ttl,
    next_holder: u64,
}

impl Caller {
    async fn run(mut self, names: Vec<Name>, rounds: usize) {
        for round in 0..rounds {
            let at = (round * 7 + self.client as usize) % names.len();
            self.round(&names[at], round).await;
        }
    }

    /// Acquires with a new holder; if granted, sometimes renews, then releases, withdraws or walks away.
    async fn round(&mut self, name: &Name, round: usize) {
        self.next_holder += 1;
        let holder = (u64::from(self.client) << 32) | self.next_holder;
        let party = Party::new("caller");
        let mut held = None;
        // A lost answer is followed by the same request again, as any caller would do.
        for _ in 0..3 {
            let (lease, saw) = self.acquire(name, &party, holder).await;
            held = lease;
            if saw != Saw::Unknown {
                break;
            }
        }
        tokio::task::yield_now().await;
        let Some(lease) = held else {
            return self.withdraw(name, &party, holder).await;
        };
        if round.is_multiple_of(2) {
            self.renew(&party, holder, &lease).await;
        }
        match round % 5 {
            0 => {}
            1 => self.withdraw(name, &party, holder).await,
            _ => self.release(&party, holder, &lease).await,
        }
    }

    async fn acquire(&self, name: &Name, party: &Party, holder: u64) -> (Option<Lease>, Saw) {
        let request = self.scene.ask_for(party, name, self.ttl);
        let ttl_ms = self.ttl.as_millis();
        let start = self.history.now();
        let answer = self.scene.backend().acquire(&request).await;
        let saw = Saw::acquired(&answer);
        let did = Did::Acquire { holder, ttl_ms };
        self.note(name, start, did, saw, answer.as_ref().err());
        let lease = match answer {
            Ok(Acquired::Granted(leases)) => leases.into_iter().next(),
            _ => None,
        };
        (lease, saw)
    }

    async fn renew(&self, party: &Party, holder: u64, lease: &Lease) {
        let (name, token) = (lease.name.clone(), lease.token.get());
        let secret = party.holder.clone();
        let items = vec![RenewItem::lease(name, secret, lease.token, self.ttl)];
        let ttl_ms = self.ttl.as_millis();
        let start = self.history.now();
        let answer = self.scene.backend().renew(&Renew { items }).await;
        let answer = answer.and_then(only);
        let did = Did::Renew {
            holder,
            token,
            ttl_ms,
        };
        let saw = Saw::renewed(&answer);
        self.note(&lease.name, start, did, saw, answer.as_ref().err());
    }

    async fn release(&self, party: &Party, holder: u64, lease: &Lease) {
        let request = Release::grant(lease.name.clone(), party.holder.clone(), lease.token);
        let token = lease.token.get();
        let start = self.history.now();
        let answer = self.scene.backend().release(&request).await;
        let answer = answer.map(|mut answers| answers.remove(0));
        let (did, saw) = (Did::Release { holder, token }, Saw::released(&answer));
        self.note(&lease.name, start, did, saw, answer.as_ref().err());
    }

    async fn withdraw(&self, name: &Name, party: &Party, holder: u64) {
        let request = Withdraw {
            names: Names::one(name.clone()),
            holder: party.holder.clone(),
        };
        let start = self.history.now();
        let answer = self.scene.backend().withdraw(&request).await;
        let saw = answer.as_ref().map_or_else(Saw::failure, |_| Saw::Done);
        let did = Did::Withdraw { holder };
        self.note(name, start, did, saw, answer.as_ref().err());
    }

    /// An answer that our own faults lost bounds what its request can still do; any other lost answer does not.
    fn note(&self, name: &Name, start: u64, did: Did, saw: Saw, error: Option<&Error>) {
        if error.is_some_and(is_lost_reply) {
            self.history.add_over(self.client, name, start, did);
        } else {
            self.history.add(self.client, name, start, did, saw);
        }
    }
}

fn only<T>(mut answers: Vec<Result<T>>) -> Result<T> {
    answers.remove(0)
}

/// Runs the callers and judges what they saw. A failing history is kept for [`check_file`](crate::history::check_file).
async fn traffic(s: Scene, ttl: Ttl, seed: Option<u64>) {
    let limits = s.contention();
    let history = History::new(s.harness().clock());
    let names: Vec<_> = (0..3).map(|n| s.name(&format!("k{n}"))).collect();
    let callers: Vec<_> = (0..limits.tasks)
        .map(|client| {
            let caller = Caller {
                client: u32::try_from(client).unwrap_or(u32::MAX),
                scene: s.clone(),
                history: history.clone(),
                ttl,
                next_holder: 0,
            };
            tokio::spawn(caller.run(names.clone(), limits.rounds))
        })
        .collect();
    while callers.iter().any(|caller| !caller.is_finished()) {
        if ttl < s.long() {
            s.pass(ttl.as_duration() / 4).await;
        }
        let pause = SystemClock.now().after(Duration::from_millis(1));
        SystemClock.sleep_until(pause).await;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert_in_order(&s, &history, seed);
}

fn assert_in_order(s: &Scene, history: &History, seed: Option<u64>) {
    let mut bounds = if s.is_virtual() {
        Bounds::TICKING
    } else {
        Bounds::GUARD
    };
    bounds.repeats = seed.is_some();
    let violations = judge(&history.entries(), bounds);
    if !violations.is_empty() {
        let path = std::env::temp_dir().join(format!("leasehold-{}.jsonl", s.namespace()));
        let saved = history.save(&path);
        panic!(
            "{violations:?}; fault seed {seed:?}; history in {} ({saved:?})",
            path.display()
        );
    }
}

/// The same stage over a bad network, and the seed of its faults.
fn faulty(s: &Scene) -> (Scene, u64) {
    let faulty = FaultBackend::random(Arc::clone(s.backend()), Faults::SOME);
    let seed = faulty.seed();
    (s.over(Arc::new(faulty)), seed)
}

async fn concurrent_traffic_is_linearizable(s: Scene) {
    let ttl = s.long();
    traffic(s, ttl, None).await;
}

async fn traffic_under_faults_is_linearizable(s: Scene) {
    let ttl = s.long();
    let (s, seed) = faulty(&s);
    traffic(s, ttl, Some(seed)).await;
}

async fn traffic_with_expiring_leases_is_linearizable(s: Scene) {
    let ttl = s.brief();
    let (s, seed) = faulty(&s);
    traffic(s, ttl, Some(seed)).await;
}

/// Damage that can be counted: a read, a pause and a write, with nothing but the lease between the callers.
async fn the_unprotected_counter_comes_out_exact(s: Scene) {
    let (name, limits) = (s.name("k"), s.contention());
    let counter = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let order = std::sync::atomic::Ordering::Relaxed;
    let tasks: Vec<_> = (0..limits.tasks)
        .map(|task| {
            let (s, name, counter) = (s.clone(), name.clone(), Arc::clone(&counter));
            tokio::spawn(async move {
                for _ in 0..limits.rounds {
                    let party = Party::new(&format!("t{task}"));
                    let lease = loop {
                        match s.submit(&s.ask(&party, &name)).await {
                            Acquired::Granted(leases) => break leases[0].clone(),
                            _ => tokio::task::yield_now().await,
                        }
                    };
                    let read = counter.load(order);
                    tokio::task::yield_now().await;
                    counter.store(read + 1, order);
                    s.give_up(&party, &lease).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(order), limits.tasks * limits.rounds);
}
