//! What each wrapper adds, and that it leaves the rest alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Event, Inbox, List, Names, Page,
    Release, Released, Releases, Renew, RenewItem, Renewed, Seen, SetCapacity, Sweep, Swept, Watch,
    What, Withdraw, Withdrawn,
};
use leasehold_core::memory::Memory;
use leasehold_core::wrap::{Breaker, BreakerState, Prefix, Retry, RetryPolicy, Timeout};
use leasehold_core::{
    Backend, Clock, Description, Effect, Error, ErrorKind, Holder, Kind, Lease, ManualClock, Name,
    Owner, Record, Result, Ttl,
};

fn name(namespace: &str, key: &str) -> Name {
    Name::new(namespace, key).unwrap()
}

fn ttl(secs: u64) -> Ttl {
    Ttl::new(Duration::from_secs(secs)).unwrap()
}

fn acquire(name: &Name, holder: &Holder) -> Acquire {
    acquire_all(Names::one(name.clone()), holder)
}

fn acquire_all(names: Names, holder: &Holder) -> Acquire {
    Acquire::new(names, holder.clone(), Owner::new("test").unwrap(), ttl(30))
}

async fn grant(backend: &dyn Backend, name: &Name, holder: &Holder) -> Lease {
    match backend.acquire(&acquire(name, holder)).await.unwrap() {
        Acquired::Granted(mut leases) => leases.remove(0),
        other => panic!("{other:?}"),
    }
}

/// What happens to one call of a [`Faulty`] store.
enum Fault {
    /// It fails before it reaches the store.
    Refuse(ErrorKind),
    /// The store does it, and the reply is lost.
    LoseReply,
    /// It does not reach the store, but nobody can tell.
    Vanish,
    /// It never answers.
    Hang,
}

/// A memory store whose first calls go as scripted.
#[derive(Debug)]
struct Faulty {
    inner: Arc<Memory>,
    script: Mutex<VecDeque<Fault>>,
    calls: Mutex<usize>,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fault")
    }
}

impl Faulty {
    fn new(inner: Arc<Memory>, script: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            inner,
            script: Mutex::new(script.into_iter().collect()),
            calls: Mutex::new(0),
        }
    }

    fn calls(&self) -> usize {
        *self.calls.lock().unwrap()
    }

    async fn pass<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        *self.calls.lock().unwrap() += 1;
        let fault = self.script.lock().unwrap().pop_front();
        let unknown = || Error::new(ErrorKind::Timeout, "no reply").with_effect(Effect::Unknown);
        match fault {
            None => call.await,
            Some(Fault::Refuse(kind)) => Err(Error::new(kind, "refused")),
            Some(Fault::LoseReply) => {
                drop(call.await);
                Err(unknown())
            }
            Some(Fault::Vanish) => Err(unknown()),
            Some(Fault::Hang) => pending().await,
        }
    }
}

#[async_trait]
impl Backend for Faulty {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        self.pass(self.inner.acquire(request)).await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        self.pass(self.inner.renew(request)).await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        self.pass(self.inner.release(request)).await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.pass(self.inner.confirm(request)).await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        self.pass(self.inner.withdraw(request)).await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        self.pass(self.inner.set_capacity(request)).await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        self.pass(self.inner.get(name)).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.pass(self.inner.list(request)).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.pass(self.inner.sweep(request)).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        self.pass(self.inner.watch(inbox, name)).await
    }
}

/// Runs a future, moving the clock to the next wake-up whenever nothing else happens. Returns the pauses too.
async fn driven<T>(clock: &ManualClock, future: impl Future<Output = T>) -> (T, Vec<Duration>) {
    let mut future = std::pin::pin!(future);
    let mut pauses = Vec::new();
    loop {
        tokio::select! {
            biased;
            answer = &mut future => return (answer, pauses),
            () = tokio::task::yield_now() => {}
        }
        if let Some(at) = clock.next_wake() {
            pauses.push(at.since(clock.now()));
            clock.advance(at.since(clock.now()));
        }
    }
}

mod prefix {
    use super::*;

    type Seen = Arc<Mutex<Vec<Event>>>;

