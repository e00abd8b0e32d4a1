//! Taking names, or a place in the queue.

use std::time::Duration;

use smallvec::SmallVec;

use super::release::leave_queue;
use super::settle::{Wish, capacity, move_up, room_for, settle};
use super::{Env, Events, Step, touch};
use crate::backend::outcome::Queued;
use crate::backend::{Acquire, Acquired, Amount, Blocked, BlockedBy, Own, Queue};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::holder::HolderDigest;
use crate::lease::{Lease, Token};
use crate::record::{Claim, Grant, Record, Ticket};

/// Takes all names or none.
///
/// A name is free for a request if its wish fits beside the grants and claims that are there, no lock delay runs,
/// and nobody stands in the queue. A name this holder has already counts as free, and keeps its token; one it has
/// confirmed is not free for it. A refused request
/// that does not ask to be queued gives up the place in the queue its holder may have had.
///
/// New tokens are at least the floor of the request, those of a grant made from its place in the queue as well. A
/// grant that is replaced draws a new token if its own is below the floor.
pub fn acquire(records: &mut [Record], request: &Acquire, env: &mut Env) -> Step<Result<Acquired>> {
    let mut events = Events::new();
    if let Err(error) = request.check() {
        let outcome = Err(error);
        return Step { outcome, events };
    }
    for record in records.iter_mut() {
        settle(record, env, &mut events);
    }
    let outcome = decide(records, request, env, &mut events);
    Step { outcome, events }
}

fn decide(
    records: &mut [Record],
    request: &Acquire,
    env: &mut Env,
    events: &mut Events,
) -> Result<Acquired> {
    let mut blocked = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let amount = request.amount(at);
        if let Err(by) = free_for(record, request, amount, env.now)? {
            let holder = request.holder.digest();
            blocked.push(self::blocked(record, by, amount.limit, holder, env.now));
        }
    }
    if !blocked.is_empty() {
        return refuse(records, request, blocked, env, events);
    }
    Ok(Acquired::Granted(match records {
        [record] => SmallVec::from_buf([grant(record, request, request.amount(0), env)]),
        records => records
            .iter_mut()
            .enumerate()
            .map(|(at, record)| grant(record, request, request.amount(at), env))
            .collect(),
    }))
}

/// A place in the queue for who asked for one, and a refusal otherwise.
#[cold]
fn refuse(
    records: &mut [Record],
    request: &Acquire,
    mut blocked: Vec<Blocked>,
    env: &mut Env,
    events: &mut Events,
) -> Result<Acquired> {
    match (request.queue, records) {
        (Some(queue), [record]) if blocked[0].by != BlockedBy::Capacity => {
            let queued = enqueue(record, request, queue, blocked.remove(0), env)?;
            Ok(Acquired::Queued(Box::new(queued)))
        }
        (_, records) => {
            for record in records {
                stop_waiting(record, request.holder.digest(), env, events);
            }
            Ok(Acquired::Held(blocked))
        }
    }
}

fn others_waiting(record: &Record, holder: HolderDigest) -> usize {
    record
        .tickets
        .iter()
        .filter(|ticket| ticket.holder != holder)
        .count()
}

/// Whoever asks without a wish to be queued waits no longer, and so leaves the place it had.
fn stop_waiting(record: &mut Record, holder: HolderDigest, env: &mut Env, events: &mut Events) {
    if leave_queue(record, holder) > 0 {
        touch(record, env);
        move_up(record, env, events);
    }
}

fn free_for(
    record: &Record,
    request: &Acquire,
    amount: Amount,
    now: Timestamp,
) -> Result<Result<(), BlockedBy>> {
    if let Some(own) = record.grant_of(request.holder.digest()) {
        let same =
            record.kind == request.kind && own.mode == request.mode && own.units == amount.units;
        return if same {
            Ok(Ok(()))
        } else {
            Err(other_terms(record))
        };
    }
    // Whoever has confirmed it and asks again, as after a restart, must not get as much once more.
    let mine = |claim: &Claim| claim.holder == request.holder.digest();
    if !record.claims.is_empty() && record.claims.iter().any(mine) {
        return Ok(Err(BlockedBy::Claim));
    }
    let wish = Wish {
        kind: request.kind,
        mode: request.mode,
        amount,
    };
    let room = room_for(record, wish, now);
    Ok(if room.is_ok() && !record.tickets.is_empty() {
        Err(BlockedBy::Queue)
    } else {
        room
    })
}

fn other_terms(record: &Record) -> Error {
    Error::invalid("this holder has or awaits the name already, with another kind, mode or number of units; let go of it first")
        .with_name(&record.name)
}

