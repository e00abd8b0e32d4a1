//! The rule, case by case. The conformance kit says the same of whole stores.

use std::time::Duration;

use super::*;
use crate::backend::{BlockedBy, InboxId, Names, Own, Released};
use crate::holder::{Holder, Owner};
use crate::lease::{Ttl, Units};
use crate::record::Ending;

const TTL: u64 = 1000;

struct World {
    record: Record,
    env: Env,
}

impl World {
    fn new() -> Self {
        let env = Env {
            watched: true,
            now: Timestamp::from_millis(10_000),
            next_token: Token::new(1),
        };
        Self {
            record: Record::new(Name::new("n", "k").unwrap()),
            env,
        }
    }

    fn request(&self, holder: &Holder) -> Acquire {
        let names = Names::one(self.record.name.clone());
        let owner = Owner::new("tester").unwrap();
        Acquire::new(names, holder.clone(), owner, Ttl::from_millis(TTL).unwrap())
    }

    fn acquire(&mut self, request: &Acquire) -> Acquired {
        acquire(
            std::slice::from_mut(&mut self.record),
            request,
            &mut self.env,
        )
        .outcome
        .unwrap()
    }

    fn take(&mut self, holder: &Holder) -> Token {
        let request = self.request(holder);
        match self.acquire(&request) {
            Acquired::Granted(leases) => leases[0].token,
            refused => panic!("{refused:?}"),
        }
    }

    fn queue(&mut self, holder: &Holder) -> Acquired {
        let request = self.request(holder).queue(InboxId::new(1));
        self.acquire(&request)
    }

    fn release(&mut self, holder: &Holder, token: Token) -> Step<Releases> {
        let request = Release::grant(self.record.name.clone(), holder.clone(), token);
        release(
            std::slice::from_mut(&mut self.record),
            &request,
            &mut self.env,
        )
    }

    fn pass(&mut self, millis: u64) {
        self.env.now = self.env.now.after(Duration::from_millis(millis));
    }
}

fn two() -> (Holder, Holder) {
    (Holder::random(), Holder::random())
}

/// S4-04, T4-13, T4-14.
#[test]
fn a_free_name_is_granted_and_a_taken_one_refused() {
    let (mut world, (a, b)) = (World::new(), two());
    world.take(&a);
    let request = world.request(&b);
    let Acquired::Held(blocked) = world.acquire(&request) else {
        panic!()
    };
    assert_eq!(blocked[0].by, BlockedBy::Holder);
    assert_eq!(blocked[0].change_in, Some(Duration::from_millis(TTL)));
}

/// S6, T4-20: one tick before the end it can be renewed, at the end it cannot.
#[test]
fn a_lease_ends_exactly_when_its_time_is_up() {
    for (passed, live) in [(TTL - 1, true), (TTL, false), (TTL + 1, false)] {
        let (mut world, (a, _)) = (World::new(), two());
        let token = world.take(&a);
        world.pass(passed);
        let item = RenewItem::lease(
            world.record.name.clone(),
            a,
            token,
            Ttl::from_millis(TTL).unwrap(),
        );
        let renewed = renew(&mut world.record, &item, &mut world.env)
            .outcome
            .unwrap();
        assert_eq!(
            matches!(renewed, Renewed::Renewed(_)),
            live,
            "after {passed} ms"
        );
    }
}

/// S5, etcd#22082: an old release does not end a newer grant, not even one of the same holder.
#[test]
fn a_late_release_of_an_older_token_ends_nothing() {
    let (mut world, (a, _)) = (World::new(), two());
    let old = world.take(&a);
    world.release(&a, old);
    let new = world.take(&a);
    assert!(new > old);
    // The same answer as the first time, and no effect on the newer grant.
    assert_eq!(*world.release(&a, old).outcome, [Released::Released]);
    assert_eq!(world.record.grants[0].token, new);
}

#[test]
fn taking_again_keeps_the_token_and_never_shortens_unless_told() {
    let (mut world, (a, _)) = (World::new(), two());
    let token = world.take(&a);
    let end = world.record.grants[0].expires_at;
    let mut short = world.request(&a);
    short.ttl = Ttl::from_millis(10).unwrap();
    for (own, expected) in [
        (Own::Refresh, end),
        (Own::Keep, end),
        (Own::Replace, world.env.now.after(Duration::from_millis(10))),
    ] {
        let Acquired::Granted(leases) = world.acquire(&short.clone().own(own)) else {
            panic!()
        };
        assert_eq!(
            (leases[0].token, leases[0].expires_at),
            (token, expected),
            "{own:?}"
        );
    }
}

/// S3.
#[test]
fn a_new_token_is_at_least_the_floor_and_the_next_one_larger() {
    let (mut world, (a, b)) = (World::new(), two());
    let floor = Token::new(500);
    let request = world.request(&a).token_floor(floor).unwrap();
    let Acquired::Granted(leases) = world.acquire(&request) else {
        panic!()
    };
    assert_eq!(leases[0].token, floor);
    world.release(&a, floor);
    assert!(world.take(&b) > floor);
}

#[test]
fn only_a_replaced_grant_is_raised_to_the_floor() {
    let (mut world, (a, _)) = (World::new(), two());
    let first = world.take(&a);
    let floor = Token::new(first.get() + 100);
    for (own, expected) in [
        (Own::Refresh, first),
        (Own::Keep, first),
        (Own::Replace, floor),
        (Own::Replace, floor),
    ] {
        let request = world.request(&a).own(own).token_floor(floor).unwrap();
        let Acquired::Granted(leases) = world.acquire(&request) else {
            panic!()
        };
        assert_eq!(leases[0].token, expected, "{own:?}");
    }
    assert_eq!(world.record.grants[0].token, floor);
}

