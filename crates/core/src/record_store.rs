//! The short way to a backend for stores that load records and commit them together.
//!
//! Implement [`RecordStore`] and wrap it in [`RecordBackend`]: the rule then runs over the records, and the store only
//! moves them. A store that locks what it loads (an embedded database with write transactions) keeps its transaction
//! in the [stamp](RecordStore::Stamp) and never meets a conflict; one that compares on commit (documents with
//! preconditions) keeps there what it will compare.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use smallvec::SmallVec;

use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Expired, Inbox, List,
    Page, Release, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw,
    Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guarantees::Description;
use crate::lease::Token;
use crate::name::Name;
use crate::record::Record;
use crate::transition::{self, Env, Events, Request, Settled, Step};

/// How long an ended record is remembered before a sweep may forget it, so that repeated requests get the same answer.
pub const RETENTION: Duration = Duration::from_secs(60);

/// So many records a sweep settles in one commit.
const SWEPT_TOGETHER: usize = 32;

/// A store that loads records and commits them together.
///
/// # Contract
/// What is committed is visible to every later load, all of it or nothing. Between a load and a commit with its stamp
/// nobody else has changed a record that was loaded, also one that did not exist: either the store keeps others out
/// meanwhile, or it finds out and answers [`Committed::Conflict`]. Dropping a stamp gives up and changes nothing.
#[async_trait]
pub trait RecordStore: fmt::Debug + Send + Sync + 'static {
    /// What ties a commit to its load: an open transaction, versions to compare.
    type Stamp: Send;

    /// What this store is, can do and promises.
    fn describe(&self) -> &Description;

    /// The records of these names, in this order, as they are at one moment; [`Record::new`] for one that is absent.
    /// No name comes twice.
    async fn load(&self, names: &[&Name]) -> Result<Loaded<Self::Stamp>>;

    /// Writes a change, unless a record of the load has changed since.
    ///
    /// The events are delivered (see [`Inboxes`](crate::inboxes::Inboxes)) once the change is visible, also if the
    /// caller has dropped the future by then.
    async fn commit(&self, stamp: Self::Stamp, change: Change) -> Result<Committed>;

    /// Instead of a commit, if there is nothing to write: the answer rests on what was loaded. A store that shows a load
    /// what is not safe yet waits here until it is.
    async fn unchanged(&self, stamp: Self::Stamp) -> Result<()> {
        drop(stamp);
        Ok(())
    }

    /// The record of one name, if there is one, without a stamp.
    async fn read(&self, name: &Name) -> Result<Seen<Option<Record>>>;

    /// Candidates for a list: records after [`List::after`] in the order of their encoded names, about
    /// [`List::page_size`] of them. None that [matches](List::matches) may be left out on the way to the last one
    /// given; any that do not match may be among them. An empty page has no more.
    async fn scan(&self, request: &List) -> Result<Seen<Page<Record>>>;

    /// Names of at most `limit` records that the sweep [wants](Sweep::wants) by the store's clock.
    async fn due(&self, sweep: &Sweep, limit: usize) -> Result<Vec<Name>>;

    /// As [`Backend::watch`].
    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch>;
}

/// Records as they were loaded, and what the rule needs beside them.
#[derive(Debug)]
pub struct Loaded<S> {
    /// One record per name, in the order asked for.
    pub records: Vec<Record>,
    /// The store's time, and a token larger than any it ever gave.
    pub env: Env,
    /// What the commit has to bring along.
    pub stamp: S,
}

/// What a commit writes.
#[derive(Debug)]
pub struct Change {
    /// The records that changed, some or all of those loaded. A [blank](Record::is_blank) one may be deleted.
    pub records: Vec<Record>,
    /// No load after this commit may offer a lower [`Env::next_token`].
    pub next_token: Token,
    /// Whom to tell afterwards.
    pub events: Events,
}

/// The answer to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// All of it is written.
    Done,
    /// Nothing is written: a record has changed since it was loaded.
    Conflict,
}

