//! What hooks are told: every hold begins once and ends once, every wait begins and ends, and a hook that panics harms
//! nobody.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::lock::{
    CancellationToken, LockEvent, LostCause, NotAcquired, ReleaseOutcome, Scope,
};
use leasehold_core::memory::Memory;
use leasehold_core::{Clock, ErrorKind, Locks, ManualClock};

use common_world::{TTL, builder, settle};

const SECOND: Duration = Duration::from_secs(1);

/// Writes down what it is told, one word each.
#[derive(Debug, Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, event: &LockEvent<'_>) {
        self.0.lock().unwrap().push(word(event));
    }

    /// What was told since the last call.
    fn read(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn word(event: &LockEvent<'_>) -> String {
    match event {
        LockEvent::Waiting { name } => format!("waiting {}", name.key()),
        LockEvent::WaitEnded { name } => format!("wait ended {}", name.key()),
        LockEvent::Acquired { held, .. } => format!("acquired {}", held.name().key()),
        LockEvent::NotAcquired { why, .. } => match why {
            NotAcquired::Unavailable => "unavailable".into(),
            NotAcquired::TimedOut => "timed out".into(),
            NotAcquired::Cancelled => "cancelled".into(),
            NotAcquired::Failed(error) => format!("failed {}", error.kind().as_str()),
            _ => "not acquired".into(),
        },
        LockEvent::Released { outcome, .. } => match outcome {
            ReleaseOutcome::Released => "released".into(),
            ReleaseOutcome::Dropped => "dropped".into(),
            ReleaseOutcome::LeftBehind => "left behind".into(),
            ReleaseOutcome::Lost(_) => "found lost".into(),
            ReleaseOutcome::Failed(_) => "release failed".into(),
            _ => "ended".into(),
        },
        LockEvent::Renewed { .. } => "renewed".into(),
        LockEvent::AtRisk { .. } => "at risk".into(),
        LockEvent::Lost { cause, .. } => match cause {
            LostCause::Expired => "lost expired".into(),
            LostCause::Forced { .. } => "lost forced".into(),
            LostCause::MaxHold => "lost max hold".into(),
            LostCause::TakenOver { .. } => "lost taken over".into(),
            _ => "lost".into(),
        },
        LockEvent::Forced { ended, .. } => format!("forced {ended}"),
        _ => "something new".into(),
    }
}

struct World {
    locks: Locks,
    clock: ManualClock,
    store: Arc<Memory>,
    diary: Diary,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
        let diary = Diary::default();
        let locks = builder(&store, &clock)
            .on_event({
                let diary = diary.clone();
                move |event| diary.note(event)
            })
            .build()
            .unwrap();
        Self {
            locks,
            clock,
            store,
            diary,
        }
    }

    async fn pass(&self, time: Duration) {
        common_world::pass(&self.clock, time).await;
    }
}

#[tokio::test]
async fn a_lock_that_is_taken_and_released_is_told_as_that() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    assert_eq!(world.diary.read(), ["acquired 1"]);
    assert!(world.locks.lock("1").try_acquire().await.unwrap().is_none());
    assert_eq!(world.diary.read(), ["unavailable"]);
    let late = world.locks.lock("1").acquire_within(Duration::ZERO).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::NotAcquired);
    assert_eq!(world.diary.read(), ["timed out"]);
    guard.release().await.unwrap();
    assert_eq!(world.diary.read(), ["released"]);
}

