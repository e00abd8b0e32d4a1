//! Locks without async: threads, interruptions, and callers that are inside an async task after all.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use leasehold_core::backend::List;
use leasehold_core::blocking::{Guard, Locks};
use leasehold_core::lock::{CancellationToken, IdempotentError, LostCause, RunError, Scope, State};
use leasehold_core::memory::Memory;
use leasehold_core::reservation::{Code, Reservations};
use leasehold_core::{Backend, ErrorKind, ManualClock};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

fn manager() -> Locks {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    leasehold_core::Locks::new(store)
        .namespace("orders")
        .ttl(TTL)
        .build_blocking()
        .unwrap()
}

/// A manager on a clock that moves only when told to.
fn still() -> (Locks, ManualClock) {
    let clock = ManualClock::new();
    let store: Arc<dyn Backend> = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let locks = leasehold_core::Locks::new(store)
        .namespace("orders")
        .ttl(TTL)
        .clock(Arc::new(clock.clone()))
        .build_blocking()
        .unwrap();
    (locks, clock)
}

/// Runs something on a thread of its own and returns what it returned.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Waits until something is so, for work that is done in the background.
fn eventually(so: impl Fn() -> bool) {
    while !so() {
        thread::yield_now();
    }
}

fn kind<T>(answer: leasehold_core::Result<T>) -> ErrorKind {
    answer.map(drop).unwrap_err().kind()
}

/// T0-01, T0-07, T0-08, T0-10, T0-11.
#[test]
fn a_lock_held_by_one_thread_is_refused_to_another_until_it_is_released() {
    let locks = manager();
    let guard = locks.lock("1").acquire().unwrap();
    assert!(locks.is_locked("1").unwrap());
    assert!(elsewhere(|| locks
        .lock("1")
        .try_acquire()
        .unwrap()
        .is_none()));
    let late = elsewhere(|| locks.lock("1").acquire_within(Duration::ZERO).map(drop));
    assert_eq!(kind(late), ErrorKind::NotAcquired);
    guard.release().unwrap();
    assert!(!locks.is_locked("1").unwrap());
    elsewhere(|| {
        locks
            .lock("1")
            .try_acquire()
            .unwrap()
            .unwrap()
            .release()
            .unwrap()
    });
}

