//! What a record knows is there after reopening.

use std::sync::{Arc, Mutex};

use leasehold_core::backend::{
    Acquired, CapacitySet, Confirm, Confirmed, Event, Inbox, InboxId, List, Release, Released,
    Renewed, SetCapacity, Sweep, What,
};
use leasehold_core::{
    Backend as _, Clock as _, Ending, Holder, Kind, Lease, Metadata, Owner, Record, SystemClock,
    Timestamp, Units,
};
use leasehold_file::File;

use crate::worker::books::Books;
use crate::worker::requests::{
    Site, acquire, look, millis, name, queue, release, renew, seconds, soon, sweep, take, try_take,
};
use crate::{FIRST, SECOND};

const KEYS: [&str; 9] = [
    "held", "shared", "queued", "delayed", "claimed", "stock", "ended", "forced", "expired",
];

fn units(units: u32) -> Units {
    Units::new(units).unwrap()
}

async fn reserve(store: &File, key: &str, holder: &Holder) -> Lease {
    let request = acquire(&name(key), holder, seconds(100)).kind(Kind::Reservation);
    let request = request.units(Units::MIN, Units::MIN);
    try_take(store, &request).await.unwrap()
}

async fn confirm(store: &File, lease: &Lease, holder: &Holder) -> Confirmed {
    let request = Confirm::new(lease.name.clone(), lease.token, holder.clone(), "order-1");
    soon("confirm", store.confirm(&request.unwrap()))
        .await
        .unwrap()
}

/// One record of every sort.
async fn furnish(site: &Site, store: &File) {
    furnish_ended(site, store).await;
    let me = Holder::random();
    let text = Metadata::new("a note, größer als nichts").unwrap();
    let request = acquire(&name("held"), &me, seconds(100)).metadata(Some(text));
    try_take(store, &request).await.unwrap();
    for _ in 0..2 {
        let request = acquire(&name("shared"), &Holder::random(), seconds(100)).shared();
        try_take(store, &request).await.unwrap();
    }
    take(store, &name("queued"), &me, seconds(100)).await;
    for waiter in 0..2 {
        let inbox = Inbox::new(|_| {});
        let ttl = seconds(200 + waiter);
        queue(store, &name("queued"), &Holder::random(), ttl, &inbox).await;
    }
    let lease = reserve(store, "claimed", &me).await;
    confirm(store, &lease, &me).await;
    let capacity = SetCapacity {
        name: name("stock"),
        units: Some(5),
        expect_version: Some(0),
    };
    store.set_capacity(&capacity).await.unwrap();
    let lease = reserve(store, "stock", &me).await;
    confirm(store, &lease, &me).await;
    let request = acquire(&name("stock"), &Holder::random(), seconds(100));
    let request = request.kind(Kind::Reservation).units(units(2), units(9));
    try_take(store, &request).await.unwrap();
}

/// Records of which something has ended.
async fn furnish_ended(site: &Site, store: &File) {
    let me = Holder::random();
    let request = acquire(&name("delayed"), &me, millis(5));
    let request = request.lock_delay(seconds(100)).unwrap();
    try_take(store, &request).await.unwrap();
    take(store, &name("expired"), &me, millis(5)).await;
    site.clock.advance(millis(5));
    sweep(store).await;
    let lease = take(store, &name("ended"), &me, seconds(100)).await;
    release(store, &lease, &me).await;
    take(store, &name("forced"), &me, seconds(100)).await;
    let force = Release::force(name("forced"), None, Owner::new("boss").unwrap(), "because");
    store.release(&force.unwrap()).await.unwrap();
}

async fn look_at_all(store: &File) -> Vec<Option<Record>> {
    let mut all = Vec::new();
    for key in KEYS {
        all.push(look(store, &name(key)).await);
    }
    all
}

async fn list_all(store: &File) -> Vec<Record> {
    let page = soon("list", store.list(&List::all())).await.unwrap();
    page.what.items
}

