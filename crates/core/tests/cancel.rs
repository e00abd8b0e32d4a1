//! Every public async function of the lock layer, dropped at every poll (F27, L5).
//!
//! The store pauses before and after each effect, so that a future is dropped before its request did anything, after
//! it did but before the answer, and at every wait in between. Whatever was dropped, nothing may be left: no grant, no
//! ticket, no waiter, no watch, no sleeper; and the next one gets the lock at once.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Can, SETTLED, Seeded, TTL, Task, World, effort, others_run, pause, poll_once, run};
use leasehold_core::backend::List;
use leasehold_core::lock::{LockEvent, Scope, State};
use leasehold_core::{Backend, Guard, Lock, Locks};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
/// More polls than any operation here takes.
const MOST_POLLS: usize = 48;

/// Polls a future by hand, with `between` after every poll, and drops it after `n` polls. `Some` if it was done first.
async fn drop_at_poll<T>(
    n: usize,
    mut future: Task<T>,
    mut between: impl AsyncFnMut(usize),
) -> Option<T> {
    for at in 0..n {
        if let Some(output) = poll_once(&mut future).await {
            return Some(output);
        }
        between(at).await;
    }
    None
}

/// Calls `attempt` with 0, 1, 2, … until it says that its future was done before it could be dropped.
async fn at_every_poll(mut attempt: impl AsyncFnMut(usize) -> bool) -> usize {
    for n in 0..MOST_POLLS {
        if attempt(n).await {
            return n;
        }
    }
    MOST_POLLS
}

/// What the lock "a" is like when somebody wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    Free,
    /// Another process holds it and releases it after this many polls.
    Held(usize),
    /// As before, and three of our own waiters came first.
    InLine(usize),
    /// As before, but another process waits too, and has a ticket where there are such.
    Rivalled(usize),
    /// As before, but our own waiters come later.
    Followed(usize),
}

impl Situation {
    fn all() -> impl Iterator<Item = Self> {
        let at = || (0..10).chain([MOST_POLLS]);
        [Self::Free]
            .into_iter()
            .chain(at().map(Self::Held))
            .chain(at().map(Self::InLine))
            .chain(at().map(Self::Rivalled))
            .chain(at().map(Self::Followed))
    }

    fn release_at(self) -> usize {
        match self {
            Self::Free => MOST_POLLS,
            Self::Held(at) | Self::InLine(at) | Self::Rivalled(at) | Self::Followed(at) => at,
        }
    }
}

/// A situation that has been set up.
struct Stage {
    world: World,
    in_the_way: RefCell<Option<Guard>>,
    waiters: RefCell<Vec<JoinHandle<()>>>,
    situation: Situation,
}

impl Stage {
    async fn new(can: Can, situation: Situation) -> Self {
        let world = World::new(can);
        let held = situation != Situation::Free;
        let in_the_way = if held {
            Some(world.other.lock("a").acquire().await.unwrap())
        } else {
            None
        };
        let waiters = match situation {
            Situation::InLine(_) => vec![
                wait_on(&world.locks),
                wait_on(&world.locks),
                wait_on(&world.locks),
            ],
            Situation::Rivalled(_) => vec![wait_on(&world.other)],
            _ => Vec::new(),
        };
        others_run(SETTLED).await;
        Self {
            world,
            in_the_way: RefCell::new(in_the_way),
            waiters: RefCell::new(waiters),
            situation,
        }
    }

    /// What goes on in the world between two polls.
    async fn go_on(&self, at: usize) {
        if at == 3 && matches!(self.situation, Situation::Followed(_)) {
            let (one, two) = (wait_on(&self.world.locks), wait_on(&self.world.locks));
            self.waiters.borrow_mut().extend([one, two]);
        }
        if at == self.situation.release_at() {
            self.clear();
        }
        // Now and then everybody else gets further than the future under test.
        others_run(if at % 5 == 4 { 6 } else { 1 }).await;
        self.world.clock.advance(20 * MS);
        others_run(1).await;
    }

    fn clear(&self) {
        if let Some(guard) = self.in_the_way.borrow_mut().take() {
            tokio::spawn(async move { guard.release().await.unwrap() });
        }
    }