/// T0-12, T0-13, T0-22.
#[test]
fn a_waiting_thread_gets_the_lock_when_it_is_released() {
    let locks = manager();
    let guard = locks.lock("1").acquire().unwrap();
    thread::scope(|scope| {
        let waiters = [
            scope.spawn(|| locks.lock("1").acquire().unwrap().release().unwrap()),
            scope.spawn(|| {
                locks
                    .lock("1")
                    .acquire_within(TTL)
                    .unwrap()
                    .release()
                    .unwrap()
            }),
        ];
        eventually(|| locks.as_async().waiting() == 2);
        let late = locks.clone();
        let gave_up = scope.spawn(move || kind(late.lock("1").acquire_within(SECOND / 20)));
        assert_eq!(gave_up.join().unwrap(), ErrorKind::NotAcquired);
        guard.release().unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
    assert_eq!(locks.as_async().waiting(), 0);
}

/// T0-15, S0-07, S0-08: across handles, as often as it was taken.
#[test]
fn a_thread_takes_its_lock_again_and_releases_it_as_often() {
    let locks = manager();
    let outer = locks.lock("1").acquire().unwrap();
    let middle = locks.lock("1").try_acquire().unwrap().unwrap();
    let inner = locks
        .clone()
        .lock("1")
        .acquire_within(Duration::ZERO)
        .unwrap();
    assert_eq!((outer.depth(), inner.token()), (3, outer.token()));
    for guard in [outer, inner] {
        guard.release().unwrap();
        assert!(elsewhere(|| locks
            .lock("1")
            .try_acquire()
            .unwrap()
            .is_none()));
    }
    assert!(locks.lock("1").is_held_by_current_thread());
    middle.release().unwrap();
    assert!(!locks.is_locked("1").unwrap());
}

/// S1-04, S0-08.
#[test]
fn a_lock_is_held_by_the_thread_that_took_it_and_no_other() {
    let (locks, clock) = still();
    let lock = locks.lock("1");
    assert!(!lock.is_held_by_current_thread());
    let guard = lock.acquire().unwrap();
    assert!(lock.is_held_by_current_thread());
    assert!(locks.lock("1").is_held_by_current_thread());
    assert!(!locks.lock("2").is_held_by_current_thread());
    assert!(
        !locks
            .in_namespace("billing")
            .unwrap()
            .lock("1")
            .is_held_by_current_thread()
    );
    assert!(!elsewhere(|| lock.is_held_by_current_thread()));
    clock.advance(TTL);
    assert!(!lock.is_held_by_current_thread(), "it has run out");
    assert_eq!(kind(guard.release()), ErrorKind::Lost);
    let guard = lock.acquire().unwrap();
    drop(guard);
    assert!(!lock.is_held_by_current_thread());
}

/// S1-04: every key of a set is held by the thread.
#[test]
fn a_thread_holds_every_key_of_a_set() {
    let locks = manager();
    let _guard = locks.all(["a", "b"]).acquire().unwrap();
    assert!(locks.lock("a").is_held_by_current_thread());
    assert!(locks.lock("b").is_held_by_current_thread());
}

/// G-15: reading does not let a thread write.
#[test]
fn a_thread_that_reads_does_not_write_beside_other_readers() {
    let locks = manager();
    let mine = locks.lock("1").shared().acquire().unwrap();
    let reader = elsewhere(|| locks.lock("1").shared().acquire().unwrap());
    let writer = locks.lock("1").try_acquire();
    assert!(!matches!(writer, Ok(Some(_))), "two hold what only one may");
    reader.release().unwrap();
    mine.release().unwrap();
}

/// T0-19: all of thirty waiters are interrupted, and none has got the lock.
#[test]
fn thirty_waiters_are_interrupted() {
    let locks = manager();
    let guard = locks.lock("1").acquire().unwrap();
    let cancel = CancellationToken::new();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..30)
            .map(|n| {
                let lock = locks.lock("1").cancelled_by(cancel.clone());
                scope.spawn(move || {
                    kind(if n % 2 == 0 {
                        lock.acquire()
                    } else {
                        lock.acquire_within(TTL)
                    })
                })
            })
            .collect();
        eventually(|| locks.as_async().waiting() == 30);
        cancel.cancel();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), ErrorKind::Cancelled);
        }
    });
    assert_eq!(locks.as_async().waiting(), 0);
    eventually(|| locks.get("1").unwrap().unwrap().tickets.is_empty());
    guard.release().unwrap();
    locks
        .lock("1")
        .try_acquire()
        .unwrap()
        .unwrap()
        .release()
        .unwrap();
}

/// Every verb, called where it would block an executor.
fn refusals(locks: &Locks, guards: [Guard; 4]) -> Vec<ErrorKind> {
    let lock = locks.lock("1");
    let run = |error: RunError| match error {
        RunError::Failed(error) => error.kind(),
        other => panic!("{other:?}"),
    };
    let [released, lenient, any, extended] = guards;
    let once = locks.idempotent("once", TTL, |_| Ok::<_, &str>("never".to_owned()));
    let Err(IdempotentError::Lock(once)) = once else {
        panic!("{once:?}");
    };
    vec![
        kind(lock.acquire()),
        kind(lock.acquire_within(SECOND)),
        kind(lock.try_acquire()),
        run(lock.run(|_| ()).unwrap_err()),
        run(lock.run_within(SECOND, |_| ()).unwrap_err()),
        run(lock.try_run(|_| ()).unwrap_err()),
        run(once),
        kind(locks.is_locked("1")),
        kind(locks.get("1")),
        kind(locks.holder("1")),
        kind(locks.list(List::all())),
        kind(locks.force_release("1", "stuck")),
        kind(locks.sweep(1)),
        kind(locks.shutdown(SECOND)),
        kind(extended.extend(TTL)),
        kind(released.release()),
        kind(lenient.release_if_held()),
        kind(any.release_any()),
    ]
}

