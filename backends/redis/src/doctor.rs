//! What is wrong with a server, or might be, as data.

use std::fmt;

use leasehold_core::Result;
use redis::{FromRedisValue as _, InfoDict, Value};

use crate::link::Link;
use crate::promise::Facts;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be, or no matter.
    Fine,
    /// It could not be found out, so the worst is assumed.
    Unknown,
    /// The store promises less because of it.
    Weak,
    /// The store is refused because of it, unless told otherwise.
    Refused,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: `version`, `eviction`, `persistence`, `replication`, `cluster`.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found, and what it means.
    pub says: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.says)
    }
}

/// What was found, in order, and what follows for the promises.
pub(crate) struct Examined {
    pub(crate) findings: Vec<Finding>,
    pub(crate) facts: Facts,
}

/// Looks at what a server says of itself. What it will not say is assumed to be bad.
pub(crate) async fn examine(link: &Link) -> Result<Examined> {
    let info = ask(link, redis::cmd("INFO").clone()).await?;
    let info = info.and_then(first_node).map(|text| InfoDict::new(&text));
    let settings = ["maxmemory-policy", "maxmemory", "appendonly", "appendfsync"];
    let mut values = Vec::new();
    for setting in settings {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(setting);
        values.push(ask(link, command).await?.and_then(setting_in));
    }
    let [policy, limit, appends, syncs] = values.try_into().unwrap_or_default();
    let eviction = eviction(policy.as_deref(), limit.as_deref());
    let persistence = persistence(appends.as_deref(), syncs.as_deref());
    let replication = replication(link, info.as_ref());
    let facts = Facts {
        durable: persistence.level == Level::Fine,
        replicated: replication.level != Level::Fine,
        is_cluster: link.is_cluster(),
        evicting: eviction.level != Level::Fine,
    };
    let findings = vec![
        version(info.as_ref()),
        eviction,
        persistence,
        replication,
        cluster(link, info.as_ref()),
    ];
    Ok(Examined { findings, facts })
}

/// The answer, unless the server refuses to give it.
async fn ask(link: &Link, command: redis::Cmd) -> Result<Option<Value>> {
    match link.call(&command, false).await {
        Ok(answer) => Ok(answer),
        Err(error) if error.is_retryable() => Err(error),
        Err(_) => Ok(None),
    }
}

/// A cluster answers for all its nodes; they are taken to be alike.
fn first_node(value: Value) -> Option<String> {
    match value {
        Value::Map(nodes) => nodes
            .into_iter()
            .next()
            .and_then(|(_, value)| first_node(value)),
        value => String::from_redis_value(value).ok(),
    }
}

/// The value in the answer to `CONFIG GET` of one setting.
fn setting_in(value: Value) -> Option<String> {
    match value {
        Value::Map(pairs) => {
            let (_, value) = pairs.into_iter().next()?;
            match value {
                Value::Array(_) | Value::Map(_) => setting_in(value),
                value => String::from_redis_value(value).ok(),
            }
        }
        value => {
            let pair: Vec<String> = Vec::from_redis_value(value).ok()?;
            pair.into_iter().nth(1)
        }
    }
}

fn version(info: Option<&InfoDict>) -> Finding {
    let text = |key: &str| info.and_then(|info| info.get::<String>(key));
    let valkey = text("valkey_version");
    let (level, says) = match (valkey, text("redis_version")) {
        (Some(version), _) => (Level::Fine, format!("Valkey {version}")),
        (None, Some(version)) => (Level::Fine, format!("Redis {version}")),
        (None, None) => (Level::Unknown, "the server does not say".to_owned()),
    };
    Finding {
        check: "version",
        level,
        says,
    }
}

