//! What Redis says when something is wrong, in our words.

use leasehold_core::{Effect, Error, ErrorKind, Name};
use redis::{ErrorKind as RedisKind, RedisError, ServerErrorKind};

use crate::value::{damaged, other_form};

/// What came of a call that failed, if it was sent.
pub(crate) fn of_call(error: RedisError) -> Error {
    let (kind, effect) = classify(&error);
    if kind == ErrorKind::Corrupt
        && let Some(damage) = damage_in(&error.to_string())
    {
        return damage;
    }
    let told = Error::new(kind, told(&error)).with_effect(effect);
    told.with_source(error)
}

/// What came of an attempt to connect: nothing was asked yet.
pub(crate) fn of_dial(error: RedisError) -> Error {
    of_call(error).with_effect(Effect::None)
}

/// Whether the connection is of no use any more.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_connection_dropped()
        || error.is_io_error()
        || error.kind() == RedisKind::Server(ServerErrorKind::ReadOnly)
}

/// Whether the server does not know a script yet.
pub(crate) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == RedisKind::Server(ServerErrorKind::NoScript)
}

fn classify(error: &RedisError) -> (ErrorKind, Effect) {
    // A server that answers with an error has refused: a script that fails has not written yet.
    if let Some(code) = error.code() {
        return (of_code(code, error), Effect::None);
    }
    match error.kind() {
        RedisKind::AuthenticationFailed => (ErrorKind::Denied, Effect::None),
        RedisKind::InvalidClientConfig | RedisKind::EmptySentinelList => {
            (ErrorKind::Config, Effect::None)
        }
        RedisKind::MasterNameNotFoundBySentinel | RedisKind::ClusterConnectionNotFound => {
            (ErrorKind::Unavailable, Effect::None)
        }
        _ if error.is_timeout() => (ErrorKind::Timeout, Effect::Unknown),
        _ if error.is_connection_refusal() => (ErrorKind::Unavailable, Effect::None),
        _ => (ErrorKind::Unavailable, Effect::Unknown),
    }
}

fn of_code(code: &str, error: &RedisError) -> ErrorKind {
    match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => ErrorKind::Denied,
        "WRONGTYPE" => ErrorKind::Corrupt,
        "ERR" => of_text(&error.to_string()),
        "CROSSSLOT" => ErrorKind::Internal,
        // LOADING, BUSY, READONLY, MASTERDOWN, CLUSTERDOWN, TRYAGAIN, OOM, MISCONF, NOREPLICAS and what is to come.
        _ => ErrorKind::Unavailable,
    }
}

/// Some things have no code of their own.
fn of_text(text: &str) -> ErrorKind {
    if is_damage(text) {
        return ErrorKind::Corrupt;
    }
    if text.contains("The user executing the script can't") {
        return ErrorKind::Denied;
    }
    if text.contains("cluster support disabled") {
        return ErrorKind::Config;
    }
    ErrorKind::Internal
}

/// The two ways in which a script stumbles over something that it did not write: the rule tells, a common case does not.
fn is_damage(text: &str) -> bool {
    text.contains("data string too short") || damage_in(text).is_some()
}

/// What `try_read` in `scripts/codec.lua` tells of a record that it cannot read.
pub(crate) fn damage_in(text: &str) -> Option<Error> {
    let (_, told) = text.split_once("LEASEHOLD-")?;
    let mut words = told.split_ascii_whitespace();
    let error = match words.next()? {
        "FORM" => other_form(words.next()?.parse().ok()?),
        "DAMAGED" => damaged(),
        _ => return None,
    };
    Some(match words.next().and_then(name_of) {
        Some(name) => error.with_name(&name),
        None => error,
    })
}

/// A name that comes as hexadecimal digits.
fn name_of(digits: &str) -> Option<Name> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes = bytes.collect::<Option<_>>()?;
    Name::decode(&String::from_utf8(bytes).ok()?).ok()
}

fn told(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("the server says {code}: {detail}"),
        _ => format!("the server cannot be reached or does not answer: {error}"),
    }
}
