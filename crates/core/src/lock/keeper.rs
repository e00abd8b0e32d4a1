//! The keeper: one task per manager that renews what asked for it, gives back what was dropped, notices what is
//! overdue, and sweeps.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

use super::hold::Hold;
use super::renew::{Due, next_look, renew_due};
use super::shared::Shared;
use crate::backend::Sweep;
use crate::background::{Withdrawal, give_back};
use crate::clock::Moment;

/// The keeper does not look more often than this, so that many holds cost one look and not one each.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// The way to the keeper. Works from anywhere, also outside a runtime and while one shuts down.
pub(super) struct Keeper {
    orders: mpsc::UnboundedSender<Order>,
    plan: Arc<Plan>,
}

/// When the keeper looks next at what is held, and at who waits.
struct Plan {
    holds: AtomicU64,
    line: AtomicU64,
    sooner: Notify,
}

impl Plan {
    fn no_later(&self, plan: &AtomicU64, at: Moment) {
        if plan.fetch_min(at.as_nanos(), Ordering::AcqRel) > at.as_nanos() {
            self.sooner.notify_one();
        }
    }
}

pub(super) enum Order {
    /// Give back whatever this holder has or waits for.
    Withdraw(Withdrawal),
    /// Say when everything ordered so far is done.
    Drained(oneshot::Sender<()>),
}

/// The keeper's own end, until it is put to work.
pub(super) struct Idle {
    orders: mpsc::UnboundedReceiver<Order>,
    plan: Arc<Plan>,
}

impl Keeper {
    pub(super) fn new() -> (Self, Idle) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let plan = Arc::new(Plan {
            holds: AtomicU64::new(u64::MAX),
            line: AtomicU64::new(u64::MAX),
            sooner: Notify::new(),
        });
        (
            Self {
                orders: sender,
                plan: plan.clone(),
            },
            Idle {
                orders: receiver,
                plan,
            },
        )
    }

    /// Leaves a withdrawal to the background. If the runtime is gone, the lease simply runs out.
    pub(super) fn withdraw(&self, withdrawal: Withdrawal) {
        let _ = self.orders.send(Order::Withdraw(withdrawal));
    }

    /// Resolves once everything ordered so far is done, or the keeper is gone.
    pub(super) async fn drained(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.orders.send(Order::Drained(sender)).is_ok() {
            let _ = receiver.await;
        }
    }

    /// Makes the keeper look at what is held at this moment or before.
    pub(super) fn look_by(&self, at: Moment) {
        self.plan.no_later(&self.plan.holds, at);
    }

    /// Makes the keeper remind those who wait at this moment or before.
    pub(super) fn remind_by(&self, at: Moment) {
        self.plan.no_later(&self.plan.line, at);
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper(..)")
    }
}

/// Puts the keeper to work. It ends when the manager and all its guards are gone and nothing is left to give back.
pub(super) fn start(
    idle: Idle,
    shared: &Arc<Shared>,
    sweep_every: Option<Duration>,
    runtime: &Handle,
) {
    let task = Task {
        shared: Arc::downgrade(shared),
        clock: shared.clock.clone(),
        backend: shared.backend.clone(),
        orders: idle.orders,
        plan: idle.plan,
        sweep_every,
        jobs: JoinSet::new(),
        drains: Vec::new(),
    };
    runtime.spawn(task.run());
}

struct Task {
    /// Weak, or the manager would keep itself alive.
    shared: Weak<Shared>,
    clock: Arc<dyn crate::Clock>,
    backend: Arc<dyn crate::Backend>,
    orders: mpsc::UnboundedReceiver<Order>,
    plan: Arc<Plan>,
    sweep_every: Option<Duration>,
    jobs: JoinSet<()>,
    drains: Vec<oneshot::Sender<()>>,
}

impl Task {
    async fn run(mut self) {
        let mut next_sweep = self
            .sweep_every
            .map_or(Moment::FAR_FUTURE, |every| self.clock.now().after(every));
        loop {
            let next_look = Moment::from_nanos(self.plan.holds.load(Ordering::Acquire));
            let next_reminder = Moment::from_nanos(self.plan.line.load(Ordering::Acquire));
            let wake = next_look.min(next_reminder).min(next_sweep);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => break,
                },
                () = self.plan.sooner.notified() => {}
                Some(_) = self.jobs.join_next(), if !self.jobs.is_empty() => self.report_drained(),
                () = self.clock.sleep_until(wake), if wake < Moment::FAR_FUTURE => {}
            }
            let now = self.clock.now();
            if now >= next_sweep {
                next_sweep = now.after(self.sweep_every.unwrap_or(Duration::MAX));
                self.sweep();
            }
            if now >= next_look {
                self.look_after(now);
            }
            if now >= next_reminder {
                self.remind(now);
            }
        }
        // Nobody is left to give orders; finish what was ordered.
        while self.jobs.join_next().await.is_some() {}
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Withdraw(withdrawal) => {
                let (backend, clock) = (self.backend.clone(), self.clock.clone());
                self.jobs.spawn(give_back(backend, clock, withdrawal));
            }
            Order::Drained(done) => {
                self.drains.push(done);
                self.report_drained();
            }
        }
    }

    fn report_drained(&mut self) {
        if self.jobs.is_empty() {
            for done in self.drains.drain(..) {
                let _ = done.send(());
            }
        }
    }

    /// Renews what is due, marks what is overdue, and plans when to look again.
    fn look_after(&mut self, now: Moment) {
        self.plan.holds.store(u64::MAX, Ordering::Release);
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let mut due = Vec::new();
        let mut next = Moment::FAR_FUTURE;
        for hold in shared.roster.all() {
            if let Some(at) = consider(&hold, now, shared.has_hooks(), &mut due) {
                next = next.min(at);
            }
        }
        if !due.is_empty() {
            self.jobs.spawn(renew_due(shared, due));
        }
        let next = next.max(now.after(SHORTEST_LOOK));
        self.plan.holds.fetch_min(next.as_nanos(), Ordering::AcqRel);
    }

    /// Tells waiters to ask again whose time has come, and plans when to do so next.
    fn remind(&mut self, now: Moment) {
        self.plan.line.store(u64::MAX, Ordering::Release);
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let next = shared.line.remind(now).max(now.after(SHORTEST_LOOK));
        self.plan.line.fetch_min(next.as_nanos(), Ordering::AcqRel);
    }

    fn sweep(&mut self) {
        let backend = self.backend.clone();
        self.jobs.spawn(async move {
            // A sweep that fails is tried again at the next turn; nothing depends on it.
            while let Ok(swept) = backend.sweep(&Sweep::default()).await {
                if !swept.more {
                    break;
                }
                tokio::task::yield_now().await;
            }
        });
    }
}

/// How much early a lease is renewed along with others, so that one call serves them all.
fn slack(hold: &Hold) -> Duration {
    hold.renew_every().unwrap_or_default() / 8
}

/// What is to be done about one hold now, and when to look at it again.
fn consider(hold: &Arc<Hold>, now: Moment, hooked: bool, due: &mut Vec<Due>) -> Option<Moment> {
    if !hold.is_live() {
        return None;
    }
    if now >= hold.deadline() {
        hold.lose(hold.overdue());
        return None;
    }
    if now.after(slack(hold)) >= hold.next_renewal() {
        due.push(Due {
            hold: hold.clone(),
            planned: hold.next_renewal(),
        });
        hold.renew_at(Moment::FAR_FUTURE);
    }
    if hooked && now >= hold.risky_from() {
        hold.at_risk();
    }
    (hold.renew_every().is_some() || hooked).then(|| next_look(hold, now))
}
