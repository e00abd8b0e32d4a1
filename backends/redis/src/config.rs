//! Where the server is and how it is used. No I/O.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::registry::{StoreUrl, percent_decode};
use leasehold_core::{Error, ErrorKind, Result};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, TlsMode};

use crate::call::{Loss, OnLoss};

const EXAMPLE: &str = "redis://localhost:6379/0";
const DEFAULT_PREFIX: &str = "leasehold:";
const LONGEST_PREFIX: usize = 64;
const DEFAULT_BUCKETS: u32 = 16;
const MOST_BUCKETS: u32 = 1024;
const DEFAULT_QUARANTINE: Duration = Duration::from_secs(60);
const LONGEST_QUARANTINE: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What the store consists of, and the client that reaches it.
pub(crate) enum Place {
    /// One server, with replicas or without.
    Single(Box<Client>),
    /// Whichever server the sentinels say is the primary.
    Sentinel(Box<SentinelClient>),
    /// A cluster, and one of its nodes, over which this process is told of events.
    Cluster(Box<ClusterClient>, Vec<Client>),
}

impl std::fmt::Debug for Place {
    /// Without addresses, which may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "Single(..)",
            Self::Sentinel(_) => "Sentinel(..)",
            Self::Cluster(..) => "Cluster(..)",
        })
    }
}

/// What it takes to use a server.
#[derive(Debug)]
#[must_use = "options do nothing until they are connected"]
pub struct Options {
    pub(crate) place: Place,
    pub(crate) prefix: String,
    pub(crate) buckets: u32,
    pub(crate) quarantine: Duration,
    pub(crate) timeout: Duration,
    pub(crate) replicas: u32,
    pub(crate) evicting: bool,
    pub(crate) on_loss: Option<OnLoss>,
}

impl Options {
    /// Uses this client of yours for one server.
    pub fn new(client: Client) -> Self {
        Self::at(Place::Single(Box::new(client)))
    }

    /// Uses this client of yours for the primary that sentinels name.
    pub fn sentinel(client: SentinelClient) -> Self {
        Self::at(Place::Sentinel(Box::new(client)))
    }