/// S7.
#[tokio::test]
async fn every_record_is_the_same_after_reopening() {
    let site = Site::new();
    let store = site.open(FIRST).await;
    furnish(&site, &store).await;
    let (records, list) = (look_at_all(&store).await, list_all(&store).await);
    assert!(records.iter().all(Option::is_some));
    drop(store);
    Books::read(&site.path()).assert_right();
    let store = site.open(FIRST).await;
    assert_eq!(look_at_all(&store).await, records);
    assert_eq!(list_all(&store).await, list);
}

/// What is left of a record without the moments, which another start may move.
fn timeless(record: Option<Record>) -> Record {
    let mut record = record.unwrap();
    assert!(record.version > 0);
    record.version = 0;
    let moment = Timestamp::from_millis(0);
    record
        .grants
        .iter_mut()
        .for_each(|grant| grant.expires_at = moment);
    if !record.tickets.is_empty() {
        let tickets = record.tickets.make();
        tickets
            .iter_mut()
            .for_each(|ticket| ticket.expires_at = moment);
    }
    record.quarantined_until = record.quarantined_until.map(|_| moment);
    record
}

/// S7, S12: a day later, and yet nothing has run out.
#[tokio::test]
async fn after_a_restart_of_the_machine_every_record_has_what_it_had() {
    let site = Site::new();
    let store = site.open(FIRST).await;
    furnish(&site, &store).await;
    let before = look_at_all(&store).await;
    drop(store);
    site.clock.advance(seconds(24 * 3600));
    let store = site.open(SECOND).await;
    take(&store, &name("other"), &Holder::random(), seconds(1)).await;
    let after = look_at_all(&store).await;
    for (before, after) in before.into_iter().zip(after) {
        assert_eq!(timeless(after), timeless(before));
    }
    drop(store);
    Books::read(&site.path()).assert_right();
}

/// An inbox with this address, and what it was told.
fn mailbox(id: u128) -> (Inbox, Arc<Mutex<Vec<Event>>>) {
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let sink = seen.clone();
    let deliver = move |event| sink.lock().unwrap().push(event);
    (Inbox::with_id(InboxId::new(id), deliver), seen)
}

/// The lease that was handed to this holder, if its inbox was told.
fn handed(seen: &Mutex<Vec<Event>>, to: &Holder) -> Option<Lease> {
    let seen = seen.lock().unwrap();
    seen.iter().find_map(|event| match &event.what {
        What::Granted { holder, lease } if *holder == to.digest() => Some(lease.clone()),
        _ => None,
    })
}

/// The same, but events may come a little later than the answer to what caused them.
async fn told(seen: &Mutex<Vec<Event>>, to: &Holder) -> Lease {
    soon("an event", async {
        loop {
            if let Some(lease) = handed(seen, to) {
                return lease;
            }
            let later = SystemClock.now().after(millis(1));
            SystemClock.sleep_until(later).await;
        }
    })
    .await
}

/// L3: first come, first served, and told so, across a restart.
#[tokio::test]
async fn the_queue_goes_on_after_reopening() {
    for start in [FIRST, SECOND] {
        let site = Site::new();
        let (k, first, second) = (name("k"), Holder::random(), Holder::random());
        let me = Holder::random();
        let store = site.open(FIRST).await;
        let lease = take(&store, &k, &me, seconds(30)).await;
        let (inbox, _) = mailbox(7);
        queue(&store, &k, &first, seconds(60), &inbox).await;
        queue(&store, &k, &second, seconds(90), &inbox).await;
        drop(store);
        site.clock.advance(seconds(1));
        let store = site.open(start).await;
        let (inbox, seen) = mailbox(7);
        let _watch = store.watch(&inbox, None).await.unwrap();
        assert_eq!(release(&store, &lease, &me).await, Released::Released);
        let one = told(&seen, &first).await;
        assert!(one.token > lease.token);
        assert_eq!(handed(&seen, &second), None);
        assert_eq!(release(&store, &one, &first).await, Released::Released);
        let two = told(&seen, &second).await;
        assert!(two.token > one.token);
    }
}

