//! What each verb sends, and what the answer means.

mod acquire;
mod claim;
mod look;
mod release;
mod renew;

use leasehold_core::backend::Heir;
use leasehold_core::{
    Error, ErrorKind, HolderDigest, Kind, Lease, Metadata, Name, Result, Timestamp, Token,
};
use redis::Cmd;

use crate::answer::Answer;
use crate::backend::Redis;
use crate::bucket::Buckets;
use crate::call::Spread;
use crate::pack::Pack;

impl Redis {
    pub(crate) fn buckets(&self) -> &Buckets {
        &self.caller.buckets
    }

    fn spread<'n>(&self, names: impl IntoIterator<Item = &'n Name>) -> Spread {
        Spread::of(self.buckets(), names)
    }

    /// Which of some names a script can get at the same time: all of them, or, on a cluster, those of one bucket.
    fn groups<'n>(&self, names: impl IntoIterator<Item = &'n Name>) -> Vec<Vec<usize>> {
        let spread = self.spread(names);
        if !self.caller.link.is_cluster() {
            return vec![(0..spread.len()).collect()];
        }
        let mut groups = vec![Vec::new(); spread.numbers.len()];
        for at in 0..spread.len() {
            groups[spread.place(at) - 1].push(at);
        }
        groups
    }

    /// A lease as it was granted or goes on.
    fn lease(&self, name: &Name, token: Token, expires_at: Timestamp, now: Timestamp) -> Lease {
        self.buckets().get(self.buckets().of(name)).saw(token);
        Lease {
            name: name.clone(),
            token,
            expires_at,
            ttl: expires_at.since(now),
        }
    }
}

fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::Lock => 0,
        Kind::Reservation => 1,
    }
}

/// Free text as scripts keep it: nothing, or what stands behind a mark.
fn text_of(metadata: Option<&Metadata>) -> String {
    metadata.map_or(String::new(), |text| format!("\u{1}{}", text.as_str()))
}

fn digest(command: &mut Cmd, holder: HolderDigest) {
    command.arg(&holder.to_bytes()[..]);
}

/// The heir and its owner, or nothing for both.
fn heir(command: &mut Cmd, heir: Option<&Heir>) {
    match heir {
        Some(heir) => {
            digest(command, heir.holder.digest());
            command.arg(heir.owner.as_str());
        }
        None => {
            command.arg("").arg("");
        }
    }
}

/// A name behind its place among the buckets and a token.
fn named(command: &mut Cmd, place: usize, token: u64, name: &Name) {
    let named = Pack::new().place(place).u64(token);
    named.bytes(name.encoded().as_bytes()).to(command);
}

/// A position in a list, which scripts count from one.
fn place_in(answer: &mut Answer) -> Result<usize> {
    Ok(answer.count()?.wrapping_sub(1))
}

fn name_at(names: &[Name], at: usize) -> Result<&Name> {
    let beyond = || Error::new(ErrorKind::Internal, "a script answered for a name too many");
    names.get(at).ok_or_else(beyond)
}

fn refuse_repeated<'n>(names: impl IntoIterator<Item = &'n Name>) -> Result<()> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Error::invalid("the same name is given twice in one request").with_name(pair[0]))
        }
        None => Ok(()),
    }
}
