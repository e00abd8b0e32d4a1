//! A second store for when the first is gone.

mod seat;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;

use seat::{Seat, Terms, Use, Which};

use super::together;
use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, IntoStore, List,
    Own, Page, Release, Releases, Renew, RenewItem, RenewMode, Renewed, Seen, SetCapacity, Sweep,
    Swept, Watch, Withdraw, Withdrawn,
};
use crate::clock::{Clock, Moment, SystemClock};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guarantees::{Capabilities, Description, Fencing, Guarantees, Survival};
use crate::lease::{Lease, Token, Ttl};
use crate::name::Name;
use crate::record::Record;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock};

/// The word for a fallback in descriptions and errors.
const SCHEME: &str = "fallback";

/// Which store a [`Fallback`] uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FallbackState {
    /// The first.
    Primary,
    /// None, until every lease of the first has ended; then the second.
    Leaving,
    /// The second.
    Secondary,
    /// None, until every lease of the second has ended; then the first.
    Returning,
}

type Hook = Arc<dyn Fn(FallbackState) + Send + Sync>;

/// Uses a second store while the first is gone.
///
/// Two stores do not exclude each other: what one has granted the other knows nothing of. So this never changes from one
/// to the other at once. When the first has failed for [a while](Self::after), everything is refused until the longest
/// lease there can be is over, and a [margin](Self::margin) more; then the second is used. When the first answers again,
/// for as long a while, the way back is the same. No lease may be longer than the one given to [`new`](Self::new).
///
/// # What it does not protect from
/// **Every process decides for itself.** One that has lost sight of the first store uses the second, while others go on
/// with the first, and then a name can be held twice. It is for outages that all see, within the margin of each other, and
/// for work that a second holder merely repeats.
///
/// # Tokens
/// Every new token is at least the microseconds of Unix time, and larger than any that this process has seen from either
/// store. Tokens therefore grow across a change, unless the processes' clocks differ by more than the pause.
///
/// # What it cannot do
/// Confirm, or set capacities: these have no end that could be waited for. Queue: a place in the line of one store is worth
/// nothing in the other. Add to a lease, because that could make it longer than the longest.
pub struct Fallback {
    primary: Arc<dyn Backend>,
    secondary: Arc<dyn Backend>,
    longest: Ttl,
    clock: Arc<dyn Clock>,
    hook: Option<Hook>,
    seat: Arc<Mutex<Seat>>,
    seen: AtomicU64,
    probe: Name,
    description: Description,
}

impl Fallback {
    /// How long the first store must fail, or answer again, if nothing else is said.
    pub const AFTER: Duration = Duration::from_secs(5);
    /// By how much processes may disagree about when the first store failed, if nothing else is said.
    pub const MARGIN: Duration = Duration::from_secs(10);
    /// The pause between two looks at a first store that is not in use.
    pub const PROBE_EVERY: Duration = Duration::from_secs(1);

    /// Uses `secondary` while `primary` is gone, on the system's clock. No lease is longer than `longest`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if `longest` is no ttl, or shorter than what the stores can do, or if both are the same.
    pub fn new(
        primary: impl IntoStore,
        secondary: impl IntoStore,
        longest: Duration,
    ) -> Result<Self> {
        let (primary, secondary) = (primary.into_store(), secondary.into_store());
        if Arc::ptr_eq(&primary, &secondary) {
            return Err(Error::invalid(
                "a store cannot stand in for itself; give two different ones",
            ));
        }
        let longest = Ttl::new(longest)?;
        let description = describe(&*primary, &*secondary, longest)?;
        description.check_ttl(longest)?;
        let terms = Terms {
            after: Self::AFTER,
            longest: longest.as_duration(),
            margin: Self::MARGIN,
            probe_every: Self::PROBE_EVERY,
        };
        Ok(Self {
            primary,
            secondary,
            longest,
            clock: SystemClock::shared(),
            hook: None,
            seat: Arc::new(Mutex::new(Seat::new(terms))),
            seen: AtomicU64::new(0),
            probe: Name::new("leasehold", "probe")?,
            description,
        })
    }

