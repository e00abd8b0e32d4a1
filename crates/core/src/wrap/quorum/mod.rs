//! A majority of independent stores instead of one: Redlock, for any backend, with tokens that grow.
//!
//! Begin with [`Quorum`], which says why it is safe and where it is not; `acquire.rs` is where names are taken.

mod acquire;
mod fan;
mod lane;
mod read;
mod tokens;
mod vote;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use fan::{Answers, Call, Fan, count, failure};
use lane::{Lanes, in_background, insist};
use tokens::Proposals;
use vote::majority;

use super::together;
use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page,
    Release, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use crate::clock::{Clock, SystemClock};
use crate::error::{Effect, Error, Result};
use crate::guarantees::{AtomicNames, Capabilities, Description};
use crate::name::Name;
use crate::record::Record;

/// The word for a quorum in descriptions and errors.
const SCHEME: &str = "quorum";
/// A call is given up after this many times the time that stores are given to answer.
const PATIENCE: u32 = 10;

/// Takes names by majority from several stores that know nothing of each other.
///
/// Every request goes to all stores at once, and what a majority says is the answer. A minority may be down, deaf, slow
/// or wrong. A store that does not answer in time is not waited for; its call goes on in the background, and what it
/// takes in vain is given back.
///
/// # Exclusion
/// Two majorities share a store, and that store holds a name for one holder at a time. A lease is as long as a majority
/// has it. As with every store, whoever holds it begins to count when the request leaves, and takes off a margin for
/// clocks that drift; here this is not done a second time, but a grant that took so long that nothing would be left of it
/// is not given.
///
/// # Tokens
/// A grant counts only where it has the token that the quorum gives, so that renewals and releases find it. The stores
/// are asked for a token a little ahead of them all ([`Acquire::token_floor`]); where they give different ones all the
/// same, they are asked to go on with a larger one, a few times at most. A store that missed that does not count.
///
/// Tokens grow: a later grant is counted at a majority too, which shares a store with that of the earlier one. There the
/// earlier token was drawn first, and every token drawn later is larger, as the fencing of that store promises.
///
/// # Refusals and errors
/// A request is refused if so many stores refuse that there can be no majority, or if a majority answers and somebody is
/// in the way of the rest. Then what was granted has been given back, or is being given back in the background. It fails
/// if too few answer. If so many answers were lost that a majority may have granted it after all, the error has
/// [`Effect::Unknown`] and nothing is given back: a repeated request finds the grant, and a withdrawal ends it.
///
/// A refusal may be due to others who ask at the same moment and come away with nothing either.
///
/// # What it cannot do
/// Queue, list, confirm, share, count units, or take several names in one step. Adding to a lease needs clocks that agree
/// to the millisecond; where they do not, nothing is added and the answer says so. It is no stronger than its
/// [guarantees](crate::Guarantees::assumes): a store that comes back without what it knew can help to grant a name twice.
pub struct Quorum {
    stores: Vec<Arc<dyn Backend>>,
    answer_within: Duration,
    clock: Arc<dyn Clock>,
    proposals: Proposals,
    lanes: Arc<Lanes>,
    description: Description,
}

