//! Wrappers: backends that stand in front of another and add one thing.
//!
//! Each is one file and implements [`Backend`](crate::Backend), so they can be stacked in any order. A sensible one,
//! from the outside in: [`Prefix`], `Observe`, [`Retry`], [`Breaker`], [`Timeout`], the store. A time-out then bounds each
//! attempt and counts as a failure, and the meters show what callers saw.

mod breaker;
#[cfg(feature = "observe")]
mod observe;
mod prefix;
mod retry;
mod timeout;

pub use breaker::{Breaker, BreakerState};
#[cfg(feature = "observe")]
pub use observe::{Observe, describe_meters};
pub use prefix::Prefix;
pub use retry::{Retry, RetryPolicy};
pub use timeout::Timeout;
