//! How a store ends.

use std::sync::Arc;

use leasehold_core::backend::Acquired;
use leasehold_core::{Backend as _, Clock as _, Holder, Result, SystemClock};
use leasehold_file::{File, Sync};

use crate::FIRST;
use crate::worker::books::Books;
use crate::worker::requests::{
    Site, acquire, is_free, look, millis, name, release, seconds, soon, take,
};

/// Somebody who has the store only as long as the call takes.
async fn call(store: Arc<File>, key: String) -> Result<Acquired> {
    let request = acquire(&name(&key), &Holder::random(), seconds(30));
    store.acquire(&request).await
}

/// L7.
#[tokio::test]
async fn who_waits_while_the_store_is_let_go_is_answered_and_what_was_granted_is_there() {
    let site = Site::new();
    let store = Arc::new(site.open(FIRST).await);
    let calls: Vec<_> = (0..32)
        .map(|at| tokio::spawn(call(store.clone(), format!("k{at}"))))
        .collect();
    tokio::task::yield_now().await;
    drop(store);
    for waiting in calls {
        let answer = soon("acquire", waiting).await.unwrap().unwrap();
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    }
    let store = site.open(FIRST).await;
    for at in 0..32 {
        assert!(!is_free(&store, &name(&format!("k{at}"))).await);
    }
}

/// The runtime ends with calls under way; the file is closed all the same, with nothing half done in it.
#[test]
fn a_runtime_that_ends_in_the_middle_of_calls_leaves_a_file_that_can_be_opened() {
    let site = Site::new();
    for round in 0..10 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        let store = Arc::new(runtime.block_on(site.open(FIRST)));
        for at in 0..32 {
            runtime.spawn(call(store.clone(), format!("k{round}-{at}")));
        }
        drop(store);
        drop(runtime);
        Books::read(&site.path()).assert_right();
    }
}

#[tokio::test]
async fn a_file_can_be_opened_again_the_moment_its_store_is_dropped() {
    for sync in [
        Sync::Always,
        Sync::Every(seconds(60)),
        Sync::Every(millis(1)),
    ] {
        let site = Site::with(sync);
        let k = name("k");
        drop(site.open(FIRST).await);
        for _ in 0..10 {
            let store = site.open(FIRST).await;
            let me = Holder::random();
            let request = acquire(&k, &me, seconds(30));
            // Whether or not its answer is waited for.
            let begun = store.acquire(&request);
            tokio::select! {
                biased;
                _ = begun => {}
                () = tokio::task::yield_now() => {}
            }
            drop(store);
            let store = site.open(FIRST).await;
            site.clock.advance(seconds(30));
            drop(store);
        }
        Books::read(&site.path()).assert_right();
    }
}

/// L7: what was acknowledged before the disk followed is there after an orderly end.
#[tokio::test]
async fn an_orderly_end_loses_nothing_however_late_the_disk_is() {
    let site = Site::with(Sync::Every(millis(500)));
    let store = site.open(FIRST).await;
    let me = Holder::random();
    for at in 0..20 {
        take(&store, &name(&format!("k{at}")), &me, seconds(30)).await;
    }
    let begun = SystemClock.now();
    drop(store);
    let took = SystemClock.now().since(begun);
    assert!(took < millis(400), "closing took {took:?}");
    let store = site.open(FIRST).await;
    for at in 0..20 {
        assert!(!is_free(&store, &name(&format!("k{at}"))).await, "k{at}");
    }
}

/// L5: a caller that goes away in the middle is nobody's trouble.
#[tokio::test]
async fn a_caller_that_goes_away_keeps_nobody_waiting() {
    let site = Site::new();
    let store = site.open(FIRST).await;
    for at in 0..50 {
        let (k, me) = (name(&format!("k{at}")), Holder::random());
        let request = acquire(&k, &me, seconds(30));
        for polls in 0..3 {
            let mut left = polls;
            let gone = std::future::poll_fn(|context| {
                if left == 0 {
                    return std::task::Poll::Ready(());
                }
                left -= 1;
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            });
            tokio::select! {
                biased;
                _ = store.acquire(&request) => {}
                () = gone => {}
            }
        }
        let lease = take(&store, &k, &me, seconds(30)).await;
        assert_eq!(look(&store, &k).await.unwrap().grants.len(), 1);
        release(&store, &lease, &me).await;
    }
}