impl Quorum {
    /// How long stores are given to answer, if nothing else is said.
    pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);
    /// The most stores a quorum may have.
    pub const MAX_STORES: usize = 15;

    /// A quorum of these stores, on the system's clock.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) unless there is an odd number of them, from 3 to
    /// [`MAX_STORES`](Self::MAX_STORES), and none twice. One more than an odd number would have to answer as well, and help
    /// nobody.
    pub fn new(stores: impl IntoIterator<Item = Arc<dyn Backend>>) -> Result<Self> {
        let stores: Vec<_> = stores.into_iter().collect();
        check_stores(&stores)?;
        let description = describe(&stores)?;
        Ok(Self {
            lanes: Arc::new(Lanes::new(stores.len())),
            stores,
            answer_within: Self::ANSWER_WITHIN,
            clock: SystemClock::shared(),
            proposals: Proposals::default(),
            description,
        })
    }

    /// Counts a store that takes longer than this as one that failed. Take a small part of the ttl.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for zero.
    pub fn answer_within(mut self, limit: Duration) -> Result<Self> {
        if limit.is_zero() {
            return Err(Error::invalid(
                "a limit of zero leaves the stores no time to answer; it must be longer",
            ));
        }
        self.answer_within = limit;
        Ok(self)
    }

    /// Judges time by this clock instead.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The stores.
    #[must_use]
    pub fn stores(&self) -> &[Arc<dyn Backend>] {
        &self.stores
    }

    fn majority(&self) -> usize {
        majority(self.stores.len())
    }

    /// Asks all stores, and listens until it is decided or their time is over. Also returns what is still under way.
    async fn ask<T>(
        &self,
        call: impl Fn(usize, Arc<dyn Backend>) -> Call<T>,
        is_decided: impl Fn(&Answers<T>) -> bool,
    ) -> (Answers<T>, Fan<T>) {
        let stores = self.stores.iter().enumerate();
        let fan = Fan::new(stores.map(|(at, store)| (at, call(at, Arc::clone(store)))));
        self.hear(fan, is_decided).await
    }

    async fn hear<T>(
        &self,
        mut fan: Fan<T>,
        is_decided: impl Fn(&Answers<T>) -> bool,
    ) -> (Answers<T>, Fan<T>) {
        let mut answers: Answers<T> = self.stores.iter().map(|_| None).collect();
        let note = |answers: &mut Answers<T>, came: Vec<_>| {
            for (at, answer) in came {
                answers[at] = Some(answer);
            }
        };
        // Stores inside this process need no timer.
        note(&mut answers, fan.ready().await);
        if fan.is_empty() || is_decided(&answers) {
            return (answers, fan);
        }
        let limit = self.clock.now().after(self.answer_within);
        let mut over = self.clock.sleep_until(limit);
        while !fan.is_empty() && !is_decided(&answers) {
            tokio::select! {
                // Answers that are there count, however late they are noticed.
                biased;
                came = fan.answers() => note(&mut answers, came),
                () = &mut over => break,
            }
        }
        (answers, fan)
    }

    /// Asks all stores until a majority has answered; the rest goes on in the background.
    async fn ask_most<T: Send + 'static>(
        &self,
        effect: Effect,
        call: impl Fn(usize, Arc<dyn Backend>) -> Call<T>,
    ) -> Result<Answers<T>> {
        let enough = self.majority();
        let (answers, rest) = self
            .ask(call, |answers| count(answers, Result::is_ok) >= enough)
            .await;
        self.let_go(rest);
        if count(&answers, Result::is_ok) < enough {
            return Err(failure(&answers, enough, effect));
        }
        Ok(answers)
    }

    /// Lets calls whose answers nobody waits for any more come to their end, unless they take far too long: others may
    /// wait for their turn.
    fn let_go<T: Send + 'static>(&self, rest: Fan<T>) {
        self.let_go_for(self.answer_within.saturating_mul(PATIENCE), rest);
    }

    fn let_go_for<T: Send + 'static>(&self, limit: Duration, mut rest: Fan<T>) {
        if rest.is_empty() {
            return;
        }
        in_background(&self.clock, limit, async move {
            while !rest.is_empty() {
                rest.answers().await;
            }
        });
    }
}

fn check_stores(stores: &[Arc<dyn Backend>]) -> Result<()> {
    let count = stores.len();
    if !(3..=Quorum::MAX_STORES).contains(&count) || count.is_multiple_of(2) {
        return Err(Error::invalid(format!(
            "a quorum needs an odd number of stores from 3 to {}, not {count}",
            Quorum::MAX_STORES
        )));
    }
    let twice = |at: usize| stores[..at].iter().any(|s| Arc::ptr_eq(s, &stores[at]));
    if (0..count).any(twice) {
        return Err(Error::invalid(
            "the same store is given twice, and would have two votes",
        ));
    }
    Ok(())
}

fn describe(stores: &[Arc<dyn Backend>]) -> Result<Description> {
    let each = || stores.iter().map(|store| store.describe());
    let assumes = "a majority of the stores answers and keeps what it has acknowledged, so that one that lost its data \
                   stays away until the longest lease is over; their clocks neither step nor differ in speed by more \
                   than 1 %; one holder id is used by one process at a time";
    let together = together::capabilities(each()).zip(together::guarantees(each(), assumes));
    let Some((can, guarantees)) = together else {
        return Err(Error::invalid("a quorum needs stores"));
    };
    Ok(Description {
        scheme: SCHEME,
        capabilities: Capabilities {
            queue: false,
            list: false,
            reservations: false,
            quantities: false,
            atomic_names: AtomicNames::One,
            ..can
        },
        guarantees,
    })
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("a quorum cannot {what}"))
}