/// Makes a [`Backend`] of a [`RecordStore`].
///
/// A request whose commit meets a conflict is run again from the load on, a bounded number of times; then it fails as
/// [`ErrorKind::Unavailable`], having changed nothing.
#[derive(Debug)]
pub struct RecordBackend<S> {
    store: S,
    tries: u32,
}

impl<S: RecordStore> RecordBackend<S> {
    /// The tries if nothing else is said. Of those who meet in a conflict one gets through each time, so about this
    /// many callers can want one name at once before any of them fails.
    pub const TRIES: u32 = 32;

    /// A backend that keeps its records in `store`.
    pub fn new(store: S) -> Self {
        Self {
            store,
            tries: Self::TRIES,
        }
    }

    /// Runs a request this many times before it gives up over conflicts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for zero.
    pub fn tries(mut self, tries: u32) -> Result<Self> {
        if tries == 0 {
            return Err(Error::invalid("a request needs at least one try"));
        }
        self.tries = tries;
        Ok(self)
    }

    /// The store inside.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Runs a step over the records of some names until it is committed.
    async fn run<T: Send>(
        &self,
        op: &'static str,
        names: &[&Name],
        step: impl Fn(&mut [Record], &mut Env) -> Step<Result<T>> + Send + Sync,
    ) -> Result<T> {
        let scheme = self.store.describe().scheme;
        refuse_repeated(names).map_err(|error| error.during(op, scheme))?;
        for _ in 0..self.tries {
            let tried = self.try_once(names, &step).await;
            match tried.map_err(|error| in_context(error, op, scheme, names))? {
                Some(answer) => return Ok(answer),
                None => tokio::task::yield_now().await,
            }
        }
        let error = Error::new(
            ErrorKind::Unavailable,
            format!(
                "others changed the same records {} times in a row",
                self.tries
            ),
        );
        Err(in_context(error, op, scheme, names))
    }

    /// Runs a step once; `None` if its commit met a conflict.
    async fn try_once<T: Send>(
        &self,
        names: &[&Name],
        step: &(impl Fn(&mut [Record], &mut Env) -> Step<Result<T>> + Send + Sync),
    ) -> Result<Option<T>> {
        let loaded = self.store.load(names).await?;
        let (mut records, mut env) = (loaded.records, loaded.env);
        check_loaded(names, &records)?;
        let before: SmallVec<[u64; 1]> = records.iter().map(|record| record.version).collect();
        let Step { outcome, events } = step(&mut records, &mut env);
        // Whatever time did to the records before the request was found unacceptable, it will do again.
        let answer = outcome?;
        let records: Vec<_> = records
            .into_iter()
            .zip(before)
            .filter_map(|(record, before)| (record.version != before).then_some(record))
            .collect();
        if records.is_empty() {
            self.store.unchanged(loaded.stamp).await?;
            return Ok(Some(answer));
        }
        records
            .iter()
            .filter(|record| record.is_blank())
            .for_each(|record| pass_by(record, &mut env));
        let change = Change {
            records,
            next_token: env.next_token,
            events,
        };
        Ok(match self.store.commit(loaded.stamp, change).await? {
            Committed::Done => Some(answer),
            Committed::Conflict => None,
        })
    }

