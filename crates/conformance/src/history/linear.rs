//! The second opinion: can one sequence of steps of a lock explain every answer?
//!
//! The model is an owner-aware fenced mutex with leases. A lease may end by itself, but only after its deadline. An
//! operation whose answer was lost may or may not have happened, at any time after it was sent; so the model keeps
//! every world that is still possible.

use std::collections::BTreeMap;
use std::time::Duration;

use porcupine_rs::{CheckResult, Model, Operation, check_operations_timeout};

use super::Violation;
use super::check::Bounds;
use super::record::{Did, Entry, Saw};

/// How long the search may take per name.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks for each name whether its operations can be put in an order that explains them.
#[must_use]
pub fn check_linear(entries: &[Entry], bounds: Bounds) -> Vec<Violation> {
    let mut by_name: BTreeMap<&str, Vec<Operation<Mutex>>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.saw != Saw::Nothing) {
        let operations = by_name.entry(&entry.name).or_default();
        operations.push(operation(entry, bounds));
        if bounds.repeats && may_hide_a_copy(entry) {
            let mut copy = operation(entry, bounds);
            copy.op.saw = Saw::Unknown;
            operations.push(copy);
        }
    }
    let judge = |(name, operations): (&str, Vec<Operation<Mutex>>)| {
        let name = name.to_owned();
        match check_operations_timeout(&operations, PATIENCE) {
            CheckResult::Ok => None,
            CheckResult::Illegal => Some(Violation::NotLinearizable { name }),
            CheckResult::Unknown => Some(Violation::Undecided { name }),
        }
    };
    by_name.into_iter().filter_map(judge).collect()
}

/// Whether an earlier copy of the request may have done what its answer denies.
fn may_hide_a_copy(entry: &Entry) -> bool {
    matches!(
        (entry.did, entry.saw),
        (Did::Release { .. }, Saw::NotHeld) | (Did::Acquire { .. }, Saw::Refused)
    )
}

fn operation(entry: &Entry, bounds: Bounds) -> Operation<Mutex> {
    let signed = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
    let end = entry.end.unwrap_or(u64::MAX);
    let ttl_ms = match (entry.saw, entry.did) {
        (Saw::Held { ttl_ms, .. }, _)
        | (_, Did::Acquire { ttl_ms, .. } | Did::Renew { ttl_ms, .. }) => ttl_ms,
        (_, Did::Release { .. } | Did::Withdraw { .. }) => 0,
    };
    Operation {
        client_id: Some(entry.client),
        call_time: signed(entry.start),
        return_time: signed(end),
        op: Step {
            did: entry.did,
            saw: entry.saw,
            end,
            deadline: bounds.deadline(entry.start, ttl_ms),
        },
        metadata: None,
    }
}

/// One operation, with the two moments that matter to the model.
#[derive(Debug, Clone)]
struct Step {
    did: Did,
    saw: Saw,
    /// The latest moment at which it can have happened.
    end: u64,
    /// The earliest moment at which a lease given by it can be over.
    deadline: u64,
}

#[derive(Debug, Clone)]
struct Mutex;

/// One possible state of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct World {
    held: Option<Held>,
    /// The highest token known to have been given.
    highest: u64,
    /// The last grant that was released; releasing it again is answered the same.
    released: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Held {
    holder: u64,
    /// Unknown if the answer of the acquire was lost.
    token: Option<u64>,
    /// It cannot have run out before this.
    deadline: u64,
}

impl Model for Mutex {
    type State = Vec<World>;
    type Op = Step;
    type Metadata = ();

    fn init() -> Vec<World> {
        vec![World::default()]
    }

    fn step(worlds: &Vec<World>, step: &Step) -> (bool, Vec<World>) {
        let mut next = Vec::new();
        for world in worlds {
            world.then(step, &mut next);
            // The lease may have run out just before.
            if world.held.is_some_and(|held| held.deadline <= step.end) {
                let expired = World {
                    held: None,
                    ..world.clone()
                };
                expired.then(step, &mut next);
            }
        }
        next.sort_unstable();
        next.dedup();
        (!next.is_empty(), next)
    }
}

