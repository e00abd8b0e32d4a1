//! Taking a name by majority.
//!
//! An attempt has rounds. In the first one nothing is changed that the holder may have already. If a majority then has
//! one and the same token, that is the grant. If a majority has different ones, the next round raises them all to the
//! largest, so that copies of one request come to the same token; and if stores have gone on meanwhile, to a new one.
//!
//! **Invariant:** an attempt gives back only tokens that it has drawn itself, and only if no majority can have them.
//! Another attempt of the same holder, before, after or at the same time, may count on anything else it finds.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::fan::{Answers, Call, Fan, failure, given};
use super::lane::{LONGEST, Lane, insist};
use super::tokens::slack;
use super::vote::{Verdict, in_the_way, lease_of, majority, votes};
use super::{Quorum, unsupported};
use crate::backend::{Acquire, Acquired, Backend, Blocked, Own, Release};
use crate::clock::{Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::holder::Holder;
use crate::lease::{Kind, Lease, Mode, ONE_UNIT, Token};
use crate::name::Name;

/// The most rounds of one attempt. More than two are needed only where stores give many tokens at the same time.
const ROUNDS: usize = 5;
/// One part in this many: the bound on the difference of clock rates.
const DRIFT_PARTS: u32 = 100;

/// What one round asks of all stores.
#[derive(Debug, Clone, Copy)]
struct Round {
    own: Own,
    /// The token that is wanted.
    floor: Token,
    why: Why,
}

impl Round {
    /// Whether its token is one that nobody else asks for.
    fn draws(self) -> bool {
        matches!(self.why, Why::First | Why::Raise)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// To have the name, whatever the token.
    First,
    /// To have the largest of several tokens everywhere.
    Level,
    /// To have a new token everywhere.
    Raise,
    /// To do to a grant that a majority has already what the request says.
    Settle,
}

/// What the answers to one round amount to.
enum Next {
    /// A majority has this token.
    Same(Token),
    /// A majority has the name, with different tokens.
    Mixed,
    Refused,
    Failed,
}

/// How an attempt ended.
enum Ended {
    Granted(Lease),
    Refused(Blocked),
    Failed(Error),
}

/// What one store may have of an attempt.
#[derive(Debug, Clone, Default)]
struct Left {
    /// The tokens, of which it has one at most.
    tokens: SmallVec<[Token; 1]>,
    /// Whether it has said so.
    sure: bool,
}

/// What became of an attempt, for calls of it that come to their end later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was granted with this token.
    Granted(Token),
    /// It may be granted; its holder will find out.
    Open,
    /// Nobody wants it.
    Over,
}

/// One store, as seen by a holder of a name.
#[derive(Clone)]
struct Place {
    store: Arc<dyn Backend>,
    at: usize,
    lane: Lane,
    holder: Holder,
    name: Name,
    clock: Arc<dyn Clock>,
}

impl Place {
    /// Ends what the holder has here with this token.
    async fn give_back(self, token: Token) -> Result<()> {
        let release = Arc::new(Release::grant(self.name, self.holder, token));
        let store = self.store;
        insist(self.clock, vec![self.lane], self.at, move || {
            let (store, release) = (Arc::clone(&store), Arc::clone(&release));
            Box::pin(async move { store.release(&release).await.map(drop) })
        })
        .await
    }
}

/// What one store is asked in one round.
struct Question {
    place: Place,
    request: Arc<Acquire>,
    round: Round,
    fate: Arc<OnceLock<Fate>>,
}

impl Question {
    async fn ask(self) -> Result<Acquired> {
        let turn = self.place.lane.clone().turn(self.place.at).await;
        let answer = self.place.store.acquire(&self.request).await;
        drop(turn);
        // As long as the attempt goes on, that is what takes care of it.
        if let Some(fate) = self.fate.get() {
            self.clean_up(&answer, *fate).await;
        }
        answer
    }

    /// Gives back what came too late to be part of a grant.
    async fn clean_up(&self, answer: &Result<Acquired>, fate: Fate) {
        let drawn: SmallVec<[Token; 1]> = match answer {
            Ok(Acquired::Granted(leases)) => leases
                .iter()
                .filter(|lease| is_drawn(lease, self.round, &self.request))
                .map(|lease| lease.token)
                .collect(),
            Err(error) if error.effect() == Effect::Unknown && self.round.draws() => {
                [self.round.floor].into()
            }
            Ok(_) | Err(_) => return,
        };
        let is_unwanted = |token: &Token| match fate {
            Fate::Granted(granted) => *token != granted,
            Fate::Open => false,
            Fate::Over => true,
        };
        for token in drawn.into_iter().filter(is_unwanted) {
            drop(self.place.clone().give_back(token).await);
        }
    }
}

struct Attempt<'a> {
    quorum: &'a Quorum,
    request: &'a Acquire,
    left: Vec<Left>,
    lane: Lane,
    fate: Arc<OnceLock<Fate>>,
    /// Whether a store may have changed in a way that cannot be taken back for sure.
    in_doubt: bool,
}

