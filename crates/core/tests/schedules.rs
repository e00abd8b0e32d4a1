//! The lock layer under schedules picked by a seed, and under some picked by hand.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it did"
)]

mod common;
#[path = "common/explorer.rs"]
mod explorer;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    Can, SETTLED, TTL, Task, World, Yielding, builder, effort, others_run, poll_once, run,
};
use explorer::{Outcome, Plan, explore};
use leasehold_core::lock::{CancellationToken, LockEvent, NotAcquired, Scope, State};
use leasehold_core::{Clock, ErrorKind, Guard, Lock, Result};

fn plan(can: Can, seed: u64) -> Plan {
    Plan {
        can,
        tasks: 2 + (seed % 4) as usize,
        rounds: 2 + (seed / 4 % 2) as usize,
        forcing: seed.is_multiple_of(3),
        jumping: seed.is_multiple_of(5),
        hooked: seed.is_multiple_of(2),
    }
}

/// Runs this many schedules, times the effort, and says which seed breaks a promise.
fn explore_all(can: Can, schedules: u64) {
    let mut total = Outcome::default();
    let count = schedules * effort() as u64;
    for seed in 0..count {
        match explore(seed, plan(can, seed)) {
            Ok(outcome) => {
                total.steps += outcome.steps;
                total.acquired += outcome.acquired;
                total.cancelled += outcome.cancelled;
            }
            Err(wrong) => panic!("{wrong}"),
        }
    }
    let Outcome {
        steps,
        acquired,
        cancelled,
        ..
    } = total;
    println!(
        "{can:?}: {count} schedules, {steps} steps, {acquired} acquisitions, {cancelled} cancellations"
    );
}

/// S1, S2, S3, S5, L2, L3, L5: waiters, renewing holders, cancellations, expiry and force, in any order.
#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_queues() {
    explore_all(Can::Queue, 10_000);
}

#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_only_tells() {
    explore_all(Can::Watch, 5_000);
}

#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_neither_queues_nor_tells() {
    explore_all(Can::Neither, 2_000);
}

/// S13: several names are taken one by one, and given back if one is refused.
#[test]
fn no_schedule_breaks_a_promise_on_a_store_that_takes_one_name_at_a_time() {
    explore_all(Can::OneByOne, 3_000);
}

