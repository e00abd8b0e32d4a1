#![doc = include_str!("../README.md")]

mod answer;
mod backend;
mod bucket;
mod call;
mod config;
mod doctor;
mod ears;
mod error;
pub mod fenced;
mod link;
mod pack;
mod promise;
mod script;
mod value;
mod verb;

pub use backend::Redis;
pub use call::Loss;
pub use config::Options;
pub use doctor::{Finding, Level};
pub use promise::description;

use std::sync::Arc;

use leasehold_core::registry::StoreUrl;
use leasehold_core::{Backend, Result};

/// The one word for this backend.
pub const SCHEME: &str = "redis";

/// The schemes of its URLs: the plain one, and those that say how the server is reached or what it consists of.
pub const SCHEMES: [&str; 7] = [
    SCHEME,
    "rediss",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];

/// The factory for these schemes.
///
/// # Errors
/// As [`Options::from_url`] and [`Options::connect`].
pub async fn connect(url: StoreUrl) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(Options::from_url(&url)?.connect().await?))
}