impl World {
    /// Adds the worlds that a step can lead to from here and that agree with what was seen.
    fn then(&self, step: &Step, next: &mut Vec<Self>) {
        match (step.did, step.saw) {
            (Did::Acquire { holder, .. }, Saw::Held { token, .. }) => {
                next.extend(self.granted(holder, token, step.deadline));
            }
            (Did::Acquire { holder, .. }, Saw::Unknown) => {
                next.push(self.clone());
                next.extend(self.maybe_granted(holder, step.deadline));
            }
            (Did::Acquire { holder, .. }, _) => {
                let by_other = self.held.is_some_and(|held| held.holder != holder);
                next.extend(by_other.then(|| self.clone()));
            }
            (Did::Renew { holder, token, .. }, saw) => {
                let renewed = self.renewed(holder, token, step.deadline);
                match saw {
                    Saw::Held { .. } => next.extend(renewed),
                    Saw::Unknown => next.extend(renewed.into_iter().chain([self.clone()])),
                    _ => next.extend(self.without(holder, token)),
                }
            }
            (Did::Release { holder, token }, saw) => {
                let released = self.released(holder, token);
                match saw {
                    Saw::Done => next.extend(released),
                    Saw::Unknown => next.extend(released.into_iter().chain([self.clone()])),
                    _ => next.extend(self.without(holder, token)),
                }
            }
            (Did::Withdraw { holder }, saw) => {
                if saw == Saw::Unknown {
                    next.push(self.clone());
                }
                next.push(self.withdrawn(holder));
            }
        }
    }

    fn has(&self, holder: u64, token: u64) -> bool {
        self.held.is_some_and(|held| {
            held.holder == holder && held.token.is_none_or(|known| known == token)
        })
    }

    fn granted(&self, holder: u64, token: u64, deadline: u64) -> Option<Self> {
        let deadline = match self.held {
            Some(held) if held.holder != holder => return None,
            Some(held) if held.token.is_some_and(|known| known != token) => return None,
            Some(held) => held.deadline.max(deadline),
            None => deadline,
        };
        let is_new = self.held.is_none_or(|held| held.token.is_none());
        if is_new && token <= self.highest {
            return None;
        }
        Some(Self {
            held: Some(Held {
                holder,
                token: Some(token),
                deadline,
            }),
            highest: self.highest.max(token),
            released: self.released,
        })
    }

    fn maybe_granted(&self, holder: u64, deadline: u64) -> Option<Self> {
        let held = match self.held {
            Some(held) if held.holder != holder => return None,
            Some(held) => Held {
                deadline: held.deadline.max(deadline),
                ..held
            },
            None => Held {
                holder,
                token: None,
                deadline,
            },
        };
        Some(Self {
            held: Some(held),
            ..self.clone()
        })
    }

    fn renewed(&self, holder: u64, token: u64, deadline: u64) -> Option<Self> {
        let held = self.held.filter(|_| self.has(holder, token))?;
        Some(Self {
            held: Some(Held {
                token: Some(token),
                deadline: held.deadline.max(deadline),
                ..held
            }),
            highest: self.highest.max(token),
            released: self.released,
        })
    }

    fn released(&self, holder: u64, token: u64) -> Option<Self> {
        if self.has(holder, token) {
            return Some(Self {
                held: None,
                highest: self.highest.max(token),
                released: Some((holder, token)),
            });
        }
        (self.released == Some((holder, token))).then(|| self.clone())
    }

    /// The world as it is, if this grant is not in it.
    fn without(&self, holder: u64, token: u64) -> Option<Self> {
        let is_here = self
            .held
            .is_some_and(|held| held.holder == holder && held.token == Some(token));
        (!is_here).then(|| self.clone())
    }