/// The names a release is about, in order.
fn released_names(request: &Release) -> Vec<&Name> {
    match request {
        Release::Force { name, .. } => vec![name],
        _ => request.items().iter().map(|(name, _)| name).collect(),
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum")
            .field("stores", &self.stores)
            .field("answer_within", &self.answer_within)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Quorum {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        let answer = self.take(request).await;
        answer.map_err(|error| {
            error
                .during("acquire", SCHEME)
                .with_name(request.names.first())
        })
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let (items, shared) = (request.items.len(), Arc::new(request.clone()));
        let (answers, rest) = self
            .ask(
                |_, store| {
                    let request = Arc::clone(&shared);
                    Box::pin(async move { store.renew(&request).await })
                },
                |answers| vote::renewal_is_decided(answers, items),
            )
            .await;
        self.let_go(rest);
        if items > 0 && count(&answers, Result::is_ok) < self.majority() {
            let error = failure(&answers, self.majority(), Effect::Unknown);
            return Err(error.during("renew", SCHEME));
        }
        let each = request.items.iter().enumerate().map(|(at, item)| {
            vote::renewed(&answers, at)
                .map_err(|error| error.during("renew", SCHEME).with_name(&item.name))
        });
        Ok(each.collect())
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let names = released_names(request);
        let lanes = match request {
            Release::Claims { .. } => return Err(unsupported("free a claim")),
            Release::Grants { holder, .. } => Some(self.lanes.of_all(&names, holder)),
            Release::Force { .. } => None,
        };
        let (count, shared) = (names.len(), Arc::new(request.clone()));
        let call = |at, store: Arc<dyn Backend>| {
            let request = Arc::clone(&shared);
            let release = move || -> Call<Releases> {
                let (store, request) = (Arc::clone(&store), Arc::clone(&request));
                Box::pin(async move { store.release(&request).await })
            };
            match &lanes {
                Some(lanes) => {
                    Box::pin(insist(Arc::clone(&self.clock), lanes.clone(), at, release))
                }
                // What is ended by force may be somebody else's by the next time.
                None => release(),
            }
        };
        let is_decided = |answers: &_| vote::release_is_decided(answers, count);
        let (answers, rest) = self.ask(call, is_decided).await;
        self.let_go(rest);
        let all: Option<Releases> = (0..count).map(|at| vote::released(&answers, at)).collect();
        all.ok_or_else(|| {
            let effect = fan::effect(&answers);
            let error = failure(&answers, self.majority(), effect).during("release", SCHEME);
            match names.as_slice() {
                [name] => error.with_name(name),
                _ => error,
            }
        })
    }

    async fn confirm(&self, _request: &Confirm) -> Result<Confirmed> {
        Err(unsupported("confirm"))
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let names: Vec<_> = request.names.as_slice().iter().collect();
        let lanes = self.lanes.of_all(&names, &request.holder);
        let shared = Arc::new(request.clone());
        let answers = self.ask_most(Effect::Unknown, |at, store| {
            let request = Arc::clone(&shared);
            let withdraw = move || -> Call<Withdrawn> {
                let (store, request) = (Arc::clone(&store), Arc::clone(&request));
                Box::pin(async move { store.withdraw(&request).await })
            };
            Box::pin(insist(Arc::clone(&self.clock), lanes.clone(), at, withdraw))
        });
        let answers = answers.await;
        let answers = answers.map_err(|error| error.during("withdraw", SCHEME))?;
        Ok(vote::withdrawn(&answers))
    }

    async fn set_capacity(&self, _request: &SetCapacity) -> Result<CapacitySet> {
        Err(unsupported("set a capacity"))
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let seen = self.read(name).await;
        seen.map_err(|error| error.during("get", SCHEME).with_name(name))
    }

    async fn list(&self, _request: &List) -> Result<Seen<Page<Record>>> {
        Err(unsupported("list"))
    }

    /// Sweeps every store, each up to the limit.
    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let shared = Arc::new(request.clone());
        let answers = self.ask_most(Effect::Unknown, |_, store| {
            let request = Arc::clone(&shared);
            Box::pin(async move { store.sweep(&request).await })
        });
        let answers = answers.await;
        let answers = answers.map_err(|error| error.during("sweep", SCHEME))?;
        Ok(vote::swept(&answers))
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        if !self.description.capabilities.watch {
            return Err(unsupported("watch, because one of its stores cannot"));
        }
        let watch = self.watch_all(inbox, name).await;
        watch.map_err(|error| error.during("watch", SCHEME))
    }
}