fn four_guards(locks: &Locks) -> [Guard; 4] {
    ["a", "b", "c", "d"].map(|key| locks.lock(key).acquire().unwrap())
}

/// Inside a task every verb answers with an error; nothing panics and nothing blocks.
#[test]
fn a_blocking_call_inside_an_async_task_is_an_error() {
    let builders: [fn() -> tokio::runtime::Builder; 2] = [
        tokio::runtime::Builder::new_current_thread,
        tokio::runtime::Builder::new_multi_thread,
    ];
    for builder in builders {
        let runtime = builder().build().unwrap();
        for spawned in [false, true] {
            let locks = manager();
            let guards = four_guards(&locks);
            let asked = {
                let locks = locks.clone();
                async move { refusals(&locks, guards) }
            };
            let kinds = if spawned {
                runtime.block_on(async { tokio::spawn(asked).await.unwrap() })
            } else {
                runtime.block_on(asked)
            };
            assert!(
                kinds.iter().all(|kind| *kind == ErrorKind::Unsupported),
                "{kinds:?}"
            );
            for key in ["a", "b", "c", "d"] {
                eventually(|| !locks.is_locked(key).unwrap());
            }
        }
    }
}

/// Where a thread may block, a runtime around it does no harm.
#[test]
fn a_blocking_call_on_a_thread_that_may_block_works_inside_a_runtime() {
    let cycle = |locks: Locks| locks.lock("1").run(|held| held.token()).unwrap();
    for builder in [
        tokio::runtime::Builder::new_current_thread,
        tokio::runtime::Builder::new_multi_thread,
    ] {
        let runtime = builder().build().unwrap();
        let locks = manager();
        let spawned = locks.clone();
        runtime
            .block_on(async move { tokio::task::spawn_blocking(move || cycle(spawned)).await })
            .unwrap();
        let _entered = runtime.enter();
        cycle(locks);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let locks = manager();
    runtime
        .block_on(async move {
            tokio::spawn(async move { tokio::task::block_in_place(|| cycle(locks)) }).await
        })
        .unwrap();
}

/// A blocking manager is the same manager in async code.
#[test]
fn a_blocking_manager_and_its_async_form_exclude_each_other() {
    let locks = manager();
    let guard = locks.lock("1").acquire().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lock = locks.as_async().lock("1");
        assert!(lock.try_acquire().await.unwrap().is_none());
        drop(guard);
        lock.acquire().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn blocking_calls_nest_inside_a_body() {
    let locks = manager();
    let value = locks.lock("outer").run(|outer| {
        let inner = locks.lock("inner").run(|inner| {
            let again = locks.lock("outer").acquire().unwrap();
            assert_eq!(again.token(), outer.token());
            again.release().unwrap();
            assert!(locks.is_locked("inner").unwrap());
            elsewhere(|| locks.lock("third").run(|_| inner.token()).unwrap())
        });
        outer.check().unwrap();
        inner.unwrap()
    });
    assert!(value.unwrap().get() > 0);
    for key in ["outer", "inner", "third"] {
        assert!(!locks.is_locked(key).unwrap(), "{key}");
    }
}

/// S2-04: on every way out of the body.
#[test]
fn a_body_keeps_its_value_and_its_error_and_releases() {
    let locks = manager();
    let lock = locks.lock("1");
    assert_eq!(lock.run(|_| 7).unwrap(), 7);
    assert_eq!(
        lock.run_within(SECOND, |_| Err::<(), _>("no money"))
            .unwrap(),
        Err("no money")
    );
    assert_eq!(lock.try_run(|_| "free").unwrap(), Some("free"));
    let panicked = thread::scope(|scope| {
        let body = || lock.run(|_| std::panic::resume_unwind(Box::new("as told")));
        scope.spawn(move || body().unwrap_or(())).join()
    });
    assert!(panicked.is_err());
    eventually(|| !locks.is_locked("1").unwrap());
    let guard = lock.acquire().unwrap();
    assert_eq!(elsewhere(|| lock.try_run(|_| ()).unwrap()), None);
    let late = elsewhere(|| lock.run_within(Duration::ZERO, |_| ()));
    assert!(matches!(late, Err(RunError::NotAcquired(_))));
    guard.release().unwrap();
}

/// S2-06: a thread cannot be stopped, so it is asked, and told in the end.
#[test]
fn a_body_that_outlived_its_lock_is_reported_as_such() {
    let (locks, clock) = still();
    let seen = AtomicUsize::new(0);
    let ran = locks.lock("1").run(|held| {
        held.check().unwrap();
        clock.advance(TTL);
        seen.store(usize::from(!held.is_held()), Ordering::SeqCst);
        "done too late"
    });
    let Err(RunError::Lost { cause, after }) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!((cause, after), (LostCause::Expired, TTL));
    assert_eq!(seen.load(Ordering::SeqCst), 1, "the body could have known");
    let ran = locks.lock("1").run(|_| {
        locks.force_release("1", "stuck").unwrap();
    });
    assert!(matches!(
        ran,
        Err(RunError::Lost {
            cause: LostCause::Forced { .. },
            ..
        })
    ));
    assert!(!locks.is_locked("1").unwrap());
}

/// S0-08: a guard may travel; the lock is free wherever it goes, and the thread that took it may take it again.
#[test]
fn a_guard_may_be_released_or_dropped_on_another_thread() {
    let locks = manager();
    let lock = locks.lock("1");
    let guard = lock.acquire().unwrap();
    elsewhere(move || guard.release().unwrap());
    assert!(!lock.is_held_by_current_thread());
    assert!(!locks.is_locked("1").unwrap());
    let guard = lock.acquire().unwrap();
    elsewhere(move || drop(guard));
    assert!(!lock.is_held_by_current_thread());
    let guard = elsewhere(|| lock.acquire().unwrap());
    assert!(!lock.is_held_by_current_thread(), "another thread took it");
    assert!(lock.try_acquire().unwrap().is_none());
    drop(guard);
    lock.acquire().unwrap().release().unwrap();
}

/// S0-08: a thread that ends does not leave its identity to the next one.
#[test]
fn a_thread_that_ends_keeps_its_locks_from_the_next_one() {
    let locks = manager();
    for _ in 0..20 {
        elsewhere(|| locks.lock("1").ttl(TTL).acquire().unwrap().forget());
        assert!(elsewhere(|| locks
            .lock("1")
            .try_acquire()
            .unwrap()
            .is_none()));
        locks.force_release("1", "next round").unwrap();
    }
}

/// A guard made in a runtime of the user's and dropped after it: the blocking API has a runtime of its own.
#[test]
fn a_guard_outlives_the_runtime_it_was_taken_in() {
    let locks = manager();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let taken = locks.clone();
    let guard = runtime
        .block_on(
            async move { tokio::task::spawn_blocking(move || taken.lock("1").acquire()).await },
        )
        .unwrap()
        .unwrap();
    drop(runtime);
    guard.check().unwrap();
    drop(guard);
    eventually(|| !locks.is_locked("1").unwrap());
}

/// Several scopes on one thread, and permits that belong to no thread.
#[test]
fn scopes_and_permits_do_not_belong_to_the_thread() {
    let locks = manager();
    let _guard = locks.lock("1").acquire().unwrap();
    let scope = Scope::new();
    assert!(
        locks
            .lock("1")
            .scope(&scope)
            .try_acquire()
            .unwrap()
            .is_none()
    );
    let gpu = locks.semaphore("gpu", 2);
    let (_one, _two) = (gpu.acquire().unwrap(), gpu.acquire().unwrap());
    assert!(gpu.try_acquire().unwrap().is_none());
}

/// 3.9: a counter that only the lock protects.
#[test]
fn an_unprotected_counter_is_exact_under_the_lock() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 200;
    let (locks, count) = (manager(), AtomicUsize::new(0));
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    let guard = locks.lock("counter").acquire().unwrap();
                    // Read and written apart, so that two at once would lose a step.
                    let seen = count.load(Ordering::Relaxed);
                    std::hint::spin_loop();
                    count.store(seen + 1, Ordering::Relaxed);
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), THREADS * ROUNDS);
    assert_eq!(
        (locks.as_async().held(), locks.as_async().waiting()),
        (0, 0)
    );
}

