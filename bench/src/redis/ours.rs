//! The store, on a server of these benches.

use std::sync::Arc;

use leasehold_redis::{Options, Redis};
use redis::Client;
use tokio::runtime::Runtime;

use crate::bench::Outcome;

/// Connects. Stores with different prefixes know nothing of each other.
pub(super) fn connect(runtime: &Runtime, client: Client, prefix: &str) -> Outcome<Arc<Redis>> {
    let options = Options::new(client).prefix(prefix)?;
    Ok(Arc::new(runtime.block_on(options.connect())?))
}
