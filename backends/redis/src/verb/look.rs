//! Looking at records, listing them, and sweeping what is over.

use leasehold_core::backend::{List, Page, Seen, Sweep, Swept};
use leasehold_core::{Error, ErrorKind, Name, Record, Result, Timestamp};

use super::code_of;
use crate::backend::Redis;
use crate::call::Spread;
use crate::script;
use crate::value;

impl Redis {
    pub(crate) async fn get_now(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let spread = self.spread([name]);
        let answer = self.caller.read(&script::GET, &spread, |command| {
            command.arg(name.encoded());
        });
        let mut answer = answer.await?;
        let (now, bytes) = (answer.moment()?, answer.maybe_bytes()?);
        let record = bytes.map(|bytes| value::decode(name, &bytes)).transpose()?;
        let what = record.map(|record| record.seen_at(now));
        Ok(Seen { what, now })
    }

    /// Candidates for a list, as the core wants them.
    pub(crate) async fn scan(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let Some((from, to)) = bounds(request) else {
            return Ok(Seen {
                what: Page {
                    items: Vec::new(),
                    more: false,
                },
                now: Timestamp::from_millis(0),
            });
        };
        let size = request.limit;
        let (mut found, mut now, mut full) = (Vec::new(), Timestamp::NEVER, false);
        for spread in self.rounds() {
            let answer = self.caller.read(&script::LIST, &spread, |command| {
                command.arg(&from).arg(&to).arg(size);
            });
            let mut answer = answer.await?;
            // What has run out by the earliest of these moments has run out by all of them.
            now = now.min(answer.moment()?);
            let before = found.len();
            while !answer.is_empty() {
                let name = stored_name(&answer.text()?)?;
                let record = answer.record(&name)?;
                found.push(record);
            }
            full |= found.len() - before >= size;
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        // Beyond this many, a bucket may have had to leave some out.
        let more = full || found.len() > size;
        found.truncate(size);
        let what = Page { items: found, more };
        Ok(Seen { what, now })
    }

    pub(crate) async fn sweep_now(&self, request: &Sweep) -> Result<Swept> {
        let mut all = List::all();
        all.namespace = request.namespace.clone();
        let Some(prefix) = all.encoded_prefix() else {
            return Ok(Swept::default());
        };
        let mut swept = Swept::default();
        let mut left = request.limit;
        for spread in self.rounds() {
            let answer = self.caller.write(&script::SWEEP, &spread, |command| {
                command.arg(left).arg(&prefix);
                match request.kind {
                    Some(kind) => command.arg(code_of(kind)),
                    None => command.arg(""),
                };
                command.arg(u8::from(request.dry_run));
            });
            let mut answer = answer.await?;
            let now = answer.moment()?;
            swept.more |= answer.number()? == 1;
            let done = answer.count()?;
            swept.tickets += answer.count()?;
            swept.forgotten += answer.count()?;
            while !answer.is_empty() {
                let name = stored_name(&answer.text()?)?;
                swept.expired.extend(answer.record(&name)?.run_out(now));
            }
            left = left.saturating_sub(done);
        }
        Ok(swept)
    }

    /// Which buckets a script gets at once: all of them, or, on a cluster, one.
    fn rounds(&self) -> Vec<Spread> {
        let all = 0..self.buckets().count();
        if self.caller.link.is_cluster() {
            all.map(|number| Spread::over([number])).collect()
        } else {
            vec![Spread::over(all)]
        }
    }
}

fn stored_name(encoded: &str) -> Result<Name> {
    Name::decode(encoded).map_err(|_| {
        let detail = format!("a record is stored under {encoded:?}, which is no name");
        Error::new(ErrorKind::Corrupt, detail)
    })
}

/// From where to where the names of a list reach, as the server wants it; nothing if there can be none.
fn bounds(request: &List) -> Option<(Vec<u8>, Vec<u8>)> {
    let prefix = request.encoded_prefix()?.into_bytes();
    let from = match &request.after {
        Some(after) if after.encoded().as_bytes() >= &prefix[..] => {
            [b"(", after.encoded().as_bytes()].concat()
        }
        _ if prefix.is_empty() => b"-".to_vec(),
        _ => [b"[", &prefix[..]].concat(),
    };
    let to = if prefix.is_empty() {
        b"+".to_vec()
    } else {
        // No name has a byte of 255, so that all that begin like this come before.
        [b"(", &prefix[..], b"\xff"].concat()
    };
    Some((from, to))
}