/// T0-12, T0-19: every wait that is announced is also said to be over, however it ends.
#[tokio::test]
async fn a_wait_is_announced_and_its_end_as_well() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.diary.read();
    let late = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.acquire_within(SECOND).await.map(drop) }
    });
    world.pass(2 * SECOND).await;
    assert!(late.await.unwrap().is_err());
    assert_eq!(
        world.diary.read(),
        ["waiting 1", "wait ended 1", "timed out"]
    );

    let cancel = CancellationToken::new();
    let cancelled = tokio::spawn({
        let lock = world.locks.lock("1").cancelled_by(cancel.clone());
        async move { lock.acquire().await.map(drop) }
    });
    settle().await;
    cancel.cancel();
    assert!(cancelled.await.unwrap().is_err());
    assert_eq!(
        world.diary.read(),
        ["waiting 1", "wait ended 1", "cancelled"]
    );

    let dropped = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.acquire().await.map(drop) }
    });
    settle().await;
    dropped.abort();
    settle().await;
    assert_eq!(
        world.diary.read(),
        ["waiting 1", "wait ended 1", "cancelled"]
    );

    let served = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.acquire().await.unwrap().forget() }
    });
    settle().await;
    guard.release().await.unwrap();
    served.await.unwrap();
    assert_eq!(
        world.diary.read(),
        [
            "waiting 1",
            "released",
            "wait ended 1",
            "acquired 1",
            "left behind"
        ]
    );
}

#[tokio::test]
async fn a_close_ends_waits_and_no_hold() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = world.locks.lock("1");
        async move { lock.acquire().await.map(drop) }
    });
    settle().await;
    world.diary.read();
    world.locks.close();
    assert!(waiter.await.unwrap().is_err());
    assert_eq!(world.diary.read(), ["wait ended 1", "cancelled"]);
    guard.release().await.unwrap();
    assert_eq!(world.diary.read(), ["released"]);
}

/// S0-18: shutdown ends every hold once; a guard that is left finds that out when it is released.
#[tokio::test]
async fn a_shutdown_ends_every_hold_once() {
    let world = World::new();
    let dropped = world.locks.lock("1").acquire().await.unwrap();
    let released = world.locks.lock("2").renewing().acquire().await.unwrap();
    world.diary.read();
    world.locks.shutdown(SECOND).await.unwrap();
    assert_eq!(world.diary.read(), ["lost", "lost"]);
    drop(dropped);
    let _ = released.release().await;
    world.pass(2 * TTL).await;
    assert_eq!(world.diary.read(), ["found lost"]);
}

#[tokio::test]
async fn a_guard_that_is_dropped_forgotten_or_handed_over_ends_its_hold_once() {
    let world = World::new();
    drop(world.locks.lock("1").acquire().await.unwrap());
    assert_eq!(world.diary.read(), ["acquired 1", "dropped"]);
    world.locks.lock("2").acquire().await.unwrap().forget();
    assert_eq!(world.diary.read(), ["acquired 2", "left behind"]);
    let handover = world.locks.lock("3").acquire().await.unwrap().hand_over();
    assert_eq!(world.diary.read(), ["acquired 3", "left behind"]);
    let adopted = world.locks.adopt(&handover.unwrap()).await.unwrap();
    assert_eq!(world.diary.read(), ["acquired 3"]);
    drop(adopted);
    assert_eq!(world.diary.read(), ["dropped"]);
}

/// S0-07: what is taken again is one hold, and ends with its last guard.
#[tokio::test]
async fn reentry_is_one_hold() {
    let world = World::new();
    let lock = world.locks.lock("1").scope(&Scope::new());
    let outer = lock.acquire().await.unwrap();
    let inner = lock.acquire().await.unwrap();
    outer.release().await.unwrap();
    assert_eq!(world.diary.read(), ["acquired 1"]);
    drop(inner);
    assert_eq!(world.diary.read(), ["dropped"]);
}