    fn two_views() -> (Arc<Memory>, Prefix<Arc<Memory>>, Prefix<Arc<Memory>>) {
        let store = Arc::new(Memory::new());
        let view = |prefix| Prefix::new(store.clone(), prefix).unwrap();
        (store.clone(), view("a"), view("a2"))
    }

    fn inbox() -> (Inbox, Seen) {
        let seen = Seen::default();
        let sink = seen.clone();
        (Inbox::new(move |e| sink.lock().unwrap().push(e)), seen)
    }

    #[tokio::test]
    async fn names_of_two_prefixes_never_meet() {
        let (store, a, a2) = two_views();
        for (view, namespace) in [(&a, "2:n"), (&a, "n"), (&a2, "n"), (&a2, ":n")] {
            grant(view, &name(namespace, "k"), &Holder::random()).await;
        }
        grant(&*store, &name("n", "k"), &Holder::random()).await;
        assert_eq!(store.len(), 5);
        assert!(store.get(&name("a:n", "k")).await.unwrap().what.is_some());
    }

    #[tokio::test]
    async fn every_answer_speaks_of_the_callers_names() {
        let (_, a, _) = two_views();
        let (me, other) = (Holder::random(), Holder::random());
        let (x, y) = (name("x/", "k"), name("x%", "k"));
        let names = Names::new([x.clone(), y.clone()]).unwrap();
        let granted = a.acquire(&acquire_all(names.clone(), &me)).await.unwrap();
        let Acquired::Granted(leases) = granted else {
            panic!("{granted:?}")
        };
        let given: Vec<_> = leases.iter().map(|lease| lease.name.clone()).collect();
        assert_eq!(given, names.as_slice());

        let held = a.acquire(&acquire_all(names, &other)).await.unwrap();
        assert!(matches!(held, Acquired::Held(b) if b[0].name == y && b[1].name == x));

        let (inbox, _) = inbox();
        let queued = a.acquire(&acquire(&x, &other).queue(inbox.id())).await;
        assert!(matches!(queued.unwrap(), Acquired::Queued(q) if q.blocked.name == x));

        let items = vec![RenewItem::ticket(x.clone(), other.clone(), ttl(5))];
        let renewed = a.renew(&Renew { items }).await.unwrap();
        assert!(matches!(&renewed[0], Ok(Renewed::Queued(q)) if q.blocked.name == x));
        let items = vec![RenewItem::lease(
            y.clone(),
            me.clone(),
            leases[0].token,
            ttl(5),
        )];
        let renewed = a.renew(&Renew { items }).await.unwrap();
        assert_eq!(renewed[0].as_ref().unwrap().lease().unwrap().name, y);

        let confirm = Confirm::new(y.clone(), leases[0].token, other, "e").unwrap();
        let confirmed = a.confirm(&confirm).await.unwrap();
        assert!(matches!(confirmed, Confirmed::NotHeld(name, _) if name == y));
        assert_eq!(a.get(&x).await.unwrap().what.unwrap().name, x);
    }