    /// Uses this client of yours for a cluster. `nodes` are clients of some of its nodes, of which one at a time tells
    /// this process of events.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no node.
    pub fn cluster(client: ClusterClient, nodes: Vec<Client>) -> Result<Self> {
        if nodes.is_empty() {
            return Err(config("a cluster needs at least one node"));
        }
        Ok(Self::at(Place::Cluster(Box::new(client), nodes)))
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            prefix: DEFAULT_PREFIX.to_owned(),
            buckets: DEFAULT_BUCKETS,
            quarantine: DEFAULT_QUARANTINE,
            timeout: DEFAULT_TIMEOUT,
            replicas: 0,
            evicting: false,
            on_loss: None,
        }
    }

    /// Reads a URL; see the crate's page for its forms and the options in its query.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if it cannot be understood, has an unknown option or a value outside its range.
    pub fn from_url(url: &StoreUrl) -> Result<Self> {
        let mut options = Self::at(place(url)?);
        for (key, value) in url.query() {
            options = match key.as_str() {
                "prefix" => options.prefix(value)?,
                "buckets" => options.buckets(number(key, value)?)?,
                "quarantine" => options.quarantine(seconds(key, value)?)?,
                "timeout" => options.timeout(seconds(key, value)?)?,
                "replicas" => options.replicas(number(key, value)?)?,
                "evicting" => options.evicting(value == "allow"),
                _ => {
                    return Err(config(format!(
                        "the store URL has the option {key:?}; Redis takes prefix, buckets, quarantine, timeout, \
                         replicas and evicting"
                    )));
                }
            };
        }
        Ok(options)
    }

    /// What all keys and channels begin with; `leasehold:` unless told. Stores with different prefixes know nothing of
    /// each other.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if it is longer than 64 bytes, or has braces, which choose the slot of a key.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Result<Self> {
        let prefix = prefix.into();
        if prefix.len() > LONGEST_PREFIX || prefix.contains(['{', '}']) {
            return Err(config(format!(
                "the prefix has {} bytes; it may have {LONGEST_PREFIX}, without braces",
                prefix.len()
            )));
        }
        self.prefix = prefix;
        Ok(self)
    }

    /// Over how many buckets, and so slots of a cluster, names are spread; 16 unless told. It cannot be changed later:
    /// who asks for another number than the store has is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for none or more than 1024.
    pub fn buckets(mut self, buckets: u32) -> Result<Self> {
        if !(1..=MOST_BUCKETS).contains(&buckets) {
            return Err(config(format!(
                "there cannot be {buckets} buckets; choose 1 to {MOST_BUCKETS}"
            )));
        }
        self.buckets = buckets;
        Ok(self)
    }

    /// For how long nothing new is granted after the server was found to have lost what it knew; a minute unless told, and
    /// never less than the longest ttl this process has asked for. It should be at least the longest ttl in use
    /// anywhere: so long holders may go on that the server knows nothing of any more.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for more than a day.
    pub fn quarantine(mut self, quarantine: Duration) -> Result<Self> {
        if quarantine > LONGEST_QUARANTINE {
            return Err(config("the quarantine may last a day at most"));
        }
        self.quarantine = quarantine;
        Ok(self)
    }

    /// How long the server may take to answer; two seconds unless told.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for nothing at all, or more than ten minutes.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self> {
        if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
            return Err(config(
                "the timeout must be more than nothing and at most 10 minutes",
            ));
        }
        self.timeout = timeout;
        Ok(self)
    }

    /// Acknowledges nothing that fewer than so many replicas have; none unless told. What too few have in time is
    /// an error whose effect is unknown. It makes it less likely that a failover loses something, not impossible.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with a cluster, whose answers cannot be waited for in this way.
    pub fn replicas(mut self, replicas: u32) -> Result<Self> {
        if replicas > 0 && matches!(self.place, Place::Cluster(..)) {
            return Err(config("a cluster cannot be asked to wait for replicas"));
        }
        self.replicas = replicas;
        Ok(self)
    }

    /// Calls this whenever the server is found to have lost what it had acknowledged. It must not block.
    pub fn on_loss(mut self, tell: impl Fn(&Loss) + Send + Sync + 'static) -> Self {
        self.on_loss = Some(OnLoss(Arc::new(tell)));
        self
    }

    /// Puts up with a server that may throw away any key when memory runs short, leases included. It is refused
    /// otherwise.
    pub fn evicting(mut self, allowed: bool) -> Self {
        self.evicting = allowed;
        self
    }
}

fn place(url: &StoreUrl) -> Result<Place> {
    let is_tls = url.scheme().starts_with("rediss");
    if is_tls {
        prepare_tls()?;
    }
    match url.scheme().split_once('+').map(|(_, kind)| kind) {
        None => Ok(Place::Single(Box::new(client(without_query(url))?))),
        Some("unix") => Ok(Place::Single(Box::new(client(format!(
            "unix:{}",
            url.rest()
        ))?))),
        Some("sentinel") => sentinel(url, is_tls),
        Some("cluster") => cluster(url, is_tls),
        Some(other) => Err(config(format!("{other:?} is no way to reach Redis"))),
    }
}

/// TLS needs somebody who can encrypt, and a program may have chosen one already.
#[cfg(feature = "tls")]
fn prepare_tls() -> Result<()> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // If another thread was quicker, there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn prepare_tls() -> Result<()> {
    Err(config(
        "this build has no TLS; build it with the feature tls",
    ))
}

/// The driver has options of its own there, which are not ours.
fn without_query(url: &StoreUrl) -> &str {
    url.as_str().split('?').next().unwrap_or_default()
}

fn client(url: impl AsRef<str>) -> Result<Client> {
    Client::open(url.as_ref()).map_err(|_| {
        // The driver's own words could repeat a password.
        config(format!(
            "the store URL cannot be understood; it looks like {EXAMPLE}"
        ))
    })
}

/// The parts of `//user:password@host:port,host:port/path`.
struct Authority {
    user: Option<String>,
    password: Option<String>,
    hosts: Vec<(String, u16)>,
    path: Vec<String>,
}

