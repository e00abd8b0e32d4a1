//! What time does: leases and tickets that have run out leave, and the next in line moves up.

use super::{Env, Events, Routed, tell_change, touch};
use crate::backend::{Amount, BlockedBy, Event, What};
use crate::clock::Timestamp;
use crate::lease::{Kind, Lease, Mode};
use crate::record::{End, Ending, Grant, Record, Ticket};

/// What [`settle`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Grants that had run out.
    pub expired: usize,
    /// Tickets that had run out.
    pub tickets: usize,
}

/// Brings a record up to `env.now`. Every other step begins with this.
pub fn settle(record: &mut Record, env: &mut Env, events: &mut Events) -> Settled {
    let version = record.version;
    let settled = run_out(record, env.now);
    if record.version != version {
        move_up(record, env, events);
    }
    settled
}

/// Takes out what has run out, and remembers how it ended.
///
/// The version goes on by one for each thing, so that it is the same whether they are taken out together or one by one:
/// who has only looked, and who has settled, see the same version of the same record.
pub(crate) fn run_out(record: &mut Record, now: Timestamp) -> Settled {
    let settled = Settled {
        expired: expire_grants(record, now),
        tickets: expire_tickets(record, now),
    };
    let delay_over = record.quarantined_until.is_some_and(|until| until <= now);
    if delay_over {
        record.quarantined_until = None;
    }
    let changes = settled.expired + settled.tickets + usize::from(delay_over);
    record.version = record.version.saturating_add(changes as u64);
    settled
}

fn expire_grants(record: &mut Record, now: Timestamp) -> usize {
    if record.grants.iter().all(|grant| grant.expires_at > now) {
        return 0;
    }
    let before = record.grants.len();
    let mut last: Option<End> = None;
    let mut quarantine = record.quarantined_until;
    record.grants.retain(|grant| {
        let live = grant.expires_at > now;
        if !live {
            quarantine = quarantine.max(grant.quarantine());
            let later = |end: &End| (end.at, end.token) < (grant.expires_at, grant.token);
            if last.as_ref().is_none_or(later) {
                last = Some(end_of(grant, Ending::Expired, grant.expires_at));
            }
        }
        live
    });
    record.quarantined_until = quarantine;
    if last.is_some() {
        record.last_end = last;
    }
    before - record.grants.len()
}

fn expire_tickets(record: &mut Record, now: Timestamp) -> usize {
    let before = record.tickets.len();
    if before > 0 {
        record.tickets.retain(|ticket| ticket.expires_at > now);
    }
    before - record.tickets.len()
}

/// How a grant ended, for the record's memory.
pub(super) fn end_of(grant: &Grant, how: Ending, at: Timestamp) -> End {
    End {
        how,
        holder: grant.holder,
        token: grant.token,
        at,
    }
}

/// Grants to the first live tickets as long as they fit, and tells watchers if anything may be left for them.
/// The caller has already settled the record and changed something that makes room.
pub(super) fn move_up(record: &mut Record, env: &mut Env, events: &mut Events) {
    while let Some(ticket) = first_fitting(record, env.now) {
        let granted = grant_ticket(record, ticket, env);
        events.push(granted);
    }
    if record.tickets.is_empty() {
        record.tickets.trim();
        tell_change(record, env, events);
    }
}

fn first_fitting(record: &mut Record, now: Timestamp) -> Option<Ticket> {
    let front = record.tickets.iter().next()?;
    let wish = Wish {
        kind: front.kind,
        mode: front.mode,
        amount: Amount {
            units: front.units,
            limit: front.limit,
        },
    };
    room_for(record, wish, now).ok()?;
    record.tickets.make().pop_front()
}

/// A grant by hand-over ends when its ticket would have, so that the waiter's own deadline needs no arithmetic.
fn grant_ticket(record: &mut Record, ticket: Ticket, env: &mut Env) -> Routed {
    touch(record, env);
    let token = env.draw_token(record);
    let lease = Lease {
        name: record.name.clone(),
        token,
        expires_at: ticket.expires_at,
        ttl: ticket.expires_at.since(env.now),
    };
    record.kind = ticket.kind;
    record.grants.push(Grant {
        holder: ticket.holder,
        token,
        acquired_at: env.now,
        expires_at: ticket.expires_at,
        mode: ticket.mode,
        units: ticket.units,
        lock_delay_ms: ticket.lock_delay_ms,
        owner: ticket.owner,
        metadata: ticket.metadata,
    });
    let what = What::Granted {
        holder: ticket.holder,
        lease,
    };
    Routed {
        to: Some(ticket.inbox),
        event: Event {
            name: record.name.clone(),
            what,
        },
    }
}

/// What somebody would like to have of a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) kind: Kind,
    pub(super) mode: Mode,
    pub(super) amount: Amount,
}

/// How many units a name has for somebody who brings this limit along.
pub(super) fn capacity(record: &Record, limit: u32) -> u64 {
    u64::from(record.capacity.unwrap_or(limit))
}

/// Whether a wish fits beside what is there, leaving the queue aside.
pub(super) fn room_for(record: &Record, wish: Wish, now: Timestamp) -> Result<(), BlockedBy> {
    if record.quarantined_until.is_some_and(|until| until > now) {
        return Err(BlockedBy::LockDelay);
    }
    let units = u64::from(wish.amount.units.get());
    let capacity = capacity(record, wish.amount.limit);
    let too_large = wish.mode == Mode::Exclusive && units > capacity;
    let in_use = !record.grants.is_empty() || !record.claims.is_empty();
    if !in_use {
        return if too_large {
            Err(BlockedBy::Capacity)
        } else {
            Ok(())
        };
    }
    let occupied = || {
        if record.grants.is_empty() {
            BlockedBy::Claim
        } else {
            BlockedBy::Holder
        }
    };
    if record.kind != wish.kind {
        return Err(occupied());
    }
    let rival = match wish.mode {
        Mode::Exclusive => Mode::Shared,
        Mode::Shared => Mode::Exclusive,
    };
    if record.grants.iter().any(|grant| grant.mode == rival) {
        return Err(BlockedBy::Holder);
    }
    if too_large {
        return Err(BlockedBy::Capacity);
    }
    match wish.mode {
        Mode::Shared if !record.claims.is_empty() => Err(BlockedBy::Claim),
        Mode::Exclusive if record.units_taken() + units > capacity => Err(occupied()),
        _ => Ok(()),
    }
}