    #[tokio::test]
    async fn an_error_names_what_the_caller_named() {
        let (_, a, _) = two_views();
        let (x, me) = (name("x", "k"), Holder::random());
        grant(&a, &x, &me).await;
        let other_terms = acquire(&x, &me).kind(Kind::Reservation);
        let error = a.acquire(&other_terms).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.name(), Some(&x));
    }

    #[tokio::test]
    async fn a_list_shows_only_what_is_inside_and_pages_through_it() {
        let (store, a, a2) = two_views();
        let mine: Vec<_> = (0..5).map(|i| name("n", &i.to_string())).collect();
        for name in &mine {
            grant(&a, name, &Holder::random()).await;
            grant(&a2, name, &Holder::random()).await;
            // Not nameable through the prefix, and first in the order.
            let bare = Name::new("a:", name.key()).unwrap();
            grant(&*store, &bare, &Holder::random()).await;
        }
        let mut request = List::all();
        request.limit = 2;
        let mut seen = Vec::new();
        loop {
            let page = a.list(&request).await.unwrap().what;
            assert!(!page.items.is_empty());
            seen.extend(page.items.iter().map(|record| record.name.clone()));
            request.after = seen.last().cloned();
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, mine);
        let other = a.list(&List::namespace("m")).await.unwrap().what;
        assert!(other.items.is_empty());
        assert_eq!(
            a.list(&List::namespace("n"))
                .await
                .unwrap()
                .what
                .items
                .len(),
            5
        );
    }

    #[tokio::test]
    async fn events_speak_of_the_callers_names() {
        let (_, a, _) = two_views();
        let (x, me, next) = (name("x", "k"), Holder::random(), Holder::random());
        let (inbox, seen) = inbox();
        let _watch = a.watch(&inbox, Some(&x)).await.unwrap();
        let lease = grant(&a, &x, &me).await;
        let queued = a.acquire(&acquire(&x, &next).queue(inbox.id())).await;
        assert!(matches!(queued, Ok(Acquired::Queued(_))));
        let release =
            |lease: &Lease, holder: &Holder| Release::grant(x.clone(), holder.clone(), lease.token);
        a.release(&release(&lease, &me)).await.unwrap();
        let granted = match seen
            .lock()
            .unwrap()
            .iter()
            .find_map(|event| match &event.what {
                What::Granted { lease, .. } => Some((event.name.clone(), lease.clone())),
                What::Changed => None,
            }) {
            Some((of, lease)) => {
                assert_eq!((&of, &lease.name), (&x, &x));
                lease
            }
            None => panic!("no grant was told of"),
        };
        a.release(&release(&granted, &next)).await.unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.iter().any(|e| e.name == x && e.what == What::Changed));
    }

    #[tokio::test]
    async fn a_sweep_reports_only_names_inside() {
        let clock = ManualClock::new();
        let store = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
        let a = Prefix::new(store.clone(), "a").unwrap();
        grant(&a, &name("x", "k"), &Holder::random()).await;
        grant(&*store, &name("y", "k"), &Holder::random()).await;
        clock.advance(Duration::from_secs(31));
        let swept = a.sweep(&Sweep::default()).await.unwrap();
        assert_eq!(swept.expired.len(), 1);
        assert_eq!(swept.expired[0].name, name("x", "k"));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_refused_by_name_of_the_limit() {
        for bad in ["", "a:b", "a\0", &"p".repeat(254)] {
            let error = Prefix::new(Memory::new(), bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        }
        let a = Prefix::new(Memory::new(), "abc").unwrap();
        assert!(a.get(&name(&"n".repeat(251), "k")).await.is_ok());
        let long = name(&"n".repeat(252), "k");
        let error = a.acquire(&acquire(&long, &Holder::random())).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("256 bytes"), "{error}");
        assert!(error.to_string().contains("at most 255"), "{error}");
        assert!(Prefix::new(Memory::new(), &"p".repeat(253)).is_ok());
    }
}

mod timeout {
    use super::*;

    fn hanging(clock: &ManualClock) -> Timeout<Faulty> {
        let store = Faulty::new(Arc::new(Memory::new()), [Fault::Hang]);
        Timeout::new(store, Duration::from_secs(2))
            .unwrap()
            .with_clock(Arc::new(clock.clone()))
    }

    #[tokio::test]
    async fn a_change_without_an_answer_has_an_unknown_effect() {
        let clock = ManualClock::new();
        let (x, me) = (name("n", "k"), Holder::random());
        let store = hanging(&clock);
        let (answer, pauses) = driven(&clock, store.acquire(&acquire(&x, &me))).await;
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(error.name(), Some(&x));
        assert_eq!(pauses, [Duration::from_secs(2)]);
        let sweep = Sweep::default();
        let store = hanging(&clock);
        let (answer, _) = driven(&clock, store.sweep(&sweep)).await;
        assert_eq!(answer.unwrap_err().effect(), Effect::Unknown);
    }

