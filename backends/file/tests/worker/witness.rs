//! What the parent knows of its workers: their lines, the history these make, and what must be there after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use leasehold_conformance::history::{Bounds, Did, Entry, Saw};
use leasehold_core::{Backend as _, Clock as _, Name, Record, SystemClock};
use leasehold_file::File;

/// How long something lasts that was confirmed, to the judges of histories: 400 days.
pub const FOR_GOOD_MS: u64 = 400 * 24 * 3600 * 1000;

/// All processes go by one clock. The store counts in milliseconds, and so may be ahead by less than one.
pub const BOUNDS: Bounds = Bounds {
    drift_ppm: 0,
    margin_ms: 1,
    repeats: false,
};

/// Something a worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It has the file.
    Opened { durable: bool },
    /// What it found there.
    Seen(Sight),
    /// A call is about to be made.
    Begun {
        id: u64,
        client: u32,
        name: String,
        start: u64,
        did: Did,
    },
    /// It was answered.
    Answered { id: u64, end: u64, saw: Saw },
    /// It stands still in the middle of a commit.
    Still,
}

/// What a look at a name showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    pub name: String,
    /// Before and after the look.
    pub span: (u64, u64),
    /// Holders and tokens.
    pub grants: Vec<(u64, u64)>,
    pub claims: Vec<(u64, u64)>,
}

impl Sight {
    pub async fn take(store: &File, name: &Name) -> Self {
        let start = SystemClock.now().as_nanos();
        let record = store.get(name).await.unwrap().what;
        let end = SystemClock.now().as_nanos();
        let record = record.unwrap_or_else(|| Record::new(name.clone()));
        let number = |owner: &leasehold_core::Owner| owner.as_str().parse().unwrap();
        Self {
            name: name.encoded().to_owned(),
            span: (start, end),
            grants: record
                .grants
                .iter()
                .map(|grant| (number(&grant.owner), grant.token.get()))
                .collect(),
            claims: record
                .claims
                .iter()
                .map(|claim| (number(&claim.owner), claim.token.get()))
                .collect(),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { durable } => write!(f, "opened {durable}"),
            Self::Still => f.write_str("still"),
            Self::Seen(sight) => write!(f, "seen {sight}"),
            Self::Answered { id, end, saw } => {
                write!(f, "answered {id} {end} {}", words_of_answer(*saw))
            }
            Self::Begun {
                id,
                client,
                name,
                start,
                did,
            } => write!(
                f,
                "begun {id} {client} {name} {start} {}",
                words_of_call(*did)
            ),
        }
    }
}

fn words_of_call(did: Did) -> String {
    match did {
        Did::Acquire { holder, ttl_ms } => format!("acquire {holder} {ttl_ms}"),
        Did::Renew {
            holder,
            token,
            ttl_ms,
        } => format!("renew {holder} {token} {ttl_ms}"),
        Did::Release { holder, token } => format!("release {holder} {token}"),
        Did::Withdraw { holder } => format!("withdraw {holder}"),
    }
}

fn words_of_answer(saw: Saw) -> String {
    match saw {
        Saw::Held { token, ttl_ms } => format!("held {token} {ttl_ms}"),
        Saw::Refused => "refused".to_owned(),
        Saw::Done => "done".to_owned(),
        Saw::NotHeld => "not-held".to_owned(),
        Saw::Nothing => "nothing".to_owned(),
        Saw::Unknown => "unknown".to_owned(),
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = self.span;
        write!(f, "{} {start} {end}", self.name)?;
        for (holder, token) in &self.grants {
            write!(f, " grant {holder} {token}")?;
        }
        for (holder, token) in &self.claims {
            write!(f, " claim {holder} {token}")?;
        }
        Ok(())
    }
}

/// The words of a line, one after the other.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn text(&mut self) -> Option<String> {
        self.0.next().map(str::to_owned)
    }
}

impl Line {
    /// Reads what [`Display`](fmt::Display) wrote; `None` for anything else.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line.split_whitespace());
        Some(match words.0.next()? {
            "opened" => Self::Opened {
                durable: words.number()?,
            },
            "still" => Self::Still,
            "seen" => Self::Seen(parse_sight(&mut words)?),
            "begun" => Self::Begun {
                id: words.number()?,
                client: words.number()?,
                name: words.text()?,
                start: words.number()?,
                did: parse_did(&mut words)?,
            },
            "answered" => Self::Answered {
                id: words.number()?,
                end: words.number()?,
                saw: parse_saw(&mut words)?,
            },
            _ => return None,
        })
    }
}

fn parse_did(words: &mut Words<'_>) -> Option<Did> {
    Some(match words.0.next()? {
        "acquire" => Did::Acquire {
            holder: words.number()?,
            ttl_ms: words.number()?,
        },
        "renew" => Did::Renew {
            holder: words.number()?,
            token: words.number()?,
            ttl_ms: words.number()?,
        },
        "release" => Did::Release {
            holder: words.number()?,
            token: words.number()?,
        },
        "withdraw" => Did::Withdraw {
            holder: words.number()?,
        },
        _ => return None,
    })
}

