//! Callers that each have keys of their own, for whatever is not a store of ours.

use tokio::runtime::Runtime;

use crate::bench::Outcome;
use crate::measure::Subject;
use crate::setup::{dealt, done, key, together};

/// Something that can take a key and release it.
pub(super) trait Pair: Clone + Send + 'static {
    /// Takes a key that is free, and releases it.
    fn pair(&mut self, key: &str) -> impl Future<Output = Outcome<()>> + Send;
}

/// So many callers, on whatever they share.
pub(super) struct Crowd<P> {
    members: Vec<Member<P>>,
}

struct Member<P> {
    how: P,
    keys: Vec<String>,
    at: usize,
}

impl<P: Pair> Crowd<P> {
    /// Deals the keys out, which begin with a word that nobody else uses.
    pub(super) fn new(how: &P, word: &str, count: usize) -> Self {
        let keys = |me| dealt(me, count).map(|at| format!("{word}:{}", key(at)));
        let member = |me| Member {
            how: how.clone(),
            keys: keys(me).collect(),
            at: 0,
        };
        Self {
            members: (0..count).map(member).collect(),
        }
    }

    /// Measures pairs of callers that all call at once, each as soon as it can.
    pub(super) fn subject(mut self, runtime: &Runtime, turns: usize) -> Subject<'_> {
        Subject::timed(self.members.len() * turns, move || {
            let tasks = self.members.drain(..).map(|mut member| async move {
                done(member.pairs(turns).await);
                member
            });
            self.members = together(runtime, tasks);
        })
    }
}

impl<P: Pair> Member<P> {
    async fn pairs(&mut self, count: usize) -> Outcome<()> {
        for _ in 0..count {
            let at = self.at % self.keys.len();
            self.at += 1;
            self.how.pair(&self.keys[at]).await?;
        }
        Ok(())
    }
}