    /// What a sweep does to each of some names: in one commit if that works, and one by one until the store is down
    /// otherwise.
    async fn tend_all(&self, names: &[Name], dry_run: bool) -> Vec<Result<Tended>> {
        if !dry_run && let Ok(done) = self.tend_together(names).await {
            return done.into_iter().map(Ok).collect();
        }
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            let step = |records: &mut [Record], env: &mut Env| tend(&mut records[0], env);
            let done = if dry_run {
                self.peek(name).await
            } else {
                self.run("sweep", &[name], step).await
            };
            let down = matches!(&done, Err(error) if error.is_retryable());
            all.push(done);
            if down {
                break;
            }
        }
        all
    }

    async fn tend_together(&self, names: &[Name]) -> Result<Vec<Tended>> {
        let names: Vec<_> = names.iter().collect();
        self.run("sweep", &names, |records, env| {
            let mut events = Events::new();
            let tended = records.iter_mut().map(|record| {
                let step = tend(record, env);
                events.extend(step.events);
                step.outcome
            });
            let outcome = tended.collect();
            Step { outcome, events }
        })
        .await
    }

    /// What a sweep would find at a name.
    async fn peek(&self, name: &Name) -> Result<Tended> {
        let seen = self.store.read(name).await;
        let Seen { what, now } = seen
            .map_err(|error| in_context(error, "sweep", self.store.describe().scheme, &[name]))?;
        Ok(Tended {
            expired: what.iter().flat_map(|record| record.run_out(now)).collect(),
            settled: Settled::default(),
            forgotten: false,
        })
    }

    async fn renew_together(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let mut names: Vec<&Name> = request.items.iter().map(|item| &item.name).collect();
        names.sort_unstable();
        names.dedup();
        self.run("renew", &names, |records, env| {
            let mut events = Events::new();
            let answers = request.items.iter().map(|item| {
                let at = names.binary_search(&&item.name).unwrap_or_default();
                let step = transition::renew(&mut records[at], item, env);
                events.extend(step.events);
                step.outcome
            });
            let outcome = Ok(answers.collect());
            Step { outcome, events }
        })
        .await
    }

    async fn renew_one_by_one(&self, request: &Renew) -> Vec<Result<Renewed>> {
        let mut answers = Vec::with_capacity(request.items.len());
        for item in &request.items {
            let step = |records: &mut [Record], env: &mut Env| {
                transition::renew(&mut records[0], item, env)
            };
            answers.push(self.run("renew", &[&item.name], step).await);
        }
        answers
    }
}

fn in_context(error: Error, op: &'static str, scheme: &'static str, names: &[&Name]) -> Error {
    let error = error.during(op, scheme);
    match names {
        [name] => error.with_name(name),
        _ => error,
    }
}

/// Two copies of one record could not both be committed.
fn refuse_repeated(names: &[&Name]) -> Result<()> {
    let mut sorted: SmallVec<[&Name; 8]> = names.iter().copied().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Error::invalid("the same name is given twice in one request").with_name(pair[0]))
        }
        None => Ok(()),
    }
}

fn check_loaded(names: &[&Name], records: &[Record]) -> Result<()> {
    let asked = names.iter().copied();
    if asked.eq(records.iter().map(|record| &record.name)) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Internal,
        "the store loaded other records than it was asked for",
    ))
}

/// What a sweep did to one record.
#[derive(Debug)]
struct Tended {
    expired: Vec<Expired>,
    settled: Settled,
    forgotten: bool,
}

fn tend(record: &mut Record, env: &mut Env) -> Step<Result<Tended>> {
    let mut events = Events::new();
    let expired = record.run_out(env.now).collect();
    let settled = transition::settle(record, env, &mut events);
    let known = record.version != 0;
    let forgotten =
        known && record.is_idle() && record.due_at(RETENTION).is_some_and(|due| due <= env.now);
    if forgotten {
        record.last_end = None;
        record.version = record.version.saturating_add(1);
    }
    let outcome = Ok(Tended {
        expired,
        settled,
        forgotten,
    });
    Step { outcome, events }
}

/// Makes sure that neither the tokens nor the versions of a record that need not be kept come back when its name does.
fn pass_by(record: &Record, env: &mut Env) {
    let used = record.last_token.get().max(record.version);
    env.next_token = env.next_token.max(Token::new(used.saturating_add(1)));
}

impl Swept {
    fn count(&mut self, tended: Tended) {
        self.tickets += tended.settled.tickets;
        self.forgotten += usize::from(tended.forgotten);
        self.expired.extend(tended.expired);
    }
}

