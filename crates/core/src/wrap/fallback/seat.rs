//! Which of two stores is in use: the rule by which a fallback changes from one to the other. No I/O, no clock.
//!
//! **Invariant:** between the last use of one store and the first use of the other lies a pause in which neither is used,
//! longer than any lease and the margin. The one exception goes back to the store that was in use before, and only while
//! nobody who began the same pause up to a margin earlier can have come to its end.

use std::time::Duration;

use super::FallbackState;
use crate::clock::Moment;

/// The terms of a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// How long the first store must have failed, or answered again.
    pub(super) after: Duration,
    /// The longest lease.
    pub(super) longest: Duration,
    /// By how much processes may disagree about when a change began.
    pub(super) margin: Duration,
    /// The pause between two looks at the first store.
    pub(super) probe_every: Duration,
}

/// One of the two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Primary,
    Secondary,
}

/// A store that may be used, and the number of the use: it is over once there is a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) which: Which,
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The first store is in use, and has failed since then.
    Primary { failing: Option<Moment> },
    /// Neither is in use; then the second will be.
    Leaving { since: Moment },
    /// The second store is in use, and the first answers since then.
    Secondary { well: Option<Moment> },
    /// Neither is in use; then the first will be.
    Returning { since: Moment },
}

#[derive(Debug)]
pub(super) struct Seat {
    terms: Terms,
    stage: Stage,
    number: u64,
    /// When the first store is to be looked at next; `None` while somebody does.
    next_probe: Option<Moment>,
}