    fn withdrawn(&self, holder: u64) -> Self {
        match self.held {
            Some(held) if held.holder == holder => Self {
                held: None,
                released: held.token.map(|token| (holder, token)),
                highest: self.highest,
            },
            _ => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{acquire, history, refused, release, renew};
    use super::*;

    fn is_fine(history: &[Entry]) -> bool {
        check_linear(history, Bounds::EXACT).is_empty()
    }

    fn lost(mut entry: Entry) -> Entry {
        entry.end = None;
        entry.saw = Saw::Unknown;
        entry
    }

    #[test]
    fn a_good_history_passes() {
        assert!(is_fine(&history([
            acquire(1, 0..1, 10, 5),
            refused(2, 2..3),
            renew(1, 4..5, 10, 5),
            release(1, 8..9, 5),
            release(1, 10..11, 5),
            acquire(2, 12..13, 10, 6),
            acquire(3, 23..24, 10, 7),
        ])));
    }

    #[test]
    fn a_grant_before_the_deadline_of_another_is_found() {
        assert!(!is_fine(&history([
            acquire(1, 0..1, 10, 5),
            acquire(2, 8..9, 10, 6),
        ])));
    }

    #[test]
    fn a_refusal_of_a_free_name_is_found() {
        assert!(!is_fine(&history([
            acquire(1, 0..1, 10, 5),
            release(1, 2..3, 5),
            refused(2, 4..5),
        ])));
    }

    #[test]
    fn a_renewal_over_a_successor_is_found() {
        assert!(!is_fine(&history([
            acquire(1, 0..1, 5, 5),
            acquire(2, 6..7, 10, 6),
            renew(1, 8..9, 10, 5),
        ])));
    }

    #[test]
    fn a_token_going_back_or_coming_twice_is_found() {
        for token in [4, 5] {
            assert!(!is_fine(&history([
                acquire(1, 0..1, 10, 5),
                release(1, 2..3, 5),
                acquire(2, 4..5, 10, token),
            ])));
        }
    }

    #[test]
    fn a_release_that_ended_a_newer_grant_is_found() {
        // The late release of token 5 was answered as done, and then a stranger got the name under token 6's nose.
        assert!(!is_fine(&history([
            acquire(1, 0..1, 100, 5),
            release(1, 2..3, 5),
            acquire(1, 4..5, 100, 6),
            release(1, 6..7, 5),
            acquire(2, 8..9, 100, 7),
        ])));
    }

    #[test]
    fn a_lost_answer_may_have_happened_or_not() {
        assert!(is_fine(&history([
            lost(acquire(1, 0..1, 100, 5)),
            refused(2, 2..3),
        ])));
        assert!(is_fine(&history([
            lost(acquire(1, 0..1, 100, 5)),
            acquire(2, 2..3, 100, 5),
        ])));
        assert!(is_fine(&history([
            acquire(1, 0..1, 100, 5),
            lost(release(1, 2..3, 5)),
            acquire(2, 4..5, 100, 6),
        ])));
    }

    #[test]
    fn a_release_answered_twice_may_deny_itself() {
        // Its first copy ended the grant, another came and went, and the second copy found nothing.
        let mut denied = release(1, 2..9, 5);
        denied.saw = Saw::NotHeld;
        let history = history([
            acquire(1, 0..1, 100, 5),
            denied,
            acquire(2, 4..5, 100, 6),
            release(2, 6..7, 6),
        ]);
        assert!(!is_fine(&history));
        let repeats = Bounds::EXACT.with_repeats();
        assert_eq!(check_linear(&history, repeats), []);
    }

    #[test]
    fn a_lost_acquire_cannot_have_been_taken_over_early() {
        // Either it never happened, and the refusal is wrong, or it did, and the grant is.
        assert!(!is_fine(&history([
            lost(acquire(1, 0..1, 100, 5)),
            refused(2, 2..3),
            acquire(3, 4..5, 100, 6),
        ])));
    }
}
