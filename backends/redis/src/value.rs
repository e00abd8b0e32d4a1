//! Records as the scripts write them; `scripts/codec.lua` has the other half.

use leasehold_core::backend::InboxId;
use leasehold_core::{
    Claim, End, Ending, Error, ErrorKind, Forced, Grant, HolderDigest, Kind, Metadata, Mode, Name,
    Owner, Record, Result, Ticket, Timestamp, Token, Units,
};

const FORM: u8 = 1;

/// Reads a record.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if it is damaged or of another form.
pub(crate) fn decode(name: &Name, bytes: &[u8]) -> Result<Record> {
    let mut bytes = Bytes(bytes);
    match bytes.u8() {
        Some(FORM) => {}
        Some(form) => return Err(other_form(form.into()).with_name(name)),
        None => return Err(damaged().with_name(name)),
    }
    match record(name, &mut bytes) {
        Some(record) if bytes.0.is_empty() => Ok(record),
        _ => Err(damaged().with_name(name)),
    }
}

/// What a record of another form is refused with.
pub(crate) fn other_form(form: u64) -> Error {
    let detail = format!("this record has form {form}, but only {FORM} is known here");
    Error::new(ErrorKind::Corrupt, detail)
}

/// What a record that cannot be read is refused with.
pub(crate) fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "the stored record is damaged")
}

fn record(name: &Name, bytes: &mut Bytes<'_>) -> Option<Record> {
    let mut record = Record::new(name.clone());
    record.kind = kind(bytes.u8()?)?;
    record.capacity = match bytes.u64()? {
        0 => None,
        more => Some(u32::try_from(more - 1).ok()?),
    };
    record.version = bytes.u64()?;
    record.last_token = Token::new(bytes.u64()?);
    let _indexed = bytes.u64()?;
    record.quarantined_until = match bytes.u64()? {
        0 => None,
        moment => Some(Timestamp::from_millis(moment)),
    };
    let how = bytes.u8()?;
    let (grants, tickets, claims) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    if how > 0 {
        record.last_end = Some(end(how, bytes)?);
    }
    for _ in 0..grants {
        record.grants.push(grant(bytes)?);
    }
    for _ in 0..tickets {
        record.tickets.make().push_back(ticket(bytes)?);
    }
    for _ in 0..claims {
        record.claims.make().push(claim(bytes)?);
    }
    Some(record)
}

fn end(how: u8, bytes: &mut Bytes<'_>) -> Option<End> {
    let (holder, token, at) = (bytes.digest()?, bytes.token()?, bytes.moment()?);
    let (by, reason) = (bytes.text()?, bytes.text()?);
    let how = match how {
        1 => Ending::Released,
        2 => Ending::Expired,
        3 => Ending::Forced(Box::new(Forced {
            by: Owner::new(by).ok()?,
            reason: reason.to_owned(),
        })),
        4 => Ending::Confirmed,
        5 => Ending::Spent,
        6 => Ending::HandedOver,
        _ => return None,
    };
    Some(End {
        how,
        holder,
        token,
        at,
    })
}

fn grant(bytes: &mut Bytes<'_>) -> Option<Grant> {
    Some(Grant {
        holder: bytes.digest()?,
        token: bytes.token()?,
        acquired_at: bytes.moment()?,
        expires_at: bytes.moment()?,
        mode: mode(bytes.u8()?)?,
        units: bytes.units()?,
        lock_delay_ms: bytes.u32()?,
        owner: bytes.owner()?,
        metadata: bytes.metadata()?,
    })
}

fn ticket(bytes: &mut Bytes<'_>) -> Option<Ticket> {
    Some(Ticket {
        holder: bytes.digest()?,
        inbox: inbox_of(&bytes.array::<32>()?)?,
        since: bytes.moment()?,
        expires_at: bytes.moment()?,
        mode: mode(bytes.u8()?)?,
        units: bytes.units()?,
        limit: bytes.u32()?,
        kind: kind(bytes.u8()?)?,
        lock_delay_ms: bytes.u32()?,
        owner: bytes.owner()?,
        metadata: bytes.metadata()?,
    })
}

fn claim(bytes: &mut Bytes<'_>) -> Option<Claim> {
    Some(Claim {
        holder: bytes.digest()?,
        token: bytes.token()?,
        confirmed_at: bytes.moment()?,
        units: bytes.units()?,
        entity: bytes.text()?.to_owned(),
        owner: bytes.owner()?,
        metadata: bytes.metadata()?,
    })
}

/// An inbox's address as hexadecimal digits, as it stands in tickets and in the names of channels.
pub(crate) fn inbox_digits(inbox: InboxId) -> String {
    format!("{:032x}", inbox.get())
}

/// Reads what [`inbox_digits`] wrote.
pub(crate) fn inbox_of(digits: &[u8]) -> Option<InboxId> {
    let digits = std::str::from_utf8(digits).ok()?;
    u128::from_str_radix(digits, 16).ok().map(InboxId::new)
}

fn kind(code: u8) -> Option<Kind> {
    match code {
        0 => Some(Kind::Lock),
        1 => Some(Kind::Reservation),
        _ => None,
    }
}

fn mode(code: u8) -> Option<Mode> {
    match code {
        0 => Some(Mode::Exclusive),
        1 => Some(Mode::Shared),
        _ => None,
    }
}

/// Bytes that are read from the front. `None` if there are too few of them, or they cannot be what they should.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn digest(&mut self) -> Option<HolderDigest> {
        self.array().map(HolderDigest::from_bytes)
    }

    pub(crate) fn token(&mut self) -> Option<Token> {
        self.u64().map(Token::new)
    }

    pub(crate) fn moment(&mut self) -> Option<Timestamp> {
        self.u64().map(Timestamp::from_millis)
    }

    fn units(&mut self) -> Option<Units> {
        Units::new(self.u32()?)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn owner(&mut self) -> Option<Owner> {
        Owner::new(self.text()?).ok()
    }

    fn metadata(&mut self) -> Option<Option<Metadata>> {
        match self.text()?.strip_prefix('\u{1}') {
            Some(text) => Metadata::new(text).ok().map(Some),
            None => Some(None),
        }
    }
}