fn eviction(policy: Option<&str>, limit: Option<&str>) -> Finding {
    let (level, says) = match (policy, limit) {
        (Some("noeviction"), _) => (Level::Fine, "nothing is thrown away".to_owned()),
        (Some(policy), _) if policy.starts_with("volatile-") => (
            Level::Fine,
            format!("{policy} throws away keys with a ttl; ours have none"),
        ),
        (Some(policy), Some("0")) => (
            Level::Fine,
            format!("{policy}, but there is no limit for the memory"),
        ),
        (Some(policy), _) => (
            Level::Refused,
            format!(
                "{policy} throws away any key when memory runs short, leases and tokens included; set maxmemory-policy to \
                 noeviction"
            ),
        ),
        (None, _) => (
            Level::Unknown,
            "CONFIG GET is not allowed, so keys may be thrown away when memory runs short"
                .to_owned(),
        ),
    };
    Finding {
        check: "eviction",
        level,
        says,
    }
}

fn persistence(appends: Option<&str>, syncs: Option<&str>) -> Finding {
    let (level, says) = match (appends, syncs) {
        (Some("yes"), Some("always")) => (
            Level::Fine,
            "every answer is on the disk before it is given".to_owned(),
        ),
        (Some("yes"), Some(syncs)) => (
            Level::Weak,
            format!("appendfsync is {syncs}: a crash loses what was acknowledged shortly before"),
        ),
        (Some(_), _) => (
            Level::Weak,
            "appendonly is off: a restart loses everything since the last snapshot".to_owned(),
        ),
        (None, _) => (
            Level::Unknown,
            "CONFIG GET is not allowed, so a restart may lose everything".to_owned(),
        ),
    };
    Finding {
        check: "persistence",
        level,
        says,
    }
}

fn replication(link: &Link, info: Option<&InfoDict>) -> Finding {
    let replicas = info.and_then(|info| info.get::<u64>("connected_slaves"));
    let (level, says) = match replicas {
        Some(0) if !link.is_sentinel() && !link.is_cluster() => (
            Level::Fine,
            "there is no replica that could take over".to_owned(),
        ),
        Some(count) => (
            Level::Weak,
            format!(
                "{count} replicas: one that takes over may not have what was acknowledged last"
            ),
        ),
        None => (
            Level::Unknown,
            "INFO is not allowed, so there may be replicas that take over".to_owned(),
        ),
    };
    Finding {
        check: "replication",
        level,
        says,
    }
}

fn cluster(link: &Link, info: Option<&InfoDict>) -> Finding {
    let enabled = info.and_then(|info| info.get::<u64>("cluster_enabled"));
    let (level, says) = match (enabled, link.is_cluster()) {
        (Some(1), false) => (
            Level::Refused,
            "the server is part of a cluster; use redis+cluster://".to_owned(),
        ),
        (Some(0), true) => (
            Level::Refused,
            "the server is not part of a cluster; use redis://".to_owned(),
        ),
        (_, true) => (Level::Fine, "a cluster".to_owned()),
        (_, false) => (Level::Fine, "no cluster".to_owned()),
    };
    Finding {
        check: "cluster",
        level,
        says,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_throws_ours_away_is_refused() {
        let level = |policy, limit| eviction(policy, limit).level;
        assert_eq!(level(Some("noeviction"), Some("1000")), Level::Fine);
        assert_eq!(level(Some("volatile-lru"), Some("1000")), Level::Fine);
        assert_eq!(level(Some("allkeys-lru"), Some("0")), Level::Fine);
        assert_eq!(level(Some("allkeys-lru"), Some("1000")), Level::Refused);
        assert_eq!(level(Some("allkeys-lru"), None), Level::Refused);
        assert_eq!(level(None, None), Level::Unknown);
    }

    #[test]
    fn only_a_log_that_is_synced_at_once_is_fine() {
        let level = |appends, syncs| persistence(appends, syncs).level;
        assert_eq!(level(Some("yes"), Some("always")), Level::Fine);
        assert_eq!(level(Some("yes"), Some("everysec")), Level::Weak);
        assert_eq!(level(Some("no"), Some("always")), Level::Weak);
        assert_eq!(level(None, None), Level::Unknown);
    }
}
