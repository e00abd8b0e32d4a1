//! Renewing 10,000 leases, as many at a time as the store takes.

use std::sync::Arc;

use leasehold_core::backend::{Renew, RenewItem, Renewed};
use leasehold_core::{Backend as _, Holder, Lease, Result};
use leasehold_redis::Redis;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use super::ours::connect;
use super::raw;
use super::server::Server;
use crate::bench::Outcome;
use crate::measure::{Subject, interleave};
use crate::pairs::hold;
use crate::report::{Figure, Row, Target};
use crate::setup::{TTL, done, key, runtime, ttl};

const BENCH: &str = "redis/renew";
const LEASES: usize = 10_000;
const ROUNDS: usize = 15;

/// Measures against as many keys that are prolonged by one pipeline, each key by a command.
pub(super) fn measure() -> Outcome {
    let (runtime, server) = (runtime()?, Server::start()?);
    let mut raw = runtime.block_on(Keys::hold(&server))?;
    let leases = Leases::hold(&runtime, &server)?;
    let [floor, ours] = interleave(
        ROUNDS,
        [
            Subject::timed(1, || done(runtime.block_on(raw.renew()))),
            Subject::timed(1, || done(runtime.block_on(leases.renew()))),
        ],
    );
    let before = leases.store.requests();
    runtime.block_on(leases.renew())?;
    let requests = leases.store.requests() - before;
    let times = Target::AtMost {
        must: 3.0,
        goal: 1.5,
    };
    let trips = Target::AtMost {
        must: 100.0,
        goal: 20.0,
    };
    let what = "10,000 leases ÷ as many PEXPIRE in one pipeline";
    let requests = Figure::Number(requests as f64);
    Ok(vec![
        Row::times(BENCH, what, &ours, &floor).target(times),
        Row::new(BENCH, "round trips for 10,000 leases", requests).target(trips),
    ])
}

/// The floor: keys that are prolonged without a look at whose they are.
struct Keys {
    connection: MultiplexedConnection,
    keys: Vec<String>,
}

impl Keys {
    async fn hold(server: &Server) -> Outcome<Self> {
        let mut connection = raw::connect(&server.client()?).await?;
        let keys: Vec<String> = (0..LEASES).map(|at| format!("raw:{}", key(at))).collect();
        let mut pipe = redis::pipe();
        for key in &keys {
            pipe.set(key, "held").ignore();
        }
        pipe.exec_async(&mut connection).await?;
        Ok(Self { connection, keys })
    }

    async fn renew(&mut self) -> Outcome<()> {
        let mut pipe = redis::pipe();
        for key in &self.keys {
            pipe.cmd("PEXPIRE").arg(key).arg(TTL.as_millis() as u64);
        }
        let renewed: Vec<bool> = pipe.query_async(&mut self.connection).await?;
        match renewed.len() == LEASES && renewed.into_iter().all(|one| one) {
            true => Ok(()),
            false => Err("a key was lost".into()),
        }
    }
}

/// Leases, in requests as large as the manager makes them.
struct Leases {
    store: Arc<Redis>,
    requests: Vec<Renew>,
}

impl Leases {
    fn hold(runtime: &Runtime, server: &Server) -> Outcome<Self> {
        let store = connect(runtime, server.client()?, "ours:")?;
        let held = runtime.block_on(hold(&*store, 0..LEASES))?;
        let ttl = ttl()?;
        let item = |(holder, lease): (Holder, Lease)| {
            RenewItem::lease(lease.name, holder, lease.token, ttl)
        };
        let items: Vec<RenewItem> = held.into_iter().map(item).collect();
        let most = store.describe().capabilities.renew_batch;
        let request = |items: &[RenewItem]| Renew {
            items: items.to_vec(),
        };
        let requests = items.chunks(most).map(request).collect();
        Ok(Self { store, requests })
    }

    /// One request after the other, as the manager sends them.
    async fn renew(&self) -> Outcome<()> {
        for request in &self.requests {
            let answers = self.store.renew(request).await?;
            if answers.len() != request.items.len() || !answers.iter().all(is_renewed) {
                return Err("a lease was lost".into());
            }
        }
        Ok(())
    }
}

fn is_renewed(answer: &Result<Renewed>) -> bool {
    matches!(answer, Ok(Renewed::Renewed(_)))
}
