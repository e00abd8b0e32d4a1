//! Counting votes, and what a majority has said.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::fan::{Answers, failure, given};
use crate::backend::{Blocked, Expired, NotHeld, Released, Releases, Renewed, Swept, Withdrawn};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::lease::Lease;

/// How many of so many stores have to agree.
pub(super) fn majority(stores: usize) -> usize {
    stores / 2 + 1
}

/// What has become of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A majority said yes.
    Yes,
    /// So many said no that there can be no majority.
    No,
    /// So many failed that there can be neither.
    Failed,
}

/// The votes of some stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Votes {
    pub(super) yes: usize,
    pub(super) no: usize,
    pub(super) failed: usize,
}

impl Votes {
    /// What they amount to, once no further vote can change it.
    pub(super) fn verdict(self, stores: usize) -> Option<Verdict> {
        let enough = majority(stores);
        let too_many = stores - enough + 1;
        let open = stores - self.yes - self.no - self.failed;
        if self.yes >= enough {
            Some(Verdict::Yes)
        } else if self.no >= too_many {
            Some(Verdict::No)
        } else if self.yes + open < enough && self.no + open < too_many {
            Some(Verdict::Failed)
        } else {
            None
        }
    }
}

/// The votes on one item of an answer; `of` finds it there.
pub(super) fn votes<T, I>(
    answers: &Answers<T>,
    of: impl Fn(&T) -> Option<&I>,
    is_yes: impl Fn(&I) -> bool,
) -> Votes {
    let mut votes = Votes::default();
    for answer in answers.iter().flatten() {
        match answer.as_ref().ok().and_then(&of) {
            Some(item) if is_yes(item) => votes.yes += 1,
            Some(_) => votes.no += 1,
            None => votes.failed += 1,
        }
    }
    votes
}

/// Of what some stores have, that which a majority has at least. It is there if a majority has any.
pub(super) fn of_a_majority<T, K: Ord>(
    all: impl Iterator<Item = T>,
    stores: usize,
    size: impl Fn(&T) -> K,
) -> Option<T> {
    let mut all: SmallVec<[T; 5]> = all.collect();
    all.sort_by_key(|one| Reverse(size(one)));
    all.into_iter().nth(majority(stores) - 1)
}

/// The lease that a majority has, no longer than this one.
pub(super) fn lease_of<'a>(
    leases: impl Iterator<Item = &'a Lease>,
    stores: usize,
) -> Option<Lease> {
    of_a_majority(leases, stores, |lease| lease.ttl).cloned()
}

/// What most of those say who refuse, and of those the one that changes first.
pub(super) fn in_the_way<'a>(
    refusals: impl Iterator<Item = &'a Blocked> + Clone,
) -> Option<Blocked> {
    let token = |blocked: &Blocked| blocked.holding.as_ref().map(|holding| holding.token);
    let how_many = |blocked: &Blocked| {
        let same = |other: &&Blocked| (other.by, token(other)) == (blocked.by, token(blocked));
        refusals.clone().filter(same).count()
    };
    let soon = |blocked: &Blocked| Reverse(blocked.change_in.map_or(u128::MAX, |d| d.as_nanos()));
    refusals
        .clone()
        .max_by_key(|blocked| (how_many(blocked), soon(blocked)))
        .cloned()
}

/// One item of the answers of many stores to a renewal.
fn item(answer: &[Result<Renewed>], at: usize) -> Option<&Renewed> {
    answer.get(at)?.as_ref().ok()
}

fn is_renewed(answer: &Renewed) -> bool {
    matches!(answer, Renewed::Renewed(_))
}

pub(super) fn renewal_is_decided(answers: &Answers<Vec<Result<Renewed>>>, items: usize) -> bool {
    (0..items).all(|at| {
        let votes = votes(answers, |answer| item(answer, at), is_renewed);
        votes.verdict(answers.len()).is_some()
    })
}

/// What a majority says of one item of a renewal.
pub(super) fn renewed(answers: &Answers<Vec<Result<Renewed>>>, at: usize) -> Result<Renewed> {
    let said = || given(answers).filter_map(|answer| item(answer, at));
    match votes(answers, |answer| item(answer, at), is_renewed).verdict(answers.len()) {
        Some(Verdict::Yes) => {
            let leases = said().filter_map(Renewed::lease);
            let lease = lease_of(leases, answers.len());
            lease.map(Renewed::Renewed).ok_or_else(unanswered)
        }
        Some(Verdict::No) => not_renewed(said()).ok_or_else(unanswered),
        Some(Verdict::Failed) | None => Err(item_failure(answers, at)),
    }
}