#[test]
fn a_grant_made_from_a_ticket_keeps_to_the_floor_of_its_request() {
    let (mut world, (a, b)) = (World::new(), two());
    let token = world.take(&a);
    let floor = Token::new(token.get() + 100);
    let request = world.request(&b).queue(InboxId::new(1));
    world.acquire(&request.token_floor(floor).unwrap());
    world.release(&a, token);
    assert_eq!(world.record.grants[0].token, floor);
}

#[test]
fn a_floor_beyond_the_largest_token_is_refused_and_changes_nothing() {
    let (mut world, (a, _)) = (World::new(), two());
    let mut request = world.request(&a);
    request.token_floor = Token::new(Token::MAX.get() + 1);
    let before = world.record.clone();
    let records = std::slice::from_mut(&mut world.record);
    let refused = acquire(records, &request, &mut world.env).outcome;
    assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::InvalidInput);
    assert_eq!(world.record, before);
}

#[test]
fn a_release_hands_over_to_the_first_in_the_queue() {
    let (mut world, (a, b)) = (World::new(), two());
    let c = Holder::random();
    let token = world.take(&a);
    assert!(matches!(world.queue(&b), Acquired::Queued(queued) if queued.position == 0));
    assert!(matches!(world.queue(&c), Acquired::Queued(queued) if queued.position == 1));
    let step = world.release(&a, token);
    assert_eq!(world.record.grants[0].holder, b.digest());
    let told = &step.events[0];
    assert_eq!(told.to, Some(InboxId::new(1)));
    assert!(
        matches!(&told.event.what, What::Granted { holder, lease } if *holder == b.digest() && lease.token > token)
    );
}

/// Pain 14: the dead are skipped in one step.
#[test]
fn dead_waiters_are_skipped() {
    let (mut world, (a, dead)) = (World::new(), two());
    let live = Holder::random();
    let token = world.take(&a);
    world.queue(&dead);
    world.pass(600);
    let item = RenewItem::lease(
        world.record.name.clone(),
        a.clone(),
        token,
        Ttl::from_millis(TTL).unwrap(),
    );
    renew(&mut world.record, &item, &mut world.env)
        .outcome
        .unwrap();
    world.queue(&live);
    world.pass(600);
    world.release(&a, token);
    assert_eq!(world.record.grants[0].holder, live.digest());
}

/// A grant by hand-over ends when its ticket would have.
#[test]
fn a_hand_over_lasts_as_long_as_the_ticket() {
    let (mut world, (a, b)) = (World::new(), two());
    let token = world.take(&a);
    world.queue(&b);
    let end = world.record.tickets.iter().next().unwrap().expires_at;
    world.pass(700);
    world.release(&a, token);
    assert_eq!(world.record.grants[0].expires_at, end);
}

#[test]
fn nobody_barges_past_a_queue() {
    let (mut world, (a, b)) = (World::new(), two());
    let reader = Holder::random();
    let shared = world.request(&a).shared();
    world.acquire(&shared);
    world.queue(&b);
    let request = world.request(&reader).shared();
    assert!(
        matches!(world.acquire(&request), Acquired::Held(blocked) if blocked[0].by == BlockedBy::Queue)
    );
}

#[test]
fn asking_without_a_wish_to_wait_leaves_the_queue() {
    let (mut world, (a, b)) = (World::new(), two());
    world.take(&a);
    world.queue(&b);
    let request = world.request(&b);
    assert!(matches!(world.acquire(&request), Acquired::Held(_)));
    assert!(world.record.tickets.is_empty());
}

#[test]
fn the_lock_delay_runs_only_after_a_lease_that_ran_out() {
    let delayed = |world: &World, holder: &Holder| {
        world
            .request(holder)
            .lock_delay(Duration::from_millis(500))
            .unwrap()
    };
    let (mut world, (a, b)) = (World::new(), two());
    let request = delayed(&world, &a);
    let Acquired::Granted(leases) = world.acquire(&request) else {
        panic!()
    };
    world.release(&a, leases[0].token);
    world.take(&b);
    let (mut world, (a, b)) = (World::new(), two());
    let request = delayed(&world, &a);
    world.acquire(&request);
    world.pass(TTL + 499);
    let request = world.request(&b);
    assert!(
        matches!(world.acquire(&request), Acquired::Held(blocked) if blocked[0].by == BlockedBy::LockDelay)
    );
    world.pass(1);
    world.take(&b);
}

#[test]
fn units_never_exceed_the_capacity() {
    let mut world = World::new();
    let unit = |n| Units::new(n).unwrap();
    let mut granted = 0;
    for holder in (0..5).map(|_| Holder::random()) {
        let request = world.request(&holder).units(unit(2), unit(5));
        granted += usize::from(matches!(world.acquire(&request), Acquired::Granted(_)));
    }
    assert_eq!((granted, world.record.units_taken()), (2, 4));
}

#[test]
fn a_repeated_release_gets_the_same_answer() {
    let (mut world, (a, _)) = (World::new(), two());
    let token = world.take(&a);
    for _ in 0..2 {
        assert_eq!(*world.release(&a, token).outcome, [Released::Released]);
    }
    assert_eq!(
        world.record.last_end.as_ref().unwrap().how,
        Ending::Released
    );
}

#[test]
fn a_name_given_twice_in_one_request_is_refused() {
    let (world, (a, _)) = (World::new(), two());
    let twice = (0..2)
        .map(|_| (world.record.name.clone(), Token::new(1)))
        .collect();
    let request = Release::Grants {
        holder: a,
        grants: twice,
    };
    assert!(Request::Release(&request).distinct_names().is_err());
}
