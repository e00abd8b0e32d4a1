//! Redis against the conformance kit, on every deployment, each started for it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod servers;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use leasehold_conformance::{Harness, Unavailable, run_all};
use leasehold_core::Backend;
use leasehold_core::registry::StoreUrl;
use servers::{Cluster, Options, Pair};

/// The least rights that are needed, as `docs/backends/redis.md` has them.
const RIGHTS: &str = "~leasehold:* &leasehold:* -@all +evalsha +eval +hget +hmget +hset +hdel +zadd +zrem +zrangebylex \
                      +zrangebyscore +time +publish +subscribe +unsubscribe +ping +info +config|get";

fn main() -> ExitCode {
    let acl = format!("user default on >all ~* &* +@all\nuser leasehold on >secret {RIGHTS}");
    let single = Options::default().acl(&acl).login("default", "all").start();
    let pair = Pair::start(&Options::default());
    let cluster = Cluster::start(&Options::default());
    let with_rights = format!("redis://leasehold:secret@127.0.0.1:{}", single.port());
    run_all(vec![
        deployment("redis", with_rights),
        deployment("sentinel", pair.url()),
        deployment("cluster", cluster.url()),
    ])
}

fn deployment(name: &'static str, url: String) -> Box<dyn Harness> {
    Box::new(Deployment { name, url })
}

struct Deployment {
    name: &'static str,
    url: String,
}

#[async_trait]
impl Harness for Deployment {
    fn name(&self) -> &str {
        self.name
    }

    async fn connect(&self) -> Result<Arc<dyn Backend>, Unavailable> {
        let url = StoreUrl::parse(&self.url);
        let url = url.map_err(|error| Unavailable::new(error.to_string()))?;
        let connected = leasehold_redis::connect(url).await;
        connected.map_err(|error| Unavailable::new(error.to_string()))
    }
}
