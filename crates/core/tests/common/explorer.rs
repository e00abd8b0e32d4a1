//! A schedule explorer at the level of awaits: logical tasks on one thread, the next one picked by a seed, and what
//! must always be true checked after every step.
//!
//! The background of the managers runs on a Tokio runtime that is given one task's turn at a time, as if it were one
//! more logical task; time moves only when the explorer says so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold_core::lock::LockEvent;
use leasehold_core::{Clock, Guard, Held, Lock, Locks, ManualClock, Mode, Name, Token};
use tokio::runtime::Runtime;

use crate::common::{Can, Seeded, Task, Yielding, builder, pause};

/// How long locks last here. All times are multiples of a [`TICK`].
pub const TTL: Duration = Duration::from_secs(3);
/// Time moves by multiples of this.
pub const TICK: Duration = Duration::from_millis(10);
/// The names that are fought over.
pub const KEYS: [&str; 2] = ["a", "b"];
/// Turns after which the background has nothing left to do.
const QUIET: usize = 40;
/// Steps after which a schedule is taken to be going in circles.
const MOST_STEPS: usize = 20_000;

/// What one schedule is made of.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub can: Can,
    pub tasks: usize,
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
    /// Changes if any step of the schedule does.
    pub fingerprint: u64,
}

/// Runs the schedule of one seed. `Err` says what went wrong, and how it came to that.
pub fn explore(seed: u64, plan: Plan) -> Result<Outcome, String> {
    let mut explorer = Explorer::new(seed, plan);
    explorer.run().map_err(|what| {
        let trace = explorer.stage.trace.borrow();
        let from = trace.len().saturating_sub(60);
        format!(
            "seed {seed}, {plan:?}: {what}\nlast steps:\n  {}",
            trace[from..].join("\n  ")
        )
    })
}

/// What the tasks share.
pub struct Stage {
    pub clock: ManualClock,
    pub store: Arc<Yielding>,
    pub managers: Vec<Locks>,
    pub names: Vec<Name>,
    plan: Plan,
    ledger: RefCell<Ledger>,
    lines: Arc<Mutex<Lines>>,
    trace: RefCell<Vec<String>>,
    wrong: RefCell<Option<String>>,
    outcome: RefCell<Outcome>,
}

/// Who believes to hold what.
#[derive(Default)]
struct Ledger {
    entries: BTreeMap<usize, Entry>,
    highest: BTreeMap<Name, Token>,
}

struct Entry {
    view: Held,
    tokens: Vec<(Name, Token)>,
}

/// The order in which tasks began to wait, by manager and name.
#[derive(Default)]
struct Lines {
    waiting: BTreeMap<(usize, Name), Vec<usize>>,
    /// Tasks whose wait ended while an earlier one of the same line went on.
    overtook: Vec<usize>,
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether the current task stands in a line, and for as long as it takes.
    static IN_LINE: Cell<u64> = const { Cell::new(0) };
}