/// S2-17.
#[test]
fn work_is_done_once_by_many_threads() {
    let (locks, runs) = (manager(), AtomicUsize::new(0));
    let start = Barrier::new(8);
    let fresh: usize = thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let answer = locks.idempotent("charge", TTL, |held| {
                        held.check().unwrap();
                        runs.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, &str>("receipt".to_owned())
                    });
                    let answer = answer.unwrap();
                    assert_eq!(answer.value, "receipt");
                    usize::from(answer.fresh)
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    });
    assert_eq!((fresh, runs.load(Ordering::SeqCst)), (1, 1));
    let failed = locks.idempotent("other", TTL, |_| Err("no money"));
    assert!(matches!(failed, Err(IdempotentError::Body("no money"))));
    assert!(!locks.is_locked("other").unwrap());
}

/// S0-18.
#[test]
fn shutdown_releases_everything_and_answers_waiters() {
    let locks = manager();
    let guard = locks.lock("1").renewing().acquire().unwrap();
    let waiter = thread::spawn({
        let locks = locks.clone();
        move || kind(locks.lock("1").acquire())
    });
    eventually(|| locks.as_async().waiting() == 1);
    locks.shutdown(10 * SECOND).unwrap();
    assert_eq!(waiter.join().unwrap(), ErrorKind::Closed);
    assert_eq!(guard.state(), State::Lost(LostCause::ShutDown));
    assert_eq!(kind(locks.lock("2").acquire()), ErrorKind::Closed);
    eventually(|| !locks.is_locked("1").unwrap());
}