fn parse_saw(words: &mut Words<'_>) -> Option<Saw> {
    Some(match words.0.next()? {
        "held" => Saw::Held {
            token: words.number()?,
            ttl_ms: words.number()?,
        },
        "refused" => Saw::Refused,
        "done" => Saw::Done,
        "not-held" => Saw::NotHeld,
        "nothing" => Saw::Nothing,
        "unknown" => Saw::Unknown,
        _ => return None,
    })
}

fn parse_sight(words: &mut Words<'_>) -> Option<Sight> {
    let mut sight = Sight {
        name: words.text()?,
        span: (words.number()?, words.number()?),
        grants: Vec::new(),
        claims: Vec::new(),
    };
    while let Some(sort) = words.0.next() {
        let found = (words.number()?, words.number()?);
        match sort {
            "grant" => sight.grants.push(found),
            _ => sight.claims.push(found),
        }
    }
    Some(sight)
}

/// Everything that was done to a file, by all who had it.
#[derive(Debug, Default)]
pub struct Witness {
    pub entries: Vec<Entry>,
    /// Where in the entries an operation is that has no answer yet.
    open: BTreeMap<u64, usize>,
    /// Operations that a kill left without an answer.
    pub cut_off: usize,
    /// Looks after a restart at something that had to be there.
    pub found: usize,
    pub wrong: Vec<String>,
}

impl Witness {
    /// Takes note of a line.
    pub fn hear(&mut self, line: &Line) {
        match line {
            Line::Begun {
                id,
                client,
                name,
                start,
                did,
            } => {
                self.open.insert(*id, self.entries.len());
                self.entries.push(Entry {
                    client: *client,
                    name: name.clone(),
                    start: *start,
                    end: None,
                    did: *did,
                    saw: Saw::Unknown,
                });
            }
            Line::Answered { id, end, saw } => {
                let at = self.open.remove(id).expect("begun before it is answered");
                self.entries[at].end = Some(*end);
                self.entries[at].saw = *saw;
            }
            Line::Seen(sight) => self.compare(sight),
            Line::Opened { .. } | Line::Still => {}
        }
    }

    /// The process is gone: what it has not answered has happened by now or never will.
    pub fn hear_of_its_end(&mut self) {
        let now = SystemClock.now().as_nanos();
        self.cut_off += self.open.len();
        for at in std::mem::take(&mut self.open).into_values() {
            self.entries[at].end = Some(now);
        }
    }

    /// S7: what was acknowledged is there, and what was let go is not.
    fn compare(&mut self, sight: &Sight) {
        let mut known = Known::default();
        let entries = self.entries.iter();
        entries
            .filter(|entry| entry.name == sight.name)
            .for_each(|entry| known.learn(entry));
        for (grant, held) in &known.held {
            if held.until <= sight.span.1 {
                continue;
            }
            self.found += 1;
            let is_grant = sight.grants.contains(grant) && !held.confirmed;
            let is_claim = sight.claims.contains(grant) && (held.confirmed || held.maybe_confirmed);
            if !is_grant && !is_claim {
                self.wrong.push(format!("{grant:?} is lost: {sight}"));
            }
        }
        for grant in sight.grants.iter().chain(&sight.claims) {
            if known.over.contains(grant) {
                self.wrong.push(format!("{grant:?} came back: {sight}"));
            }
        }
    }
}

/// What callers know of one name. Grants are holders and tokens.
#[derive(Debug, Default)]
struct Known {
    /// Nobody has tried to end these.
    held: BTreeMap<(u64, u64), Held>,
    /// These were ended.
    over: BTreeSet<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Held {
    /// It cannot have run out before.
    until: u64,
    confirmed: bool,
    maybe_confirmed: bool,
}

impl Known {
    fn learn(&mut self, entry: &Entry) {
        match (entry.did, entry.saw) {
            (
                Did::Acquire { holder, .. } | Did::Renew { holder, .. },
                Saw::Held { token, ttl_ms },
            ) => {
                let until = BOUNDS.deadline(entry.start, ttl_ms);
                let held = self.held.entry((holder, token)).or_default();
                held.until = held.until.max(until);
                held.confirmed |= ttl_ms == FOR_GOOD_MS;
            }
            (
                Did::Renew {
                    holder,
                    token,
                    ttl_ms: FOR_GOOD_MS,
                },
                Saw::Unknown,
            ) => {
                let held = self.held.entry((holder, token)).or_default();
                held.maybe_confirmed = true;
            }
            (Did::Release { holder, token }, saw) => {
                self.held.remove(&(holder, token));
                if saw == Saw::Done {
                    self.over.insert((holder, token));
                }
            }
            _ => {}
        }
    }
}