fn grant(record: &mut Record, request: &Acquire, amount: Amount, env: &mut Env) -> Lease {
    let digest = request.holder.digest();
    let end = env.now.after_ttl(request.ttl);
    let mut grants = record.grants.iter();
    if let Some(at) = grants.position(|grant| grant.holder == digest) {
        return grant_again(record, at, request, end, env);
    }
    touch(record, env);
    let token = draw_token(record, request.token_floor, env);
    record.kind = request.kind;
    record.grants.push(Grant {
        holder: digest,
        token,
        acquired_at: env.now,
        expires_at: end,
        mode: request.mode,
        units: amount.units,
        lock_delay_ms: request.lock_delay_ms,
        owner: request.owner.clone(),
        metadata: request.metadata.clone(),
    });
    lease(record, token, end, env.now)
}

fn draw_token(record: &mut Record, floor: Token, env: &mut Env) -> Token {
    heed_floor(record, floor);
    env.draw_token(record)
}

/// Lets no token below the floor be drawn for this name any more.
fn heed_floor(record: &mut Record, floor: Token) {
    let below = Token::new(floor.get().saturating_sub(1));
    record.last_token = record.last_token.max(below);
}

fn grant_again(
    record: &mut Record,
    at: usize,
    request: &Acquire,
    end: Timestamp,
    env: &mut Env,
) -> Lease {
    let too_low = record.grants[at].token < request.token_floor;
    if too_low && request.own == Own::Replace {
        record.grants[at].token = draw_token(record, request.token_floor, env);
    }
    take_again(&mut record.grants[at], request, end);
    let (token, expires_at) = (record.grants[at].token, record.grants[at].expires_at);
    if request.own != Own::Keep {
        touch(record, env);
    }
    lease(record, token, expires_at, env.now)
}

fn take_again(own: &mut Grant, request: &Acquire, end: Timestamp) {
    match request.own {
        Own::Keep => {}
        Own::Refresh => own.expires_at = own.expires_at.max(end),
        Own::Replace => {
            own.expires_at = end;
            own.lock_delay_ms = request.lock_delay_ms;
            own.owner = request.owner.clone();
            own.metadata = request.metadata.clone();
        }
    }
}

pub(super) fn lease(record: &Record, token: Token, expires_at: Timestamp, now: Timestamp) -> Lease {
    Lease {
        name: record.name.clone(),
        token,
        expires_at,
        ttl: expires_at.since(now),
    }
}

/// Joins the queue, or refreshes the place it has; the place is kept.
fn enqueue(
    record: &mut Record,
    request: &Acquire,
    queue: Queue,
    blocked: Blocked,
    env: &Env,
) -> Result<Queued> {
    let digest = request.holder.digest();
    let expires_at = env.now.after_ttl(request.ttl);
    let position = record
        .tickets
        .iter()
        .position(|ticket| ticket.holder == digest);
    if record
        .tickets
        .iter()
        .any(|ticket| ticket.holder == digest && !is_wish_of(ticket, request))
    {
        return Err(other_terms(record));
    }
    touch(record, env);
    heed_floor(record, request.token_floor);
    let tickets = record.tickets.make();
    let position = position.unwrap_or_else(|| {
        tickets.push_back(ticket(request, queue, expires_at, env.now));
        tickets.len() - 1
    });
    let own = &mut tickets[position];
    own.expires_at = expires_at.max(own.expires_at);
    own.inbox = queue.inbox;
    Ok(Queued {
        position,
        ttl: own.expires_at.since(env.now),
        expires_at: own.expires_at,
        blocked,
    })
}

fn is_wish_of(ticket: &Ticket, request: &Acquire) -> bool {
    let Amount { units, limit } = request.amount(0);
    (ticket.kind, ticket.mode, ticket.units, ticket.limit)
        == (request.kind, request.mode, units, limit)
}

fn ticket(request: &Acquire, queue: Queue, expires_at: Timestamp, now: Timestamp) -> Ticket {
    let Amount { units, limit } = request.amount(0);
    Ticket {
        holder: request.holder.digest(),
        inbox: queue.inbox,
        since: now,
        expires_at,
        mode: request.mode,
        units,
        limit,
        kind: request.kind,
        lock_delay_ms: request.lock_delay_ms,
        owner: request.owner.clone(),
        metadata: request.metadata.clone(),
    }
}

/// Says who is in the way of a request of this holder that brings this limit along, for a record that is settled.
#[must_use]
pub fn blocked(
    record: &Record,
    by: BlockedBy,
    limit: u32,
    holder: HolderDigest,
    now: Timestamp,
) -> Blocked {
    Blocked {
        name: record.name.clone(),
        by,
        holding: record.holding(),
        change_in: next_change(record, now),
        waiting: others_waiting(record, holder),
        free_units: capacity(record, limit).saturating_sub(record.units_taken()),
    }
}

/// When time alone next changes the record: a grant, the delay or the first ticket runs out.
fn next_change(record: &Record, now: Timestamp) -> Option<Duration> {
    let grants = record.grants.iter().map(|grant| grant.expires_at);
    let front = record.tickets.iter().next().map(|ticket| ticket.expires_at);
    let next = grants.chain(record.quarantined_until).chain(front).min()?;
    Some(next.since(now))
}
