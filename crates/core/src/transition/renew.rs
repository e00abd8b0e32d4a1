//! Prolonging what one has. Nothing here revives what has ended or touches what is somebody else's.

use super::acquire::{blocked, lease};
use super::release::not_held;
use super::settle::{end_of, settle};
use super::{Env, Events, Step, tell_change, touch};
use crate::backend::outcome::Queued;
use crate::backend::{BlockedBy, RenewItem, RenewMode, RenewWhat, Renewed};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::lease::Ttl;
use crate::record::{Ending, Grant, Record};
use crate::seeded::{Bug, planted};

/// Prolongs one lease or ticket.
pub fn renew(record: &mut Record, item: &RenewItem, env: &mut Env) -> Step<Result<Renewed>> {
    let mut events = Events::new();
    if !planted(Bug::RenewalRevives) {
        settle(record, env, &mut events);
    }
    let outcome = match item.what {
        RenewWhat::Lease(_) if heir_is_here(record, item) => Err(Error::invalid(
            "the heir holds or awaits the name already, so that it cannot take this lease over",
        )
        .with_name(&item.name)),
        RenewWhat::Lease(_) => Ok(renew_grant(record, item, env, &mut events)),
        RenewWhat::Ticket if item.heir.is_some() || matches!(item.mode, RenewMode::Add { .. }) => {
            Err(Error::invalid(
                "a place in the queue can only be set to a ttl, not added to or handed over",
            )
            .with_name(&item.name))
        }
        RenewWhat::Ticket => Ok(renew_ticket(record, item, env, &mut events)),
    };
    Step { outcome, events }
}

fn renew_grant(record: &mut Record, item: &RenewItem, env: &Env, events: &mut Events) -> Renewed {
    let Some(at) = find(record, item) else {
        return missing(record, item);
    };
    let grant = &mut record.grants[at];
    let Some(expires_at) = new_end(grant, item.mode, env.now) else {
        let (token, expires_at) = (grant.token, grant.expires_at);
        return Renewed::Changed(lease(record, token, expires_at, env.now));
    };
    grant.expires_at = expires_at;
    let token = grant.token;
    if let Some(heir) = &item.heir {
        let end = end_of(grant, Ending::HandedOver, env.now);
        grant.holder = heir.holder.digest();
        grant.owner = heir.owner.clone();
        record.last_end = Some(end);
    }
    let grant = &mut record.grants[at];
    let text_changed = item.metadata.is_some() && grant.metadata != item.metadata;
    if text_changed {
        grant.metadata = item.metadata.clone();
        tell_change(record, env, events);
    }
    touch(record, env);
    Renewed::Renewed(lease(record, token, expires_at, env.now))
}

/// Whether the heir has something else of this name: another grant, or a ticket.
fn heir_is_here(record: &Record, item: &RenewItem) -> bool {
    let Some(heir) = item.heir.as_ref().map(|heir| heir.holder.digest()) else {
        return false;
    };
    heir != item.holder.digest()
        && (record.tickets.iter().any(|ticket| ticket.holder == heir)
            || record
                .grants
                .iter()
                .any(|grant| grant.holder == heir && item.what != RenewWhat::Lease(grant.token)))
}

/// The grant an item names: by holder and token, or, if this very hand-over was done already, by heir and token.
fn find(record: &Record, item: &RenewItem) -> Option<usize> {
    let named = |digest| {
        record.grants.iter().position(|grant| {
            grant.holder == digest
                && match item.what {
                    RenewWhat::Lease(token) => grant.token == token,
                    RenewWhat::Ticket => true,
                }
        })
    };
    named(item.holder.digest()).or_else(|| named(item.heir.as_ref()?.holder.digest()))
}

/// When the lease shall end, or `None` if the caller is wrong about when it does.
fn new_end(grant: &Grant, mode: RenewMode, now: Timestamp) -> Option<Timestamp> {
    match mode {
        RenewMode::Set(ttl) => Some(grant.expires_at.max(now.after(ttl.as_duration()))),
        RenewMode::Add { by, if_expires_at } => {
            let cap = now.after(Ttl::MAX.as_duration());
            let wanted = if_expires_at.after(by.as_duration()).min(cap);
            let done_already = grant.expires_at == wanted;
            (grant.expires_at == if_expires_at || done_already).then_some(wanted)
        }
    }
}

fn renew_ticket(record: &mut Record, item: &RenewItem, env: &Env, events: &mut Events) -> Renewed {
    let RenewMode::Set(ttl) = item.mode else {
        return missing(record, item);
    };
    let digest = item.holder.digest();
    let Some(position) = record
        .tickets
        .iter()
        .position(|ticket| ticket.holder == digest)
    else {
        return renew_grant(record, item, env, events);
    };
    let ticket = &mut record.tickets.make()[position];
    ticket.expires_at = ticket.expires_at.max(env.now.after(ttl.as_duration()));
    if item.metadata.is_some() {
        ticket.metadata.clone_from(&item.metadata);
    }
    let (limit, expires_at) = (ticket.limit, ticket.expires_at);
    touch(record, env);
    let blocked = blocked(record, BlockedBy::Queue, limit, digest, env.now);
    Renewed::Queued(Box::new(Queued {
        position,
        ttl: expires_at.since(env.now),
        expires_at,
        blocked,
    }))
}

fn missing(record: &Record, item: &RenewItem) -> Renewed {
    let token = match item.what {
        RenewWhat::Lease(token) => Some(token),
        RenewWhat::Ticket => None,
    };
    Renewed::NotHeld(not_held(record, item.holder.digest(), token))
}
