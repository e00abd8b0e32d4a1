//! Listing records.

use std::collections::BTreeSet;

use leasehold_core::backend::{List, MAX_LIST, Status};
use leasehold_core::{Ending, Kind, Owner};

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            pages_are_complete_ordered_and_without_doubles,
            ["F1-05", "S2-16"],
            List
        ),
        case!(a_list_stays_inside_its_namespace, ["S14"], List),
        case!(a_list_can_be_narrowed_by_key_prefix, ["F1-05"], List),
        case!(a_list_can_be_narrowed_by_owner, ["S2-16"], List),
        case!(a_list_can_be_narrowed_to_what_is_held, ["S2-16"], List),
        case!(a_list_can_be_narrowed_by_end, ["S2-16"], List),
        case!(
            a_list_can_be_narrowed_to_what_is_waited_for,
            ["S2-16"],
            List,
            Queue
        ),
        case!(
            a_list_can_be_narrowed_by_kind_entity_and_claim,
            ["S10"],
            List,
            Reservations
        ),
        case!(
            what_has_ended_is_listed_only_when_asked_for,
            ["S3-12"],
            List,
            Reservations
        ),
        case!(
            what_ran_out_is_seen_as_ended_before_anybody_swept,
            ["S3-10"]
        ),
        case!(a_page_is_never_larger_than_asked_for, ["S15"], List),
        case!(a_list_shows_what_get_shows, ["S4-08"], List),
    ]
}

fn here(s: &Scene) -> List {
    List::namespace(s.namespace())
}

async fn keys(s: &Scene, request: List) -> Vec<String> {
    let records = s.list(request).await;
    records.iter().map(|r| r.name.key().to_owned()).collect()
}

async fn pages_are_complete_ordered_and_without_doubles(s: Scene) {
    let mut wanted = BTreeSet::new();
    for number in 0..23 {
        let name = s.name(&format!("k{number}"));
        s.take(&Party::new("a"), &name).await;
        wanted.insert(name);
    }
    for size in [1, 2, 7, 22, 23, 24, 0] {
        let mut request = here(&s);
        request.limit = size;
        let found: Vec<_> = s.list(request).await.into_iter().map(|r| r.name).collect();
        assert_eq!(
            found,
            wanted.iter().cloned().collect::<Vec<_>>(),
            "pages of {size}"
        );
    }
}

async fn a_list_stays_inside_its_namespace(s: Scene) {
    let near = format!("{}x", s.namespace());
    s.take(&Party::new("a"), &s.name("mine")).await;
    let other = leasehold_core::Name::new(&near, "theirs").unwrap();
    s.take(&Party::new("a"), &other).await;
    assert_eq!(keys(&s, here(&s)).await, ["mine"]);
    assert_eq!(keys(&s, List::namespace(near)).await, ["theirs"]);
}

async fn a_list_can_be_narrowed_by_key_prefix(s: Scene) {
    for key in ["seat", "seat-1", "seat-2", "sea", "tseat"] {
        s.take(&Party::new("a"), &s.name(key)).await;
    }
    let mut request = here(&s);
    request.key_prefix = "seat".to_owned();
    request.limit = 2;
    assert_eq!(keys(&s, request).await, ["seat", "seat-1", "seat-2"]);
}

async fn a_list_can_be_narrowed_by_owner(s: Scene) {
    s.take(&Party::new("one"), &s.name("x")).await;
    s.take(&Party::new("two"), &s.name("y")).await;
    let mut request = here(&s);
    request.owner = Some(Owner::new("two").unwrap());
    assert_eq!(keys(&s, request).await, ["y"]);
}

async fn a_list_can_be_narrowed_to_what_is_held(s: Scene) {
    let a = Party::new("a");
    let gone = s.take(&a, &s.name("gone")).await;
    s.take(&a, &s.name("held")).await;
    s.give_up(&a, &gone).await;
    let mut request = here(&s);
    request.status = Some(Status::Held);
    assert_eq!(keys(&s, request).await, ["held"]);
}

