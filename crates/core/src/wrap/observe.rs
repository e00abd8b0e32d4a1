//! Meters and traces of every call to a store.
//!
//! Labels come from closed sets only: the backend's scheme, the verb, and what came of it. Names and owners never
//! become labels, so the number of series does not grow with use.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::Instrument as _;

use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page,
    Release, Released, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw,
    Withdrawn,
};
use crate::clock::{Clock, Moment, SystemClock};
use crate::error::{Error, Result};
use crate::guarantees::Description;
use crate::name::Name;
use crate::record::Record;

const CALLS: &str = "leasehold_store_calls_total";
const SECONDS: &str = "leasehold_store_call_seconds";

/// What became of a call whose caller lost interest.
const DROPPED: &str = "dropped";
const OK: &str = "ok";
const NOT_HELD: &str = "not_held";
const REFUSED: &str = "refused";

/// Tells the installed recorder what the meters of [`Observe`] mean. Call it once, after installing one.
pub fn describe_meters() {
    metrics::describe_counter!(CALLS, "Calls to a store, by backend, verb and result.");
    metrics::describe_histogram!(
        SECONDS,
        metrics::Unit::Seconds,
        "How long calls to a store took, by backend and verb."
    );
}

/// Counts and times every call, traces it, and warns of slow ones.
///
/// | Meter | Type | Labels |
/// | --- | --- | --- |
/// | `leasehold_store_calls_total` | counter | `backend`, `op`, `result` |
/// | `leasehold_store_call_seconds` | histogram | `backend`, `op` |
///
/// `result` is `granted`, `held` or `queued` for an acquire; `ok`, `not_held` or `refused` (another version, another
/// end) otherwise; the [kind](crate::ErrorKind::as_str) of the error for a failure; and `dropped` if the caller did not
/// wait for the answer. A call with many items counts once, with the worst of their results.
///
/// Each call is a `tracing` span `store_call` at debug level with a closing event; a call over the
/// [threshold](Self::slow_after) is a warning.
#[derive(Debug)]
pub struct Observe<B> {
    inner: B,
    slow_after: Duration,
    clock: Arc<dyn Clock>,
}

impl<B: Backend> Observe<B> {
    /// The threshold of slow calls if none is set: far above a healthy store's answer, and still below most leases.
    pub const SLOW_AFTER: Duration = Duration::from_secs(1);

    /// Observes `inner`, on the system's clock.
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            slow_after: Self::SLOW_AFTER,
            clock: SystemClock::shared(),
        }
    }

    /// Warns of calls that take this long or longer.
    #[must_use]
    pub fn slow_after(mut self, threshold: Duration) -> Self {
        self.slow_after = threshold;
        self
    }

    /// Judges time by this clock instead.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The backend inside.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    async fn observe<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = Result<T>>,
        result: impl FnOnce(&T) -> &'static str,
    ) -> Result<T> {
        let backend = self.inner.describe().scheme;
        let observed = async {
            let mut observation = Observation {
                clock: &*self.clock,
                started: self.clock.now(),
                slow_after: self.slow_after,
                backend,
                op,
                result: DROPPED,
            };
            let answer = call.await;
            observation.result = match &answer {
                Ok(answer) => result(answer),
                Err(error) => error.kind().as_str(),
            };
            answer
        };
        observed
            .instrument(tracing::debug_span!("store_call", op, backend))
            .await
    }
}

/// One call under way; reports when it is over, also if its future is dropped.
struct Observation<'a> {
    clock: &'a dyn Clock,
    started: Moment,
    slow_after: Duration,
    backend: &'static str,
    op: &'static str,
    result: &'static str,
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        let (backend, op, result) = (self.backend, self.op, self.result);
        let took = self.clock.now().since(self.started);
        metrics::counter!(CALLS, "backend" => backend, "op" => op, "result" => result).increment(1);
        metrics::histogram!(SECONDS, "backend" => backend, "op" => op).record(took.as_secs_f64());
        if took >= self.slow_after {
            tracing::warn!(op, backend, result, ?took, "slow call to the store");
        } else {
            tracing::debug!(op, backend, result, ?took, "call to the store");
        }
    }
}

fn acquired(answer: &Acquired) -> &'static str {
    match answer {
        Acquired::Granted(_) => "granted",
        Acquired::Held(_) => "held",
        Acquired::Queued(_) => "queued",
    }
}

fn renewed(answers: &[Result<Renewed>]) -> &'static str {
    if let Some(kind) = answers
        .iter()
        .find_map(|a| a.as_ref().err().map(Error::kind))
    {
        return kind.as_str();
    }
    let any = |is: fn(&Renewed) -> bool| answers.iter().flatten().any(is);
    if any(|answer| matches!(answer, Renewed::NotHeld(_))) {
        NOT_HELD
    } else if any(|answer| matches!(answer, Renewed::Changed(_))) {
        REFUSED
    } else {
        OK
    }
}

fn released(answers: &[Released]) -> &'static str {
    if answers.iter().any(|a| matches!(a, Released::NotHeld(_))) {
        NOT_HELD
    } else {
        OK
    }
}

fn confirmed(answer: &Confirmed) -> &'static str {
    match answer {
        Confirmed::Confirmed(_) => OK,
        Confirmed::NotHeld(..) => NOT_HELD,
        Confirmed::VersionChanged(..) => REFUSED,
    }
}

fn capacity_set(answer: &CapacitySet) -> &'static str {
    match answer {
        CapacitySet::Set(_) => OK,
        CapacitySet::VersionChanged(_) => REFUSED,
    }
}