    /// Changes only after the first store has failed for this long without a success between, or has answered for this
    /// long.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        lock(&self.seat).terms().after = after;
        self
    }

    /// Waits this much longer than the longest lease before the other store is used. It must be longer than the time by
    /// which processes may disagree about when the first store failed or came back.
    #[must_use]
    pub fn margin(self, margin: Duration) -> Self {
        lock(&self.seat).terms().margin = margin;
        self
    }

    /// Looks at a first store that is not in use no more often than this, and only when somebody calls.
    #[must_use]
    pub fn probe_every(self, pause: Duration) -> Self {
        lock(&self.seat).terms().probe_every = pause;
        self
    }

    /// Tells this function of every change of the [state](Self::state).
    #[must_use]
    pub fn on_change(mut self, hook: impl Fn(FallbackState) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Judges time by this clock instead.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Which store is in use.
    #[must_use]
    pub fn state(&self) -> FallbackState {
        self.turn(|seat, now| {
            seat.latest(now);
            seat.state()
        })
    }

    fn store(&self, which: Which) -> &Arc<dyn Backend> {
        match which {
            Which::Primary => &self.primary,
            Which::Secondary => &self.secondary,
        }
    }

    fn turn<T>(&self, change: impl FnOnce(&mut Seat, Moment) -> T) -> T {
        turn(&self.seat, &*self.clock, self.hook.as_ref(), change)
    }

    /// The store to use, if one is used now.
    fn current(&self, op: &'static str) -> Result<Use> {
        self.look_after_primary();
        let current = self.turn(|seat, now| (seat.current(now), seat.state()));
        let (left, state) = match current {
            (Ok(used), _) => return Ok(used),
            (Err(left), state) => (left, state),
        };
        let next = if state == FallbackState::Leaving {
            "second"
        } else {
            "first"
        };
        let detail = format!(
            "no store is used until all leases of the one before have ended, in {left:?}; then the {next} one is"
        );
        Err(Error::new(ErrorKind::Unavailable, detail).during(op, SCHEME))
    }

    /// The store in use, or that was until the pause began: whatever it still has may be ended there.
    fn latest(&self) -> Use {
        self.look_after_primary();
        self.turn(|seat, now| seat.latest(now))
    }

    /// Makes a call, and learns from its answer how the store is.
    async fn call<T>(&self, used: Use, call: impl Future<Output = Result<T>>) -> Result<T> {
        let answer = call.await;
        let is_down = matches!(&answer, Err(error) if error.is_retryable());
        self.turn(|seat, now| seat.learn(used, is_down, now));
        answer
    }

    /// Refuses what a store granted after it was given up: nobody waits for such a lease to end.
    fn still_used(&self, used: Use, op: &'static str) -> Result<()> {
        if self.turn(|seat, now| seat.goes_on(used, now)) {
            return Ok(());
        }
        let detail = "the store was given up before it answered";
        Err(Error::new(ErrorKind::Unavailable, detail)
            .with_effect(Effect::Unknown)
            .during(op, SCHEME))
    }

    /// Sees whether a first store that is not in use answers, in the background.
    fn look_after_primary(&self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !self.turn(Seat::probe_is_due) {
            return;
        }
        let (store, name) = (Arc::clone(&self.primary), self.probe.clone());
        let mut probe = Probe {
            seat: Arc::clone(&self.seat),
            clock: Arc::clone(&self.clock),
            hook: self.hook.clone(),
            is_well: false,
        };
        runtime.spawn(async move {
            probe.is_well = store.get(&name).await.is_ok();
            drop(probe);
        });
    }

    fn floor(&self, request: &Acquire) -> Token {
        let beyond_seen = self.seen.load(Ordering::Relaxed).saturating_add(1);
        let by_clock = together::micros(self.clock.wall());
        let floor = beyond_seen.max(by_clock).max(request.token_floor.get());
        Token::new(floor)
    }

    /// Takes names with tokens above the floor, and does what the request says to those that its holder has already.
    async fn take(&self, store: &dyn Backend, request: &Acquire) -> Result<Acquired> {
        let floor = self.floor(request);
        let above = |own| Acquire {
            own,
            token_floor: floor,
            queue: None,
            ..request.clone()
        };
        if request.own != Own::Replace {
            return store.acquire(&above(request.own)).await;
        }
        // Replacing would give a grant that is there a new token each time, for the floor is always above it.
        let answer = store.acquire(&above(Own::Keep)).await?;
        let is_new = |leases: &[Lease]| leases.iter().all(|l| l.token >= floor);
        match answer {
            Acquired::Granted(leases) if !is_new(&leases) => {
                let again = Acquire {
                    queue: None,
                    ..request.clone()
                };
                store.acquire(&again).await
            }
            answer => Ok(answer),
        }
    }

    fn saw(&self, answer: &Acquired) {
        if let Acquired::Granted(leases) = answer {
            for lease in leases {
                let token = together::plausible(lease.token.get());
                self.seen.fetch_max(token, Ordering::Relaxed);
            }
        }
    }

    /// Refuses what would last longer than anybody waits for.
    fn check_item(&self, item: &RenewItem) -> Result<()> {
        match item.mode {
            RenewMode::Set(ttl) => self.check_ttl(ttl),
            RenewMode::Add { .. } => Err(unsupported(
                "add to a lease, which could become longer than the longest; set a ttl instead",
            )),
        }
        .map_err(|error| error.with_name(&item.name))
    }

    fn check_ttl(&self, ttl: Ttl) -> Result<()> {
        if ttl <= self.longest {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a ttl of {:?} is longer than {:?}, which is how long a change between the two stores waits",
            ttl.as_duration(),
            self.longest.as_duration()
        )))
    }
}

