//! Wrappers: backends that stand in front of another and add one thing.
//!
//! Each implements [`Backend`](crate::Backend), so they can be stacked in any order. A sensible one,
//! from the outside in: [`Prefix`], `Observe`, [`Retry`], [`Breaker`], [`Timeout`], the store. A time-out then bounds each
//! attempt and counts as a failure, and the meters show what callers saw. [`Quorum`] and [`Fallback`] stand in front of
//! several stores, each of which may have wrappers of its own.

mod breaker;
mod fallback;
#[cfg(feature = "observe")]
mod observe;
mod prefix;
mod quorum;
mod retry;
mod timeout;
mod together;

pub use breaker::{Breaker, BreakerState};
pub use fallback::{Fallback, FallbackState};
#[cfg(feature = "observe")]
pub use observe::{Observe, describe_meters};
pub use prefix::Prefix;
pub use quorum::Quorum;
pub use retry::{Retry, RetryPolicy};
pub use timeout::Timeout;
