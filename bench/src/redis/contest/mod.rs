//! Workers that all want one name: each holds it for a millisecond, rests for two, and comes again.
//!
//! They work in processes of their own, which [`crew`] starts and [`child`] is the inside of. A [`Kind`] says by what
//! they exclude each other, [`Contest`] what came of it. Without the rest, whoever hands everything back to the same
//! worker would look best.

mod child;
mod crew;
mod figures;
mod kind;
mod ours;
mod raw;
mod rslock;
mod section;
mod worker;

use crate::bench::Outcome;

use super::server::Server;

pub(crate) use child::run as run_as_child;
pub(super) use crew::{Crew, Layout};
pub(super) use figures::{Contest, Contests};
pub(super) use kind::Kind;

/// How often each crew has its turn, after one that does not count.
const ROUNDS: usize = 5;

/// Lets crews take turns, so that what slows one slows the others as well.
pub(super) fn interleave<const N: usize>(
    server: &Server,
    mut crews: [Crew; N],
) -> Outcome<[Contests; N]> {
    let mut contests = [const { Contests::new() }; N];
    for round in 0..=ROUNDS {
        for (crew, contests) in crews.iter_mut().zip(&mut contests) {
            let contest = crew.contest(server)?;
            if round > 0 {
                contests.add(contest);
            }
        }
    }
    Ok(contests)
}
