//! A memory store that can fail in every way there is.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several test binaries, each of which uses a part"
)]

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use leasehold_core::memory::Memory;
use leasehold_core::{
    Backend, Description, Effect, Error, ErrorKind, ManualClock, Name, Record, Result, Token,
};
use tokio::sync::Notify;

/// How a store takes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It does it and says so.
    Well,
    /// It does nothing and says so.
    Dead,
    /// It does it, and its answer is lost.
    Mute,
    /// It does it and claims to have done nothing.
    Lying,
    /// It does nothing and never answers.
    Hanging,
    /// It does it and never answers.
    Stuck,
    /// It waits until it is told to go on, and then does it.
    Slow,
    /// It does it, and this much time passes.
    Taking(Duration),
}

/// A memory store with moods.
#[derive(Debug)]
pub struct Store {
    /// The store itself, asked without any mood.
    pub inner: Memory,
    pub clock: ManualClock,
    mood: Mutex<Mood>,
    /// The moods of the next calls, before the one above.
    script: Mutex<VecDeque<Mood>>,
    go_on: Notify,
    calls: AtomicUsize,
}

impl Store {
    pub fn new(clock: ManualClock) -> Self {
        Self {
            inner: Memory::with_clock(Arc::new(clock.clone())),
            clock,
            mood: Mutex::new(Mood::Well),
            script: Mutex::default(),
            go_on: Notify::new(),
            calls: AtomicUsize::new(0),
        }
    }

    pub fn feel(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn script(&self, moods: impl IntoIterator<Item = Mood>) {
        self.script.lock().unwrap().extend(moods);
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Lets a call go on that is slow.
    pub fn go_on(&self) {
        self.go_on.notify_one();
    }

    /// The token of whoever holds a name here.
    pub async fn holds(&self, name: &Name) -> Option<Token> {
        let record = self.inner.get(name).await.unwrap().what?;
        record.grants.first().map(|grant| grant.token)
    }

    async fn pass<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let scripted = self.script.lock().unwrap().pop_front();
        let mood = scripted.unwrap_or(*self.mood.lock().unwrap());
        let lost = Error::new(ErrorKind::Timeout, "no answer").with_effect(Effect::Unknown);
        match mood {
            Mood::Well => call.await,
            Mood::Dead => Err(Error::new(ErrorKind::Unavailable, "down")),
            Mood::Mute => call.await.and(Err(lost)),
            Mood::Lying => call
                .await
                .and(Err(Error::new(ErrorKind::Unavailable, "down"))),
            Mood::Hanging => pending().await,
            Mood::Stuck => {
                drop(call.await);
                pending().await
            }
            Mood::Slow => {
                self.go_on.notified().await;
                call.await
            }
            Mood::Taking(time) => {
                let answer = call.await;
                self.clock.advance(time);
                answer
            }
        }
    }
}

#[async_trait]
impl Backend for Store {
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