    /// Nobody wants anything any more: nothing may be left.
    async fn assert_nothing_left(self, what: &str) {
        others_run(SETTLED).await;
        self.clear();
        self.world.settle().await;
        for (at, waiter) in self.waiters.borrow().iter().enumerate() {
            assert!(
                waiter.is_finished(),
                "{what}: waiter {at} never got its turn"
            );
        }
        let left = self.world.leftovers(&["a", "b"]);
        assert!(left.is_empty(), "{what}: left behind: {left:?}");
        for locks in [&self.world.locks, &self.world.other] {
            if let Some(guard) = locks.all(["a", "b"]).try_acquire().await.ok().flatten() {
                guard.release().await.unwrap();
            } else {
                assert!(
                    locks.lock("a").try_acquire().await.is_err(),
                    "{what}: it cannot be taken again"
                );
            }
        }
    }
}

/// Somebody who waits for "a" and lets go of it at once.
fn wait_on(locks: &Locks) -> JoinHandle<()> {
    let lock = locks.lock("a");
    tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
}

/// A verb that takes a lock.
type Verb = (&'static str, fn(Lock) -> Task);

const TAKING: [Verb; 8] = [
    ("acquire", |lock| {
        Box::pin(async move { drop(lock.acquire().await) })
    }),
    ("acquire_within", |lock| {
        Box::pin(async move { drop(lock.acquire_within(300 * MS).await) })
    }),
    ("acquire_within nothing", |lock| {
        Box::pin(async move { drop(lock.acquire_within(Duration::ZERO).await) })
    }),
    ("try_acquire", |lock| {
        Box::pin(async move { drop(lock.try_acquire().await) })
    }),
    ("acquire and release", |lock| {
        Box::pin(async move {
            if let Ok(guard) = lock.acquire().await {
                drop(guard.release().await);
            }
        })
    }),
    ("run", |lock| {
        Box::pin(async move { drop(lock.run(|_| body()).await) })
    }),
    ("run_within", |lock| {
        Box::pin(async move { drop(lock.run_within(300 * MS, |_| body()).await) })
    }),
    ("try_run", |lock| {
        Box::pin(async move { drop(lock.try_run(|_| body()).await) })
    }),
];

async fn body() {
    pause().await;
    pause().await;
}

/// Drops every verb that takes a lock at every poll, and returns how often something was dropped.
async fn drop_taking(can: Can, lock: fn(&World) -> Lock) -> usize {
    let mut drops = 0;
    for (verb, take) in TAKING {
        for situation in Situation::all() {
            drops += at_every_poll(async |n| {
                let stage = Stage::new(can, situation).await;
                let future = take(lock(&stage.world));
                let done = drop_at_poll(n, future, async |at| stage.go_on(at).await).await;
                let what = format!("{verb}, {can:?}, {situation:?}, dropped after {n} polls");
                stage.assert_nothing_left(&what).await;
                done.is_some()
            })
            .await;
        }
    }
    assert!(drops > 500, "only {drops} drops");
    drops
}

#[test]
fn a_dropped_wait_leaves_nothing_on_a_store_that_queues() {
    run(async {
        let drops = drop_taking(Can::Queue, |world| world.locks.lock("a")).await;
        println!("{drops} drops");
    });
}

#[test]
fn a_dropped_wait_leaves_nothing_on_a_store_that_only_tells() {
    run(async {
        let drops = drop_taking(Can::Watch, |world| world.locks.lock("a")).await;
        println!("{drops} drops");
    });
}

#[test]
fn a_dropped_wait_leaves_nothing_on_a_store_that_neither_queues_nor_tells() {
    run(async {
        let drops = drop_taking(Can::Neither, |world| world.locks.lock("a")).await;
        println!("{drops} drops");
    });
}

/// S13: all or nothing also means that nothing stays.
#[test]
fn a_dropped_wait_for_several_names_leaves_nothing() {
    run(async {
        for can in [Can::Queue, Can::Neither, Can::OneByOne] {
            drop_taking(can, |world| world.locks.all(["a", "b"])).await;
        }
    });
}

#[test]
fn a_dropped_wait_in_a_scope_leaves_nothing() {
    run(async {
        drop_taking(Can::Queue, |world| {
            world.locks.lock("a").scope(&Scope::new())
        })
        .await;
    });
}

#[test]
fn a_dropped_wait_for_a_shared_or_renewed_lock_leaves_nothing() {
    run(async {
        drop_taking(Can::Queue, |world| world.locks.lock("a").shared()).await;
        drop_taking(Can::Queue, |world| world.locks.lock("a").renewing()).await;
    });
}

/// T0-15: a scope that takes its lock again, dropped at every poll, keeps what it had and nothing more.
#[test]
fn dropped_reentry_keeps_the_outer_guard_and_its_count() {
    run(async {
        for (verb, take) in TAKING {
            for (can, others_wait) in [
                (Can::Queue, false),
                (Can::Queue, true),
                (Can::Neither, true),
            ] {
                at_every_poll(async |n| {
                    let stage = Stage::new(can, Situation::Free).await;
                    let scope = Scope::new();
                    let lock = stage.world.locks.lock("a").scope(&scope);
                    let outer = lock.acquire().await.unwrap();
                    if others_wait {
                        stage.waiters.borrow_mut().push(wait_on(&stage.world.locks));
                    }
                    let done =
                        drop_at_poll(n, take(lock.clone()), async |at| stage.go_on(at).await).await;
                    others_run(SETTLED).await;
                    assert_eq!(outer.depth(), 1, "{verb} dropped after {n} polls");
                    outer.check().unwrap();
                    assert!(lock.is_held_by(&scope));
                    outer.release().await.unwrap();
                    assert!(!lock.is_held_by(&scope));
                    stage
                        .assert_nothing_left(&format!(
                            "{verb} again, {can:?}, dropped after {n} polls"
                        ))
                        .await;
                    done.is_some()
                })
                .await;
            }
        }
    });
}

/// A verb that ends a guard.
type Ending = (&'static str, fn(Guard) -> Task);

const ENDING: [Ending; 4] = [
    ("release", |guard| {
        Box::pin(async move { drop(guard.release().await) })
    }),
    ("release_if_held", |guard| {
        Box::pin(async move { drop(guard.release_if_held().await) })
    }),
    ("release_any", |guard| {
        Box::pin(async move { drop(guard.release_any().await) })
    }),
    ("drop", |guard| Box::pin(async move { drop(guard) })),
];

#[test]
fn a_dropped_release_is_finished_in_the_background() {
    run(async {
        for can in Can::ALL {
            for (verb, end) in ENDING {
                for (keys, waited_for) in [
                    (&["a"][..], false),
                    (&["a"][..], true),
                    (&["a", "b"][..], true),
                ] {
                    at_every_poll(async |n| {
                        let stage = Stage::new(can, Situation::Free).await;
                        let guard = stage.world.locks.all(keys).acquire().await.unwrap();
                        if waited_for {
                            let (ours, theirs) =
                                (wait_on(&stage.world.locks), wait_on(&stage.world.other));
                            stage.waiters.borrow_mut().extend([ours, theirs]);
                            others_run(SETTLED).await;
                        }
                        let view = guard.held();
                        let done =
                            drop_at_poll(n, end(guard), async |at| stage.go_on(at).await).await;
                        others_run(SETTLED).await;
                        assert_eq!(
                            view.state(),
                            State::Released,
                            "{verb}, {can:?}, dropped after {n} polls"
                        );
                        drop(view);
                        stage
                            .assert_nothing_left(&format!(
                                "{verb}, {can:?}, dropped after {n} polls"
                            ))
                            .await;
                        done.is_some()
                    })
                    .await;
                }
            }
        }
    });
}

/// A release in a scope, dropped at every poll, while the same scope wants the lock again.
#[test]
fn a_dropped_release_does_not_let_its_scope_in_again() {
    run(async {
        for (verb, end) in ENDING {
            at_every_poll(async |n| {
                let stage = Stage::new(Can::Queue, Situation::Free).await;
                let scope = Scope::new();
                let lock = stage.world.locks.lock("a").scope(&scope);
                let guard = lock.acquire().await.unwrap();
                let token = guard.token();
                let again: Rc<RefCell<Option<JoinHandle<Guard>>>> = Rc::default();
                let done = drop_at_poll(n, end(guard), async |at| {
                    if at == 0 {
                        let lock = lock.clone();
                        *again.borrow_mut() =
                            Some(tokio::spawn(async move { lock.acquire().await.unwrap() }));
                    }
                    stage.go_on(at).await;
                })
                .await;
                stage.world.settle().await;
                if let Some(again) = again.take() {
                    let again = again.await.unwrap();
                    assert!(
                        again.token() > token,
                        "{verb} dropped after {n} polls: the old lease came back"
                    );
                    assert!(lock.is_held_by(&scope));
                    again.release().await.unwrap();
                }
                stage
                    .assert_nothing_left(&format!("{verb} in a scope, dropped after {n} polls"))
                    .await;
                done.is_some()
            })
            .await;
        }
    });
}

/// A verb that uses a guard and leaves it be.
type Use = (&'static str, fn(Rc<Guard>) -> Task);

const USING: [Use; 3] = [
    ("extend", |guard| {
        Box::pin(async move { drop(guard.extend(2 * TTL).await) })
    }),
    ("lost", |guard| {
        Box::pin(async move { drop(guard.lost().await) })
    }),
    ("state_after", |guard| {
        Box::pin(async move { drop(guard.state_after(&State::Held).await) })
    }),
];

#[test]
fn dropping_what_uses_a_guard_does_not_hurt_it() {
    run(async {
        for can in Can::ALL {
            for (verb, make) in USING {
                at_every_poll(async |n| {
                    let stage = Stage::new(can, Situation::Free).await;
                    let guard = Rc::new(
                        stage
                            .world
                            .locks
                            .all(["a", "b"])
                            .renewing()
                            .acquire()
                            .await
                            .unwrap(),
                    );
                    let future = make(guard.clone());
                    let done =
                        drop_at_poll(n.min(30), future, async |at| stage.go_on(at).await).await;
                    let what = format!("{verb}, {can:?}, dropped after {n} polls");
                    stage.world.settle().await;
                    assert_eq!(guard.state(), State::Held, "{what}");
                    // Its own sleepers are gone with it; the keeper's are left.
                    assert!(
                        stage.world.clock.sleepers() <= 2,
                        "{what}: {} sleepers",
                        stage.world.clock.sleepers()
                    );
                    Rc::into_inner(guard).unwrap().release().await.unwrap();
                    stage.assert_nothing_left(&what).await;
                    done.is_some() || n > 30
                })
                .await;
            }
        }
    });
}

/// A verb of the manager.
type Ask = (&'static str, fn(Locks) -> Task);

const ASKING: [Ask; 6] = [
    ("get", |locks| {
        Box::pin(async move { drop(locks.get("a").await) })
    }),
    ("holder", |locks| {
        Box::pin(async move { drop(locks.holder("a").await) })
    }),
    ("is_locked", |locks| {
        Box::pin(async move { drop(locks.is_locked("a").await) })
    }),
    ("list", |locks| {
        Box::pin(async move { drop(locks.list(List::all()).await) })
    }),
    ("sweep", |locks| {
        Box::pin(async move { drop(locks.sweep(10).await) })
    }),
    ("force_release", |locks| {
        Box::pin(async move { drop(locks.force_release("a", "a test").await) })
    }),
];

#[test]
fn dropping_what_asks_or_forces_leaves_nothing() {
    run(async {
        for can in Can::ALL {
            for (verb, ask) in ASKING {
                at_every_poll(async |n| {
                    let stage = Stage::new(can, Situation::Free).await;
                    let guard = stage.world.locks.lock("a").acquire().await.unwrap();
                    stage.waiters.borrow_mut().push(wait_on(&stage.world.other));
                    others_run(SETTLED).await;
                    let future = ask(stage.world.locks.clone());
                    let done = drop_at_poll(n, future, async |at| stage.go_on(at).await).await;
                    guard.release_any().await.unwrap();
                    stage
                        .assert_nothing_left(&format!("{verb}, {can:?}, dropped after {n} polls"))
                        .await;
                    done.is_some()
                })
                .await;
            }
        }
    });
}

/// L7: what shutdown began goes on without it.
#[test]
fn a_dropped_shutdown_goes_on_in_the_background() {
    run(async {
        for can in Can::ALL {
            at_every_poll(async |n| {
                let stage = Stage::new(can, Situation::Free).await;
                let locks = stage.world.locks.clone();
                let one = locks.lock("a").renewing().acquire().await.unwrap();
                let two = locks.lock("b").acquire().await.unwrap();
                let waiter = tokio::spawn({
                    let lock = locks.lock("a");
                    async move { drop(lock.acquire().await) }
                });
                stage
                    .waiters
                    .borrow_mut()
                    .extend([waiter, wait_on(&stage.world.other)]);
                others_run(SETTLED).await;
                let future =
                    Box::pin(async move { locks.shutdown(Duration::from_secs(1)).await.unwrap() });
                let done = drop_at_poll(n, future, async |at| stage.go_on(at).await).await;
                others_run(SETTLED).await;
                assert!(
                    n == 0 || !(one.is_held() || two.is_held()),
                    "after {n} polls"
                );
                drop((one, two));
                stage
                    .assert_nothing_left(&format!("shutdown, {can:?}, dropped after {n} polls"))
                    .await;
                done.is_some()
            })
            .await;
        }
    });
}

/// Pain 23: an adoption that is dropped midway may leave the lease, which then runs out; nothing else is left.
#[test]
fn what_a_dropped_adoption_leaves_runs_out() {
    run(async {
        for keys in [&["a"][..], &["a", "b"][..]] {
            at_every_poll(async |n| {
                let stage = Stage::new(Can::Queue, Situation::Free).await;
                let handover = stage
                    .world
                    .other
                    .all(keys)
                    .acquire()
                    .await
                    .unwrap()
                    .hand_over()
                    .unwrap();
                let locks = stage.world.locks.clone();
                let future = Box::pin(async move { drop(locks.adopt(&handover).await) });
                let done = drop_at_poll(n, future, async |at| stage.go_on(at).await).await;
                stage.world.settle().await;
                assert_eq!((stage.world.locks.held(), stage.world.other.held()), (0, 0));
                assert_eq!(
                    done.is_some(),
                    stage.world.grants("a") == 0,
                    "adopted, dropped and released"
                );
                stage.world.clock.advance(TTL);
                stage
                    .assert_nothing_left(&format!("adopt, dropped after {n} polls"))
                    .await;
                done.is_some()
            })
            .await;
        }
    });
}

/// S9: work that is dropped midway is as if it had never begun; once it is done, its result is kept.
#[test]
fn dropped_work_that_is_to_be_done_once_leaves_nothing() {
    run(async {
        for can in Can::ALL {
            for rivalled in [false, true] {
                at_every_poll(async |n| {
                    let stage = Stage::new(can, Situation::Free).await;
                    let fail = Arc::new(tokio::sync::Notify::new());
                    if rivalled {
                        let (once, told) = (stage.world.other.idempotent("a"), fail.clone());
                        tokio::spawn(async move {
                            let work = |_| async {
                                told.notified().await;
                                Err::<String, _>("it failed")
                            };
                            drop(once.run(work).await);
                        });
                        others_run(SETTLED).await;
                    }
                    let done = drop_at_poll(n, once(&stage.world.locks), async |at| {
                        if at == 4 {
                            fail.notify_one();
                        }
                        stage.go_on(at).await;
                    })
                    .await;
                    fail.notify_one();
                    stage.world.settle().await;
                    let what = format!("idempotent, {can:?}, dropped after {n} polls");
                    let mut again = once(&stage.world.other);
                    let mut fresh = None;
                    for _ in 0..12 {
                        fresh = fresh.or(poll_once(&mut again).await);
                        others_run(1).await;
                        if fresh.is_some() {
                            break;
                        }
                    }
                    assert_eq!(
                        fresh,
                        Some(done.is_none()),
                        "{what}: whether it is to be done again"
                    );
                    assert!(done.is_none_or(|fresh| fresh), "{what}");
                    stage.assert_nothing_left(&what).await;
                    done.is_some()
                })
                .await;
            }
        }
    });
}

/// Does something once; whether it was done by this call.
fn once(locks: &Locks) -> Task<bool> {
    let once = locks.idempotent("a");
    Box::pin(async move {
        let work = |_| async {
            body().await;
            Ok::<_, std::convert::Infallible>("done".to_owned())
        };
        once.run(work).await.unwrap().fresh
    })
}

/// Redisson's watchdog went on renewing what an interrupted wait had left.
#[test]
fn a_dropped_wait_is_not_renewed() {
    run(async {
        for situation in [Situation::Free, Situation::Held(3), Situation::InLine(4)] {
            at_every_poll(async |n| {
                let stage = Stage::new(Can::Queue, situation).await;
                let lock = stage.world.locks.lock("a").renewing();
                let future = Box::pin(async move { lock.acquire().await.unwrap() });
                let done = drop_at_poll(n, future, async |at| stage.go_on(at).await).await;
                let is_done = done.is_some();
                drop(done);
                others_run(SETTLED).await;
                stage.clear();
                stage.world.settle().await;
                stage.world.clock.advance(TTL / 2);
                stage.world.settle().await;
                assert_eq!(
                    stage.world.store.renewals.load(Ordering::Relaxed),
                    0,
                    "dropped after {n} polls"
                );
                stage
                    .assert_nothing_left(&format!(
                        "renewing, {situation:?}, dropped after {n} polls"
                    ))
                    .await;
                is_done
            })
            .await;
        }
    });
}

/// The body is gone before the lock is: it must not see the lock released under it.
#[test]
fn a_dropped_run_drops_its_body_before_it_lets_go() {
    run(async {
        struct LooksWhenDropped(leasehold_core::Held, Rc<RefCell<Vec<State>>>);
        impl Drop for LooksWhenDropped {
            fn drop(&mut self) {
                self.1.borrow_mut().push(self.0.state());
            }
        }
        at_every_poll(async |n| {
            let stage = Stage::new(Can::Queue, Situation::Free).await;
            let seen: Rc<RefCell<Vec<State>>> = Rc::default();
            let (lock, sink) = (stage.world.locks.lock("a"), seen.clone());
            let future = Box::pin(async move {
                lock.run(|held| async move {
                    let _looks = LooksWhenDropped(held, sink);
                    body().await;
                })
                .await
                .unwrap();
            });
            let done = drop_at_poll(n, future, async |at| stage.go_on(at).await).await;
            assert!(
                seen.borrow().iter().all(|state| *state == State::Held),
                "{:?}",
                seen.borrow()
            );
            stage
                .assert_nothing_left(&format!("run, dropped after {n} polls"))
                .await;
            done.is_some()
        })
        .await;
    });
}

/// Hooks hear of the end of everything they heard the beginning of.
#[test]
fn every_wait_and_every_acquisition_that_was_begun_is_reported_to_its_end() {
    run(async {
        #[derive(Default)]
        struct Heard {
            begun: AtomicUsize,
            ended: AtomicUsize,
            acquired: AtomicUsize,
            refused: AtomicUsize,
            gone: AtomicUsize,
        }
        for (verb, take) in TAKING {
            for situation in [
                Situation::Free,
                Situation::Held(3),
                Situation::Rivalled(5),
                Situation::InLine(MOST_POLLS),
            ] {
                at_every_poll(async |n| {
                    let mut stage = Stage::new(Can::Queue, situation).await;
                    let heard = Arc::new(Heard::default());
                    let hook = heard.clone();
                    let hooked = common::builder(&stage.world.store, &stage.world.clock)
                        .on_event(move |event| {
                            let count = match event {
                                LockEvent::Waiting { .. } => &hook.begun,
                                LockEvent::WaitEnded { .. } => &hook.ended,
                                LockEvent::Acquired { .. } => &hook.acquired,
                                LockEvent::NotAcquired { .. } => &hook.refused,
                                LockEvent::Released { .. } => &hook.gone,
                                _ => return,
                            };
                            count.fetch_add(1, Ordering::Relaxed);
                        })
                        .build()
                        .unwrap();
                    let done =
                        drop_at_poll(n, take(hooked.lock("a")), async |at| stage.go_on(at).await)
                            .await;
                    others_run(SETTLED).await;
                    stage.clear();
                    stage.world.settle().await;
                    let count = |what: &AtomicUsize| what.load(Ordering::Relaxed);
                    let what = format!("{verb}, {situation:?}, dropped after {n} polls");
                    assert_eq!(count(&heard.begun), count(&heard.ended), "{what}: waits");
                    assert_eq!(
                        count(&heard.acquired) + count(&heard.refused),
                        usize::from(n > 0),
                        "{what}: outcomes"
                    );
                    assert_eq!(count(&heard.acquired), count(&heard.gone), "{what}: holds");
                    stage.world.locks = hooked;
                    stage.assert_nothing_left(&what).await;
                    done.is_some()
                })
                .await;
            }
        }
    });
}

/// L5: ten thousand cancellations at random, over everything at once; nothing is left.
#[test]
fn ten_thousand_random_cancellations_leave_nothing() {
    run(async {
        for can in Can::ALL {
            let seed = 0x5EED + can as u64;
            let mut random = Seeded::new(seed);
            let world = World::new(can);
            let mut dropped = 0;
            while dropped < 10_000 * effort() / Can::ALL.len() {
                let mut futures: Vec<Task> =
                    (0..6).map(|_| random_future(&world, &mut random)).collect();
                while !futures.is_empty() {
                    let at = random.below(futures.len());
                    if random.once_in(12) {
                        drop(futures.swap_remove(at));
                        dropped += 1;
                    } else if poll_once(&mut futures[at]).await.is_some() {
                        drop(futures.swap_remove(at));
                    }
                    if random.once_in(3) {
                        others_run(1).await;
                    }
                    if random.once_in(20) {
                        world.clock.advance(7 * MS);
                    }
                }
                world.settle().await;
                let left = world.leftovers(&["a", "b"]);
                assert!(
                    left.is_empty(),
                    "seed {seed:#x}, {can:?}, after {dropped} cancellations: left behind: {left:?}"
                );
            }
            let guard = world
                .locks
                .all(["a", "b"])
                .try_acquire()
                .await
                .unwrap()
                .expect("free at once");
            guard.release().await.unwrap();
            println!("{can:?}: {dropped} cancellations");
        }
    });
}

fn random_future(world: &World, random: &mut Seeded) -> Task {
    let locks = if random.once_in(3) {
        &world.other
    } else {
        &world.locks
    };
    let mut lock = match random.below(5) {
        0 => locks.all(["a", "b"]),
        1 => locks.lock("b"),
        _ => locks.lock("a"),
    };
    if random.once_in(4) {
        lock = lock.shared();
    }
    if random.once_in(4) {
        lock = lock.renewing();
    }
    if random.once_in(4) {
        lock = lock.scope(&Scope::new());
    }
    match random.below(10) {
        0..6 => TAKING[random.below(TAKING.len())].1(lock),
        6 => ASKING[random.below(ASKING.len())].1(locks.clone()),
        7 => Box::pin(async move {
            if let Ok(guard) = lock.acquire().await {
                let _ = guard.extend(TTL).await;
                drop(guard.state_after(&State::Held).await);
            }
        }),
        8 => {
            let end = ENDING[random.below(ENDING.len())].1;
            Box::pin(async move {
                if let Ok(guard) = lock.acquire().await {
                    end(guard).await;
                }
            })
        }
        _ => {
            let heir = world.other.clone();
            Box::pin(async move {
                if let Ok(Some(guard)) = lock.try_acquire().await {
                    pause().await;
                    let again = lock.clone().ttl(TTL).acquire_within(10 * MS).await;
                    drop((guard, again, heir));
                }
            })
        }
    }
}

/// The store itself is what the tests above think it is.
#[test]
fn the_pausing_store_pauses_around_every_effect() {
    run(async {
        let world = World::new(Can::Queue);
        let (store, name) = (world.store.clone(), world.name("a"));
        let mut get: Task = Box::pin(async move { drop(store.get(&name).await) });
        let effects = || world.store.effects.load(Ordering::Relaxed);
        assert!(
            poll_once(&mut get).await.is_none() && effects() == 0,
            "before the effect"
        );
        assert!(
            poll_once(&mut get).await.is_none() && effects() == 1,
            "after the effect"
        );
        assert!(poll_once(&mut get).await.is_some());
    });
}
