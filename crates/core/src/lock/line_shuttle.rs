//! The local line under many thread schedules: `RUSTFLAGS="--cfg shuttle" cargo test --lib shuttle_tests`.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use super::{Line, Place, Signal};
use crate::backend::{Event, What};
use crate::clock::Timestamp;
use crate::holder::{Holder, HolderDigest};
use crate::lease::{Lease, Token};
use crate::name::Name;

/// Schedules per test.
const SCHEDULES: usize = 12_500;

fn name(key: &str) -> Name {
    Name::new("n", key).unwrap()
}

/// A holder that is the same in every schedule.
fn holder(id: usize) -> HolderDigest {
    Holder::from_secret([u8::try_from(id).unwrap(); 16]).digest()
}

fn granted(holder: HolderDigest, name: &Name) -> Event {
    let lease = Lease {
        name: name.clone(),
        token: Token::new(1),
        expires_at: Timestamp::from_millis(1),
        ttl: std::time::Duration::from_secs(1),
    };
    Event {
        name: name.clone(),
        what: What::Granted { holder, lease },
    }
}

fn join(line: &Line, id: usize) -> Place<'_> {
    line.join(&name("k"), holder(id))
}

fn assert_empty(line: &Line) {
    assert_eq!(line.waiters(), 0);
    for shard in &line.shards {
        assert!(super::lock(shard).is_empty());
    }
}

/// L2, L5: everybody gets a turn, one at a time, also if some give up while they wait or while it is their turn.
#[test]
fn everybody_gets_a_turn_and_one_at_a_time() {
    let check = || {
        let line = Arc::new(Line::default());
        let inside = Arc::new(AtomicUsize::new(0));
        let waiters = (0..4).map(|id| {
            let (line, inside) = (line.clone(), inside.clone());
            thread::spawn(move || {
                let place = join(&line, id);
                if id == 0 {
                    return; // gives up, whether or not it has its turn
                }
                block_on(place.turn());
                assert_eq!(
                    inside.fetch_add(1, Ordering::SeqCst),
                    0,
                    "two have their turn"
                );
                inside.fetch_sub(1, Ordering::SeqCst);
                if id == 1 {
                    drop(place);
                } else {
                    place.served();
                }
            })
        });
        let waiters: Vec<_> = waiters.collect();
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
        assert_empty(&line);
    };
    shuttle::check_random(check, SCHEDULES);
    shuttle::check_pct(check, SCHEDULES, 3);
}

/// Redisson #5761: a grant or a hint that comes while the waiter goes to sleep wakes it.
#[test]
fn no_signal_is_lost() {
    let check = || {
        let line = Arc::new(Line::default());
        let place = join(&line, 0);
        let granter = thread::spawn({
            let line = line.clone();
            move || line.deliver(granted(holder(0), &name("k")))
        });
        let hinter = thread::spawn({
            let line = line.clone();
            move || line.hint(&name("k"))
        });
        while !matches!(block_on(place.signal()), Signal::Granted(_)) {}
        drop(place);
        granter.join().unwrap();
        hinter.join().unwrap();
        assert_empty(&line);
    };
    shuttle::check_random(check, SCHEDULES);
}

/// Waiters beside the line come, look elsewhere and go while hints are delivered; nothing is left.
#[test]
fn onlookers_come_and_go() {
    let check = || {
        let line = Arc::new(Line::default());
        let threads: Vec<_> = (0..3)
            .map(|id| {
                let line = line.clone();
                thread::spawn(move || match id {
                    0 => {
                        let mut place = line.stand_aside(holder(0));
                        place.look_at(&name("k"));
                        place.look_at(&name("l"));
                    }
                    1 => drop(join(&line, 1)),
                    _ => ["k", "l"].iter().for_each(|key| line.hint(&name(key))),
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_empty(&line);
    };
    shuttle::check_random(check, SCHEDULES);
}
