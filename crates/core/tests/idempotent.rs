//! Work that is done once per key (S2-17): one caller does it, the others get its stored result.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod common_world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::lock::{Answer, IdempotentError, RunError};
use leasehold_core::memory::Memory;
use leasehold_core::{Backend, Clock, Effect, Error, ErrorKind, Locks, ManualClock, Name};

use common_world::troubled::{Trouble, World as TroubledWorld};
use common_world::{TTL, builder, settle};

const SECOND: Duration = Duration::from_secs(1);

struct World {
    locks: Locks,
    clock: ManualClock,
    store: Arc<Memory>,
    runs: Arc<AtomicUsize>,
}

type Outcome = Result<Answer, IdempotentError<&'static str>>;

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
        Self {
            locks: builder(&store, &clock).build().unwrap(),
            clock,
            store,
            runs: Arc::default(),
        }
    }

    /// Where those who do the work hold their locks.
    fn worker(&self) -> Locks {
        self.locks.in_namespace("orders/once").unwrap()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Does the work of a key once, with an answer that says which run it was.
    async fn once(&self, locks: &Locks, keep: Duration) -> Outcome {
        let runs = self.runs.clone();
        let once = locks.idempotent("1").keep_for(keep);
        once.run(|_| async move { Ok(format!("run {}", runs.fetch_add(1, Ordering::SeqCst))) })
            .await
    }

    async fn pass(&self, time: Duration) {
        common_world::pass(&self.clock, time).await;
    }

    async fn grants(&self, key: &str) -> usize {
        let name = Name::new("orders/once", key).unwrap();
        let record = self.store.get(&name).await.unwrap();
        record.what.map_or(0, |record| record.grants.len())
    }
}

fn answer(value: &str, fresh: bool) -> Answer {
    Answer {
        value: value.to_owned(),
        fresh,
    }
}

#[tokio::test]
async fn sixty_four_callers_get_the_answer_of_one_run() {
    let world = World::new();
    let other = builder(&world.store, &world.clock).build().unwrap();
    let callers: Vec<_> = (0..64)
        .map(|n| {
            let locks = if n % 2 == 0 { &world.locks } else { &other };
            let (once, runs) = (locks.idempotent("1"), world.runs.clone());
            tokio::spawn(async move {
                once.run(|held| async move {
                    runs.fetch_add(1, Ordering::SeqCst);
                    settle().await;
                    held.check().unwrap();
                    Ok::<_, &str>("receipt 77".to_owned())
                })
                .await
                .unwrap()
            })
        })
        .collect();
    let mut fresh = 0;
    world.pass(SECOND).await;
    for caller in callers {
        assert!(caller.is_finished(), "a caller was not told of the result");
        let answer = caller.await.unwrap();
        assert_eq!(answer.value, "receipt 77");
        fresh += usize::from(answer.fresh);
    }
    assert_eq!((fresh, world.runs()), (1, 1));
    assert_eq!((world.locks.waiting(), other.waiting()), (0, 0));
    assert_eq!((world.locks.held(), other.held()), (0, 0));
}

/// S2-05: the work may take longer than a ttl; callers wait for it all the same.
#[tokio::test]
async fn work_may_take_longer_than_the_ttl() {
    let world = World::new();
    let worker = tokio::spawn({
        let (once, clock) = (world.locks.idempotent("1"), world.clock.clone());
        async move {
            once.run(|_| async {
                clock.sleep_until(clock.now().after(4 * TTL)).await;
                Ok::<_, &str>("slow".to_owned())
            })
            .await
            .unwrap()
        }
    });
    settle().await;
    let waiter = tokio::spawn({
        let once = world.locks.idempotent("1");
        async move {
            once.run(|_| async { Err("it was done twice") })
                .await
                .unwrap()
        }
    });
    world.pass(4 * TTL + SECOND).await;
    assert_eq!(worker.await.unwrap(), answer("slow", true));
    assert_eq!(waiter.await.unwrap(), answer("slow", false));
}

#[tokio::test]
async fn a_failure_is_not_stored_and_the_next_caller_tries_again() {
    let world = World::new();
    let once = world.locks.idempotent("1");
    let failed = once.run(|_| async { Err("no money") }).await;
    assert!(matches!(failed, Err(IdempotentError::Body("no money"))));
    assert_eq!(world.grants("1").await, 0);
    assert_eq!(
        world.once(&world.locks, TTL).await.unwrap(),
        answer("run 0", true)
    );
    assert_eq!(
        world.once(&world.locks, TTL).await.unwrap(),
        answer("run 0", false)
    );
}

/// S2-17: a caller that waits takes over when the work fails.
#[tokio::test]
async fn a_waiting_caller_takes_over_from_a_failure() {
    let world = World::new();
    let first = tokio::spawn({
        let once = world.locks.idempotent("1");
        async move {
            let run = once.run(|_| async {
                settle().await;
                Err("no money")
            });
            run.await.is_err()
        }
    });
    tokio::task::yield_now().await;
    let second = world.once(&world.locks, TTL).await.unwrap();
    assert_eq!(second, answer("run 0", true));
    assert!(first.await.unwrap());
}