fn ok<T>(_: &T) -> &'static str {
    OK
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for Observe<B> {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        self.observe("acquire", self.inner.acquire(request), acquired)
            .await
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        self.observe("renew", self.inner.renew(request), |a| renewed(a))
            .await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        self.observe("release", self.inner.release(request), |a| released(a))
            .await
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        self.observe("confirm", self.inner.confirm(request), confirmed)
            .await
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        self.observe("withdraw", self.inner.withdraw(request), ok)
            .await
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let call = self.inner.set_capacity(request);
        self.observe("set_capacity", call, capacity_set).await
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        self.observe("get", self.inner.get(name), ok).await
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.observe("list", self.inner.list(request), ok).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.observe("sweep", self.inner.sweep(request), ok).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        self.observe("watch", self.inner.watch(inbox, name), ok)
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use metrics_util::CompositeKey;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::backend::{Names, RenewItem};
    use crate::clock::ManualClock;
    use crate::error::ErrorKind;
    use crate::holder::{Holder, Owner};
    use crate::lease::Ttl;
    use crate::memory::Memory;

    type Series = Vec<(CompositeKey, DebugValue)>;

    /// What a future makes a recorder of its own record.
    fn recorded(future: impl Future<Output = ()>) -> Series {
        let recorder = DebuggingRecorder::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        metrics::with_local_recorder(&recorder, || runtime.block_on(future));
        let snapshot = recorder.snapshotter().snapshot().into_vec();
        snapshot
            .into_iter()
            .map(|(key, _, _, value)| (key, value))
            .collect()
    }

    fn acquire(key: &str) -> Acquire {
        Acquire::new(
            Names::one(Name::new(&format!("ns-{key}"), key).unwrap()),
            Holder::random(),
            Owner::new(format!("owner-{key}")).unwrap(),
            Ttl::from_millis(60_000).unwrap(),
        )
    }

    /// The counts by verb and result.
    fn counts(series: &Series) -> BTreeMap<(String, String), u64> {
        let mut counts = BTreeMap::new();
        for (key, value) in series {
            let labels: BTreeMap<_, _> = key
                .key()
                .labels()
                .map(|label| (label.key().to_owned(), label.value().to_owned()))
                .collect();
            assert_eq!(labels["backend"], "memory");
            if let DebugValue::Counter(count) = value {
                assert_eq!(key.key().name(), CALLS);
                counts.insert((labels["op"].clone(), labels["result"].clone()), *count);
            }
        }
        counts
    }

    /// D7: labels come from closed sets, however many names and owners there are.
    #[test]
    fn the_number_of_series_does_not_grow_with_the_number_of_names() {
        let series = recorded(async {
            let store = Observe::new(Memory::new());
            for i in 0..10_000 {
                let request = acquire(&i.to_string());
                let name = request.names.first();
                let Ok(Acquired::Granted(leases)) = store.acquire(&request).await else {
                    panic!("not granted");
                };
                let token = leases[0].token;
                let item = RenewItem::lease(name.clone(), request.holder.clone(), token, Ttl::MAX);
                store.renew(&Renew { items: vec![item] }).await.unwrap();
                store.get(name).await.unwrap();
                let release = Release::grant(name.clone(), request.holder.clone(), token);
                store.release(&release).await.unwrap();
            }
        });
        assert_eq!(series.len(), 8, "four counters and four histograms");
        let mut texts = BTreeSet::new();
        for (key, ..) in &series {
            texts.extend(key.key().labels().map(|label| label.value().to_owned()));
        }
        let closed = [
            "acquire", "get", "granted", "memory", "ok", "release", "renew",
        ];
        assert_eq!(texts, closed.map(str::to_owned).into());
    }

    #[test]
    fn results_are_told_apart() {
        let series = recorded(async {
            let store = Observe::new(Memory::new());
            let (mine, theirs) = (acquire("k"), acquire("k"));
            let name = mine.names.first().clone();
            store.acquire(&mine).await.unwrap();
            store.acquire(&theirs).await.unwrap();
            let inbox = Inbox::new(|_| {});
            let queued = theirs.clone().queue(inbox.id());
            store.acquire(&queued).await.unwrap();
            let other_terms = mine.clone().shared();
            let error = store.acquire(&other_terms).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let stale = Release::grant(name.clone(), theirs.holder, crate::lease::Token::new(1));
            store.release(&stale).await.unwrap();
            let capacity = SetCapacity {
                name,
                units: None,
                expect_version: Some(1),
            };
            store.set_capacity(&capacity).await.unwrap();
        });
        let expected = [
            ("acquire", "granted"),
            ("acquire", "held"),
            ("acquire", "invalid_input"),
            ("acquire", "queued"),
            ("release", "not_held"),
            ("set_capacity", "refused"),
        ];
        let expected = expected.map(|(op, result)| ((op.to_owned(), result.to_owned()), 1));
        assert_eq!(counts(&series), BTreeMap::from(expected));
    }

    #[test]
    fn a_dropped_call_is_counted_as_such_and_timed() {
        let clock = ManualClock::new();
        let series = recorded(async {
            let observation = Observation {
                clock: &clock,
                started: clock.now(),
                slow_after: Duration::from_secs(1),
                backend: "memory",
                op: "acquire",
                result: DROPPED,
            };
            clock.advance(Duration::from_millis(1500));
            drop(observation);
        });
        let counted = (("acquire".to_owned(), DROPPED.to_owned()), 1);
        assert_eq!(counts(&series), BTreeMap::from([counted]));
        let timed = DebugValue::Histogram(vec![1.5.into()]);
        assert!(series.iter().any(|(_, value)| *value == timed));
    }
}
