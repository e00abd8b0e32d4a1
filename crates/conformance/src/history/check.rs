//! The quick judge: tokens in order, none twice, and no two certain holdings at once. O(n log n).

use std::collections::{BTreeMap, HashMap};

use leasehold_core::Token;

use super::Violation;
use super::record::{Did, Entry, Saw};

/// How far a holder's clock and the store's may part before a holding is no longer certain, and what else may happen.
///
/// A holding is certain from its acknowledgement until its release is sent or `start + ttl · (1 − drift) − margin`,
/// whichever comes first; `start` is when the last acquire or renewal that succeeded was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The relative error of the two clocks, in parts per million.
    pub drift_ppm: u64,
    /// What is taken off in any case, in milliseconds.
    pub margin_ms: u64,
    /// A request may have arrived more than once, and the answer be that to the last copy.
    pub repeats: bool,
}

impl Bounds {
    /// The clocks are one and the same.
    pub const EXACT: Self = Self {
        drift_ppm: 0,
        margin_ms: 0,
        repeats: false,
    };
    /// The clocks are one and the same, but stand still between ticks: the recorder then runs ahead of them by less
    /// than a millisecond, to tell moments apart.
    pub const TICKING: Self = Self {
        drift_ppm: 0,
        margin_ms: 1,
        repeats: false,
    };
    /// What a guard assumes by default: one per cent, and fifty milliseconds.
    pub const GUARD: Self = Self {
        drift_ppm: 10_000,
        margin_ms: 50,
        repeats: false,
    };

    /// The same, where requests may have arrived more than once.
    #[must_use]
    pub const fn with_repeats(self) -> Self {
        Self {
            repeats: true,
            ..self
        }
    }

    /// When a lease sent for at `start` is surely still held.
    #[must_use]
    pub fn deadline(self, start: u64, ttl_ms: u64) -> u64 {
        let ttl = ttl_ms.saturating_mul(1_000_000);
        let drift = u128::from(ttl) * u128::from(self.drift_ppm) / 1_000_000;
        start
            .saturating_add(ttl)
            .saturating_sub(u64::try_from(drift).unwrap_or(u64::MAX))
            .saturating_sub(self.margin_ms.saturating_mul(1_000_000))
            .max(start)
    }
}

/// One grant as its holder knew it.
#[derive(Debug, Clone, Copy)]
struct Holding {
    holder: u64,
    token: u64,
    /// When the acquire that brought it was sent.
    sent: u64,
    /// When its holder learned of it.
    from: u64,
    /// Until when it was certain.
    until: u64,
}

/// Looks for tokens that went back or came twice, and for two holdings at once.
#[must_use]
pub fn check(entries: &[Entry], bounds: Bounds) -> Vec<Violation> {
    let mut by_name: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_name.entry(&entry.name).or_default().push(entry);
    }
    let mut violations = Vec::new();
    for (name, mut entries) in by_name {
        entries.sort_by_key(|entry| entry.start);
        let holdings = holdings(name, &entries, bounds, &mut violations);
        order_of_tokens(name, &holdings, &mut violations);
        overlaps(name, holdings, &mut violations);
    }
    violations
}

/// Puts together what each grant was: when it began, and until when it was certain.
fn holdings(
    name: &str,
    entries: &[&Entry],
    bounds: Bounds,
    violations: &mut Vec<Violation>,
) -> Vec<Holding> {
    let mut found: Vec<Holding> = Vec::new();
    let mut by_token: HashMap<u64, usize> = HashMap::new();
    for entry in entries {
        let (Some(end), Saw::Held { token, ttl_ms }) = (entry.end, entry.saw) else {
            continue;
        };
        let (Did::Acquire { holder, .. } | Did::Renew { holder, .. }) = entry.did else {
            continue;
        };
        if token > Token::MAX.get() {
            let name = name.to_owned();
            violations.push(Violation::TokenTooLarge { name, token });
        }
        let until = bounds.deadline(entry.start, ttl_ms);
        match by_token.get(&token) {
            Some(&at) if found[at].holder == holder => {
                found[at].until = found[at].until.max(until);
                found[at].from = found[at].from.min(end);
            }
            Some(_) => {
                let name = name.to_owned();
                violations.push(Violation::TokenRepeated { name, token });
            }
            None => {
                by_token.insert(token, found.len());
                let (sent, from) = (entry.start, end);
                found.push(Holding {
                    holder,
                    token,
                    sent,
                    from,
                    until,
                });
            }
        }
    }
    close(name, &mut found, entries, violations);
    found
}