impl Quorum {
    pub(super) async fn take(&self, request: &Acquire) -> Result<Acquired> {
        let mut attempt = Attempt {
            quorum: self,
            request,
            lane: self.lanes.of(check(request)?, &request.holder),
            fate: Arc::default(),
            left: vec![Left::default(); self.stores.len()],
            in_doubt: false,
        };
        match attempt.run().await {
            Ended::Granted(lease) => {
                attempt.leave(lease.token);
                Ok(Acquired::Granted(SmallVec::from_buf([lease])))
            }
            Ended::Refused(blocked) => {
                attempt.give_back().await;
                Ok(Acquired::Held(vec![blocked]))
            }
            Ended::Failed(error) => Err(error.with_effect(attempt.fail().await)),
        }
    }
}

/// The name that is asked for, if a quorum can do what is asked.
fn check(request: &Acquire) -> Result<&Name> {
    request.check()?;
    let plain = request.kind == Kind::Lock
        && request.mode == Mode::Exclusive
        && request.units == ONE_UNIT
        && request.amounts.is_none();
    if !plain {
        return Err(unsupported("reserve, share or count units"));
    }
    let name = request.names.single();
    name.ok_or_else(|| unsupported("take several names in one step"))
}

impl Attempt<'_> {
    async fn run(&mut self) -> Ended {
        let mut round = Round {
            own: Own::Keep,
            floor: self.propose(self.request.token_floor),
            why: Why::First,
        };
        for _ in 0..ROUNDS {
            let sent = self.quorum.clock.now();
            let answers = self.ask(round).await;
            self.learn(&answers, round, sent);
            round = match next(&answers) {
                Next::Refused => return refused(&answers),
                Next::Failed if self.is_in_the_way(&answers) => return refused(&answers),
                Next::Failed => return Ended::Failed(self.failure(&answers)),
                Next::Same(token) if self.is_enough(token, round) => {
                    return self.granted(&answers, token, sent);
                }
                Next::Same(token) if self.is_outdated(token) => self.raise(token, sent),
                Next::Same(token) => Round {
                    own: self.request.own,
                    floor: token,
                    why: Why::Settle,
                },
                Next::Mixed if round.why == Why::First => Round {
                    own: Own::Replace,
                    floor: largest(&answers),
                    why: Why::Level,
                },
                Next::Mixed => self.raise(largest(&answers), sent),
            };
        }
        Ended::Failed(Error::new(
            ErrorKind::Unavailable,
            format!("the stores did not come to one token in {ROUNDS} rounds"),
        ))
    }

    fn propose(&self, at_least: Token) -> Token {
        let wall = self.quorum.clock.wall();
        self.quorum.proposals.next(at_least, wall)
    }

    /// The next round, in which all stores shall have one token: more than any has given, also by the time it comes.
    fn raise(&self, largest: Token, sent: Moment) -> Round {
        let took = self.quorum.clock.now().since(sent);
        let beyond = Token::new(largest.get().saturating_add(slack(took)));
        Round {
            own: Own::Replace,
            floor: self.propose(beyond.max(self.request.token_floor)),
            why: Why::Raise,
        }
    }

    /// Whether a token that a majority has ends the attempt.
    fn is_enough(&self, token: Token, round: Round) -> bool {
        let fresh = token == round.floor;
        let as_it_is = self.request.own == Own::Keep && round.why != Why::Settle;
        fresh || as_it_is
    }

    /// Whether the holder wants a larger token than the one it has.
    fn is_outdated(&self, token: Token) -> bool {
        self.request.own == Own::Replace && token < self.request.token_floor
    }

    /// Whether somebody else, and no outage, is why a majority that answered did not grant it. That passes, and is worth
    /// waiting for, like any other refusal.
    fn is_in_the_way(&self, answers: &Answers<Acquired>) -> bool {
        let has_answered = given(answers).count() >= self.quorum.majority();
        has_answered && refusals(answers).next().is_some() && !self.may_be_granted()
    }

    async fn ask(&mut self, round: Round) -> Answers<Acquired> {
        let request = Arc::new(Acquire {
            own: round.own,
            token_floor: round.floor,
            queue: None,
            ..self.request.clone()
        });
        let calls = self.places().map(|place| -> (usize, Call<Acquired>) {
            let question = Question {
                request: Arc::clone(&request),
                round,
                fate: Arc::clone(&self.fate),
                place,
            };
            (question.place.at, Box::pin(question.ask()))
        });
        let calls = Fan::new(calls);
        let decided = |answers: &_| verdict(answers).is_some();
        let (answers, rest) = self.quorum.hear(calls, decided).await;
        // They must go on at once: whatever comes next at those stores waits for its turn.
        self.quorum.let_go(rest);
        answers
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let stores = self.quorum.stores.iter().enumerate();
        stores.map(|(at, store)| Place {
            store: Arc::clone(store),
            at,
            lane: self.lane.clone(),
            holder: self.request.holder.clone(),
            name: self.request.names.first().clone(),
            clock: Arc::clone(&self.quorum.clock),
        })
    }

    /// Notes which tokens are in use, and which of them are ours to give back.
    fn learn(&mut self, answers: &Answers<Acquired>, round: Round, sent: Moment) {
        let (clock, proposals) = (&self.quorum.clock, &self.quorum.proposals);
        for (left, answer) in self.left.iter_mut().zip(answers) {
            match answer {
                Some(Ok(Acquired::Granted(leases))) => {
                    let before = std::mem::take(left);
                    for lease in leases {
                        if lease.token > round.floor {
                            let took = clock.now().since(sent);
                            proposals.outrun(lease.token, clock.wall(), took);
                        }
                        let was_drawn = before.sure && before.tokens.contains(&lease.token);
                        if was_drawn || is_drawn(lease, round, self.request) {
                            left.tokens.push(lease.token);
                            left.sure = true;
                        } else {
                            self.in_doubt = true;
                        }
                    }
                }
                Some(Ok(Acquired::Held(blocked))) => {
                    *left = Left::default();
                    let holdings = blocked.iter().filter_map(|b| b.holding.as_ref());
                    holdings.for_each(|holding| proposals.saw(holding.token));
                }
                Some(Err(error)) if error.effect() == Effect::None => {}
                Some(Ok(Acquired::Queued(_)) | Err(_)) | None => {
                    self.in_doubt = true;
                    left.sure = false;
                    if round.draws() {
                        left.tokens.push(round.floor);
                    }
                }
            }
        }
    }

    /// The grant that a majority has with this token. What others have of this holder is not part of it.
    fn granted(&mut self, answers: &Answers<Acquired>, token: Token, sent: Moment) -> Ended {
        let counted = leases(answers).filter(|lease| lease.token == token);
        let Some(lease) = lease_of(counted, answers.len()) else {
            return Ended::Failed(self.failure(answers));
        };
        let took = self.quorum.clock.now().since(sent);
        if took + lease.ttl / DRIFT_PARTS >= lease.ttl {
            let detail = format!(
                "the stores took {took:?}, so that nothing is left of a lease of {:?}; use a longer ttl",
                lease.ttl
            );
            return Ended::Failed(Error::new(ErrorKind::Timeout, detail));
        }
        for (left, answer) in self.left.iter_mut().zip(answers) {
            let stray = granted_leases(answer).iter().map(|lease| lease.token);
            left.tokens = stray.filter(|other| *other != token).collect();
        }
        Ended::Granted(lease)
    }

    fn failure(&self, answers: &Answers<Acquired>) -> Error {
        failure(answers, self.quorum.majority(), Effect::Unknown)
    }

    /// Ends an attempt that failed, and says whether anything may be left of it.
    async fn fail(self) -> Effect {
        if self.may_be_granted() {
            self.fate.get_or_init(|| Fate::Open);
            return Effect::Unknown;
        }
        let in_doubt = self.in_doubt;
        if self.give_back().await && !in_doubt {
            Effect::None
        } else {
            Effect::Unknown
        }
    }

    /// Whether a majority may have one of our tokens, without our knowing.
    fn may_be_granted(&self) -> bool {
        let having = |token: &Token| {
            let has = |left: &&Left| left.tokens.contains(token);
            self.left.iter().filter(has).count()
        };
        let mut tokens = self.left.iter().flat_map(|left| &left.tokens);
        tokens.any(|token| having(token) >= self.quorum.majority())
    }

    /// Gives back what may be left of the attempt: waits for those who said that they have it, and leaves the others to
    /// the background. Says whether there are none of these.
    async fn give_back(self) -> bool {
        let sure = self.give_backs(|left| left.sure);
        let (answers, rest) = self.quorum.hear(sure, |_| false).await;
        let failed = answers.iter().flatten().any(Result::is_err);
        let done = rest.is_empty() && !failed;
        self.quorum.let_go_for(LONGEST, rest);
        let unsure = self.give_backs(|left| !left.sure);
        self.quorum.let_go_for(LONGEST, unsure);
        self.fate.get_or_init(|| Fate::Over);
        done
    }

    /// Calls that end what some stores may have of the attempt.
    fn give_backs(&self, which: impl Fn(&Left) -> bool) -> Fan<()> {
        let mut calls = Vec::new();
        for (place, left) in self.places().zip(&self.left) {
            for token in left.tokens.iter().filter(|_| which(left)) {
                let call: Call<()> = Box::pin(place.clone().give_back(*token));
                calls.push((place.at, call));
            }
        }
        Fan::new(calls)
    }

    /// Leaves a grant to its holder, and gives back what is not part of it.
    fn leave(self, token: Token) {
        self.quorum.let_go_for(LONGEST, self.give_backs(|_| true));
        self.fate.get_or_init(|| Fate::Granted(token));
    }
}