    #[tokio::test]
    async fn a_read_without_an_answer_changed_nothing() {
        let clock = ManualClock::new();
        let store = hanging(&clock);
        let (answer, _) = driven(&clock, store.get(&name("n", "k"))).await;
        let error = answer.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::None)
        );
        let store = hanging(&clock);
        let (answer, _) = driven(&clock, store.list(&List::all())).await;
        assert_eq!(answer.unwrap_err().effect(), Effect::None);
        let store = hanging(&clock);
        let inbox = Inbox::new(|_| {});
        let (answer, _) = driven(&clock, store.watch(&inbox, None)).await;
        assert_eq!(answer.unwrap_err().effect(), Effect::None);
    }

    #[tokio::test]
    async fn an_answer_in_time_passes_and_leaves_no_timer() {
        let clock = ManualClock::new();
        let store = Timeout::new(Memory::new(), Duration::from_nanos(1))
            .unwrap()
            .with_clock(Arc::new(clock.clone()));
        grant(&store, &name("n", "k"), &Holder::random()).await;
        assert_eq!(clock.sleepers(), 0);
    }

    #[test]
    fn zero_is_refused() {
        let error = Timeout::new(Memory::new(), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

mod retry {
    use super::*;
    use Fault::{LoseReply, Refuse, Vanish};

    struct Setup {
        clock: ManualClock,
        memory: Arc<Memory>,
        store: Retry<Faulty>,
    }

    fn setup(attempts: u32, script: impl IntoIterator<Item = Fault>) -> Setup {
        let policy = RetryPolicy::default().attempts(attempts).unwrap();
        let policy = policy
            .pauses(Duration::from_millis(100), Duration::from_millis(350))
            .unwrap();
        setup_with(policy, script)
    }

    fn setup_with(policy: RetryPolicy, script: impl IntoIterator<Item = Fault>) -> Setup {
        let clock = ManualClock::new();
        let memory = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
        let store = Retry::new(Faulty::new(memory.clone(), script), policy)
            .with_clock(Arc::new(clock.clone()));
        Setup {
            clock,
            memory,
            store,
        }
    }

    #[tokio::test]
    async fn what_may_pass_is_repeated() {
        let s = setup(
            3,
            [Refuse(ErrorKind::Unavailable), Refuse(ErrorKind::Timeout)],
        );
        let (x, me) = (name("n", "k"), Holder::random());
        driven(&s.clock, grant(&s.store, &x, &me)).await;
        assert_eq!(s.store.inner().calls(), 3);
    }

    #[tokio::test]
    async fn what_will_not_pass_is_not_repeated() {
        let s = setup(3, [Refuse(ErrorKind::Denied)]);
        let (answer, _) = driven(&s.clock, s.store.get(&name("n", "k"))).await;
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(s.store.inner().calls(), 1);
    }

    /// The acquisition whose reply was lost and its repetition are one grant.
    #[tokio::test]
    async fn a_lost_reply_to_an_acquire_does_not_cost_a_second_token() {
        let s = setup(3, [LoseReply]);
        let (x, me) = (name("n", "k"), Holder::random());
        let (lease, _) = driven(&s.clock, grant(&s.store, &x, &me)).await;
        let record = s.memory.get(&x).await.unwrap().what.unwrap();
        assert_eq!(record.grants.len(), 1);
        assert_eq!(
            (record.grants[0].token, record.last_token),
            (lease.token, lease.token)
        );
    }

    #[tokio::test]
    async fn an_unknown_effect_is_not_forgotten() {
        for last in [ErrorKind::Unavailable, ErrorKind::Denied] {
            let s = setup(2, [Vanish, Refuse(last)]);
            let request = acquire(&name("n", "k"), &Holder::random());
            let (answer, _) = driven(&s.clock, s.store.acquire(&request)).await;
            let error = answer.unwrap_err();
            assert_eq!((error.kind(), error.effect()), (last, Effect::Unknown));
        }
        let s = setup(
            2,
            [
                Refuse(ErrorKind::Unavailable),
                Refuse(ErrorKind::Unavailable),
            ],
        );
        let (answer, _) = driven(&s.clock, s.store.get(&name("n", "k"))).await;
        assert_eq!(answer.unwrap_err().effect(), Effect::None);
    }

    #[tokio::test]
    async fn a_forced_release_without_a_token_does_not_hit_the_next_holder() {
        let force =
            |x: &Name| Release::force(x.clone(), None, Owner::new("op").unwrap(), "stuck").unwrap();
        let (x, me) = (name("n", "k"), Holder::random());
        let s = setup(3, [LoseReply]);
        grant(&*s.memory, &x, &me).await;
        let (answer, _) = driven(&s.clock, s.store.release(&force(&x))).await;
        assert_eq!(answer.unwrap_err().effect(), Effect::Unknown);
        assert_eq!(s.store.inner().calls(), 1);

        let s = setup(3, [Refuse(ErrorKind::Unavailable)]);
        grant(&*s.memory, &x, &me).await;
        let (answer, _) = driven(&s.clock, s.store.release(&force(&x))).await;
        assert!(matches!(&answer.unwrap()[..], [Released::Forced(_)]));
    }

    #[tokio::test]
    async fn a_capacity_that_was_set_is_not_reported_as_refused() {
        let s = setup(3, [LoseReply]);
        let request = SetCapacity {
            name: name("n", "k"),
            units: Some(3),
            expect_version: Some(0),
        };
        let (answer, _) = driven(&s.clock, s.store.set_capacity(&request)).await;
        assert_eq!(answer.unwrap_err().effect(), Effect::Unknown);
        assert_eq!(s.store.inner().calls(), 1);
    }

    #[tokio::test]
    async fn pauses_double_up_to_the_cap() {
        let refusals = || std::iter::repeat_with(|| Refuse(ErrorKind::Unavailable)).take(6);
        let mut longest = [Duration::ZERO; 5];
        for _ in 0..50 {
            let s = setup(6, refusals());
            let (answer, pauses) = driven(&s.clock, s.store.get(&name("n", "k"))).await;
            assert!(answer.is_err());
            assert_eq!((s.store.inner().calls(), pauses.len()), (6, 5));
            for (longest, pause) in longest.iter_mut().zip(pauses) {
                *longest = pause.max(*longest);
            }
        }
        let caps = [100, 200, 350, 350, 350].map(Duration::from_millis);
        for (longest, cap) in longest.into_iter().zip(caps) {
            assert!(longest <= cap && longest > cap / 2, "{longest:?} {cap:?}");
        }
    }

    #[tokio::test]
    async fn no_attempt_begins_after_the_total() {
        let policy = RetryPolicy::default().attempts(100).unwrap();
        let policy = policy.pauses(Duration::from_secs(1), Duration::from_secs(1));
        let policy = policy.unwrap().total(Duration::from_secs(5)).unwrap();
        let refusals = std::iter::repeat_with(|| Refuse(ErrorKind::Unavailable)).take(100);
        let s = setup_with(policy, refusals);
        let start = s.clock.now();
        let (answer, _) = driven(&s.clock, s.store.get(&name("n", "k"))).await;
        assert!(answer.is_err());
        assert!(s.clock.now().since(start) <= Duration::from_secs(5));
        assert!(s.store.inner().calls() < 100);
    }

    #[test]
    fn a_policy_is_checked() {
        let policy = RetryPolicy::default;
        assert!(policy().attempts(0).is_err());
        assert!(policy().attempts(101).is_err());
        let ms = Duration::from_millis;
        assert!(policy().pauses(Duration::ZERO, ms(1)).is_err());
        assert!(policy().pauses(ms(2), ms(1)).is_err());
        assert!(policy().pauses(Duration::MAX, Duration::MAX).is_ok());
        assert!(policy().total(Duration::ZERO).is_err());
    }

    #[tokio::test]
    async fn absurd_pauses_do_not_overflow() {
        let policy = RetryPolicy::default().attempts(100).unwrap();
        let policy = policy.pauses(Duration::MAX, Duration::MAX).unwrap();
        let s = setup_with(policy, [Refuse(ErrorKind::Unavailable)]);
        let (answer, _) = driven(&s.clock, s.store.get(&name("n", "k"))).await;
        assert!(answer.is_err());
    }
}

mod breaker {
    use super::Fault::{Hang, Refuse};
    use super::*;

    const REST: Duration = Duration::from_secs(3);

    type Changes = Arc<Mutex<Vec<BreakerState>>>;

    struct Setup {
        clock: ManualClock,
        store: Breaker<Faulty>,
        changes: Changes,
    }

    /// A breaker that opens after two failures and rests for three seconds.
    fn setup(script: impl IntoIterator<Item = Fault>) -> Setup {
        let clock = ManualClock::new();
        let memory = Memory::with_clock(Arc::new(clock.clone()));
        let changes = Changes::default();
        let told = changes.clone();
        let store = Breaker::new(Faulty::new(Arc::new(memory), script))
            .after(2)
            .and_then(|breaker| breaker.rest(REST))
            .unwrap()
            .with_clock(Arc::new(clock.clone()))
            .on_change(move |state| told.lock().unwrap().push(state));
        Setup {
            clock,
            store,
            changes,
        }
    }

    fn down() -> Fault {
        Refuse(ErrorKind::Unavailable)
    }

    impl Setup {
        async fn look(&self) -> Result<()> {
            self.store.get(&name("n", "k")).await.map(drop)
        }

        /// Fails twice.
        async fn blow(&self) {
            for _ in 0..2 {
                assert!(self.look().await.is_err());
            }
            assert_eq!(self.store.state(), BreakerState::Open);
        }

        fn calls(&self) -> usize {
            self.store.inner().calls()
        }
    }

    /// S2-14: callers of a store that is down fail at once, and the store is left alone.
    #[tokio::test]
    async fn after_failures_in_a_row_nobody_is_let_through() {
        let s = setup([down(), down()]);
        s.blow().await;
        let error = s.look().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect(), error.op()),
            (ErrorKind::Unavailable, Effect::None, Some("get"))
        );
        assert!(error.to_string().contains("asked again in 3s"), "{error}");
        assert_eq!(s.calls(), 2);
    }

    #[tokio::test]
    async fn a_success_in_between_starts_the_count_anew() {
        let refused = Refuse(ErrorKind::InvalidInput);
        let s = setup([down(), refused, down()]);
        for _ in 0..3 {
            assert!(s.look().await.is_err());
        }
        assert_eq!(s.store.state(), BreakerState::Closed);
        assert!(s.look().await.is_ok());
    }

    #[tokio::test]
    async fn after_a_rest_one_success_lets_all_through_again() {
        let s = setup([down(), down()]);
        s.blow().await;
        s.clock.advance(REST);
        assert!(s.look().await.is_ok());
        assert_eq!(s.store.state(), BreakerState::Closed);
        let (open, probing, closed) = (
            BreakerState::Open,
            BreakerState::Probing,
            BreakerState::Closed,
        );
        assert_eq!(*s.changes.lock().unwrap(), [open, probing, closed]);
    }

    #[tokio::test]
    async fn a_failed_probe_means_another_rest() {
        let s = setup([down(), down(), down()]);
        s.blow().await;
        s.clock.advance(REST);
        assert!(s.look().await.is_err());
        assert!(s.look().await.is_err());
        assert_eq!(s.calls(), 3);
        s.clock.advance(REST);
        assert!(s.look().await.is_ok());
    }

    #[tokio::test]
    async fn while_one_probes_the_others_are_refused_and_a_dropped_probe_lets_the_next_try() {
        let s = setup([down(), down(), Hang]);
        s.blow().await;
        s.clock.advance(REST);
        let mut probe = Box::pin(s.look());
        tokio::select! {
            biased;
            _ = &mut probe => panic!("it hangs"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(s.store.state(), BreakerState::Probing);
        assert!(s.look().await.is_err());
        assert_eq!(s.calls(), 3);
        drop(probe);
        assert!(s.look().await.is_ok());
    }

    /// A holder does not lose its lease because others have found the store down, and is the first to find it back.
    #[tokio::test]
    async fn renewals_always_go_through() {
        let s = setup([down(), down()]);
        s.blow().await;
        let items = vec![RenewItem::lease(
            name("n", "k"),
            Holder::random(),
            leasehold_core::Token::new(1),
            ttl(30),
        )];
        assert!(s.store.renew(&Renew { items }).await.is_ok());
        assert_eq!(s.store.state(), BreakerState::Closed);
        assert!(s.look().await.is_ok());
    }

    #[test]
    fn options_are_checked() {
        let breaker = || Breaker::new(Memory::new());
        assert!(breaker().after(0).is_err());
        assert!(breaker().rest(Duration::ZERO).is_err());
    }
}