impl Stage {
    fn note(&self, what: impl FnOnce() -> String) {
        let what = format!(
            "{:>6} ms {}",
            self.clock.now().as_nanos() / 1_000_000 - 1_000_000,
            what()
        );
        let mut outcome = self.outcome.borrow_mut();
        for byte in what.bytes() {
            outcome.fingerprint =
                (outcome.fingerprint ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
        self.trace.borrow_mut().push(what);
    }

    fn fail(&self, what: impl FnOnce() -> String) {
        self.wrong.borrow_mut().get_or_insert_with(what);
    }

    /// A task got a lock.
    fn enter(&self, task: usize, guard: &Guard, is_new: bool) {
        let tokens: Vec<_> = guard
            .tokens()
            .map(|(name, token)| (name.clone(), token))
            .collect();
        self.note(|| format!("task {task} holds {tokens:?}"));
        self.outcome.borrow_mut().acquired += 1;
        let mut ledger = self.ledger.borrow_mut();
        for (name, token) in &tokens {
            let highest = ledger.highest.entry(name.clone()).or_insert(Token::new(0));
            if is_new && *token <= *highest && !self.store.was_forced(name, *token) {
                self.fail(|| format!("task {task} got token {token} of {name} after {highest}"));
            }
            *highest = (*highest).max(*token);
        }
        ledger.entries.insert(
            task,
            Entry {
                view: guard.held(),
                tokens,
            },
        );
    }

    fn leave(&self, task: usize) {
        self.note(|| format!("task {task} lets go"));
        self.ledger.borrow_mut().entries.remove(&task);
    }

    /// S1, S2: whoever may believe to hold a name has a live grant of it, and exclusive grants are alone.
    fn check(&self) {
        let ledger = self.ledger.borrow();
        for name in &self.names {
            let record = self.store.peek(name);
            let grants = record.as_ref().map_or(&[][..], |record| &record.grants[..]);
            let exclusive = grants
                .iter()
                .filter(|grant| grant.mode == Mode::Exclusive)
                .count();
            if exclusive > 1 || (exclusive == 1 && grants.len() > 1) {
                self.fail(|| format!("{name} is granted to {} at once", grants.len()));
            }
            for (task, entry) in &ledger.entries {
                let Some((_, token)) = entry.tokens.iter().find(|(held, _)| held == name) else {
                    continue;
                };
                let granted = grants.iter().any(|grant| grant.token == *token);
                if !granted && entry.view.is_held() && !self.store.was_forced(name, *token) {
                    self.fail(|| {
                        format!(
                            "task {task} believes to hold {name} with token {token}, which is over"
                        )
                    });
                }
            }
        }
    }

    /// L2: nobody waits for what nobody holds. Only asked when there is nothing left to do but let time pass.
    fn check_progress(&self, waiting: &[(usize, Wanted)]) {
        for (task, wanted) in waiting {
            let free = |at: &usize| {
                let record = self.store.peek(&self.names[*at]);
                record.is_none_or(|record| record.grants.is_empty() && record.tickets.is_empty())
            };
            if wanted.keys.iter().all(free) {
                self.fail(|| format!("task {task} waits for {:?}, which nobody has", wanted.keys));
            }
        }
    }
}

/// What a task waits for, by index into [`KEYS`].
#[derive(Debug, Clone)]
struct Wanted {
    keys: Vec<usize>,
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

struct Explorer {
    runtime: Runtime,
    stage: Rc<Stage>,
    tasks: Vec<Logical>,
    wants: Rc<RefCell<BTreeMap<usize, Wanted>>>,
    random: Seeded,
}

impl Explorer {
    fn new(seed: u64, plan: Plan) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .event_interval(1)
            .build()
            .unwrap();
        let mut random = Seeded::new(seed);
        let stage = Rc::new(stage(plan, &runtime));
        let wants: Rc<RefCell<BTreeMap<usize, Wanted>>> = Rc::default();
        let mut futures: Vec<Task> = Vec::new();
        for id in 0..plan.tasks {
            let worker = Worker {
                id,
                stage: stage.clone(),
                wants: wants.clone(),
                random: Seeded::new(random.next()),
            };
            futures.push(Box::pin(worker.work()));
        }
        if plan.forcing {
            futures.push(Box::pin(admin(stage.clone(), Seeded::new(random.next()))));
        }
        let tasks = futures.into_iter().map(logical).collect();
        Self {
            runtime,
            stage,
            tasks,
            wants,
            random,
        }
    }

    fn run(&mut self) -> Result<Outcome, String> {
        let mut steps = 0;
        loop {
            steps += 1;
            if steps > MOST_STEPS {
                return Err("it does not come to an end".to_owned());
            }
            let ready: Vec<usize> = (0..self.tasks.len())
                .filter(|at| self.is_ready(*at))
                .collect();
            if ready.is_empty() {
                if self.tasks.iter().all(|task| task.future.is_none()) {
                    break;
                }
                self.let_time_pass();
            } else if self.random.once_in(3) {
                self.background();
            } else if self.random.once_in(40) {
                let tenths = 1 + self.random.below(5) as u32;
                self.advance(TICK * 10 * tenths);
            } else if self.stage.plan.jumping && self.random.once_in(150) {
                self.advance(TTL);
            } else {
                let at = ready[self.random.below(ready.len())];
                self.poll(at);
            }
            self.verdict()?;
        }
        self.finish()?;
        let mut outcome = *self.stage.outcome.borrow();
        outcome.steps = steps;
        Ok(outcome)
    }

    fn is_ready(&self, at: usize) -> bool {
        self.tasks[at].future.is_some() && self.tasks[at].ready.0.load(Ordering::Relaxed)
    }

    fn poll(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        task.ready.0.store(false, Ordering::Relaxed);
        CURRENT.set(at);
        let done = task.future.as_mut().is_some_and(|future| {
            future
                .as_mut()
                .poll(&mut Context::from_waker(&task.waker))
                .is_ready()
        });
        if done {
            task.future = None;
        }
        CURRENT.set(usize::MAX);
        self.stage.note(|| {
            format!(
                "task {at} was polled{}",
                if done { " and is done" } else { "" }
            )
        });
        self.stage.check();
    }

    /// Gives one task of the background a turn.
    fn background(&self) {
        self.runtime.block_on(pause());
        self.stage.check();
    }

    fn advance(&self, by: Duration) {
        self.stage.note(|| format!("{by:?} pass"));
        self.stage.clock.advance(by);
        self.stage.check();
    }

    /// Nobody has anything to do: the background finishes, then the clock goes to the next sleeper.
    fn let_time_pass(&mut self) {
        for _ in 0..QUIET {
            self.background();
            if (0..self.tasks.len()).any(|at| self.is_ready(at)) {
                return;
            }
        }
        let waiting: Vec<_> = self
            .wants
            .borrow()
            .iter()
            .map(|(task, wanted)| (*task, wanted.clone()))
            .collect();
        if self.stage.plan.can != Can::Neither {
            self.stage.check_progress(&waiting);
        }
        match self.stage.clock.next_wake() {
            Some(wake) => {
                let left = wake.since(self.stage.clock.now());
                let ticks = left.as_nanos().div_ceil(TICK.as_nanos()).max(1);
                self.advance(TICK * u32::try_from(ticks).unwrap_or(u32::MAX));
            }
            None => self
                .stage
                .fail(|| format!("everybody waits and nothing will happen: {waiting:?}")),
        }
    }

    fn verdict(&self) -> Result<(), String> {
        if let Some(task) = self.stage.lines.lock().unwrap().overtook.first() {
            return Err(format!(
                "task {task} was served before one of its own line that came first"
            ));
        }
        self.stage.wrong.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Everybody is done: well before any lease would run out, nothing is left.
    fn finish(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            (0..QUIET).for_each(|_| self.background());
            self.advance(10 * TICK);
        }
        self.verdict()?;
        for name in &self.stage.names {
            if let Some(record) = self.stage.store.peek(name)
                && (!record.grants.is_empty() || !record.tickets.is_empty())
            {
                return Err(format!("left behind in the store: {record:?}"));
            }
        }
        for locks in &self.stage.managers {
            if (locks.held(), locks.waiting()) != (0, 0) {
                return Err(format!("left behind: {locks:?}"));
            }
        }
        let watches = self.stage.store.name_watches.load(Ordering::Relaxed);
        if watches > 0 || self.stage.clock.sleepers() > self.stage.managers.len() {
            return Err(format!(
                "left behind: {watches} watches, {} sleepers",
                self.stage.clock.sleepers()
            ));
        }
        Ok(())
    }
}

fn logical(future: Task) -> Logical {
    let ready = Arc::new(Flag(AtomicBool::new(true)));
    Logical {
        future: Some(future),
        waker: Waker::from(ready.clone()),
        ready,
    }
}

fn stage(plan: Plan, runtime: &Runtime) -> Stage {
    let clock = ManualClock::new();
    let store = Arc::new(Yielding::new(&clock, plan.can));
    let lines: Arc<Mutex<Lines>> = Arc::default();
    let manager = |at: usize| {
        let mut build = builder(&store, &clock)
            .ttl(TTL)
            .runtime(runtime.handle().clone());
        if plan.hooked {
            let lines = lines.clone();
            build = build.on_event(move |event| lines.lock().unwrap().hear(at, event));
        }
        build.build().unwrap()
    };
    let managers = vec![manager(0), manager(1)];
    let names = KEYS
        .iter()
        .map(|key| Name::new("orders", key).unwrap())
        .collect();
    Stage {
        managers,
        names,
        clock,
        store,
        plan,
        lines,
        ledger: RefCell::default(),
        trace: RefCell::default(),
        wrong: RefCell::default(),
        outcome: RefCell::default(),
    }
}

impl Lines {
    /// Hooks run on the task that caused the event, so that the current task is the one that waits.
    fn hear(&mut self, manager: usize, event: &LockEvent<'_>) {
        let task = CURRENT.get();
        if task == usize::MAX || IN_LINE.get() & (1 << task) == 0 {
            return;
        }
        match event {
            LockEvent::Waiting { name } => {
                self.waiting
                    .entry((manager, (*name).clone()))
                    .or_default()
                    .push(task);
            }
            LockEvent::WaitEnded { name } => {
                let line = self.waiting.entry((manager, (*name).clone())).or_default();
                let is_first = line.first() == Some(&task);
                line.retain(|other| *other != task);
                if !is_first {
                    self.overtook.push(task);
                }
            }
            // The wait ended without success, which may happen in any order.
            LockEvent::NotAcquired { .. } => self.overtook.retain(|other| *other != task),
            _ => {}
        }
    }
}

struct Worker {
    id: usize,
    stage: Rc<Stage>,
    wants: Rc<RefCell<BTreeMap<usize, Wanted>>>,
    random: Seeded,
}

impl Worker {
    async fn work(mut self) {
        for _ in 0..self.stage.plan.rounds {
            let manager = self.random.below(2);
            let locks = self.stage.managers[manager].clone();
            let keys = match self.random.below(8) {
                0 => vec![0, 1],
                1 => vec![1],
                _ => vec![0],
            };
            let mut lock = locks.all(keys.iter().map(|at| KEYS[*at]));
            if self.random.once_in(6) {
                lock = lock.shared();
            }
            if self.random.once_in(4) {
                lock = lock.renewing();
            }
            if let Some(guard) = self.take(&lock, keys).await {
                self.stage.enter(self.id, &guard, true);
                self.hold(&guard).await;
                self.let_go(guard, &locks).await;
            }
            if self.random.once_in(2) {
                pause().await;
            }
        }
    }

    async fn take(&mut self, lock: &Lock, keys: Vec<usize>) -> Option<Guard> {
        let polls = if self.random.once_in(4) {
            self.random.below(14)
        } else {
            usize::MAX
        };
        let how = self.random.below(6);
        let in_line = keys.len() == 1 && how >= 2;
        self.stage.note(|| {
            format!(
                "task {} wants {keys:?}, way {how}, for {polls} polls",
                self.id
            )
        });
        let bit = 1 << self.id;
        IN_LINE.set(if in_line {
            IN_LINE.get() | bit
        } else {
            IN_LINE.get() & !bit
        });
        if how != 0 && how != 1 {
            self.wants.borrow_mut().insert(self.id, Wanted { keys });
        }
        let wait = TICK * (1 + self.random.below(80) as u32);
        let taken = match how {
            0 => cut(polls, lock.try_acquire())
                .await
                .map(|taken| taken.unwrap()),
            1 => cut(polls, lock.acquire_within(wait))
                .await
                .map(|taken| taken.ok()),
            _ => cut(polls, lock.acquire())
                .await
                .map(|taken| Some(taken.unwrap())),
        };
        self.wants.borrow_mut().remove(&self.id);
        if taken.is_none() {
            self.stage.note(|| format!("task {} gave up", self.id));
            self.stage.outcome.borrow_mut().cancelled += 1;
        }
        taken.flatten()
    }

    async fn hold(&mut self, guard: &Guard) {
        for _ in 0..self.random.below(4) {
            match self.random.below(8) {
                0 => {
                    let clock = &self.stage.clock;
                    clock
                        .sleep_until(
                            clock
                                .now()
                                .after(TICK * (10 * self.random.below(12) as u32)),
                        )
                        .await;
                }
                1 => drop(cut(self.random.below(4), guard.extend(TTL)).await),
                2 => drop(cut(2, guard.lost()).await),
                _ => pause().await,
            }
        }
    }

    async fn let_go(&mut self, guard: Guard, locks: &Locks) {
        let was_held = guard.is_held();
        let (view, tokens): (_, Vec<_>) = (
            guard.held(),
            guard.tokens().map(|(n, t)| (n.clone(), t)).collect(),
        );
        self.stage.leave(self.id);
        match self.random.below(7) {
            0 => drop(guard),
            1 => drop(cut(self.random.below(4), guard.release()).await),
            2 => self.hand_over(guard, locks).await,
            3 => drop(guard.release_if_held().await.unwrap()),
            _ => {
                let released = guard.release().await;
                let forced = tokens
                    .iter()
                    .any(|(name, token)| self.stage.store.was_forced(name, *token));
                let over = view.expires_at() <= self.stage.clock.wall();
                if released.is_err()
                    && was_held
                    && !forced
                    && !over
                    && view.ttl().as_duration() == TTL
                {
                    let late = view.remaining().is_zero();
                    if !late {
                        self.stage
                            .fail(|| format!("task {} could not release: {released:?}", self.id));
                    }
                }
            }
        }
    }

    async fn hand_over(&mut self, guard: Guard, locks: &Locks) {
        let Some(handover) = guard.hand_over() else {
            return;
        };
        if let Ok(guard) = locks.adopt(&handover).await {
            self.stage.enter(self.id, &guard, false);
            pause().await;
            self.stage.leave(self.id);
            drop(guard.release_any().await);
        }
    }
}

async fn admin(stage: Rc<Stage>, mut random: Seeded) {
    for _ in 0..2 {
        for _ in 0..random.below(30) {
            pause().await;
        }
        let key = KEYS[random.below(KEYS.len())];
        stage.managers[0]
            .force_release(key, "an administrator said so")
            .await
            .unwrap();
        stage.note(|| format!("{key} was forced"));
    }
}

/// Polls a future at most this often, and drops it then.
pub async fn cut<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
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
