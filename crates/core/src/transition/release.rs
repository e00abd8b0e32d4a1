//! Ending grants: by their holder, by withdrawal, by force.

use super::settle::{end_of, move_up, settle};
use super::{Env, Events, Step, touch};
use crate::backend::{Holding, NotHeld, Release, Released, Releases, Withdraw, Withdrawn};
use crate::holder::HolderDigest;
use crate::lease::Token;
use crate::record::{Claim, End, Ending, Forced, Record};
use crate::seeded::{Bug, planted};

/// Ends exactly what the request names; one answer per name.
pub fn release(records: &mut [Record], request: &Release, env: &mut Env) -> Step<Releases> {
    let mut events = Events::new();
    for record in records.iter_mut() {
        settle(record, env, &mut events);
    }
    let outcome = match request {
        Release::Grants { holder, grants } => each(records, grants, |record, token| {
            release_grant(record, holder.digest(), token, env, &mut events)
        }),
        Release::Claims {
            holder,
            claims,
            spend,
        } => each(records, claims, |record, token| {
            release_claim(record, holder.digest(), token, *spend, env, &mut events)
        }),
        Release::Force {
            token, by, reason, ..
        } => {
            let how = Ending::Forced(Box::new(Forced {
                by: by.clone(),
                reason: reason.clone(),
            }));
            records
                .iter_mut()
                .map(|record| force(record, *token, &how, env, &mut events))
                .collect()
        }
    };
    Step { outcome, events }
}

fn each<N>(
    records: &mut [Record],
    items: &[(N, Token)],
    mut end: impl FnMut(&mut Record, Token) -> Released,
) -> Releases {
    if let ([record], [(_, token)]) = (&mut *records, items) {
        return Releases::from_buf([end(record, *token)]);
    }
    records
        .iter_mut()
        .zip(items)
        .map(|(record, (_, token))| end(record, *token))
        .collect()
}

fn release_grant(
    record: &mut Record,
    holder: HolderDigest,
    token: Token,
    env: &mut Env,
    events: &mut Events,
) -> Released {
    let by_owner_only = planted(Bug::ReleaseByOwnerOnly);
    let named = |grant: &crate::record::Grant| {
        by_owner_only || (grant.holder == holder && grant.token == token)
    };
    let Some(at) = record.grants.iter().position(named) else {
        return ended_or_not_held(record, holder, token, &Ending::Released);
    };
    end_grant(record, at, Ending::Released, env);
    move_up(record, env, events);
    Released::Released
}

/// A release that was done already gets the same answer again.
fn ended_or_not_held(
    record: &Record,
    holder: HolderDigest,
    token: Token,
    how: &Ending,
) -> Released {
    match ended(record, holder, Some(token)) {
        Some(end) if end.how == *how => Released::Released,
        _ => Released::NotHeld(not_held(record, holder, Some(token))),
    }
}

fn release_claim(
    record: &mut Record,
    holder: HolderDigest,
    token: Token,
    spend: bool,
    env: &mut Env,
    events: &mut Events,
) -> Released {
    let how = if spend {
        Ending::Spent
    } else {
        Ending::Released
    };
    let named = |claim: &&Claim| claim.holder == holder && claim.token == token;
    let Some(units) = record.claims.iter().find(named).map(|claim| claim.units) else {
        return ended_or_not_held(record, holder, token, &how);
    };
    record.claims.retain(|claim| !named(&claim));
    if let (true, Some(capacity)) = (spend, &mut record.capacity) {
        *capacity = capacity.saturating_sub(units.get());
    }
    record.last_end = Some(End {
        how,
        holder,
        token,
        at: env.now,
    });
    touch(record, env);
    move_up(record, env, events);
    Released::Released
}

fn force(
    record: &mut Record,
    token: Option<Token>,
    how: &Ending,
    env: &mut Env,
    events: &mut Events,
) -> Released {
    let holdings = forcible(record, token);
    if holdings.is_empty() {
        return Released::NotHeld(not_forcible(record, token));
    }
    while let Some(at) = record
        .grants
        .iter()
        .position(|grant| token.is_none_or(|t| t == grant.token))
    {
        end_grant(record, at, how.clone(), env);
    }
    if let Some(token) = token {
        force_claim(record, token, how, env);
    }
    move_up(record, env, events);
    Released::Forced(holdings)
}