/// Whether a lease was made by this round, and not by an earlier request of the same holder. The first round leaves
/// earlier leases as they are, so that they are shorter by now.
fn is_drawn(lease: &Lease, round: Round, request: &Acquire) -> bool {
    match round.why {
        Why::First if lease.token > round.floor => lease.ttl >= request.ttl.as_duration(),
        Why::First | Why::Raise => lease.token == round.floor,
        Why::Level | Why::Settle => false,
    }
}

fn granted_leases(answer: &Option<Result<Acquired>>) -> &[Lease] {
    match answer {
        Some(Ok(Acquired::Granted(leases))) => leases,
        _ => &[],
    }
}

fn leases(answers: &Answers<Acquired>) -> impl Iterator<Item = &Lease> {
    answers.iter().flat_map(granted_leases)
}

fn refusals(answers: &Answers<Acquired>) -> impl Iterator<Item = &Blocked> + Clone {
    answers
        .iter()
        .flatten()
        .flatten()
        .flat_map(|answer| match answer {
            Acquired::Held(blocked) => blocked.as_slice(),
            Acquired::Granted(_) | Acquired::Queued(_) => &[],
        })
}

/// The largest token that any store has given.
fn largest(answers: &Answers<Acquired>) -> Token {
    let tokens = leases(answers).map(|lease| lease.token);
    tokens.max().unwrap_or(Token::new(0))
}