/// Nobody is there to release it: the sweep hands it over.
#[tokio::test]
async fn a_lease_that_ran_out_while_the_file_was_closed_is_handed_over_after_reopening() {
    let site = Site::new();
    let (k, next) = (name("k"), Holder::random());
    let store = site.open(FIRST).await;
    take(&store, &k, &Holder::random(), seconds(30)).await;
    let (inbox, _) = mailbox(7);
    queue(&store, &k, &next, seconds(60), &inbox).await;
    drop(store);
    site.clock.advance(seconds(30));
    let store = site.open(FIRST).await;
    let (inbox, seen) = mailbox(7);
    let _watch = store.watch(&inbox, None).await.unwrap();
    assert_eq!(sweep(&store).await.expired.len(), 1);
    let lease = told(&seen, &next).await;
    assert_eq!(lease.ttl, seconds(30));
}

/// S9, S10: done before the file was closed, asked again afterwards.
#[tokio::test]
async fn a_repeated_request_gets_the_same_answer_after_reopening() {
    for start in [FIRST, SECOND] {
        let site = Site::new();
        let store = site.open(FIRST).await;
        let me = Holder::random();
        let released = take(&store, &name("released"), &me, seconds(30)).await;
        release(&store, &released, &me).await;
        let confirmed = reserve(&store, "confirmed", &me).await;
        confirm(&store, &confirmed, &me).await;
        let over = take(&store, &name("over"), &me, seconds(1)).await;
        let held = take(&store, &name("held"), &me, seconds(30)).await;
        site.clock.advance(seconds(1));
        sweep(&store).await;
        drop(store);
        site.clock.advance(seconds(2));
        let store = site.open(start).await;
        take(&store, &name("other"), &me, seconds(1)).await;
        assert_eq!(release(&store, &released, &me).await, Released::Released);
        let done = confirm(&store, &confirmed, &me).await;
        assert!(matches!(done, Confirmed::Confirmed(_)), "{done:?}");
        let renewed = renew(&store, &over, &me, seconds(1)).await;
        assert!(
            matches!(&renewed, Renewed::NotHeld(why) if why.ended.as_ref().unwrap().how == Ending::Expired)
        );
        let request = acquire(&name("held"), &me, seconds(30));
        let again = try_take(&store, &request).await.unwrap();
        assert_eq!(again.token, held.token, "taken again, it is the same grant");
    }
}

/// Whoever read a version before must not be told that somebody was there meanwhile.
#[tokio::test]
async fn a_restart_of_the_machine_changes_no_version_of_a_record_that_it_does_not_prolong() {
    let site = Site::new();
    let store = site.open(FIRST).await;
    let me = Holder::random();
    let lease = reserve(&store, "claimed", &me).await;
    let done = confirm(&store, &lease, &me).await;
    drop(store);
    site.clock.advance(seconds(24 * 3600));
    let store = site.open(SECOND).await;
    take(&store, &name("other"), &me, seconds(1)).await;
    let record = look(&store, &name("claimed")).await.unwrap();
    assert_eq!(Confirmed::Confirmed(vec![record.version]), done);
}

#[tokio::test]
async fn a_capacity_counts_after_reopening_and_its_version_is_still_checked() {
    let site = Site::new();
    let store = site.open(FIRST).await;
    let set = |units, version| SetCapacity {
        name: name("stock"),
        units: Some(units),
        expect_version: Some(version),
    };
    let CapacitySet::Set(version) = store.set_capacity(&set(3, 0)).await.unwrap() else {
        panic!("refused");
    };
    drop(store);
    let store = site.open(FIRST).await;
    let ask = |wanted| {
        let request = acquire(&name("stock"), &Holder::random(), seconds(30));
        request
            .kind(Kind::Reservation)
            .units(units(wanted), units(9))
    };
    let four = store.acquire(&ask(4)).await.unwrap();
    assert!(matches!(four, Acquired::Held(_)), "{four:?}");
    let answer = store.set_capacity(&set(9, version + 1)).await.unwrap();
    assert_eq!(answer, CapacitySet::VersionChanged(version));
    assert!(try_take(&store, &ask(3)).await.is_some());
    let page = store.sweep(&Sweep::default()).await.unwrap();
    assert_eq!(page.forgotten, 0);
}
