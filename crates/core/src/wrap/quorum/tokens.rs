//! The tokens a quorum asks its stores for.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::lease::Token;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::wrap::together::{micros, plausible};

/// How far ahead of its own clock a quorum asks if it knows nothing better, in microseconds.
const LEAD: u64 = 1_000_000;

/// Where the tokens of the stores are, as far as this process knows.
///
/// Stores draw a token of their own if it is larger than the one asked for, and no two draw the same. So one asks for a
/// token a little ahead of all of them: ahead of the clock, because many stores go by theirs, and of everything seen.
#[derive(Debug)]
pub(super) struct Proposals {
    last: AtomicU64,
    lead: AtomicU64,
}

impl Default for Proposals {
    fn default() -> Self {
        Self {
            last: AtomicU64::new(0),
            lead: AtomicU64::new(LEAD),
        }
    }
}

impl Proposals {
    /// A token that this process has never asked for nor seen.
    pub(super) fn next(&self, at_least: Token, wall: Timestamp) -> Token {
        let ahead = micros(wall).saturating_add(self.lead.load(Ordering::Relaxed));
        let beyond = |last: u64| Some(last.saturating_add(1).max(at_least.get()).max(ahead));
        let order = Ordering::Relaxed;
        // The update never refuses, so both results hold what was there before.
        let (Ok(last) | Err(last)) = self.last.fetch_update(order, order, beyond);
        Token::new(beyond(last).unwrap_or(last))
    }

    /// Remembers a token that is in use.
    pub(super) fn saw(&self, token: Token) {
        self.last
            .fetch_max(plausible(token.get()), Ordering::Relaxed);
    }

    /// Learns from a store that gave more than it was asked for, `took` after it was asked: asks for more the next time.
    pub(super) fn outrun(&self, token: Token, wall: Timestamp, took: Duration) {
        self.saw(token);
        let lead = plausible(token.get()).saturating_sub(micros(wall));
        let order = Ordering::Relaxed;
        self.lead.fetch_max(lead.saturating_add(slack(took)), order);
    }
}

/// How many tokens a store that counts microseconds may get on between two calls, if one call took so long.
pub(super) fn slack(took: Duration) -> u64 {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    micros.saturating_mul(2).saturating_add(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    #[test]
    fn no_token_is_asked_for_twice_nor_once_it_was_seen() {
        let proposals = Proposals::default();
        let none = Token::new(0);
        let first = proposals.next(none, WALL);
        assert!(first.get() > micros(WALL));
        assert!(proposals.next(none, WALL) > first);
        let seen = Token::new(first.get() + 1_000_000_000);
        proposals.saw(seen);
        let next = proposals.next(none, WALL);
        assert!(next > seen);
        let floor = Token::new(next.get() + 500);
        assert_eq!(proposals.next(floor, WALL), floor);
        proposals.saw(Token::MAX);
        assert_eq!(proposals.next(none, WALL).get(), floor.get() + 1);
    }

    #[test]
    fn whoever_was_outrun_asks_for_more_next_time() {
        let proposals = Proposals::default();
        let ahead = Token::new(micros(WALL) + 60_000_000);
        proposals.outrun(ahead, WALL, Duration::ZERO);
        // A minute later the store that goes by its own clock is a minute further.
        let later = WALL.after(Duration::from_secs(60));
        let next = proposals.next(Token::new(0), later);
        assert!(next.get() > ahead.get() + 60_000_000);
    }
}