/// Ends holdings where their holder sent something that may end them.
fn close(name: &str, found: &mut [Holding], entries: &[&Entry], violations: &mut Vec<Violation>) {
    let mut let_go: HashMap<(u64, Option<u64>), Vec<&Entry>> = HashMap::new();
    for entry in entries {
        match entry.did {
            Did::Release { holder, token } => {
                let_go.entry((holder, Some(token))).or_default().push(entry);
            }
            Did::Withdraw { holder } => let_go.entry((holder, None)).or_default().push(entry),
            Did::Acquire { .. } | Did::Renew { .. } => {}
        }
    }
    for holding in found {
        let named = let_go.get(&(holding.holder, Some(holding.token)));
        let any = let_go.get(&(holding.holder, None));
        let ends = named.into_iter().chain(any).flatten();
        for entry in ends.filter(|entry| entry.start >= holding.sent) {
            holding.until = holding.until.min(entry.start);
        }
        // The same token after its release was acknowledged is a second grant with a used token.
        let released = named.into_iter().flatten().filter(|e| e.saw == Saw::Done);
        let Some(over) = released.filter_map(|entry| entry.end).min() else {
            continue;
        };
        let again = entries.iter().any(|entry| {
            entry.start > over
                && matches!(entry.did, Did::Acquire { holder, .. } if holder == holding.holder)
                && matches!(entry.saw, Saw::Held { token, .. } if token == holding.token)
        });
        if again {
            let (name, token) = (name.to_owned(), holding.token);
            violations.push(Violation::TokenRepeated { name, token });
        }
    }
}

/// A grant that was asked for after another was known must have the larger token.
fn order_of_tokens(name: &str, holdings: &[Holding], violations: &mut Vec<Violation>) {
    let mut by_known: Vec<_> = holdings.iter().collect();
    by_known.sort_by_key(|holding| holding.from);
    let mut known = by_known.into_iter().peekable();
    let mut highest = 0;
    for holding in holdings {
        while let Some(earlier) = known.next_if(|earlier| earlier.from < holding.sent) {
            highest = highest.max(earlier.token);
        }
        if holding.token < highest {
            violations.push(Violation::TokenWentBack {
                name: name.to_owned(),
                tokens: (highest, holding.token),
            });
        }
    }
}

fn overlaps(name: &str, mut holdings: Vec<Holding>, violations: &mut Vec<Violation>) {
    holdings.retain(|holding| holding.from < holding.until);
    holdings.sort_by_key(|holding| holding.from);
    let mut longest: Option<Holding> = None;
    for holding in holdings {
        match longest {
            Some(other) if holding.from < other.until => {
                violations.push(Violation::DoubleGrant {
                    name: name.to_owned(),
                    tokens: (other.token, holding.token),
                });
                if holding.until > other.until {
                    longest = Some(holding);
                }
            }
            _ => longest = Some(holding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{acquire, history, release, renew};
    use super::*;

    #[test]
    fn a_good_history_passes() {
        let history = history([
            acquire(1, 0..1, 10, 5),
            renew(1, 2..3, 10, 5),
            release(1, 8..9, 5),
            acquire(2, 10..11, 10, 6),
            // The second lease ran out at 20.
            acquire(3, 21..22, 10, 7),
        ]);
        assert_eq!(check(&history, Bounds::EXACT), []);
    }

    #[test]
    fn two_holdings_at_once_are_found() {
        let history = history([acquire(1, 0..1, 10, 5), acquire(2, 5..6, 10, 6)]);
        let found = check(&history, Bounds::EXACT);
        assert!(
            matches!(
                found.as_slice(),
                [Violation::DoubleGrant { tokens: (5, 6), .. }]
            ),
            "{found:?}"
        );
    }

    #[test]
    fn a_grant_right_after_a_deadline_passes_and_right_before_it_does_not() {
        let at = |ms: u64| {
            let mut second = acquire(2, 10..11, 10, 6);
            second.start = ms;
            second.end = Some(ms);
            let history = history([acquire(1, 0..1, 10, 5), second]);
            check(&history, Bounds::EXACT).len()
        };
        assert_eq!((at(9_999_999), at(10_000_000)), (1, 0));
    }

    #[test]
    fn a_token_that_goes_back_is_found() {
        let history = history([
            acquire(1, 0..1, 10, 5),
            release(1, 2..3, 5),
            acquire(2, 4..5, 10, 4),
        ]);
        let found = check(&history, Bounds::EXACT);
        assert!(
            matches!(
                found.as_slice(),
                [Violation::TokenWentBack { tokens: (5, 4), .. }]
            ),
            "{found:?}"
        );
    }

    #[test]
    fn a_repeated_token_is_found() {
        let others = history([
            acquire(1, 0..1, 10, 5),
            release(1, 2..3, 5),
            acquire(2, 4..5, 10, 5),
        ]);
        let own = history([
            acquire(1, 0..1, 10, 5),
            release(1, 2..3, 5),
            acquire(1, 4..5, 10, 5),
        ]);
        for history in [others, own] {
            let found = check(&history, Bounds::EXACT);
            assert!(
                matches!(
                    found.as_slice(),
                    [Violation::TokenRepeated { token: 5, .. }]
                ),
                "{found:?}"
            );
        }
    }

    #[test]
    fn concurrent_grants_may_have_any_order_of_tokens() {
        let mut late = acquire(1, 0..9, 1, 5);
        late.end = Some(9_000_000);
        let history = history([late, acquire(2, 2..3, 1, 6)]);
        assert_eq!(check(&history, Bounds::EXACT), []);
    }

    #[test]
    fn a_token_beyond_json_is_found() {
        let history = history([acquire(1, 0..1, 10, 1 << 53)]);
        assert_eq!(check(&history, Bounds::EXACT).len(), 1);
    }

    #[test]
    fn looser_bounds_end_a_holding_sooner() {
        assert_eq!(Bounds::GUARD.deadline(0, 1000), 940_000_000);
        assert_eq!(Bounds::GUARD.deadline(7, 1), 7, "never before it was sent");
    }
}