impl Seat {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            stage: Stage::Primary { failing: None },
            number: 0,
            next_probe: Some(Moment::from_nanos(0)),
        }
    }

    pub(super) fn terms(&mut self) -> &mut Terms {
        &mut self.terms
    }

    pub(super) fn state(&self) -> FallbackState {
        match self.stage {
            Stage::Primary { .. } => FallbackState::Primary,
            Stage::Leaving { .. } => FallbackState::Leaving,
            Stage::Secondary { .. } => FallbackState::Secondary,
            Stage::Returning { .. } => FallbackState::Returning,
        }
    }

    /// The store to use now, or how long none is.
    pub(super) fn current(&mut self, now: Moment) -> Result<Use, Duration> {
        self.settle(now);
        let which = match self.stage {
            Stage::Primary { .. } => Which::Primary,
            Stage::Secondary { .. } => Which::Secondary,
            Stage::Leaving { since } | Stage::Returning { since } => {
                return Err(self.end_of_pause(since).since(now));
            }
        };
        Ok(self.used(which))
    }

    /// The store in use, or that was until the pause began: for what ends leases.
    pub(super) fn latest(&mut self, now: Moment) -> Use {
        self.settle(now);
        self.used(match self.stage {
            Stage::Primary { .. } | Stage::Leaving { .. } => Which::Primary,
            Stage::Secondary { .. } | Stage::Returning { .. } => Which::Secondary,
        })
    }

    fn used(&self, which: Which) -> Use {
        Use {
            which,
            number: self.number,
        }
    }

    /// Whether a use that began earlier still goes on.
    pub(super) fn goes_on(&mut self, used: Use, now: Moment) -> bool {
        self.settle(now);
        self.number == used.number
    }

    /// What time alone does.
    fn settle(&mut self, now: Moment) {
        match self.stage {
            Stage::Leaving { since } if now >= self.end_of_pause(since) => {
                self.enter(Stage::Secondary { well: None });
            }
            Stage::Returning { since } if now >= self.end_of_pause(since) => {
                self.enter(Stage::Primary { failing: None });
            }
            _ => {}
        }
    }

    fn end_of_pause(&self, since: Moment) -> Moment {
        since.after(self.terms.longest).after(self.terms.margin)
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.number += 1;
    }

    /// What an answer of a store in use says of it.
    pub(super) fn learn(&mut self, used: Use, is_down: bool, now: Moment) {
        if !self.goes_on(used, now) {
            return;
        }
        let Stage::Primary { failing } = &mut self.stage else {
            return;
        };
        if !is_down {
            *failing = None;
            return;
        }
        let since = *failing.get_or_insert(now);
        if now.since(since) >= self.terms.after {
            self.enter(Stage::Leaving { since: now });
        }
    }

    /// Whether somebody should look at the first store now. Whoever is told so must report.
    pub(super) fn probe_is_due(&mut self, now: Moment) -> bool {
        self.settle(now);
        let matters = match self.stage {
            Stage::Leaving { since } => now < since.after(self.terms.longest),
            Stage::Secondary { .. } => true,
            Stage::Primary { .. } | Stage::Returning { .. } => false,
        };
        let due = matters && self.next_probe.is_some_and(|next| next <= now);
        if due {
            self.next_probe = None;
        }
        due
    }

    /// The first store answered, or did not.
    pub(super) fn probed(&mut self, is_well: bool, now: Moment) {
        self.settle(now);
        self.next_probe = Some(now.after(self.terms.probe_every));
        match &mut self.stage {
            Stage::Leaving { since } if is_well && now < since.after(self.terms.longest) => {
                self.enter(Stage::Primary { failing: None });
            }
            Stage::Secondary { well } if is_well => {
                let since = *well.get_or_insert(now);
                if now.since(since) >= self.terms.after {
                    self.enter(Stage::Returning { since: now });
                }
            }
            Stage::Secondary { well } => *well = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        after: Duration::from_secs(5),
        longest: Duration::from_secs(30),
        margin: Duration::from_secs(10),
        probe_every: Duration::from_secs(1),
    };

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(secs * 1_000_000_000)
    }

    fn fail(seat: &mut Seat, secs: u64) {
        let used = seat.current(at(secs)).unwrap();
        seat.learn(used, true, at(secs));
    }

    /// A seat that has left the first store at 105.
    fn left() -> Seat {
        let mut seat = Seat::new(TERMS);
        fail(&mut seat, 100);
        fail(&mut seat, 104);
        assert_eq!(seat.state(), FallbackState::Primary);
        fail(&mut seat, 105);
        assert_eq!(seat.state(), FallbackState::Leaving);
        seat
    }

    #[test]
    fn only_failures_in_a_row_for_long_enough_count() {
        let mut seat = Seat::new(TERMS);
        fail(&mut seat, 100);
        let used = seat.current(at(103)).unwrap();
        seat.learn(used, false, at(103));
        fail(&mut seat, 106);
        fail(&mut seat, 110);
        assert_eq!(seat.state(), FallbackState::Primary);
        fail(&mut seat, 111);
        assert_eq!(seat.state(), FallbackState::Leaving);
    }

    #[test]
    fn neither_is_used_until_every_lease_and_the_margin_are_over() {
        let mut seat = left();
        assert_eq!(seat.current(at(105)), Err(Duration::from_secs(40)));
        assert_eq!(seat.current(at(144)), Err(Duration::from_secs(1)));
        assert_eq!(seat.latest(at(144)).which, Which::Primary);
        let used = seat.current(at(145)).unwrap();
        assert_eq!(used.which, Which::Secondary);
    }

    #[test]
    fn what_began_before_the_pause_is_over_in_it_and_after_it() {
        let mut seat = Seat::new(TERMS);
        let used = seat.current(at(99)).unwrap();
        assert!(seat.goes_on(used, at(99)));
        let mut seat = left();
        assert!(!seat.goes_on(used, at(106)));
        assert!(!seat.goes_on(used, at(200)));
        // Nor does its failure say anything about the other store.
        seat.learn(used, true, at(200));
        assert_eq!(seat.state(), FallbackState::Secondary);
    }

    #[test]
    fn the_first_store_comes_back_at_once_only_while_nobody_can_use_the_second() {
        let mut seat = left();
        assert!(seat.probe_is_due(at(106)));
        assert!(!seat.probe_is_due(at(107)), "one is under way");
        seat.probed(false, at(107));
        assert!(!seat.probe_is_due(at(107)));
        assert!(seat.probe_is_due(at(108)));
        seat.probed(true, at(134));
        assert_eq!(seat.current(at(134)).unwrap().which, Which::Primary);

        let mut seat = left();
        assert!(seat.probe_is_due(at(134)));
        // Somebody who left a margin earlier may use the second store by now.
        seat.probed(true, at(135));
        assert_eq!(seat.state(), FallbackState::Leaving);
        assert!(!seat.probe_is_due(at(137)));
    }

    #[test]
    fn it_returns_as_it_left() {
        let mut seat = left();
        assert_eq!(seat.current(at(145)).unwrap().which, Which::Secondary);
        for (secs, is_well) in [(150, true), (153, false), (154, true), (158, true)] {
            assert!(seat.probe_is_due(at(secs)));
            seat.probed(is_well, at(secs));
            assert_eq!(seat.state(), FallbackState::Secondary, "at {secs}");
        }
        assert!(seat.probe_is_due(at(159)));
        seat.probed(true, at(159));
        assert_eq!(seat.current(at(159)), Err(Duration::from_secs(40)));
        assert_eq!(seat.latest(at(198)).which, Which::Secondary);
        assert_eq!(seat.current(at(199)).unwrap().which, Which::Primary);
    }
}