/// S2-06: nobody looks at the guard, and yet the hook is told in time.
#[tokio::test]
async fn a_lock_that_runs_out_is_told_to_be_at_risk_and_then_lost() {
    let world = World::new();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    world.pass(25 * SECOND).await;
    assert_eq!(world.diary.read(), ["acquired 1"]);
    world.pass(SECOND).await;
    assert_eq!(world.diary.read(), ["at risk"]);
    world.pass(3 * SECOND).await;
    assert_eq!(world.diary.read(), ["lost expired"]);
    world.pass(SECOND).await;
    assert!(guard.release().await.is_err());
    assert_eq!(world.diary.read(), ["found lost"]);
    let guard = world
        .locks
        .lock("1")
        .max_hold(SECOND)
        .acquire()
        .await
        .unwrap();
    world.pass(2 * SECOND).await;
    drop(guard);
    assert_eq!(
        world.diary.read(),
        ["acquired 1", "at risk", "lost max hold"]
    );
}

/// S2-05.
#[tokio::test]
async fn a_lock_that_is_renewed_is_neither_at_risk_nor_lost() {
    let world = World::new();
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    world.pass(2 * TTL).await;
    let told = world.diary.read();
    assert!(told[1..].iter().all(|word| word == "renewed"), "{told:?}");
    assert!((5..=8).contains(&told.len()), "{told:?}");
    guard.release().await.unwrap();
    assert_eq!(world.diary.read(), ["released"]);
}

/// The lag of a renewal is counted from when it was planned.
#[tokio::test]
async fn a_renewal_that_comes_late_says_by_how_much() {
    let lags = Arc::new(Mutex::new(Vec::new()));
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let locks = builder(&store, &clock)
        .on_event({
            let lags = lags.clone();
            move |event| {
                if let LockEvent::Renewed { lag, .. } = event {
                    lags.lock().unwrap().push(*lag);
                }
            }
        })
        .build()
        .unwrap();
    let guard = locks.lock("1").renewing().acquire().await.unwrap();
    settle().await;
    // A busy machine: what was planned after ten seconds is done after fifteen.
    clock.advance(15 * SECOND);
    settle().await;
    guard.check().unwrap();
    assert_eq!(*lags.lock().unwrap(), [5 * SECOND]);
}

/// G-16: by force, through this manager and through another.
#[tokio::test]
async fn a_forced_release_is_told_by_whoever_did_it_and_by_whoever_lost() {
    let world = World::new();
    let guard = world.locks.lock("1").renewing().acquire().await.unwrap();
    world.locks.force_release("1", "stuck").await.unwrap();
    assert_eq!(world.diary.read(), ["acquired 1", "forced 1"]);
    world.pass(11 * SECOND).await;
    assert_eq!(world.diary.read(), ["lost forced"]);
    drop(guard);
    assert_eq!(world.diary.read(), Vec::<String>::new());
    let other = builder(&world.store, &world.clock).build().unwrap();
    let guard = world.locks.lock("1").acquire().await.unwrap();
    other.force_release("1", "stuck").await.unwrap();
    assert!(!guard.release_if_held().await.unwrap());
    assert_eq!(
        world.diary.read(),
        ["acquired 1", "lost forced", "found lost"]
    );
    world.locks.force_release("1", "again").await.unwrap();
    assert_eq!(world.diary.read(), ["forced 0"]);
}

/// A hook that panics takes neither the lock nor the other hooks with it.
#[tokio::test]
async fn a_hook_that_panics_harms_nobody() {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let diary = Diary::default();
    let locks = builder(&store, &clock)
        .on_event(|event| {
            std::panic::resume_unwind(Box::new(word(event)));
        })
        .on_event({
            let diary = diary.clone();
            move |event| diary.note(event)
        })
        .build()
        .unwrap();
    let guard = locks.lock("1").renewing().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire().await.unwrap().release().await.unwrap() }
    });
    for _ in 0..200 {
        settle().await;
        clock.advance(SECOND / 2);
    }
    guard.release().await.unwrap();
    waiter.await.unwrap();
    drop(locks.lock("2").acquire().await.unwrap());
    locks.shutdown(SECOND).await.unwrap();
    let told = diary.read();
    assert_eq!(
        told.iter()
            .filter(|word| word.starts_with("acquired"))
            .count(),
        3
    );
    assert!(!locks.is_locked("1").await.unwrap() && !locks.is_locked("2").await.unwrap());
}