fn force_claim(record: &mut Record, token: Token, how: &Ending, env: &Env) {
    let named = |claim: &&Claim| claim.token == token;
    let Some(holder) = record.claims.iter().find(named).map(|claim| claim.holder) else {
        return;
    };
    record.claims.retain(|claim| claim.token != token);
    record.last_end = Some(End {
        how: how.clone(),
        holder,
        token,
        at: env.now,
    });
    touch(record, env);
}

/// What a forced release ends in a record that is settled: the grant or claim with this token, or all grants.
#[must_use]
pub fn forcible(record: &Record, token: Option<Token>) -> Vec<Holding> {
    let grants = record.grants.iter();
    let grants = grants.filter(|grant| token.is_none_or(|token| token == grant.token));
    let claim = token.and_then(|token| record.claims.iter().find(|claim| claim.token == token));
    let claim = claim.map(|claim| Holding {
        owner: claim.owner.clone(),
        token: claim.token,
        kind: record.kind,
        mode: crate::lease::Mode::Exclusive,
        units: claim.units,
        acquired_at: claim.confirmed_at,
        expires_at: crate::clock::Timestamp::NEVER,
        metadata: claim.metadata.clone(),
    });
    grants
        .map(|grant| Holding::of(record.kind, grant))
        .chain(claim)
        .collect()
}

/// Why a forced release found nothing to end in a record that is settled.
#[must_use]
pub fn not_forcible(record: &Record, token: Option<Token>) -> Box<NotHeld> {
    Box::new(NotHeld {
        current: record.holding(),
        ended: token.and_then(|token| ended_with(record, token)),
    })
}

pub(super) fn end_grant(record: &mut Record, at: usize, how: Ending, env: &Env) {
    let end = end_of(&record.grants[at], how, env.now);
    record.last_end = Some(end);
    record.grants.remove(at);
    touch(record, env);
}

/// Leaves the queue and gives back any grant this holder has.
pub fn withdraw(records: &mut [Record], request: &Withdraw, env: &mut Env) -> Step<Withdrawn> {
    let mut events = Events::new();
    let mut withdrawn = Withdrawn::default();
    let digest = request.holder.digest();
    for record in records {
        settle(record, env, &mut events);
        let (tickets, grants) = (leave_queue(record, digest), give_back(record, digest, env));
        withdrawn.tickets += tickets;
        withdrawn.grants += grants;
        if tickets + grants > 0 {
            touch(record, env);
            move_up(record, env, &mut events);
        }
    }
    Step {
        outcome: withdrawn,
        events,
    }
}

pub(super) fn leave_queue(record: &mut Record, holder: HolderDigest) -> usize {
    let before = record.tickets.len();
    if before > 0 {
        record.tickets.retain(|ticket| ticket.holder != holder);
    }
    before - record.tickets.len()
}

fn give_back(record: &mut Record, holder: HolderDigest, env: &Env) -> usize {
    let mut given = 0;
    while let Some(at) = record
        .grants
        .iter()
        .position(|grant| grant.holder == holder)
    {
        end_grant(record, at, Ending::Released, env);
        given += 1;
    }
    given
}

/// How the grant of this holder (and token) ended, if the record remembers it.
fn ended(record: &Record, holder: HolderDigest, token: Option<Token>) -> Option<&End> {
    record
        .last_end
        .as_ref()
        .filter(|end| end.holder == holder && token.is_none_or(|token| end.token == token))
}

/// How the grant with this token ended, whoever held it.
fn ended_with(record: &Record, token: Token) -> Option<End> {
    record
        .last_end
        .as_ref()
        .filter(|end| end.token == token)
        .cloned()
}

/// Why there is nothing to act on for this holder and token in a record that is settled.
#[must_use]
pub fn not_held(record: &Record, holder: HolderDigest, token: Option<Token>) -> Box<NotHeld> {
    let ended = ended(record, holder, token).cloned();
    Box::new(NotHeld {
        current: record.holding(),
        ended: ended.or_else(|| confirmed(record, holder, token?)),
    })
}

/// That the grant of this holder and token became a claim, however long ago.
fn confirmed(record: &Record, holder: HolderDigest, token: Token) -> Option<End> {
    let claim = record
        .claims
        .iter()
        .find(|claim| claim.holder == holder && claim.token == token)?;
    Some(End {
        how: Ending::Confirmed,
        holder,
        token,
        at: claim.confirmed_at,
    })
}
