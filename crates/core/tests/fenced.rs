//! Fenced resources: whatever comes late, and in whatever order, is refused where it arrives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common_world;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::blocking::Locks;
use leasehold_core::fenced::{Applied, FencedResource, Gate, Stale};
use leasehold_core::memory::Memory;
use leasehold_core::{ErrorKind, LostCause, ManualClock, Name, Result, Token};
use proptest::collection::vec;
use proptest::prelude::*;

use common_world::{TTL, builder};

/// What got through a gate, in order.
type Log = Vec<(Name, Token)>;

fn name(key: &str) -> Name {
    Name::new("orders", key).unwrap()
}

/// Writes itself down if it is let in.
fn arrive(gate: &Gate<Log>, name: &Name, token: Token) -> Applied<()> {
    gate.apply(name, token, |log| log.push((name.clone(), token)))
}

/// No name has a token after a larger one.
fn never_decreases(log: &Log) -> bool {
    let mut highest = BTreeMap::new();
    log.iter().all(|(name, token)| {
        let before = highest.insert(name, *token);
        before.is_none_or(|before| before <= *token)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// S4, in every order of arrival: none lower than one that was applied, and nothing else is refused.
    #[test]
    fn whatever_the_order_of_arrival_tokens_never_decrease(
        arrivals in vec((0..3_u8, 0..8_u64), 0..60),
    ) {
        let gate = Gate::new(Log::new());
        let mut highest = BTreeMap::new();
        for (key, token) in arrivals {
            let (name, token) = (name(&key.to_string()), Token::new(token));
            let expected = match highest.get(&key) {
                Some(&highest) if token < highest => {
                    Applied::Stale(Stale { name: name.clone(), token, highest })
                }
                _ => {
                    highest.insert(key, token);
                    Applied::Done(())
                }
            };
            prop_assert_eq!(arrive(&gate, &name, token), expected);
        }
        prop_assert!(gate.read(never_decreases));
    }
}

/// S4: comparing and acting are one step, so that no thread gets in between.
#[test]
fn tokens_of_many_threads_never_decrease() {
    const THREADS: u64 = 4;
    const TOKENS: u64 = 65_536;
    let gate = Gate::new(Log::new());
    let names = [name("1"), name("2")];
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gate, names, start) = (&gate, &names, &start);
            scope.spawn(move || {
                start.wait();
                for turn in 0..TOKENS {
                    // Every thread has an order of its own, and all stay close to each other.
                    let token = Token::new(turn ^ (thread * 5));
                    let _ = arrive(gate, &names[turn as usize % 2], token);
                }
            });
        }
    });
    gate.read(|log| {
        assert!(never_decreases(log));
        assert!(log.len() > TOKENS as usize / 16, "hardly any got in");
    });
    let highest = names.map(|name| gate.highest(&name));
    assert_eq!(highest, [Some(Token::new(TOKENS - 1)); 2]);
}

/// A holder that stops after it has made sure that the lock is its own, and writes once it is told to go on.
fn paused_holder(locks: &Locks, gate: &Gate<u32>, paused: &Sender<Token>, go: &Receiver<()>) {
    let guard = locks.lock("1").acquire().unwrap();
    let seen = gate.apply(guard.name(), guard.token(), |stock| *stock);
    let seen = seen.done().unwrap();
    guard.check().unwrap();
    paused.send(guard.token()).unwrap();
    go.recv().unwrap();

    // The first half: the resource refuses, although nobody asked the guard.
    let late = gate.apply(guard.name(), guard.token(), |stock| *stock = seen - 1);
    let stale = late.done().unwrap_err();
    assert_eq!(stale.token, guard.token());
    assert!(stale.highest > guard.token());

    // The second half: whoever asks the guard is told before it tries.
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    let error = guard.release().unwrap_err();
    assert!(matches!(error.lost_cause(), Some(LostCause::Expired)));
}

/// S4, F3: paused between its check and its write, for longer than its lease.
#[test]
fn the_late_write_of_a_paused_holder_is_refused() {
    let clock = ManualClock::new();
    let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let manager = || builder(&store, &clock).build_blocking().unwrap();
    let (slow, quick) = (manager(), manager());
    let gate = Gate::new(10);
    let (paused, is_paused) = channel();
    let (go, may_go) = channel();

    thread::scope(|scope| {
        let gate = &gate;
        scope.spawn(move || paused_holder(&slow, gate, &paused, &may_go));
        let first = is_paused.recv().unwrap();
        clock.advance(TTL + Duration::from_millis(1));

        let guard = quick.lock("1").acquire().unwrap();
        assert!(guard.token() > first);
        let sold = gate.apply(guard.name(), guard.token(), |stock| *stock -= 3);
        assert_eq!(sold, Applied::Done(()));
        guard.release().unwrap();
        go.send(()).unwrap();
    });
    assert_eq!(gate.read(|stock| *stock), 7);
}

/// A resource that can be asked for two things.
struct Till(Gate<i64>);

struct Deposit(i64);

struct Look;

#[async_trait]
impl FencedResource<Deposit> for Till {
    type Output = ();

    async fn apply(&self, name: &Name, token: Token, deposit: Deposit) -> Result<Applied<()>> {
        Ok(self.0.apply(name, token, |sum| *sum += deposit.0))
    }
}

#[async_trait]
impl FencedResource<Look> for Till {
    type Output = i64;

    async fn apply(&self, name: &Name, token: Token, _look: Look) -> Result<Applied<i64>> {
        Ok(self.0.apply(name, token, |sum| *sum))
    }
}

#[tokio::test]
async fn a_resource_is_used_behind_a_pointer_and_for_several_things() {
    let till = Arc::new(Till(Gate::new(5)));
    let deposits: Arc<dyn FencedResource<Deposit, Output = ()>> = till.clone();
    let looks: Arc<dyn FencedResource<Look, Output = i64>> = till;
    let (name, [old, new]) = (name("1"), [33, 34].map(Token::new));

    let first = deposits.apply(&name, old, Deposit(2)).await.unwrap();
    assert_eq!(first, Applied::Done(()));
    let seen = looks.apply(&name, new, Look).await.unwrap();
    assert_eq!(seen, Applied::Done(7));
    let late = deposits.apply(&name, old, Deposit(1)).await.unwrap();
    assert!(matches!(late, Applied::Stale(Stale { highest, .. }) if highest == new));
}
