//! Stock: units that somebody set, taken in different amounts, kept or spent.

use leasehold_core::backend::{Acquire, Acquired, Amount, BlockedBy, Release, Released};
use leasehold_core::{Kind, Lease, Name, Units};

use crate::case::{Case, case};
use crate::scene::{Party, Scene, units};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            of_a_name_without_stock_nothing_is_to_be_had,
            ["S2-12"],
            Quantities,
            Reservations
        ),
        case!(
            a_stock_of_nothing_refuses_everybody,
            ["S2-12"],
            Quantities,
            Reservations
        ),
        case!(
            different_amounts_are_taken_all_or_none,
            ["S2-12", "S13"],
            Quantities,
            Reservations,
            AtomicNames
        ),
        case!(
            a_refusal_lists_every_name_that_was_short,
            ["S2-12", "S13"],
            Quantities,
            Reservations,
            AtomicNames
        ),
        case!(
            a_freed_claim_returns_its_units,
            ["S2-12"],
            Quantities,
            Reservations
        ),
        case!(
            a_spent_claim_takes_its_units_along,
            ["S2-12"],
            Quantities,
            Reservations
        ),
        case!(
            a_claim_ends_in_one_way_only,
            ["S2-12", "S9"],
            Quantities,
            Reservations
        ),
        case!(
            who_has_confirmed_gets_no_more_by_asking_again,
            ["S2-12", "S3-09"],
            Quantities,
            Reservations
        ),
        case!(
            spending_twice_spends_once,
            ["S2-12", "S9"],
            Quantities,
            Reservations
        ),
    ]
}

async fn stock(s: &Scene, name: &Name, count: u32) {
    let request = s.capacity(name, Some(count));
    s.backend().set_capacity(&request).await.unwrap();
}

/// Asks for units of what somebody set, and for nothing where nobody did.
fn order(s: &Scene, party: &Party, name: &Name, count: u32) -> Acquire {
    let request = s.ask(party, name).kind(Kind::Reservation);
    request.each(|_| of_stock(units(count)))
}

fn of_stock(units: Units) -> Amount {
    Amount { units, limit: 0 }
}

async fn buy(s: &Scene, party: &Party, name: &Name, count: u32) -> Lease {
    let lease = s.grant(&order(s, party, name, count)).await;
    s.confirm(&s.confirmation(party, &lease, "order")).await;
    lease
}

fn spend(party: &Party, lease: &Lease) -> Release {
    Release::Claims {
        holder: party.holder.clone(),
        claims: [(lease.name.clone(), lease.token)].into_iter().collect(),
        spend: true,
    }
}

async fn of_a_name_without_stock_nothing_is_to_be_had(s: Scene) {
    let name = s.name("k");
    let blocked = s.refuse(&order(&s, &Party::new("a"), &name, 1)).await;
    assert_eq!((blocked.by, blocked.free_units), (BlockedBy::Capacity, 0));
}

async fn a_stock_of_nothing_refuses_everybody(s: Scene) {
    let name = s.name("k");
    stock(&s, &name, 0).await;
    s.refuse(&order(&s, &Party::new("a"), &name, 1)).await;
    let greedy = s.ask(&Party::new("b"), &name).units(units(1), units(9));
    s.refuse(&greedy.kind(Kind::Reservation)).await;
    stock(&s, &name, 1).await;
    s.grant(&order(&s, &Party::new("a"), &name, 1)).await;
}

/// Asks for `b` twice and for everything else three times.
fn basket(s: &Scene, party: &Party, names: &[Name]) -> Acquire {
    let two = names[1].clone();
    let request = s.ask_all(party, names).kind(Kind::Reservation);
    request.each(|name| of_stock(units(if *name == two { 2 } else { 3 })))
}

async fn different_amounts_are_taken_all_or_none(s: Scene) {
    let names = [s.name("c"), s.name("b"), s.name("a")];
    for name in &names {
        stock(&s, name, 4).await;
    }
    let answer = s.submit(&basket(&s, &Party::new("a"), &names)).await;
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    let answer = s.submit(&basket(&s, &Party::new("b"), &names)).await;
    assert!(matches!(answer, Acquired::Held(_)), "{answer:?}");
    for (name, taken) in names.iter().zip([3, 2, 3]) {
        assert_eq!(s.record(name).await.units_taken(), taken, "{name}");
    }
}

async fn a_refusal_lists_every_name_that_was_short(s: Scene) {
    let names = [s.name("a"), s.name("b"), s.name("c")];
    for (name, count) in names.iter().zip([2, 2, 9]) {
        stock(&s, name, count).await;
    }
    s.grant(&order(&s, &Party::new("x"), &names[1], 1)).await;
    let answer = s.submit(&basket(&s, &Party::new("a"), &names)).await;
    let Acquired::Held(short) = answer else {
        panic!("not refused: {answer:?}");
    };
    let short: Vec<_> = short.into_iter().map(|b| (b.name, b.free_units)).collect();
    assert_eq!(short, [(names[0].clone(), 2), (names[1].clone(), 1)]);
}

async fn a_freed_claim_returns_its_units(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    stock(&s, &name, 3).await;
    let lease = buy(&s, &a, &name, 2).await;
    s.refuse(&order(&s, &Party::new("b"), &name, 2)).await;
    s.send_release(&s.free_claim(&a, &lease)).await;
    s.grant(&order(&s, &Party::new("b"), &name, 3)).await;
}

async fn a_spent_claim_takes_its_units_along(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    stock(&s, &name, 3).await;
    let lease = buy(&s, &a, &name, 2).await;
    assert_eq!(s.send_release(&spend(&a, &lease)).await, Released::Released);
    let record = s.record(&name).await;
    assert_eq!((record.capacity, record.claims.len()), (Some(1), 0));
    s.refuse(&order(&s, &Party::new("b"), &name, 2)).await;
    s.grant(&order(&s, &Party::new("b"), &name, 1)).await;
}

async fn a_claim_ends_in_one_way_only(s: Scene) {
    let a = Party::new("a");
    for (key, spend_first) in [("freed", false), ("spent", true)] {
        let name = s.name(key);
        stock(&s, &name, 5).await;
        let lease = buy(&s, &a, &name, 2).await;
        let mut ways = [s.free_claim(&a, &lease), spend(&a, &lease)];
        if spend_first {
            ways.reverse();
        }
        assert_eq!(s.send_release(&ways[0]).await, Released::Released);
        let before = s.record(&name).await;
        let other = s.send_release(&ways[1]).await;
        assert!(matches!(other, Released::NotHeld(_)), "{other:?}");
        assert_eq!(s.record(&name).await, before);
    }
}

async fn who_has_confirmed_gets_no_more_by_asking_again(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    stock(&s, &name, 5).await;
    buy(&s, &a, &name, 2).await;
    let blocked = s.refuse(&order(&s, &a, &name, 2)).await;
    assert_eq!(blocked.by, BlockedBy::Claim);
    s.grant(&order(&s, &Party::new("b"), &name, 2)).await;
}

async fn spending_twice_spends_once(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    stock(&s, &name, 5).await;
    let lease = buy(&s, &a, &name, 2).await;
    for _ in 0..2 {
        assert_eq!(s.send_release(&spend(&a, &lease)).await, Released::Released);
        assert_eq!(s.record(&name).await.capacity, Some(3));
    }
}
