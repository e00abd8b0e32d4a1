//! What a majority knows of a name.

use std::time::Duration;

use smallvec::SmallVec;

use super::fan::{Answers, failure, given};
use super::vote::of_a_majority;
use super::{Quorum, majority};
use crate::backend::Seen;
use crate::error::{Effect, Result};
use crate::holder::HolderDigest;
use crate::lease::Token;
use crate::name::Name;
use crate::record::Record;

type Sight = Seen<Option<Record>>;

/// Who holds a name, as one store sees it.
type Holders = SmallVec<[(HolderDigest, Token); 1]>;

impl Quorum {
    /// The record of a name, with the grants that a majority has.
    pub(super) async fn read(&self, name: &Name) -> Result<Sight> {
        let (answers, rest) = self
            .ask(
                |_, store| {
                    let name = name.clone();
                    Box::pin(async move { store.get(&name).await })
                },
                |answers| agreed(answers).is_some(),
            )
            .await;
        self.let_go(rest);
        match agreed(&answers).or_else(|| held_by_nobody(&answers)) {
            Some(sight) => Ok(sight),
            None => Err(failure(&answers, self.majority(), Effect::None)),
        }
    }
}

fn holders(sight: &Sight) -> Holders {
    let grants = sight.what.iter().flat_map(|record| &record.grants);
    grants.map(|grant| (grant.holder, grant.token)).collect()
}

/// What a majority agrees on, and at least as long as it is shown.
fn agreed(answers: &Answers<Sight>) -> Option<Sight> {
    let all: Vec<(Holders, &Sight)> = given(answers).map(|s| (holders(s), s)).collect();
    let enough = majority(answers.len());
    let alike = |who: &Holders| all.iter().filter(|(other, _)| other == who).count();
    let (who, _) = all.iter().find(|(who, _)| alike(who) >= enough)?;
    let same = all.iter().filter(|(other, _)| other == who);
    let same = same.map(|(_, sight)| *sight);
    if who.is_empty() {
        return known_first(same).cloned();
    }
    of_a_majority(same, answers.len(), |sight| left(sight)).cloned()
}

/// A sight of the name, rather than one of nothing.
fn known_first<'a>(sights: impl Iterator<Item = &'a Sight>) -> Option<&'a Sight> {
    sights.min_by_key(|sight| sight.what.is_none())
}

fn left(sight: &Sight) -> Option<Duration> {
    let grants = sight.what.iter().flat_map(|record| &record.grants);
    grants.map(|grant| grant.expires_at.since(sight.now)).min()
}

/// The name without its grants, if so few stores have each of them that no majority can.
fn held_by_nobody(answers: &Answers<Sight>) -> Option<Sight> {
    let seen: Vec<(Holders, &Sight)> = given(answers).map(|s| (holders(s), s)).collect();
    let unseen = answers.len() - seen.len();
    let possible = |who: &(HolderDigest, Token)| {
        let having = seen.iter().filter(|(other, _)| other.contains(who)).count();
        having + unseen >= majority(answers.len())
    };
    let too_few = seen.len() < majority(answers.len());
    if too_few || seen.iter().any(|(who, _)| who.iter().any(possible)) {
        return None;
    }
    let mut sight = known_first(seen.iter().map(|(_, sight)| *sight))?.clone();
    if let Some(record) = &mut sight.what {
        record.grants.clear();
    }
    Some(sight)
}