impl Authority {
    fn of(url: &StoreUrl, port: u16) -> Result<Self> {
        let rest = url.rest().strip_prefix("//").unwrap_or_default();
        let (before, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password) = before.split_once(':').unwrap_or((before, ""));
        let some = |text: &str| -> Result<Option<String>> {
            Ok((!text.is_empty()).then_some(percent_decode(text)?))
        };
        let hosts: Vec<_> = hosts
            .split(',')
            .map(|host| host_of(host, port))
            .collect::<Result<_>>()?;
        Ok(Self {
            user: some(user)?,
            password: some(password)?,
            hosts,
            path: path
                .split('/')
                .filter(|part| !part.is_empty())
                .map(percent_decode)
                .collect::<Result<_>>()?,
        })
    }

    fn nodes(&self, is_tls: bool) -> Vec<ConnectionAddr> {
        let node = |(host, port): &(String, u16)| match is_tls {
            true => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host.clone(), *port),
        };
        self.hosts.iter().map(node).collect()
    }
}

fn host_of(text: &str, port: u16) -> Result<(String, u16)> {
    let wrong = || {
        config(format!(
            "{text:?} is no host; it looks like 10.0.0.7:{port}"
        ))
    };
    // An address of IPv6 has colons of its own, and stands in brackets.
    let (host, given) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
            (host, after.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong());
    }
    let port = given.map_or(Ok(port), str::parse).map_err(|_| wrong())?;
    Ok((host.to_owned(), port))
}

fn sentinel(url: &StoreUrl, is_tls: bool) -> Result<Place> {
    let authority = Authority::of(url, SENTINEL_PORT)?;
    let (master, db) = match &authority.path[..] {
        [master] => (master, 0),
        [master, db] => (master, number("database", db)?),
        _ => {
            return Err(config(
                "sentinels need the name of what they watch; the store URL looks like \
                 redis+sentinel://host1:26379,host2:26379/mymaster",
            ));
        }
    };
    let hosts = authority.nodes(is_tls);
    let builder = SentinelClientBuilder::new(hosts, master.clone(), SentinelServerType::Master);
    let mut builder = builder.map_err(|_| config("the sentinels cannot be understood"))?;
    builder = builder.set_client_to_redis_db(db);
    if is_tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    if let Some(user) = &authority.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &authority.password {
        builder = builder.set_client_to_redis_password(password);
    }
    let client = builder
        .build()
        .map_err(|_| config("the sentinels cannot be understood"))?;
    Ok(Place::Sentinel(Box::new(client)))
}

fn cluster(url: &StoreUrl, is_tls: bool) -> Result<Place> {
    let authority = Authority::of(url, DEFAULT_PORT)?;
    if !authority.path.is_empty() {
        return Err(config("a cluster has no databases, so its URL has no path"));
    }
    let nodes = authority.nodes(is_tls);
    // The driver would send again what may have been done already.
    let mut builder = ClusterClientBuilder::new(nodes.clone()).retries(0);
    if let Some(user) = &authority.user {
        builder = builder.username(user);
    }
    if let Some(password) = &authority.password {
        builder = builder.password(password);
    }
    let wrong = |_| config("the nodes of the cluster cannot be understood");
    let client = builder.build().map_err(wrong)?;
    let open = |node: ConnectionAddr| {
        let mut info = node.into_connection_info()?;
        let mut settings = info.redis_settings().clone();
        if let Some(user) = &authority.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &authority.password {
            settings = settings.set_password(password);
        }
        info = info.set_redis_settings(settings);
        Client::open(info)
    };
    let nodes = nodes
        .into_iter()
        .map(open)
        .collect::<redis::RedisResult<_>>();
    Options::cluster(client, nodes.map_err(wrong)?).map(|options| options.place)
}

fn number<N: std::str::FromStr>(key: &str, value: &str) -> Result<N> {
    let wrong = |_| {
        config(format!(
            "{key} is {value:?}, which is no number that it can be"
        ))
    };
    value.parse().map_err(wrong)
}

fn seconds(key: &str, value: &str) -> Result<Duration> {
    let wrong = || config(format!("{key} is {value:?}; it looks like 500ms or 60s"));
    let (digits, unit) = match value.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (value.strip_suffix('s').ok_or_else(wrong)?, 1000),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    Ok(Duration::from_millis(count.saturating_mul(unit)))
}

fn config(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, detail)
}
