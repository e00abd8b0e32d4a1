//! An end to every call.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{
    Acquire, Acquired, AtOnce, Backend, CapacitySet, Confirm, Confirmed, Inbox, List, Page,
    Release, Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use crate::clock::{Clock, SystemClock};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guarantees::Description;
use crate::name::Name;
use crate::record::Record;
use crate::transition::Request;

/// Bounds every call of a backend.
///
/// A call that takes longer fails with [`ErrorKind::Timeout`] and is dropped. Nobody can tell then whether a request
/// that changes something did so, or still will, so its effect is [`Effect::Unknown`]; that of a read is
/// [`Effect::None`].
#[derive(Debug)]
pub struct Timeout<B> {
    inner: B,
    limit: Duration,
    clock: Arc<dyn Clock>,
}

impl<B: Backend> Timeout<B> {
    /// Bounds every call of `inner` by `limit`, on the system's clock.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the limit is zero.
    pub fn new(inner: B, limit: Duration) -> Result<Self> {
        if limit.is_zero() {
            return Err(Error::invalid(
                "a time-out of zero leaves a store no time to answer; it must be longer",
            ));
        }
        Ok(Self {
            inner,
            limit,
            clock: SystemClock::shared(),
        })
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

    async fn read<T>(&self, op: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.bound(op, Effect::None, call).await
    }

    async fn change<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.bound(op, Effect::Unknown, call).await
    }

    async fn bound<T>(
        &self,
        op: &'static str,
        effect: Effect,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let end = self.clock.sleep_until(self.clock.now().after(self.limit));
        tokio::select! {
            // An answer that is there counts, however late it is noticed.
            biased;
            answer = call => answer,
            () = end => Err(self.too_late(op, effect)),
        }
    }

    fn too_late(&self, op: &'static str, effect: Effect) -> Error {
        Error::new(
            ErrorKind::Timeout,
            format!("the store did not answer within {:?}", self.limit),
        )
        .with_effect(effect)
        .during(op, self.inner.describe().scheme)
    }
}

/// Says which name a request was about, where there is just one.
fn named<T>(answer: Result<T>, request: Request<'_>) -> Result<T> {
    answer.map_err(|error| match request.names().as_slice() {
        [name] => error.with_name(name),
        _ => error,
    })
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for Timeout<B> {
    fn describe(&self) -> &Description {
        self.inner.describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        let answer = self.change("acquire", self.inner.acquire(request)).await;
        named(answer, Request::Acquire(request))
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        self.change("renew", self.inner.renew(request)).await
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let answer = self.change("release", self.inner.release(request)).await;
        named(answer, Request::Release(request))
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        let answer = self.change("confirm", self.inner.confirm(request)).await;
        named(answer, Request::Confirm(request))
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let answer = self.change("withdraw", self.inner.withdraw(request)).await;
        named(answer, Request::Withdraw(request))
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let call = self.inner.set_capacity(request);
        let answer = self.change("set_capacity", call).await;
        named(answer, Request::SetCapacity(request))
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let answer = self.read("get", self.inner.get(name)).await;
        answer.map_err(|error| error.with_name(name))
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        self.read("list", self.inner.list(request)).await
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        self.change("sweep", self.inner.sweep(request)).await
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let answer = self.read("watch", self.inner.watch(inbox, name)).await;
        answer.map_err(|error| match name {
            Some(name) => error.with_name(name),
            None => error,
        })
    }
}
