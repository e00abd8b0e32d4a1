//! A text that is changed only by who has seen its latest version.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use leasehold_conformance::FaultBackend;
use leasehold_conformance::fault::Faults;
use leasehold_core::backend::{Acquire, Names};
use leasehold_core::memory::Memory;
use leasehold_core::versioned::{Versioned, Write};
use leasehold_core::{Backend, ErrorKind, Holder, Metadata, Name, Owner, Ttl};

fn cell(store: Arc<dyn Backend>) -> Versioned {
    Versioned::new(store, "n", "k").unwrap()
}

fn done(write: Write) -> leasehold_core::versioned::Snapshot {
    match write {
        Write::Done(now) => now,
        Write::Changed => panic!("it had changed"),
    }
}

/// S2-18: who has seen an old version writes nothing.
#[tokio::test]
async fn only_who_has_seen_the_latest_version_writes() {
    let cell = cell(Arc::new(Memory::new()));
    assert_eq!(cell.read().await.unwrap(), None);
    let first = done(cell.create("one").await.unwrap());
    assert_eq!(cell.create("uno").await.unwrap(), Write::Changed);
    let second = done(cell.replace(&first, "two").await.unwrap());
    assert_ne!(first.version(), second.version());
    assert_eq!(cell.replace(&first, "dos").await.unwrap(), Write::Changed);
    assert_eq!(cell.read().await.unwrap(), Some(second));
}

/// S2-18: a text that comes back has another version.
#[tokio::test]
async fn the_same_text_again_is_another_version() {
    let cell = cell(Arc::new(Memory::new()));
    let a = done(cell.create("a").await.unwrap());
    let b = done(cell.replace(&a, "b").await.unwrap());
    let again = done(cell.replace(&b, "a").await.unwrap());
    assert_ne!(a.version(), again.version());
    assert_eq!(cell.replace(&a, "c").await.unwrap(), Write::Changed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_updates_all_count_once() {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let cell = cell(store.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let more = |seen: Option<&str>| {
                        let count: u32 = seen.map_or(0, |text| text.parse().unwrap());
                        (count + 1).to_string()
                    };
                    cell.update(more).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(cell(store).read().await.unwrap().unwrap().text(), "400");
}

/// A write that arrives twice, as after a retry, is done once and answered the same.
#[tokio::test]
async fn a_write_that_arrives_twice_is_done_once() {
    let twice = Faults {
        duplicate: 1.0,
        ..Faults::NONE
    };
    let cell = cell(Arc::new(FaultBackend::random(Memory::new(), twice)));
    let first = done(cell.create("one").await.unwrap());
    let second = done(cell.replace(&first, "two").await.unwrap());
    assert_eq!(cell.read().await.unwrap(), Some(second));
}

#[tokio::test]
async fn what_cannot_be_a_text_or_a_name_is_refused() {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let kind = |error: leasehold_core::Error| error.kind();
    let bad_name = Versioned::new(store.clone(), "", "k").unwrap_err();
    assert_eq!(kind(bad_name), ErrorKind::InvalidInput);
    let long = "x".repeat(Metadata::MAX_BYTES + 1);
    let too_long = cell(store.clone()).create(&long).await.unwrap_err();
    assert_eq!(kind(too_long), ErrorKind::InvalidInput);
    let lock = Acquire::new(
        Names::one(Name::new("n", "k").unwrap()),
        Holder::random(),
        Owner::this_process(),
        Ttl::from_millis(60_000).unwrap(),
    );
    store.acquire(&lock).await.unwrap();
    let locked = cell(store).create("x").await.unwrap_err();
    assert_eq!(kind(locked), ErrorKind::Conflict);
}