#[async_trait]
impl<S: RecordStore> Backend for RecordBackend<S> {
    fn describe(&self) -> &Description {
        self.store.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        let names = Request::Acquire(request).names();
        self.run("acquire", &names, |records, env| {
            transition::acquire(records, request, env)
        })
        .await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        if request.items.is_empty() {
            return Ok(Vec::new());
        }
        match self.renew_together(request).await {
            // One bad record must not cost the others their leases.
            Err(error) if !error.is_retryable() && error.effect() == Effect::None => {
                Ok(self.renew_one_by_one(request).await)
            }
            answer => answer,
        }
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let names = Request::Release(request).names();
        self.run("release", &names, |records, env| {
            accept(transition::release(records, request, env))
        })
        .await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        let names = Request::Confirm(request).names();
        self.run("confirm", &names, |records, env| {
            transition::confirm(records, request, env)
        })
        .await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let names = Request::Withdraw(request).names();
        self.run("withdraw", &names, |records, env| {
            accept(transition::withdraw(records, request, env))
        })
        .await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        self.run("set_capacity", &[&request.name], |records, env| {
            accept(transition::set_capacity(&mut records[0], request, env))
        })
        .await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let scheme = self.store.describe().scheme;
        let seen = self.store.read(name).await;
        let seen = seen.map_err(|error| in_context(error, "get", scheme, &[name]))?;
        Ok(seen.map(|record, now| record.map(|record| record.seen_at(now))))
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let scheme = self.store.describe().scheme;
        let mut listed = Listing::new(request);
        loop {
            let seen = self.store.scan(listed.scan()).await;
            let seen = seen.map_err(|error| error.during("list", scheme))?;
            if let Some(page) = listed.add(seen) {
                return Ok(page);
            }
        }
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let scheme = self.store.describe().scheme;
        let due = self
            .store
            .due(request, request.limit.saturating_add(1))
            .await;
        let due = due.map_err(|error| error.during("sweep", scheme))?;
        let mut swept = Swept {
            more: due.len() > request.limit,
            ..Swept::default()
        };
        let mut failed = None;
        let mut tended = 0_usize;
        let names: Vec<_> = due.into_iter().take(request.limit).collect();
        'all: for names in names.chunks(SWEPT_TOGETHER) {
            for done in self.tend_all(names, request.dry_run).await {
                match done {
                    Ok(done) => {
                        swept.count(done);
                        tended += 1;
                    }
                    // One bad record must not keep the others from being swept; a store that is down does.
                    Err(error) => {
                        let down = error.is_retryable();
                        failed.get_or_insert(error);
                        if down {
                            break 'all;
                        }
                    }
                }
            }
        }
        match failed {
            Some(error) if tended == 0 => Err(error),
            Some(_) => Ok(Swept {
                more: true,
                ..swept
            }),
            None => Ok(swept),
        }
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let scheme = self.store.describe().scheme;
        let watch = self.store.watch(inbox, name).await;
        watch.map_err(|error| error.during("watch", scheme))
    }
}

/// A page of a list in the making, out of candidates that come piece by piece: for stores that filter in this process.
#[derive(Debug)]
pub struct Listing<'r> {
    request: &'r List,
    scan: List,
    items: Vec<Record>,
}

impl<'r> Listing<'r> {
    /// Nothing yet.
    #[must_use]
    pub fn new(request: &'r List) -> Self {
        let scan = List {
            limit: request.page_size() + 1,
            ..request.clone()
        };
        Self {
            request,
            scan,
            items: Vec::new(),
        }
    }

    /// Which candidates are wanted next, as [`RecordStore::scan`] gives them.
    #[must_use]
    pub fn scan(&self) -> &List {
        &self.scan
    }

    /// Takes candidates as they are stored. The page is done if this gives it.
    pub fn add(&mut self, candidates: Seen<Page<Record>>) -> Option<Seen<Page<Record>>> {
        let Seen { what: page, now } = candidates;
        let last = page.items.last().map(|record| record.name.clone());
        let found = page.items.iter().map(|record| record.seen_at(now));
        self.items
            .extend(found.filter(|record| self.request.matches(record)));
        let size = self.request.page_size();
        let more = self.items.len() > size;
        if !more && page.more && last.is_some() {
            self.scan.after = last;
            return None;
        }
        let mut items = std::mem::take(&mut self.items);
        items.truncate(size);
        let what = Page { items, more };
        Some(Seen { what, now })
    }
}

/// For steps that accept every request.
fn accept<T>(step: Step<T>) -> Step<Result<T>> {
    Step {
        outcome: Ok(step.outcome),
        events: step.events,
    }
}
