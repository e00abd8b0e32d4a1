//! The seam: what a store must be able to do, and the words it answers in.
//!
//! Start with [`Backend`]. Requests are in [`request`], answers in [`outcome`], wake-ups in [`watch`].

mod at_once;
mod list;
pub mod outcome;
pub mod request;
pub mod watch;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

pub use at_once::AtOnce;
pub use outcome::{
    Acquired, Blocked, BlockedBy, CapacitySet, Confirmed, Expired, Holding, NotHeld, Page,
    Released, Releases, Renewed, Seen, Swept, Withdrawn,
};
pub use request::{
    Acquire, Amount, Confirm, ConfirmFrom, Heir, List, MAX_LIST, MAX_NAMES, Names, Own, Queue,
    Release, Renew, RenewItem, RenewMode, RenewWhat, SetCapacity, Status, Sweep, Withdraw,
};
pub use watch::{Event, Inbox, InboxId, Watch, What};

use crate::error::Result;
use crate::guarantees::Description;
use crate::name::Name;
use crate::record::Record;

/// A store that grants leases.
///
/// # Contract
/// The rule is [`transition`](crate::transition): whatever a backend does must look as if that function had been
/// run over the records the request names. A refusal is an outcome, a failure is an [`Error`](crate::Error); an
/// error is never turned into "free" or "busy". Answers come in the order of the names or items of the request.
///
/// # Atomicity
/// Each verb takes effect in one step. [`acquire`](Self::acquire) and [`confirm`](Self::confirm) take all names or
/// none; [`renew`](Self::renew), [`release`](Self::release) and [`withdraw`](Self::withdraw) answer for each item.
/// Names that [`Capabilities::atomic_names`](crate::Capabilities::atomic_names) excludes never reach the backend.
///
/// # Time
/// A grant has ended once `now >= expires_at`, judged by the store's own clock wherever it has one. Every verb that
/// changes a record first settles what has run out. Reads change nothing and show nothing that has run out.
/// A store may also settle on its own, at any time; a waiter's grant then exists a little earlier than in a store that
/// waits to be asked.
///
/// # Cancellation
/// Dropping a future may leave its request done, undone or under way, but never half done, and never an answer that
/// a later call could take for its own. Whoever drops an [`acquire`](Self::acquire) follows it with a
/// [`withdraw`](Self::withdraw) for the same holder.
///
/// # Repetition
/// Every verb may be sent again, unchanged, after its reply was lost, and then gives the same answer while the store
/// remembers the grant. Four answers can only tell that it was done before: a forced release of a token finds it ended
/// by force, a withdrawal counts nothing, and a confirmation or capacity with an expected version finds a newer one.
/// A forced release without a token must not be repeated blindly: it would end whatever is granted by then.
///
/// # What a backend does not do
/// It does not wait, retry, renew or loop, and knows nothing of guards. All that is written once, above.
///
/// # Wrappers
/// There are no provided methods, so that a wrapper cannot forget to forward one.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What this backend is, can do and promises. Constant for the life of the value.
    fn describe(&self) -> &Description;

    /// The same store for callers in a hurry, if it is inside this process and answers without waiting. Constant for the
    /// life of the value. A wrapper answers `None`, or it would be passed by.
    fn at_once(&self) -> Option<&dyn AtOnce>;

    /// Takes all names or none; a single name may ask for a place in the queue instead of a refusal.
    async fn acquire(&self, request: &Acquire) -> Result<Acquired>;

    /// Prolongs leases and tickets, each with an answer of its own.
    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>>;

    /// Ends the grants or claims it names, or, by force, whatever a name has. One answer per name.
    async fn release(&self, request: &Release) -> Result<Releases>;

    /// Turns grants into permanent claims, or hands claims over; all names or none.
    async fn confirm(&self, request: &Confirm) -> Result<Confirmed>;

    /// Leaves the queue and gives back whatever this holder was granted meanwhile.
    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn>;

    /// Sets how many units a name has, if its version is still the expected one.
    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet>;

    /// What is known about a name; `None` if nothing is.
    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>>;

    /// Records in the order of their encoded names, page by page.
    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>>;

    /// Settles what has run out and forgets what may be forgotten, up to a limit.
    async fn sweep(&self, request: &Sweep) -> Result<Swept>;

    /// Tells `inbox` of grants to its tickets and, if a name is given, whenever that name may have become free.
    ///
    /// The watch is armed when this returns and ends when the returned value is dropped. Events about a name are
    /// hints: they may come late, twice, or for nothing.
    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch>;
}

/// Anything that can stand for a shared store: what [`connect`](crate::registry::Registry::connect) returns, or an `Arc`
/// of any backend.
pub trait IntoStore {
    /// The shared store.
    fn into_store(self) -> Arc<dyn Backend>;
}

impl IntoStore for Arc<dyn Backend> {
    fn into_store(self) -> Self {
        self
    }
}

impl<B: Backend> IntoStore for Arc<B> {
    fn into_store(self) -> Arc<dyn Backend> {
        self
    }
}

/// Passes every verb on as it is. Written out, because `async_trait` would put a second box around every future.
macro_rules! forward {
    ($($verb:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {$(
        fn $verb<'life0, 'life1, 'async_trait>(
            &'life0 self,
            $($argument: &'life1 $kind,)*
        ) -> Pin<Box<dyn Future<Output = Result<$answer>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            (**self).$verb($($argument),*)
        }
    )*};
}

/// A shared backend is a backend.
#[deny(clippy::missing_trait_methods)]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn describe(&self) -> &Description {
        (**self).describe()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        (**self).at_once()
    }

    forward! {
        acquire(request: Acquire) -> Acquired;
        renew(request: Renew) -> Vec<Result<Renewed>>;
        release(request: Release) -> Releases;
        confirm(request: Confirm) -> Confirmed;
        withdraw(request: Withdraw) -> Withdrawn;
        set_capacity(request: SetCapacity) -> CapacitySet;
        get(name: Name) -> Seen<Option<Record>>;
        list(request: List) -> Seen<Page<Record>>;
        sweep(request: Sweep) -> Swept;
    }

    fn watch<'life0, 'life1, 'life2, 'async_trait>(
        &'life0 self,
        inbox: &'life1 Inbox,
        name: Option<&'life2 Name>,
    ) -> Pin<Box<dyn Future<Output = Result<Watch>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        Self: 'async_trait,
    {
        (**self).watch(inbox, name)
    }
}