/// S1-08: a worker that dies holds up others for its ttl and no longer.
#[tokio::test]
async fn the_next_caller_takes_over_from_a_worker_that_died() {
    let world = World::new();
    world.worker().lock("1").acquire().await.unwrap().forget();
    let next = tokio::spawn({
        let (once, runs) = (world.locks.idempotent("1"), world.runs.clone());
        async move {
            once.run(|_| async move {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok::<_, &str>("done".to_owned())
            })
            .await
            .unwrap()
        }
    });
    world.pass(TTL - SECOND).await;
    assert_eq!(world.runs(), 0);
    world.pass(2 * SECOND).await;
    assert_eq!(next.await.unwrap(), answer("done", true));
    assert_eq!(world.runs(), 1);
}

/// L5: dropped midway, nothing is left, and the next caller starts afresh.
#[tokio::test]
async fn a_run_that_is_dropped_midway_leaves_nothing() {
    for turns in 0..6 {
        let world = World::new();
        let dropped = tokio::spawn({
            let once = world.locks.idempotent("1");
            async move {
                let run = once.run(|_| std::future::pending::<Result<String, &str>>());
                run.await.is_ok()
            }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        dropped.abort();
        settle().await;
        assert_eq!(world.grants("1").await, 0);
        assert_eq!((world.locks.held(), world.locks.waiting()), (0, 0));
        assert!(world.once(&world.locks, TTL).await.unwrap().fresh);
    }
}

#[tokio::test]
async fn a_run_that_panics_leaves_nothing() {
    let world = World::new();
    let once = world.locks.idempotent("1");
    let body = async move {
        let run =
            once.run::<&str, _, _>(|_| async { std::panic::resume_unwind(Box::new("as told")) });
        run.await.is_ok()
    };
    assert!(tokio::spawn(body).await.unwrap_err().is_panic());
    settle().await;
    assert_eq!(world.grants("1").await, 0);
    assert!(world.once(&world.locks, TTL).await.unwrap().fresh);
}

#[tokio::test]
async fn a_result_is_kept_as_long_as_asked_and_then_forgotten() {
    let world = World::new();
    let hour = 3600 * SECOND;
    assert_eq!(
        world.once(&world.locks, hour).await.unwrap(),
        answer("run 0", true)
    );
    world.clock.advance(hour - SECOND);
    assert_eq!(
        world.once(&world.locks, hour).await.unwrap(),
        answer("run 0", false)
    );
    world.clock.advance(SECOND);
    assert_eq!(
        world.once(&world.locks, hour).await.unwrap(),
        answer("run 1", true)
    );
    let day = world.locks.idempotent("2");
    let work = async |text: &str| {
        let text = text.to_owned();
        day.run(|_| async { Ok::<_, &str>(text) }).await.unwrap()
    };
    assert!(work("first").await.fresh);
    world.clock.advance(24 * hour - SECOND);
    assert_eq!(work("second").await, answer("first", false));
    world.clock.advance(SECOND);
    assert_eq!(work("third").await, answer("third", true));
}

#[tokio::test]
async fn a_result_may_be_kept_for_a_shorter_time_than_the_ttl() {
    let world = World::new();
    assert_eq!(
        world.once(&world.locks, SECOND).await.unwrap(),
        answer("run 0", true)
    );
    world.clock.advance(TTL);
    assert_eq!(
        world.once(&world.locks, SECOND).await.unwrap(),
        answer("run 1", true)
    );
}

#[tokio::test]
async fn a_result_of_any_text_comes_back_as_it_was() {
    let world = World::new();
    let most = "x".repeat(4090);
    for (n, text) in ["", "done:", "done:x", "ü\n\"{}", &most]
        .into_iter()
        .enumerate()
    {
        let once = world.locks.idempotent(n.to_string());
        let run = async |text: String| once.run(|_| async { Ok::<_, &str>(text) }).await.unwrap();
        assert_eq!(run(text.to_owned()).await, answer(text, true));
        assert_eq!(run("another".to_owned()).await, answer(text, false));
    }
}

/// A result that cannot be kept is handed to the caller, who learns that it was not.
#[tokio::test]
async fn a_result_that_is_too_large_is_returned_with_a_clear_error() {
    let world = World::new();
    for (text, said) in [("x".repeat(4097), "4096"), ("a\0b".to_owned(), "NUL")] {
        let once = world.locks.idempotent("1");
        let outcome = once.run(|_| async { Ok::<_, Error>(text.clone()) }).await;
        let Err(IdempotentError::NotStored { value, error }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(value, text);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let shown = IdempotentError::<Error>::NotStored { value, error }.to_string();
        assert!(
            shown.contains("could not be stored") && shown.contains(said),
            "{shown}"
        );
        settle().await;
        assert_eq!(world.grants("1").await, 0, "the next caller may try again");
    }
}

/// The free text of a lock is not a result, whatever it says.
#[tokio::test]
async fn the_text_of_a_plain_lock_is_not_taken_for_a_result() {
    let world = World::new();
    let guard = world
        .locks
        .lock("1")
        .metadata("done:x")
        .acquire()
        .await
        .unwrap();
    let caller = tokio::spawn({
        let once = world.locks.idempotent("1");
        async move {
            once.run(|_| async { Ok::<_, &str>("work".to_owned()) })
                .await
                .unwrap()
        }
    });
    world.pass(SECOND).await;
    assert_eq!(caller.await.unwrap(), answer("work", true));
    guard.release().await.unwrap();
}

/// S2-06: a worker that lost its lock says so, and stores nothing over the work of whoever took over.
#[tokio::test]
async fn a_worker_that_lost_its_lock_stores_nothing() {
    let world = World::new();
    let worker = tokio::spawn({
        let once = world.locks.idempotent("1");
        async move {
            once.run(|_| std::future::pending::<Result<String, &str>>())
                .await
        }
    });
    settle().await;
    world.worker().force_release("1", "stuck").await.unwrap();
    assert_eq!(
        world.once(&world.locks, 10 * TTL).await.unwrap(),
        answer("run 0", true)
    );
    world.pass(11 * SECOND).await;
    let outcome = worker.await.unwrap();
    assert!(
        matches!(outcome, Err(IdempotentError::Lock(RunError::Lost { .. }))),
        "{outcome:?}"
    );
    assert_eq!(
        world.once(&world.locks, TTL).await.unwrap(),
        answer("run 0", false)
    );
    let late = world.locks.idempotent("2");
    let locks = world.worker();
    let outcome = late
        .run(|_| async move {
            locks.force_release("2", "stuck").await.unwrap();
            Ok::<_, &str>("too late".to_owned())
        })
        .await;
    assert!(
        matches!(&outcome, Err(IdempotentError::NotStored { error, .. }) if error.kind() == ErrorKind::Lost),
        "{outcome:?}"
    );
}

/// S0-18: callers that wait are answered when the manager closes.
#[tokio::test]
async fn a_waiting_caller_is_answered_when_the_manager_closes() {
    let world = World::new();
    let _guard = world.worker().lock("1").acquire().await.unwrap();
    let caller = tokio::spawn({
        let once = world.locks.idempotent("1");
        async move {
            once.run(|_| async { Ok::<_, &str>("work".to_owned()) })
                .await
        }
    });
    settle().await;
    world.locks.close();
    settle().await;
    assert!(caller.is_finished());
    let outcome = caller.await.unwrap();
    let Err(IdempotentError::Lock(RunError::Failed(error))) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(world.locks.waiting(), 0);
}

#[tokio::test]
async fn bad_input_is_named_before_any_work_is_done() {
    let world = World::new();
    for (key, keep) in [("", TTL), ("1", Duration::ZERO), ("1", Duration::MAX)] {
        let once = world.locks.idempotent(key).keep_for(keep);
        let outcome = once
            .run(|_| async { unreachable!("nothing may be done") })
            .await;
        let Err::<_, IdempotentError<&str>>(IdempotentError::Lock(RunError::Failed(error))) =
            outcome
        else {
            panic!("{outcome:?}");
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

/// The work is done and its result stored, but nobody learns of the latter: it is not done a second time, neither if the
/// store answers again nor if it never does.
#[tokio::test]
async fn work_whose_result_was_stored_unseen_is_not_done_again() {
    for replies_lost in [1, 10_000] {
        let world = TroubledWorld::new();
        world
            .store
            .plan("renew", &vec![Trouble::ReplyLost; replies_lost]);
        let runs = Arc::new(AtomicUsize::new(0));
        let call = || {
            let (once, runs) = (world.locks.idempotent("1"), runs.clone());
            tokio::spawn(async move {
                once.run(|_| async move {
                    Ok::<_, &str>(format!("run {}", runs.fetch_add(1, Ordering::SeqCst)))
                })
                .await
            })
        };
        let first = call();
        world.pass(2 * TTL).await;
        match first.await.unwrap() {
            Ok(found) => assert_eq!((replies_lost, found), (1, answer("run 0", true))),
            Err(IdempotentError::NotStored { value, .. }) => {
                assert_eq!((replies_lost, &*value), (10_000, "run 0"))
            }
            Err(other) => panic!("{other:?}"),
        }
        let second = call();
        world.pass(TTL).await;
        assert_eq!(second.await.unwrap().unwrap(), answer("run 0", false));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// A store that hangs while the result is to be stored does not hang its caller for ever.
#[tokio::test]
async fn a_result_that_cannot_be_stored_is_returned_with_the_loss_of_the_lock() {
    let world = TroubledWorld::new();
    world.store.always("renew", Trouble::Hangs);
    let call = tokio::spawn({
        let once = world.locks.idempotent("1");
        async move {
            once.run(|_| async { Ok::<_, &str>("done".to_owned()) })
                .await
        }
    });
    world.pass(2 * TTL).await;
    let outcome = call.await.unwrap();
    assert!(
        matches!(&outcome, Err(IdempotentError::NotStored { value, error })
            if value == "done" && error.effect() == Effect::Unknown),
        "{outcome:?}"
    );
}
