//! A schedule explorer at the level of awaits: logical tasks on one thread, the next one picked by a seed, and what
//! must always be true checked after every step.
//!
//! The background of the managers runs on a Tokio runtime that is given one task's turn at a time, as if it were one
//! more logical task; time moves only when the explorer says so.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "part of a test binary, where a failure panics"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold_core::lock::LockEvent;
use leasehold_core::{
    Clock, ErrorKind, Guard, Held, Lock, Locks, ManualClock, Mode, Moment, Name, Token,
};
use tokio::runtime::Runtime;

use crate::common::{Can, Seeded, Task, Yielding, builder, pause};

/// How long locks last here: shorter than the pauses of a waiter that are random, so that a seed decides everything.
const TTL: Duration = Duration::from_secs(2);
/// Time moves by multiples of this.
const TICK: Duration = Duration::from_millis(10);
/// What is fought over.
const KEYS: [&str; 2] = ["a", "b"];
/// Turns after which the background has nothing left to do.
const QUIET: usize = 40;
/// A waiter asks again at least this often, whatever it was told.
const LONGEST_RECHECK: Duration = Duration::from_secs(5);
/// Steps after which a schedule is taken to go in circles.
const MOST_STEPS: usize = 20_000;

/// What one schedule is made of.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub can: Can,
    pub tasks: usize,
    /// How often each task takes a lock.
    pub rounds: usize,
    /// Whether an administrator ends locks by force now and then.
    pub forcing: bool,
    /// Whether time may jump past a ttl.
    pub jumping: bool,
    /// Whether the managers have hooks, by which the order of waiters is checked.
    pub hooked: bool,
}

/// What a finished schedule was like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub steps: usize,
    pub acquired: usize,
    pub cancelled: usize,
    /// Differs if any step did.
    pub fingerprint: u64,
}

/// Runs the schedule of one seed. `Err` says what went wrong, and how it came to that.
pub fn explore(seed: u64, plan: Plan) -> Result<Outcome, String> {
    let mut explorer = Explorer::new(seed, plan);
    explorer.run().map_err(|what| {
        let trace = explorer.stage.trace.borrow();
        let last = trace.iter().skip(trace.len().saturating_sub(60));
        let lines: Vec<_> = last
            .map(|(at, note)| format!("  {at:?} {note:?}"))
            .collect();
        format!("seed {seed}, {plan:?}: {what}\n{}", lines.join("\n"))
    })
}