fn not_renewed<'a>(said: impl Iterator<Item = &'a Renewed>) -> Option<Renewed> {
    let (mut changed, mut missing) = (Vec::new(), Vec::new());
    for answer in said {
        match answer {
            Renewed::Changed(lease) => changed.push(lease),
            Renewed::NotHeld(why) => missing.push(&**why),
            Renewed::Renewed(_) | Renewed::Queued(_) => {}
        }
    }
    if changed.len() > missing.len() {
        let first_to_end = changed.into_iter().min_by_key(|lease| lease.ttl);
        return first_to_end.cloned().map(Renewed::Changed);
    }
    best_informed(missing.into_iter()).map(Renewed::NotHeld)
}

fn item_failure(answers: &Answers<Vec<Result<Renewed>>>, at: usize) -> Error {
    let alone = answers.iter().map(|answer| {
        let answer = answer.as_ref()?;
        Some(match answer {
            Err(error) => Err(error.copy()),
            Ok(answer) => match answer.get(at) {
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(error.copy()),
                None => Err(unanswered()),
            },
        })
    });
    let alone: Answers<()> = alone.collect();
    failure(&alone, majority(answers.len()), Effect::Unknown)
}

/// The refusal that remembers how it ended, or else the first.
fn best_informed<'a>(mut refusals: impl Iterator<Item = &'a NotHeld>) -> Option<Box<NotHeld>> {
    let first = refusals.next()?;
    let best = if first.ended.is_some() {
        first
    } else {
        refusals.find(|why| why.ended.is_some()).unwrap_or(first)
    };
    Some(Box::new(best.clone()))
}

fn is_released(answer: &Released) -> bool {
    !matches!(answer, Released::NotHeld(_))
}

fn release_verdict(answers: &Answers<Releases>, at: usize) -> Option<Verdict> {
    votes(answers, |answer| answer.get(at), is_released).verdict(answers.len())
}

pub(super) fn release_is_decided(answers: &Answers<Releases>, names: usize) -> bool {
    (0..names).all(|at| release_verdict(answers, at).is_some())
}

/// What a majority says of one name of a release; `None` if there is no majority.
pub(super) fn released(answers: &Answers<Releases>, at: usize) -> Option<Released> {
    let mut said = given(answers).filter_map(|answer| answer.get(at));
    match release_verdict(answers, at)? {
        Verdict::Yes => said.find(|answer| is_released(answer)).cloned(),
        Verdict::No => {
            let refusals = said.filter_map(|answer| match answer {
                Released::NotHeld(why) => Some(&**why),
                Released::Released | Released::Forced(_) => None,
            });
            best_informed(refusals).map(Released::NotHeld)
        }
        Verdict::Failed => None,
    }
}

/// What a majority has given back.
pub(super) fn withdrawn(answers: &Answers<Withdrawn>) -> Withdrawn {
    let by_most = |what: fn(&Withdrawn) -> usize| {
        let counts = given(answers).map(what);
        of_a_majority(counts, answers.len(), |count| *count).unwrap_or_default()
    };
    Withdrawn {
        tickets: by_most(|withdrawn| withdrawn.tickets),
        grants: by_most(|withdrawn| withdrawn.grants),
    }
}

/// What any store has swept, each grant once.
pub(super) fn swept(answers: &Answers<Swept>) -> Swept {
    let mut all = Swept::default();
    for swept in given(answers) {
        for expired in &swept.expired {
            let same = |known: &Expired| {
                (&known.name, known.holding.token) == (&expired.name, expired.holding.token)
            };
            if !all.expired.iter().any(same) {
                all.expired.push(expired.clone());
            }
        }
        all.tickets = all.tickets.max(swept.tickets);
        all.forgotten = all.forgotten.max(swept.forgotten);
        all.more |= swept.more;
    }
    all
}

fn unanswered() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a store gave fewer answers than it was asked for",
    )
    .with_effect(Effect::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_open_until_no_vote_can_change_it() {
        let verdict = |yes, no, failed| Votes { yes, no, failed }.verdict(5);
        assert_eq!(verdict(0, 0, 0), None);
        assert_eq!(verdict(2, 2, 0), None);
        assert_eq!(verdict(3, 0, 0), Some(Verdict::Yes));
        assert_eq!(verdict(3, 2, 0), Some(Verdict::Yes));
        assert_eq!(verdict(0, 3, 0), Some(Verdict::No));
        assert_eq!(verdict(2, 3, 0), Some(Verdict::No));
        assert_eq!(verdict(2, 0, 2), None);
        assert_eq!(verdict(2, 1, 2), Some(Verdict::Failed));
        assert_eq!(verdict(0, 0, 3), Some(Verdict::Failed));
        assert_eq!(verdict(1, 2, 1), None);
    }
}