async fn a_list_can_be_narrowed_by_end(s: Scene) {
    let soon = s
        .take_for(&Party::new("a"), &s.name("soon"), s.brief())
        .await;
    let late = s
        .take_for(&Party::new("a"), &s.name("late"), s.long())
        .await;
    assert!(soon.expires_at < late.expires_at);
    let mut request = here(&s);
    request.expires_before = Some(late.expires_at);
    assert_eq!(keys(&s, request.clone()).await, ["soon"]);
    request.expires_before = Some(soon.expires_at);
    assert!(
        keys(&s, request).await.is_empty(),
        "the bound is not included"
    );
}

async fn a_list_can_be_narrowed_to_what_is_waited_for(s: Scene) {
    s.take(&Party::new("a"), &s.name("quiet")).await;
    s.take(&Party::new("a"), &s.name("wanted")).await;
    let waiter = Party::new("waiter");
    s.enqueue(s.ask(&waiter, &s.name("wanted")), Mailbox::new().id())
        .await;
    let mut request = here(&s);
    request.status = Some(Status::Waited);
    assert_eq!(keys(&s, request).await, ["wanted"]);
    let mut request = here(&s);
    request.owner = Some(waiter.owner);
    assert_eq!(keys(&s, request).await, ["wanted"]);
}

async fn a_list_can_be_narrowed_by_kind_entity_and_claim(s: Scene) {
    let a = Party::new("a");
    s.take(&a, &s.name("lock")).await;
    s.reserve(&a, &s.name("reserved")).await;
    s.claim(&a, &s.name("one"), "user-1").await;
    s.claim(&a, &s.name("two"), "user-2").await;
    let mut kind = here(&s);
    kind.kind = Some(Kind::Reservation);
    assert_eq!(keys(&s, kind).await, ["one", "reserved", "two"]);
    let mut confirmed = here(&s);
    confirmed.status = Some(Status::Confirmed);
    assert_eq!(keys(&s, confirmed).await, ["one", "two"]);
    let mut entity = here(&s);
    entity.entity = Some("user-2".to_owned());
    assert_eq!(keys(&s, entity).await, ["two"]);
}

async fn what_has_ended_is_listed_only_when_asked_for(s: Scene) {
    let a = Party::new("a");
    let released = s.reserve(&a, &s.name("released")).await;
    s.give_up(&a, &released).await;
    s.take_for(&a, &s.name("ran-out"), s.brief()).await;
    s.claim(&a, &s.name("confirmed"), "user-1").await;
    s.outlive(s.brief()).await;
    assert_eq!(keys(&s, here(&s)).await, ["confirmed"]);
    let mut ended = here(&s);
    ended.status = Some(Status::Ended);
    assert_eq!(keys(&s, ended).await, ["ran-out", "released"]);
}

async fn what_ran_out_is_seen_as_ended_before_anybody_swept(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take_for(&a, &name, s.brief()).await;
    s.outlive(s.brief()).await;
    let record = s.record(&name).await;
    let end = record.last_end.expect("nobody could forget it so soon");
    assert_eq!((end.how, end.token), (Ending::Expired, lease.token));
    assert_eq!(end.at, lease.expires_at);
}

async fn a_page_is_never_larger_than_asked_for(s: Scene) {
    for number in 0..5 {
        s.take(&Party::new("a"), &s.name(&format!("k{number}")))
            .await;
    }
    let mut request = here(&s);
    request.limit = 3;
    let page = s.backend().list(&request).await.unwrap().what;
    assert_eq!((page.items.len(), page.more), (3, true));
    request.limit = MAX_LIST + 1;
    let page = s.backend().list(&request).await.unwrap().what;
    assert_eq!((page.items.len(), page.more), (5, false));
}

async fn a_list_shows_what_get_shows(s: Scene) {
    let name = s.name("k");
    s.take(&Party::new("a"), &name).await;
    assert_eq!(s.list(here(&s)).await, [s.record(&name).await]);
}
