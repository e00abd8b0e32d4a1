//! Locks, leases and reservations that cannot outlive their holder, on the store you already run.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::Locks;
//!
//! # async fn charge(_token: leasehold::Token) -> &'static str { "receipt" }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = leasehold::connect("memory:").await?;
//! let orders = Locks::new(store).namespace("orders").ttl(Duration::from_secs(30)).build()?;
//!
//! // Wait for it, keep it alive, stop the work if it is lost, release it.
//! let receipt = orders.lock("12345").renewing().run(|held| async move { charge(held.token()).await }).await?;
//!
//! // Or hold it yourself.
//! if let Some(guard) = orders.lock("12345").try_acquire().await? {
//!     guard.check()?; // no I/O: am I still allowed to act?
//!     guard.release().await?; // says so if the lease had already ended
//! }
//! # assert_eq!(receipt, "receipt");
//! # Ok(()) }
//! ```
//!
//! * [`Locks`], [`Lock`] and [`Guard`] are the locks.
//! * [`Reservations`] take a value for a while, to be confirmed for good or let go; [`reservation`] has the rest.
//! * [`blocking`] has both without async.
//! * [`connect`] opens a store by its URL; what each store promises is in its [`Guarantees`].
//! * [`wrap`] puts time limits, retries, prefixes and meters around any store.
//! * [`Backend`] is what a store of your own implements, and `leasehold-conformance` is how you test it.

pub use leasehold_core::*;

use std::sync::Arc;

use leasehold_core::registry::{Registry, connect_memory};

/// The stores this build knows, by URL scheme.
#[must_use]
pub fn registry() -> Registry {
    let registry = Registry::new().register("memory", connect_memory);
    #[cfg(feature = "file")]
    let registry = registry.register(leasehold_file::SCHEME, leasehold_file::connect);
    #[cfg(feature = "redis")]
    let registry = registry.register_all(&leasehold_redis::SCHEMES, leasehold_redis::connect);
    registry
}

/// What every store of this build is, can do and promises, without opening one.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    vec![
        memory::description(),
        #[cfg(feature = "file")]
        leasehold_file::description(),
        #[cfg(feature = "redis")]
        leasehold_redis::description(),
    ]
}

/// Opens a store by its URL, for example `memory:`.
///
/// # Errors
/// [`ErrorKind::Config`] if the URL is wrong, its scheme unknown or not compiled in (the message lists those that are);
/// otherwise what the store says.
///
/// # Cancel safety
/// Cancel-safe: a connection that is not returned is dropped.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>> {
    registry().connect(url).await
}

/// Stores in a file; see [`leasehold_file`].
#[cfg(feature = "file")]
pub use leasehold_file as file;

/// Stores on Redis; see [`leasehold_redis`].
#[cfg(feature = "redis")]
pub use leasehold_redis as redis;

/// Locks and reservations without async; see [`leasehold_core::blocking`].
pub mod blocking {
    use std::sync::Arc;

    pub use leasehold_core::blocking::*;

    use crate::{Backend, Result};

    /// Opens a store by its URL; see [`connect`](crate::connect).
    ///
    /// # Errors
    /// As [`connect`](crate::connect), and if this is called inside an async task.
    pub fn connect(url: &str) -> Result<Arc<dyn Backend>> {
        block_on(crate::connect(url))?
    }
}

/// The code of the guides, compiled and run with the tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/quickstart.md")]
    struct Quickstart;
    #[doc = include_str!("../../../docs/locks.md")]
    struct Locks;
    #[doc = include_str!("../../../docs/reservations.md")]
    struct Reservations;
    #[doc = include_str!("../../../docs/safety.md")]
    struct Safety;
    #[cfg(feature = "redis")]
    #[doc = include_str!("../../../docs/fencing.md")]
    struct Fencing;
    #[doc = include_str!("../../../docs/adding-a-backend.md")]
    struct AddingABackend;
    #[doc = include_str!("../../../docs/backends/memory.md")]
    struct Memory;
    #[cfg(feature = "file")]
    #[doc = include_str!("../../../docs/backends/file.md")]
    struct File;
    #[cfg(feature = "observe")]
    #[doc = include_str!("../../../docs/wrappers.md")]
    struct Wrappers;
    #[cfg(feature = "observe")]
    #[doc = include_str!("../../../docs/observability.md")]
    struct Observability;
}