/// Pain 23: from thread to thread, with the secret on the way.
#[test]
fn a_lock_is_handed_over_between_threads() {
    let locks = manager();
    let guard = locks.lock("1").acquire().unwrap();
    let token = guard.token();
    let text = guard.hand_over().unwrap().to_string();
    elsewhere(|| {
        let handover = text.parse().unwrap();
        let adopted = locks.adopt(&handover).unwrap();
        assert_eq!(adopted.token(), token);
        adopted.extend(2 * TTL).unwrap();
        adopted.release().unwrap();
    });
    assert!(!locks.is_locked("1").unwrap());
}

#[test]
fn reservations_work_without_async() {
    let shop = Reservations::new(Arc::new(Memory::new()))
        .namespace("shop")
        .build_blocking()
        .unwrap();
    let ttl = Duration::from_secs(60);
    let seat = shop.reserve("seat", "A1", ttl).unwrap().reserved().unwrap();
    let taken = shop.reserve("seat", "A1", ttl).unwrap().reserved();
    assert_eq!(taken.unwrap_err().code(), Some(Code::AlreadyReserved));
    let claim = seat.extend(ttl).unwrap().confirm("user-1").unwrap();
    assert_eq!(claim.key().value(), "A1");
    assert!(shop.is_reserved("seat", "A1").unwrap());
    claim.hand_over("user-2").unwrap().free().unwrap();
    let request = shop.request().value("seat", "A1").value("seat", "A2");
    let both = request
        .ttl(ttl)
        .reserve_blocking()
        .unwrap()
        .reserved()
        .unwrap();
    both.release().unwrap();
    assert!(!shop.is_reserved("seat", "A2").unwrap());
    shop.shutdown(ttl).unwrap();
}