/// A seed that is printed can be run again.
#[test]
fn a_seed_gives_the_same_schedule_again() {
    for can in [Can::Queue, Can::Watch] {
        for seed in 0..250 {
            let once = explore(seed, plan(can, seed));
            let again = explore(seed, plan(can, seed));
            assert_eq!(once, again, "seed {seed}");
        }
    }
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Somebody who waits as long as it takes, polled by hand.
fn waiting(lock: Lock) -> Task<Result<Guard>> {
    Box::pin(async move { lock.acquire().await })
}

/// Polls until the future neither is done nor has anything to do but wait.
async fn poll_until_idle<T>(future: &mut Task<T>) -> Option<T> {
    for _ in 0..12 {
        let done = poll_once(future).await;
        if done.is_some() {
            return done;
        }
        others_run(4).await;
    }
    None
}

/// L2, pain 12: the name in the way may be another one each time, and the waiter must hear of that one.
#[test]
fn a_wait_for_several_names_hears_of_the_one_that_is_in_the_way_now() {
    run(async {
        for can in [Can::Queue, Can::Watch] {
            let world = World::new(can);
            let a = world.other.lock("a").acquire().await.unwrap();
            let mut both = waiting(world.locks.all(["a", "b"]));
            assert!(poll_until_idle(&mut both).await.is_none());
            let b = world.other.lock("b").acquire().await.unwrap();
            a.release().await.unwrap();
            assert!(poll_until_idle(&mut both).await.is_none());
            b.release().await.unwrap();
            let both = poll_until_idle(&mut both).await;
            assert!(
                both.is_some(),
                "{can:?}: nobody holds a or b, and the waiter was not told"
            );
        }
    });
}

/// S2, S3, etcd #11456: a grant that was told while the waiter asked again may be over by the time of the answer.
#[test]
fn a_grant_that_is_older_than_the_last_answer_is_not_believed() {
    run(async {
        let world = World::new(Can::Queue);
        let first = world.other.lock("a").renewing().acquire().await.unwrap();
        let mut waiter = waiting(world.locks.lock("a"));
        assert!(poll_until_idle(&mut waiter).await.is_none());
        let mut next = waiting(world.other.lock("a"));
        assert!(poll_until_idle(&mut next).await.is_none());
        assert_eq!(world.tickets("a"), 2);
        // It is time to renew the ticket: the request is on its way, and has not arrived.
        world.clock.advance(TTL / 3);
        others_run(SETTLED).await;
        assert!(poll_once(&mut waiter).await.is_none());
        // Meanwhile the ticket becomes a grant, which is ended at once; the next in line has the lock.
        first.release().await.unwrap();
        assert_eq!(
            world
                .other
                .force_release("a", "a test")
                .await
                .unwrap()
                .len(),
            1
        );
        let next = poll_until_idle(&mut next).await.unwrap().unwrap();
        // The request arrives: a new ticket. The old grant must not be taken for the answer.
        if let Some(guard) = poll_until_idle(&mut waiter).await {
            let (ours, theirs) = (guard.unwrap(), next.token());
            let believes = ours.is_held() && next.is_held();
            panic!(
                "{} was taken for granted beside {theirs}, both held: {believes}",
                ours.token()
            );
        }
        next.release().await.unwrap();
        poll_until_idle(&mut waiter)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
        world.settle().await;
        assert_eq!(world.leftovers(&["a"]), Vec::<String>::new());
    });
}

/// S1, G-15: reentry gives what the scope has, not more.
#[test]
fn a_scope_that_reads_is_not_let_in_as_a_writer() {
    run(async {
        let world = World::new(Can::Queue);
        let (one, two) = (Scope::new(), Scope::new());
        let _reads = world
            .locks
            .lock("a")
            .shared()
            .scope(&one)
            .acquire()
            .await
            .unwrap();
        let _also = world
            .locks
            .lock("a")
            .shared()
            .scope(&two)
            .acquire()
            .await
            .unwrap();
        for scope in [&one, &two] {
            let writer = world.locks.lock("a").scope(scope).try_acquire().await;
            assert!(
                !matches!(writer, Ok(Some(_))),
                "an exclusive guard beside another reader"
            );
        }
        let one_of_three = world.locks.semaphore("gpu", 3);
        let _holds = one_of_three.clone().scope(&one).acquire().await.unwrap();
        let more = one_of_three.units(2).scope(&one).try_acquire().await;
        assert!(!matches!(more, Ok(Some(_))), "two units by way of one");
    });
}

/// S11: a view is told of good news as well.
#[test]
fn who_waits_for_another_state_hears_that_the_danger_is_over() {
    run(async {
        let world = World::new(Can::Queue);
        let guard = world.locks.lock("a").acquire().await.unwrap();
        world.clock.advance(26 * SECOND);
        assert_eq!(guard.state(), State::AtRisk);
        let view = guard.held();
        let change = tokio::spawn(async move { view.state_after(&State::AtRisk).await });
        others_run(SETTLED).await;
        guard.extend(TTL).await.unwrap();
        others_run(SETTLED).await;
        assert!(
            change.is_finished(),
            "the lease is safe again, and nobody said so"
        );
        assert_eq!(guard.state(), State::Held);
    });
}

/// S15: the number of locks held does not depend on who still looks at one that is gone.
#[test]
fn a_view_of_a_released_lock_is_not_counted_as_held() {
    run(async {
        let world = World::new(Can::Queue);
        let guard = world.locks.lock("a").acquire().await.unwrap();
        let view = guard.held();
        guard.release().await.unwrap();
        assert_eq!(view.state(), State::Released);
        assert_eq!(world.locks.held(), 0);
    });
}

/// S2: the belief ends before the request leaves that ends the lease.
#[test]
fn a_view_does_not_believe_in_a_lease_that_is_being_released() {
    run(async {
        let world = World::new(Can::Queue);
        let guard = world.locks.lock("a").acquire().await.unwrap();
        let view = guard.held();
        let mut release: Task<Result<()>> = Box::pin(async move { guard.release().await });
        // The request has arrived, and its answer is on the way back.
        assert!(poll_once(&mut release).await.is_none() && poll_once(&mut release).await.is_none());
        assert_eq!(world.grants("a"), 0);
        let next = world.other.lock("a").try_acquire().await.unwrap().unwrap();
        assert!(
            !(view.is_held() && next.is_held()),
            "two believe to hold it"
        );
        poll_until_idle(&mut release).await.unwrap().unwrap();
    });
}

/// L7: no grant is acknowledged after the manager was shut down.
#[test]
fn nobody_gets_a_lock_from_a_manager_that_was_shut_down() {
    run(async {
        for polls in 1..4 {
            let world = World::new(Can::Queue);
            let mut taking = waiting(world.locks.lock("a"));
            // The first poll of a call that is not answered at once is two.
            for _ in 0..polls.min(1) {
                assert!(poll_once(&mut taking).await.is_none());
            }
            world.locks.shutdown(SECOND).await.unwrap();
            let taken = poll_until_idle(&mut taking).await;
            let kind = taken.map(|taken| taken.map_err(|error| error.kind()));
            assert!(
                matches!(kind, Some(Err(ErrorKind::Closed))),
                "after {polls} polls: {kind:?}"
            );
            world.settle().await;
            assert_eq!(world.leftovers(&["a"]), Vec::<String>::new());
        }
    });
}

/// How long after its deadline of one second a wait ends, if this verb of the store does not answer.
async fn overrun(can: Can, frozen: &'static str, wait: Duration) -> Option<Duration> {
    let world = World::new(can);
    let _held = world.other.lock("a").acquire().await.unwrap();
    let lock = world.locks.lock("a");
    let mut waiter: Task<Result<Guard>> = Box::pin(async move { lock.acquire_within(wait).await });
    // The first refusal is still answered, unless there is no time for more than one try.
    for _ in 0..if wait.is_zero() { 0 } else { 3 } {
        assert!(poll_once(&mut waiter).await.is_none());
    }
    world.store.freeze(frozen);
    let deadline = world.clock.now().after(wait);
    for _ in 0..200 {
        if poll_until_idle(&mut waiter).await.is_some() {
            return Some(world.clock.now().since(deadline));
        }
        world.clock.advance(10 * MS);
    }
    None
}

/// L2, L6: every wait ends by its deadline and a tenth of a second, whatever the store does.
#[test]
fn a_wait_ends_in_time_if_the_store_does_not_answer() {
    run(async {
        let mut late = Vec::new();
        for (can, verb) in [
            (Can::Queue, "acquire"),
            (Can::Watch, "acquire"),
            (Can::Neither, "acquire"),
            (Can::Queue, "watch"),
            (Can::Watch, "watch"),
        ] {
            let overrun = overrun(can, verb, SECOND).await;
            if overrun.is_none_or(|overrun| overrun > 100 * MS) {
                late.push(format!("{verb} on {can:?}: {overrun:?}"));
            }
        }
        assert!(late.is_empty(), "{late:?}");
    });
}

/// T0-19, L7: cancelling and closing answer everybody who waits, also if the store does not.
#[test]
fn a_wait_can_be_cancelled_and_closed_if_the_store_does_not_answer() {
    run(async {
        let mut deaf = Vec::new();
        for (can, verb) in [
            (Can::Queue, "acquire"),
            (Can::Queue, "watch"),
            (Can::Watch, "watch"),
        ] {
            for close in [false, true] {
                let world = World::new(can);
                let _held = world.other.lock("a").acquire().await.unwrap();
                let cancel = CancellationToken::new();
                let mut waiter = waiting(world.locks.lock("a").cancelled_by(cancel.clone()));
                for _ in 0..3 {
                    assert!(poll_once(&mut waiter).await.is_none());
                }
                world.store.freeze(verb);
                assert!(poll_until_idle(&mut waiter).await.is_none());
                if close {
                    world.locks.close()
                } else {
                    cancel.cancel()
                }
                if poll_until_idle(&mut waiter).await.is_none() {
                    deaf.push((can, verb, if close { "close" } else { "cancel" }));
                }
            }
        }
        assert!(deaf.is_empty(), "{deaf:?}");
    });
}

/// Section 10 of the design: a request that was refused for what it asks was not cancelled.
#[test]
fn hooks_hear_why_an_acquisition_failed() {
    run(async {
        let world = World::new(Can::Queue);
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = heard.clone();
        let store = Arc::new(Yielding::new(&world.clock, Can::Queue).without_quantities());
        let locks = builder(&store, &world.clock)
            .on_event(move |event| {
                if let LockEvent::NotAcquired { why, .. } = event {
                    let failed = matches!(why, NotAcquired::Failed(_));
                    sink.lock()
                        .unwrap()
                        .push(if failed { "failed" } else { "something else" }.to_owned());
                }
            })
            .build()
            .unwrap();
        assert_eq!(
            locks.lock("a").shared().acquire().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            locks
                .lock("a")
                .shared()
                .try_acquire()
                .await
                .unwrap_err()
                .kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(*heard.lock().unwrap(), ["failed", "failed"]);
    });
}

/// Redisson: one lease that is renewed in a hurry must not cost another its renewal.
#[test]
fn a_short_lease_does_not_cost_a_long_one_its_renewal() {
    run(async {
        let world = World::new(Can::Queue);
        let long = world.locks.lock("a").renewing().acquire().await.unwrap();
        world.store.slow_down_renewal(60 * MS);
        let mut short = Vec::new();
        for at in 0..350 {
            // There is always a short lease to be renewed, which such a store cannot keep.
            short.truncate(2);
            let next = world.locks.lock(format!("short {at}"));
            short.insert(0, next.ttl(300 * MS).renewing().acquire().await.unwrap());
            for _ in 0..10 {
                others_run(4).await;
                world.clock.advance(10 * MS);
            }
            others_run(4).await;
        }
        assert!(long.is_held(), "the long lease was lost");
    });
}