/// A step of a schedule.
#[derive(Debug, Clone, Hash)]
enum Note {
    Polled(usize),
    Done(usize),
    Background,
    Passed(Duration),
    Wants(usize, Wish),
    Holds(usize, Vec<(&'static str, u64)>),
    LetsGo(usize),
    GaveUp(usize),
    Failed(usize, ErrorKind),
    Forced(&'static str),
}

/// What a task wants next, and how.
#[derive(Debug, Clone, Hash)]
struct Wish {
    keys: Vec<usize>,
    way: Way,
    mode: Mode,
    renewing: bool,
    manager: usize,
    /// It is dropped after this many polls.
    polls: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Try,
    Within(Duration),
    Wait,
}

/// What the tasks share.
struct Stage {
    plan: Plan,
    clock: ManualClock,
    store: Arc<Yielding>,
    managers: Vec<Locks>,
    names: Vec<Name>,
    ledger: RefCell<Ledger>,
    lines: Arc<Mutex<Lines>>,
    /// What each task waits for.
    wishes: RefCell<BTreeMap<usize, Wish>>,
    trace: RefCell<Vec<(Moment, Note)>>,
    wrong: RefCell<Option<String>>,
    checked: Cell<(usize, Option<Moment>)>,
    /// Since when nobody has each name, and whether time alone made it free.
    free: [Cell<Option<Free>>; 2],
}

#[derive(Debug, Clone, Copy)]
struct Free {
    since: Moment,
    by_time: bool,
}

/// Who believes to hold what.
#[derive(Default)]
struct Ledger {
    entries: BTreeMap<usize, (Held, Vec<(Name, Token)>)>,
    /// The largest token so far, of any grant and of exclusive ones; two shared ones may be heard of in any order.
    highest: BTreeMap<Name, (Token, Token)>,
}

impl Stage {
    fn new(plan: Plan, runtime: &Runtime) -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Yielding::new(&clock, plan.can));
        let lines: Arc<Mutex<Lines>> = Arc::default();
        let manager = |at: usize| {
            let build = builder(&store, &clock)
                .ttl(TTL)
                .runtime(runtime.handle().clone());
            let lines = lines.clone();
            let hook = move |event: &LockEvent<'_>| lines.lock().unwrap().hear(at, event);
            let build = if plan.hooked {
                build.on_event(hook)
            } else {
                build
            };
            build.build().unwrap()
        };
        Self {
            plan,
            managers: vec![manager(0), manager(1)],
            names: KEYS
                .iter()
                .map(|key| Name::new("orders", key).unwrap())
                .collect(),
            clock,
            store,
            lines,
            ledger: RefCell::default(),
            wishes: RefCell::default(),
            trace: RefCell::default(),
            wrong: RefCell::default(),
            checked: Cell::default(),
            free: Default::default(),
        }
    }

    fn note(&self, what: Note) {
        self.trace.borrow_mut().push((self.clock.now(), what));
    }

    fn fail(&self, what: impl FnOnce() -> String) {
        self.wrong.borrow_mut().get_or_insert_with(what);
    }

    /// A task got a lock, by an acquisition of its own (`is_new`) or by adoption.
    fn enter(&self, task: usize, guard: &Guard, mode: Mode, is_new: bool) {
        let tokens: Vec<_> = guard
            .tokens()
            .map(|(name, token)| (name.clone(), token))
            .collect();
        let key = |name: &Name| KEYS[usize::from(*name == self.names[1])];
        let shown = tokens.iter().map(|(name, token)| (key(name), token.get()));
        self.note(Note::Holds(task, shown.collect()));
        let mut ledger = self.ledger.borrow_mut();
        for (name, token) in &tokens {
            let none = (Token::new(0), Token::new(0));
            let (any, exclusive) = ledger.highest.entry(name.clone()).or_insert(none);
            let before = if mode == Mode::Shared {
                *exclusive
            } else {
                *any
            };
            if is_new && *token <= before && !self.store.was_forced(name, *token) {
                self.fail(|| format!("task {task} got token {token} of {name} after {before}"));
            }
            *any = (*any).max(*token);
            if mode == Mode::Exclusive {
                *exclusive = (*exclusive).max(*token);
            }
        }
        ledger.entries.insert(task, (guard.held(), tokens));
        self.checked.take();
    }

    fn leave(&self, task: usize) {
        self.note(Note::LetsGo(task));
        self.ledger.borrow_mut().entries.remove(&task);
    }

    /// S1, S2: exclusive grants are alone, and whoever may believe to hold a name has a live grant of it.
    fn check(&self) {
        let state = (
            self.store.effects.load(Ordering::Relaxed),
            Some(self.clock.now()),
        );
        let before = self.checked.replace(state);
        if before == state {
            return;
        }
        let ledger = self.ledger.borrow();
        for (name, free) in self.names.iter().zip(&self.free) {
            let record = self.store.peek(name);
            let taken = record
                .as_ref()
                .is_some_and(|r| r.grants.len() + r.tickets.len() > 0);
            let since = self.clock.now();
            let now_free = Free {
                since,
                by_time: before.0 == state.0,
            };
            free.set(if taken {
                None
            } else {
                free.get().or(Some(now_free))
            });
            let grants = record.as_ref().map_or(&[][..], |record| &record.grants[..]);
            let exclusive = grants.iter().any(|grant| grant.mode == Mode::Exclusive);
            if exclusive && grants.len() > 1 {
                self.fail(|| format!("{name} is granted to {} at once", grants.len()));
            }
            for (task, (view, tokens)) in &ledger.entries {
                let Some((_, token)) = tokens.iter().find(|(held, _)| held == name) else {
                    continue;
                };
                let granted = grants.iter().any(|grant| grant.token == *token);
                if !granted && view.is_held() && !self.store.was_forced(name, *token) {
                    self.fail(|| {
                        format!("task {task} believes in {token} of {name}, which is over")
                    });
                }
            }
        }
    }

    /// L2: nobody waits for what nobody has. Asked only when there is nothing left to do but let time pass.
    ///
    /// What a call made free is noticed at once. What time made free, or while time jumped, may be noticed late.
    fn check_progress(&self) {
        let now = self.clock.now();
        for (task, wish) in &*self.wishes.borrow() {
            let is_overdue = |at: &usize| {
                self.free[*at].get().is_some_and(|free| {
                    let late = free.by_time || self.plan.jumping || self.plan.can == Can::Neither;
                    !late || now.since(free.since) > LONGEST_RECHECK
                })
            };
            if wish.keys.iter().all(is_overdue) {
                self.fail(|| format!("task {task} waits for what nobody has: {wish:?}"));
            }
        }
    }
}

thread_local! {
    /// The task that is being polled, and what it wants if it stands in a line for as long as it takes.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
    static IN_LINE: Cell<u64> = const { Cell::new(0) };
}

/// The order in which tasks began to wait, by manager and name.
#[derive(Default)]
struct Lines {
    waiting: BTreeMap<(usize, Name), Vec<usize>>,
    /// Tasks whose wait ended while an earlier one of the same line went on.
    overtook: Vec<usize>,
}

impl Lines {
    /// Hooks run on the task that caused the event.
    fn hear(&mut self, manager: usize, event: &LockEvent<'_>) {
        let Some(task) = CURRENT
            .get()
            .filter(|task| IN_LINE.get() & (1 << task) != 0)
        else {
            return;
        };
        match event {
            LockEvent::Waiting { name } => {
                let line = self.waiting.entry((manager, (*name).clone()));
                line.or_default().push(task);
            }
            LockEvent::WaitEnded { name } => {
                let line = self.waiting.entry((manager, (*name).clone())).or_default();
                if line.first() != Some(&task) {
                    self.overtook.push(task);
                }
                line.retain(|other| *other != task);
            }
            // It ended without success, which may happen in any order.
            LockEvent::NotAcquired { .. } => self.overtook.retain(|other| *other != task),
            _ => {}
        }
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Logical {
    future: Option<Task>,
    ready: Arc<Flag>,
    waker: Waker,
}

impl Logical {
    fn new(future: Task) -> Self {
        let ready = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(ready.clone());
        Self {
            future: Some(future),
            ready,
            waker,
        }
    }

    fn is_ready(&self) -> bool {
        self.future.is_some() && self.ready.0.load(Ordering::Relaxed)
    }

    /// Polls once; whether it is done.
    fn poll(&mut self) -> bool {
        self.ready.0.store(false, Ordering::Relaxed);
        let mut cx = Context::from_waker(&self.waker);
        let done = self
            .future
            .as_mut()
            .is_some_and(|f| f.as_mut().poll(&mut cx).is_ready());
        if done {
            self.future = None;
        }
        done
    }
}

struct Explorer {
    runtime: Runtime,
    stage: Rc<Stage>,
    tasks: Vec<Logical>,
    random: Seeded,
}

impl Explorer {
    fn new(seed: u64, plan: Plan) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .event_interval(1)
            .build()
            .unwrap();
        let mut random = Seeded::new(seed);
        let stage = Rc::new(Stage::new(plan, &runtime));
        let mut tasks: Vec<Task> = Vec::new();
        for id in 0..plan.tasks {
            let random = Seeded::new(random.next());
            tasks.push(Box::pin(
                Worker {
                    id,
                    stage: stage.clone(),
                    random,
                }
                .work(),
            ));
        }
        if plan.forcing {
            tasks.push(Box::pin(administer(
                stage.clone(),
                Seeded::new(random.next()),
            )));
        }
        let tasks = tasks.into_iter().map(Logical::new).collect();
        Self {
            runtime,
            stage,
            tasks,
            random,
        }
    }

    fn run(&mut self) -> Result<Outcome, String> {
        for steps in 0..MOST_STEPS {
            if self.tasks.iter().all(|task| task.future.is_none()) {
                self.finish()?;
                return Ok(self.outcome(steps));
            }
            self.step();
            self.verdict()?;
        }
        Err("it does not come to an end".to_owned())
    }

    fn step(&mut self) {
        let ready: Vec<usize> = (0..self.tasks.len())
            .filter(|at| self.tasks[*at].is_ready())
            .collect();
        if ready.is_empty() {
            self.let_time_pass();
        } else if self.random.once_in(3) {
            self.stage.note(Note::Background);
            self.background(1);
        } else if self.random.once_in(40) {
            let tenths = 1 + self.random.below(5) as u32;
            self.advance(TICK * 10 * tenths);
        } else if self.stage.plan.jumping && self.random.once_in(150) {
            self.advance(TTL);
        } else {
            let at = ready[self.random.below(ready.len())];
            self.poll(at);
        }
        self.stage.check();
    }

    fn poll(&mut self, at: usize) {
        self.stage.note(Note::Polled(at));
        CURRENT.set(Some(at));
        if self.tasks[at].poll() {
            self.stage.note(Note::Done(at));
        }
        CURRENT.set(None);
    }

    /// Gives the background this many turns.
    fn background(&self, turns: usize) {
        self.runtime.block_on(async {
            for _ in 0..turns {
                pause().await;
            }
        });
    }

    fn advance(&self, by: Duration) {
        self.stage.note(Note::Passed(by));
        self.stage.clock.advance(by);
    }

    /// Nobody has anything to do: the background finishes, then the clock goes to the next sleeper.
    fn let_time_pass(&mut self) {
        for _ in 0..QUIET / 8 {
            self.background(8);
            if self.tasks.iter().any(Logical::is_ready) {
                return;
            }
        }
        self.stage.check_progress();
        match self.stage.clock.next_wake() {
            Some(wake) => {
                let left = wake.since(self.stage.clock.now()).as_nanos();
                let ticks = left.div_ceil(TICK.as_nanos()).max(1);
                self.advance(TICK * u32::try_from(ticks).unwrap_or(u32::MAX));
            }
            None => self
                .stage
                .fail(|| "everybody waits and nothing will happen".to_owned()),
        }
    }

    fn verdict(&self) -> Result<(), String> {
        if let Some(task) = self.stage.lines.lock().unwrap().overtook.first() {
            return Err(format!("task {task} was served before one that came first"));
        }
        self.stage.wrong.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Everybody is done: long before any lease would run out, nothing is left.
    fn finish(&self) -> Result<(), String> {
        for _ in 0..2 {
            self.background(QUIET);
            self.advance(10 * TICK);
        }
        let stage = &self.stage;
        let records = stage.names.iter().filter_map(|name| stage.store.peek(name));
        let kept: Vec<_> = records
            .filter(|record| record.grants.len() + record.tickets.len() > 0)
            .collect();
        let counts: Vec<_> = stage
            .managers
            .iter()
            .map(|locks| (locks.held(), locks.waiting()))
            .collect();
        let watches = stage.store.name_watches.load(Ordering::Relaxed);
        let sleepers = stage.clock.sleepers();
        // Each keeper may have planned a look before it knew that nothing is left.
        if kept.is_empty() && counts == [(0, 0); 2] && watches == 0 && sleepers <= 2 {
            return Ok(());
        }
        Err(format!(
            "left behind: {kept:?}, held and waiting {counts:?}, {watches} watches, {sleepers} sleepers"
        ))
    }

    fn outcome(&self, steps: usize) -> Outcome {
        let trace = self.stage.trace.borrow();
        let count = |is: fn(&Note) -> bool| trace.iter().filter(|(_, note)| is(note)).count();
        let mut hasher = DefaultHasher::new();
        trace.hash(&mut hasher);
        Outcome {
            steps,
            acquired: count(|note| matches!(note, Note::Holds(..))),
            cancelled: count(|note| matches!(note, Note::GaveUp(_))),
            fingerprint: hasher.finish(),
        }
    }
}

struct Worker {
    id: usize,
    stage: Rc<Stage>,
    random: Seeded,
}

impl Worker {
    async fn work(mut self) {
        for _ in 0..self.stage.plan.rounds {
            let wish = self.wish();
            self.stage.note(Note::Wants(self.id, wish.clone()));
            let (mode, manager) = (wish.mode, wish.manager);
            if let Some(guard) = self.take(wish).await {
                self.stage.enter(self.id, &guard, mode, true);
                self.hold(&guard).await;
                self.let_go(guard, manager, mode).await;
            }
            if self.random.once_in(2) {
                pause().await;
            }
        }
    }

    fn wish(&mut self) -> Wish {
        let random = &mut self.random;
        Wish {
            keys: match random.below(8) {
                0 => vec![0, 1],
                1 => vec![1],
                _ => vec![0],
            },
            way: match random.below(6) {
                0 => Way::Try,
                1 => Way::Within(TICK * (1 + random.below(80) as u32)),
                _ => Way::Wait,
            },
            mode: if random.once_in(6) {
                Mode::Shared
            } else {
                Mode::Exclusive
            },
            renewing: random.once_in(4),
            manager: random.below(2),
            polls: if random.once_in(4) {
                random.below(14)
            } else {
                usize::MAX
            },
        }
    }

    fn lock(&self, wish: &Wish) -> Lock {
        let keys = wish.keys.iter().map(|at| KEYS[*at]);
        let mut lock = self.stage.managers[wish.manager].all(keys);
        if wish.mode == Mode::Shared {
            lock = lock.shared();
        }
        if wish.renewing {
            lock = lock.renewing();
        }
        lock
    }

    async fn take(&self, wish: Wish) -> Option<Guard> {
        let (lock, way, polls) = (self.lock(&wish), wish.way, wish.polls);
        let in_line = u64::from(wish.keys.len() == 1 && way == Way::Wait) << self.id;
        IN_LINE.set(IN_LINE.get() & !(1 << self.id) | in_line);
        if way == Way::Wait {
            self.stage.wishes.borrow_mut().insert(self.id, wish);
        }
        let taken = match way {
            Way::Try => cut(polls, lock.try_acquire()).await,
            Way::Within(wait) => {
                let taken = cut(polls, lock.acquire_within(wait)).await;
                taken.map(|taken| taken.map(Some))
            }
            Way::Wait => cut(polls, lock.acquire())
                .await
                .map(|taken| taken.map(Some)),
        };
        self.stage.wishes.borrow_mut().remove(&self.id);
        let Some(taken) = taken else {
            self.stage.note(Note::GaveUp(self.id));
            return None;
        };
        taken.unwrap_or_else(|error| {
            self.stage.note(Note::Failed(self.id, error.kind()));
            let expected = match error.kind() {
                ErrorKind::NotAcquired => matches!(way, Way::Within(_)),
                // Time jumped while the request was under way.
                ErrorKind::Timeout => self.stage.plan.jumping || matches!(way, Way::Within(_)),
                _ => false,
            };
            if !expected {
                self.stage
                    .fail(|| format!("task {} failed: {error:?}", self.id));
            }
            None
        })
    }

    async fn hold(&mut self, guard: &Guard) {
        for _ in 0..self.random.below(4) {
            match self.random.below(8) {
                0 => {
                    let wait = TICK * (10 * self.random.below(12) as u32);
                    let clock = &self.stage.clock;
                    clock.sleep_until(clock.now().after(wait)).await;
                }
                1 => drop(cut(self.random.below(4), guard.extend(TTL)).await),
                2 => drop(cut(2, guard.lost()).await),
                _ => pause().await,
            }
        }
    }

    async fn let_go(&mut self, guard: Guard, manager: usize, mode: Mode) {
        self.stage.leave(self.id);
        match self.random.below(7) {
            0 => drop(guard),
            1 => drop(cut(self.random.below(4), guard.release()).await),
            2 => self.hand_over(guard, manager, mode).await,
            3 => drop(guard.release_if_held().await.unwrap()),
            _ => self.release(guard).await,
        }
    }

    /// S5, S8: a release fails only if the lease had ended.
    async fn release(&self, guard: Guard) {
        let tokens: Vec<_> = guard
            .tokens()
            .map(|(name, token)| (name.clone(), token))
            .collect();
        let ends = guard.remaining();
        let started = self.stage.clock.now();
        let released = guard.release().await;
        let took = self.stage.clock.now().since(started);
        let forced = tokens
            .iter()
            .any(|(name, token)| self.stage.store.was_forced(name, *token));
        if released.is_err() && !forced && took < ends {
            self.stage
                .fail(|| format!("task {} could not release: {released:?}", self.id));
        }
    }

    async fn hand_over(&self, guard: Guard, manager: usize, mode: Mode) {
        let Ok(handover) = guard.hand_over() else {
            return;
        };
        if let Ok(guard) = self.stage.managers[manager].adopt(&handover).await {
            self.stage.enter(self.id, &guard, mode, false);
            pause().await;
            self.stage.leave(self.id);
            drop(guard.release_any().await);
        }
    }
}

async fn administer(stage: Rc<Stage>, mut random: Seeded) {
    for _ in 0..2 {
        for _ in 0..random.below(30) {
            pause().await;
        }
        let key = KEYS[random.below(KEYS.len())];
        let ended = stage.managers[0]
            .force_release(key, "an administrator said so")
            .await;
        stage.note(Note::Forced(key));
        if let Err(error) = ended {
            stage.fail(|| format!("a forced release failed: {error:?}"));
        }
    }
}

/// Polls a future at most this often, and drops it then.
async fn cut<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
