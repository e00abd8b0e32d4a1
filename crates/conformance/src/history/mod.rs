//! Histories: what callers did and saw, recorded, and checked by two independent judges.
//!
//! [`record`] writes them, [`check`](mod@check) sweeps over tokens and holding windows, [`linear`] asks whether the whole can be
//! explained as one sequence of steps of a lock. [`check_file`] judges a saved history again.

pub mod check;
pub mod linear;
pub mod record;

use std::fmt;
use std::path::Path;

pub use check::{Bounds, check};
pub use linear::check_linear;
pub use record::{Did, Entry, History, Saw};

/// Something that must not be in a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two holders had the same name at the same time.
    DoubleGrant {
        /// Which name.
        name: String,
        /// The tokens of the two grants.
        tokens: (u64, u64),
    },
    /// A later grant has a token that is not larger.
    TokenWentBack {
        /// Which name.
        name: String,
        /// The earlier and the later token.
        tokens: (u64, u64),
    },
    /// Two grants have the same token.
    TokenRepeated {
        /// Which name.
        name: String,
        /// The token.
        token: u64,
    },
    /// A token is too large for JSON.
    TokenTooLarge {
        /// Which name.
        name: String,
        /// The token.
        token: u64,
    },
    /// No order of the operations explains the answers.
    NotLinearizable {
        /// Which name.
        name: String,
    },
    /// The checker did not come to an end in time. This counts as a failure.
    Undecided {
        /// Which name.
        name: String,
    },
    /// The file is not a history.
    Unreadable {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoubleGrant { name, tokens } => write!(
                f,
                "{name}: held twice at once, with tokens {} and {}",
                tokens.0, tokens.1
            ),
            Self::TokenWentBack { name, tokens } => write!(
                f,
                "{name}: token {} was granted after token {}",
                tokens.1, tokens.0
            ),
            Self::TokenRepeated { name, token } => {
                write!(f, "{name}: token {token} was granted twice")
            }
            Self::TokenTooLarge { name, token } => {
                write!(f, "{name}: token {token} is not below 2^53")
            }
            Self::NotLinearizable { name } => write!(f, "{name}: no order explains the answers"),
            Self::Undecided { name } => write!(f, "{name}: not decided in time"),
            Self::Unreadable { reason } => write!(f, "not a history: {reason}"),
        }
    }
}

impl std::error::Error for Violation {}

/// Judges a history by both checkers. An empty answer means that nothing is wrong with it.
#[must_use]
pub fn judge(entries: &[Entry], bounds: Bounds) -> Vec<Violation> {
    let mut violations = check(entries, bounds);
    violations.extend(check_linear(entries, bounds));
    violations
}

/// Judges a saved history.
#[must_use]
pub fn check_file(path: &Path, bounds: Bounds) -> Vec<Violation> {
    match History::read(path) {
        Ok(entries) => judge(&entries, bounds),
        Err(error) => vec![Violation::Unreadable {
            reason: error.to_string(),
        }],
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ops::Range;

    use super::*;

    /// Spans are in milliseconds.
    fn entry(client: u32, span: Range<u64>, did: Did, saw: Saw) -> Entry {
        Entry {
            client,
            name: "n/k".to_owned(),
            start: span.start * 1_000_000,
            end: Some(span.end * 1_000_000),
            did,
            saw,
        }
    }

    pub(crate) fn acquire(holder: u32, span: Range<u64>, ttl_ms: u64, token: u64) -> Entry {
        let did = Did::Acquire {
            holder: holder.into(),
            ttl_ms,
        };
        entry(holder, span, did, Saw::Held { token, ttl_ms })
    }

    pub(crate) fn refused(holder: u32, span: Range<u64>) -> Entry {
        let did = Did::Acquire {
            holder: holder.into(),
            ttl_ms: 10,
        };
        entry(holder, span, did, Saw::Refused)
    }

    pub(crate) fn renew(holder: u32, span: Range<u64>, ttl_ms: u64, token: u64) -> Entry {
        let did = Did::Renew {
            holder: holder.into(),
            token,
            ttl_ms,
        };
        entry(holder, span, did, Saw::Held { token, ttl_ms })
    }

    pub(crate) fn release(holder: u32, span: Range<u64>, token: u64) -> Entry {
        let did = Did::Release {
            holder: holder.into(),
            token,
        };
        entry(holder, span, did, Saw::Done)
    }

    pub(crate) fn history<const N: usize>(entries: [Entry; N]) -> Vec<Entry> {
        entries.into()
    }

    #[test]
    fn a_saved_history_is_judged_by_both() {
        let path = std::env::temp_dir().join(format!("leasehold-judge-{}", std::process::id()));
        let bad = [acquire(1, 0..1, 100, 5), acquire(2, 2..3, 100, 5)];
        let lines: Vec<_> = bad
            .iter()
            .map(|e| serde_json::to_string(e).unwrap())
            .collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let found = check_file(&path, Bounds::EXACT);
        std::fs::write(&path, "{}").unwrap();
        let unreadable = check_file(&path, Bounds::EXACT);
        std::fs::remove_file(path).unwrap();
        assert!(
            found
                .iter()
                .any(|v| matches!(v, Violation::TokenRepeated { .. })),
            "{found:?}"
        );
        assert!(
            found
                .iter()
                .any(|v| matches!(v, Violation::NotLinearizable { .. })),
            "{found:?}"
        );
        assert!(matches!(
            unreadable.as_slice(),
            [Violation::Unreadable { .. }]
        ));
    }
}