fn refused(answers: &Answers<Acquired>) -> Ended {
    match in_the_way(refusals(answers)) {
        Some(blocked) => Ended::Refused(blocked),
        None => Ended::Failed(Error::new(
            ErrorKind::Internal,
            "the stores refused a request without saying why",
        )),
    }
}

/// The token that most have, and how many do.
fn most_common(answers: &Answers<Acquired>) -> Option<(Token, usize)> {
    let having = |token: Token| leases(answers).filter(|lease| lease.token == token).count();
    leases(answers)
        .map(|lease| (lease.token, having(lease.token)))
        .max_by_key(|(token, count)| (*count, *token))
}

fn verdict(answers: &Answers<Acquired>) -> Option<Verdict> {
    let is_granted = |answer: &Acquired| matches!(answer, Acquired::Granted(_));
    votes(answers, |answer| Some(answer), is_granted).verdict(answers.len())
}

fn next(answers: &Answers<Acquired>) -> Next {
    match (verdict(answers), most_common(answers)) {
        (Some(Verdict::Yes), Some((token, count))) if count >= majority(answers.len()) => {
            Next::Same(token)
        }
        (Some(Verdict::Yes), _) => Next::Mixed,
        (Some(Verdict::No), _) => Next::Refused,
        (Some(Verdict::Failed) | None, _) => Next::Failed,
    }
}