/// Changes the seat, and tells the hook if that changed the state.
fn turn<T>(
    seat: &Mutex<Seat>,
    clock: &dyn Clock,
    hook: Option<&Hook>,
    change: impl FnOnce(&mut Seat, Moment) -> T,
) -> T {
    let now = clock.now();
    let (result, before, after) = {
        let mut seat = lock(seat);
        let before = seat.state();
        let result = change(&mut seat, now);
        (result, before, seat.state())
    };
    if let Some(hook) = hook
        && before != after
    {
        hook(after);
    }
    result
}

/// A look at the first store that is under way. It reports when it is dropped, so that there is a next one in any case.
struct Probe {
    seat: Arc<Mutex<Seat>>,
    clock: Arc<dyn Clock>,
    hook: Option<Hook>,
    is_well: bool,
}

impl Drop for Probe {
    fn drop(&mut self) {
        let is_well = self.is_well;
        turn(&self.seat, &*self.clock, self.hook.as_ref(), |seat, now| {
            seat.probed(is_well, now);
        });
    }
}

fn describe(primary: &dyn Backend, secondary: &dyn Backend, longest: Ttl) -> Result<Description> {
    let each = [primary.describe(), secondary.describe()];
    let assumes = "every process has the same longest ttl and margin, and finds the first store gone or back within the \
                   margin of the others, for two stores do not exclude each other; their clocks agree better than the \
                   pause between the stores is long";
    let together = together::capabilities(each).zip(together::guarantees(each, assumes));
    let Some((can, promise)) = together else {
        return Err(Error::invalid("a fallback needs two stores"));
    };
    Ok(Description {
        scheme: SCHEME,
        capabilities: Capabilities {
            queue: false,
            reservations: false,
            quantities: false,
            max_ttl: can.max_ttl.min(longest),
            ..can
        },
        guarantees: Guarantees {
            fencing: match promise.fencing {
                Fencing::None => Fencing::None,
                Fencing::Monotonic | Fencing::BestEffort => Fencing::BestEffort,
            },
            survives_failover: Survival::No,
            ..promise
        },
    })
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("a fallback cannot {what}"))
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("state", &lock(&self.seat).state())
            .field("primary", &self.primary)
            .field("secondary", &self.secondary)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Fallback {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        request.check()?;
        self.check_ttl(request.ttl)
            .map_err(|error| error.with_name(request.names.first()))?;
        let used = self.current("acquire")?;
        let taking = self.take(&**self.store(used.which), request);
        let answer = self.call(used, taking).await?;
        self.saw(&answer);
        if matches!(answer, Acquired::Granted(_)) {
            self.still_used(used, "acquire")?;
        }
        Ok(answer)
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        let used = self.current("renew")?;
        let checked: Vec<_> = request.items.iter().map(|i| self.check_item(i)).collect();
        let fine = request.items.iter().zip(&checked);
        let items = fine.filter(|(_, check)| check.is_ok());
        let items: Vec<_> = items.map(|(item, _)| item.clone()).collect();
        let renew = Renew { items };
        let renewing = self.store(used.which).renew(&renew);
        let mut answers = self.call(used, renewing).await?.into_iter();
        self.still_used(used, "renew")?;
        let each = checked.into_iter().map(|check| {
            check?;
            answers.next().unwrap_or_else(|| Err(unanswered()))
        });
        Ok(each.collect())
    }

    /// Ends leases at the store in use, and in a pause at the one before.
    async fn release(&self, request: &Release) -> Result<Releases> {
        if let Release::Claims { .. } = request {
            return Err(unsupported("free a claim"));
        }
        let used = self.latest();
        let releasing = self.store(used.which).release(request);
        self.call(used, releasing).await
    }

    async fn confirm(&self, _request: &Confirm) -> Result<Confirmed> {
        Err(unsupported("confirm"))
    }

    /// Ends leases at the store in use, and in a pause at the one before.
    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let used = self.latest();
        let withdrawing = self.store(used.which).withdraw(request);
        self.call(used, withdrawing).await
    }

    async fn set_capacity(&self, _request: &SetCapacity) -> Result<CapacitySet> {
        Err(unsupported("set a capacity"))
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let used = self.current("get")?;
        self.call(used, self.store(used.which).get(name)).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let used = self.current("list")?;
        self.call(used, self.store(used.which).list(request)).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let used = self.current("sweep")?;
        self.call(used, self.store(used.which).sweep(request)).await
    }

    /// Watches the store in use. Hints of the other begin with the next watch after a change.
    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let used = self.current("watch")?;
        self.call(used, self.store(used.which).watch(inbox, name))
            .await
    }
}

fn unanswered() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the store gave fewer answers than it was asked for",
    )
    .with_effect(Effect::Unknown)
}
