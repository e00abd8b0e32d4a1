//! What is for good: confirming, handing over, and how many units a name has.

use super::release::{end_grant, not_held};
use super::settle::{move_up, settle};
use super::{Env, Events, Step, touch};
use crate::backend::{CapacitySet, Confirm, ConfirmFrom, Confirmed, SetCapacity};
use crate::error::{Error, Result};
use crate::holder::HolderDigest;
use crate::lease::{Kind, Mode, Token};
use crate::record::{Claim, End, Ending, Record};

/// Turns all named grants into claims, or hands all named claims over, or does nothing.
pub fn confirm(
    records: &mut [Record],
    request: &Confirm,
    env: &mut Env,
) -> Step<Result<Confirmed>> {
    let mut events = Events::new();
    for record in records.iter_mut() {
        settle(record, env, &mut events);
    }
    let outcome = decide(records, request, env);
    Step { outcome, events }
}

fn decide(records: &mut [Record], request: &Confirm, env: &Env) -> Result<Confirmed> {
    for (record, (_, token)) in records.iter().zip(&request.items) {
        if let Some(refusal) = check(record, *token, request)? {
            return Ok(refusal);
        }
    }
    let versions = records
        .iter_mut()
        .zip(&request.items)
        .map(|(record, (_, token))| {
            match &request.from {
                ConfirmFrom::Grant => confirm_grant(record, *token, request, env),
                ConfirmFrom::Claim(_) => hand_over(record, *token, request, env),
            }
            record.version
        });
    Ok(Confirmed::Confirmed(versions.collect()))
}

/// Why this name stands in the way, if it does.
fn check(record: &Record, token: Token, request: &Confirm) -> Result<Option<Confirmed>> {
    let digest = request.holder.digest();
    if already_done(record, token, request) {
        return Ok(None);
    }
    let held = match &request.from {
        ConfirmFrom::Grant => grant_at(record, digest, token).map(|at| record.grants[at].mode),
        ConfirmFrom::Claim(_) => claim_at(record, digest, token).map(|_| Mode::Exclusive),
    };
    let Some(mode) = held else {
        return Ok(Some(Confirmed::NotHeld(
            record.name.clone(),
            not_held(record, digest, Some(token)),
        )));
    };
    if record.kind != Kind::Reservation || mode != Mode::Exclusive {
        return Err(Error::invalid(
            "only an exclusive reservation can be confirmed, and this is not one",
        )
        .with_name(&record.name));
    }
    match request.expect_version {
        Some(expected) if expected != record.version => Ok(Some(Confirmed::VersionChanged(
            record.name.clone(),
            record.version,
        ))),
        _ => Ok(None),
    }
}

/// Whether this very request was done before: a repeated one changes nothing and gets the same answer.
fn already_done(record: &Record, token: Token, request: &Confirm) -> bool {
    let digest = match &request.from {
        ConfirmFrom::Grant => request.holder.digest(),
        ConfirmFrom::Claim(heir) => heir.holder.digest(),
    };
    claim_at(record, digest, token).is_some_and(|at| {
        record
            .claims
            .iter()
            .nth(at)
            .is_some_and(|claim| claim.entity == request.entity)
    })
}

fn confirm_grant(record: &mut Record, token: Token, request: &Confirm, env: &Env) {
    let Some(at) = grant_at(record, request.holder.digest(), token) else {
        return;
    };
    let grant = record.grants[at].clone();
    end_grant(record, at, Ending::Confirmed, env);
    record.claims.make().push(Claim {
        holder: grant.holder,
        token,
        entity: request.entity.clone(),
        confirmed_at: env.now,
        units: grant.units,
        owner: grant.owner,
        metadata: request.metadata.clone().or(grant.metadata),
    });
}

fn hand_over(record: &mut Record, token: Token, request: &Confirm, env: &Env) {
    let ConfirmFrom::Claim(heir) = &request.from else {
        return;
    };
    let Some(at) = claim_at(record, request.holder.digest(), token) else {
        return;
    };
    let claim = &mut record.claims.make()[at];
    let before = claim.holder;
    claim.holder = heir.holder.digest();
    claim.owner = heir.owner.clone();
    claim.entity.clone_from(&request.entity);
    if request.metadata.is_some() {
        claim.metadata.clone_from(&request.metadata);
    }
    if before != heir.holder.digest() {
        record.last_end = Some(End {
            how: Ending::HandedOver,
            holder: before,
            token,
            at: env.now,
        });
    }
    touch(record, env);
}

fn grant_at(record: &Record, holder: HolderDigest, token: Token) -> Option<usize> {
    record
        .grants
        .iter()
        .position(|grant| grant.holder == holder && grant.token == token)
}

fn claim_at(record: &Record, holder: HolderDigest, token: Token) -> Option<usize> {
    record
        .claims
        .iter()
        .position(|claim| claim.holder == holder && claim.token == token)
}

/// Sets how many units the name has. Grants and claims beyond it stay; there is just no room for more.
pub fn set_capacity(
    record: &mut Record,
    request: &SetCapacity,
    env: &mut Env,
) -> Step<CapacitySet> {
    let mut events = Events::new();
    settle(record, env, &mut events);
    if request
        .expect_version
        .is_some_and(|expected| expected != record.version)
    {
        let outcome = CapacitySet::VersionChanged(record.version);
        return Step { outcome, events };
    }
    record.capacity = request.units;
    touch(record, env);
    move_up(record, env, &mut events);
    Step {
        outcome: CapacitySet::Set(record.version),
        events,
    }
}