/// A hook may use what it is told, and even ask the manager, without a deadlock.
#[tokio::test]
async fn a_hook_may_look_at_the_lock_it_is_told_of() {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let manager: Arc<Mutex<Option<Locks>>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let locks = builder(&store, &clock)
        .on_event({
            let (manager, seen) = (manager.clone(), seen.clone());
            move |event| {
                let manager = manager.lock().unwrap();
                let Some(locks) = &*manager else { return };
                let held = match event {
                    LockEvent::Acquired { held, .. } => Some(held.state()),
                    _ => None,
                };
                seen.lock()
                    .unwrap()
                    .push((locks.held(), locks.waiting(), held));
            }
        })
        .build()
        .unwrap();
    *manager.lock().unwrap() = Some(locks.clone());
    let guard = locks.lock("1").acquire().await.unwrap();
    drop(guard);
    let waiter = tokio::spawn({
        let lock = locks.lock("1");
        async move { lock.acquire().await.map(drop) }
    });
    waiter.await.unwrap().unwrap();
    assert!(seen.lock().unwrap().len() >= 4);
    manager.lock().unwrap().take();
}

/// Whatever happens to many locks at once: as many begin as end, and waits likewise.
#[tokio::test]
async fn every_hold_and_every_wait_ends_exactly_once() {
    let world = World::new();
    let other = builder(&world.store, &world.clock).build().unwrap();
    let mut tasks = Vec::new();
    for n in 0..120_u64 {
        let (locks, other, clock) = (world.locks.clone(), other.clone(), world.clock.clone());
        tasks.push(tokio::spawn(async move {
            let lock = locks.lock((n % 7).to_string());
            let lock = if n % 3 == 0 { lock.renewing() } else { lock };
            let waited = match n % 5 {
                0 => lock.acquire_within(Duration::from_secs(n % 40)).await.ok(),
                1 => lock.try_acquire().await.unwrap(),
                _ => Some(lock.acquire().await.unwrap()),
            };
            let Some(guard) = waited else { return };
            clock
                .sleep_until(clock.now().after(Duration::from_millis(137 * (n % 9))))
                .await;
            match n % 8 {
                0 => drop(guard.release().await),
                1 => drop(guard),
                2 => guard.forget(),
                3 => {
                    clock.sleep_until(clock.now().after(2 * TTL)).await;
                    drop(guard.release_if_held().await);
                }
                4 => {
                    other
                        .force_release((n % 7).to_string(), "chaos")
                        .await
                        .unwrap();
                    guard.release_any().await.unwrap();
                }
                5 => {
                    if let Ok(handover) = guard.hand_over() {
                        drop(locks.adopt(&handover).await);
                    }
                }
                6 => drop(guard.extend(TTL).await),
                _ => {
                    let held = guard.held();
                    drop(guard);
                    drop(held);
                }
            }
        }));
    }
    for (n, task) in tasks.iter().enumerate() {
        if n % 10 == 9 {
            world.pass(SECOND).await;
            task.abort();
        }
    }
    world.pass(400 * SECOND).await;
    for task in tasks {
        if !task.is_finished() {
            task.abort();
        }
        let _ = task.await;
    }
    world.locks.shutdown(SECOND).await.unwrap();
    let told = world.diary.read();
    let count = |words: &[&str]| {
        told.iter()
            .filter(|told| words.iter().any(|word| told.starts_with(word)))
            .count()
    };
    assert!(count(&["acquired"]) > 60, "{}", count(&["acquired"]));
    assert_eq!(
        count(&["acquired"]),
        count(&["released", "dropped", "left behind", "lost"])
    );
    assert!(count(&["waiting"]) > 40, "{}", count(&["waiting"]));
    assert_eq!(count(&["waiting"]), count(&["wait ended"]));
    assert_eq!((world.locks.held(), world.locks.waiting()), (0, 0));
}
