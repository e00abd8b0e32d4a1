//! Taking names, or a place in the queue.

use leasehold_core::backend::outcome::Queued;
use leasehold_core::backend::{Acquire, Acquired, Blocked, BlockedBy, Own};
use leasehold_core::{Error, ErrorKind, Mode, Name, Result, Timestamp, transition};

use super::{code_of, name_at, place_in, text_of};
use crate::answer::{Answer, unexpected_word};
use crate::backend::Redis;
use crate::pack::Pack;
use crate::script;
use crate::value::{Bytes, inbox_digits};

impl Redis {
    pub(crate) async fn acquire_now(&self, request: &Acquire) -> Result<Acquired> {
        request.check()?;
        self.caller.asks_for(request.ttl);
        let names = request.names.as_slice();
        let spread = self.spread(names);
        let answer = self.caller.write(&script::ACQUIRE, &spread, |command| {
            let terms = Pack::new().digest(request.holder.digest());
            let terms = terms
                .u64(request.ttl.as_millis())
                .u32(request.lock_delay_ms);
            let terms = terms.u64(request.token_floor.get());
            let terms = terms.u8(code_of(request.kind)).u8(mode_code(request.mode));
            terms.u8(own_code(request.own)).to(command);
            command.arg(request.owner.as_str());
            command.arg(
                request
                    .queue
                    .map_or(String::new(), |queue| inbox_digits(queue.inbox)),
            );
            command.arg(text_of(request.metadata.as_ref()));
            for (at, name) in names.iter().enumerate() {
                let amount = request.amount(at);
                let wish = Pack::new().place(spread.place(at));
                let wish = wish.u32(amount.units.get()).u32(amount.limit);
                wish.bytes(name.encoded().as_bytes()).to(command);
            }
        });
        let mut answer = answer.await?;
        if answer.is_single() {
            return self.granted(request, &answer.bytes()?);
        }
        match answer.text()?.as_str() {
            "queued" => queued_in(request, &mut answer),
            "held" => held_in(request, &mut answer),
            "other terms" => Err(other_terms(name_at(names, place_in(&mut answer)?)?)),
            word => Err(unexpected_word(word)),
        }
    }

    fn granted(&self, request: &Acquire, bytes: &[u8]) -> Result<Acquired> {
        let mut bytes = Bytes(bytes);
        let too_short = || Error::new(ErrorKind::Internal, "a script's answer is too short");
        let now = bytes.moment().ok_or_else(too_short)?;
        let names = request.names.as_slice().iter();
        let leases = names.map(|name| {
            let (token, expires_at) = bytes.token().zip(bytes.moment()).ok_or_else(too_short)?;
            Ok(self.lease(name, token, expires_at, now))
        });
        Ok(Acquired::Granted(leases.collect::<Result<_>>()?))
    }
}

fn mode_code(mode: Mode) -> u8 {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
    }
}

fn own_code(own: Own) -> u8 {
    match own {
        Own::Refresh => 0,
        Own::Keep => 1,
        Own::Replace => 2,
    }
}

fn blocked_by(code: u64) -> Result<BlockedBy> {
    match code {
        1 => Ok(BlockedBy::Holder),
        2 => Ok(BlockedBy::Queue),
        3 => Ok(BlockedBy::Claim),
        4 => Ok(BlockedBy::LockDelay),
        5 => Ok(BlockedBy::Capacity),
        other => Err(unexpected_word(&other.to_string())),
    }
}

pub(super) fn queued(
    position: usize,
    expires_at: Timestamp,
    now: Timestamp,
    blocked: Blocked,
) -> Queued {
    Queued {
        position,
        ttl: expires_at.since(now),
        expires_at,
        blocked,
    }
}

fn queued_in(request: &Acquire, answer: &mut Answer) -> Result<Acquired> {
    let (now, position, expires_at) = (answer.moment()?, answer.count()?, answer.moment()?);
    let by = blocked_by(answer.number()?)?;
    let record = answer.record(request.names.first())?;
    let (limit, holder) = (request.amount(0).limit, request.holder.digest());
    let blocked = transition::blocked(&record, by, limit, holder, now);
    Ok(Acquired::Queued(Box::new(queued(
        position, expires_at, now, blocked,
    ))))
}

fn held_in(request: &Acquire, answer: &mut Answer) -> Result<Acquired> {
    let now = answer.moment()?;
    let mut held = Vec::new();
    while !answer.is_empty() {
        let (at, by) = (place_in(answer)?, blocked_by(answer.number()?)?);
        let name = name_at(request.names.as_slice(), at)?;
        let record = answer.record(name)?;
        let (limit, holder) = (request.amount(at).limit, request.holder.digest());
        held.push(transition::blocked(&record, by, limit, holder, now));
    }
    Ok(Acquired::Held(held))
}

fn other_terms(name: &Name) -> Error {
    Error::invalid(
        "this holder has or awaits the name already, with another kind, mode or number of units; let go of it first",
    )
    .with_name(name)
}
