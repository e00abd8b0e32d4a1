//! Keys of your own that are changed only under a token that is not stale.
//!
//! [`FencedKeys`] sets, reads and deletes plain keys; everybody else reads them with a plain `GET`. [`PRELUDE`]
//! fences a script of your own.
//!
//! The highest token is kept in a key of its own, the *fence*, of which [`FencedKeys::fence_key`] gives the name.
//! There is one for each name of a lock and each hash tag of the keys it protects, because that is what a cluster can
//! change in one step: keys that share a tag, as `{user:7}:cart` and `{user:7}:address` do, share the fence. Tokens
//! of different names are never compared.

mod call;
mod slot;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use leasehold_core::fenced::{Applied, FencedResource};
use leasehold_core::{Name, Result, Token, Ttl};

use crate::SCHEME;
use crate::answer::Answer;
use crate::config::Options;
use crate::link::Link;
use crate::script::Script;
use call::Call;

/// Lua that refuses a stale token, to be put in front of a script of your own.
///
/// It takes `KEYS[1]`, the [fence](FencedKeys::fence_key), `ARGV[1]`, the token, and `ARGV[2]`, for how many
/// milliseconds to remember it, or `0` for ever. It ends the script with `{ 'stale', highest }` if the token is
/// stale, and with `{ 'corrupt' }` if the fence holds no token. Otherwise your part goes on from there, in the same
/// step.
pub const PRELUDE: &str = include_str!("../scripts/fenced_check.lua");

/// Writes a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Set {
    key: Vec<u8>,
    value: Vec<u8>,
    ttl: Option<Ttl>,
}

impl Set {
    /// Writes this value, to stay until it is written again. As with a plain `SET`, whatever the key held before is
    /// gone, and so is its expiry.
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            ttl: None,
        }
    }

    /// Lets the value end by itself.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// Shows the key, and of the value only its length, because it may be a secret.
impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("bytes", &self.value.len())
            .field("ttl", &self.ttl)
            .finish()
    }
}

/// Reads a key, and keeps every earlier holder out from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get(Vec<u8>);

impl Get {
    /// Reads this key, which holds a string if it holds anything.
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        Self(key.into())
    }
}

/// Deletes a key; its fence stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete(Vec<u8>);

impl Delete {
    /// Deletes this key, whatever it holds.
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        Self(key.into())
    }
}

/// Keys of a server that are changed only under a token at least as large as every earlier one of the same name.
///
/// They can be [`Set`], read with [`Get`], and [`Delete`]d, each in one script.
///
/// Fences are as durable as the server: what it forgets in a crash or a failover, it no longer refuses. They are kept
/// for ever, one for each name and tag, unless [`remember_for`](Self::remember_for) says otherwise.
#[derive(Debug, Clone)]
pub struct FencedKeys {
    link: Arc<Link>,
    prefix: String,
    memory: Option<Ttl>,
}

impl FencedKeys {
    /// The keys of this server, which need not be the one the locks are on. It is connected to when it is first
    /// needed.
    ///
    /// Of the options, the place, the prefix, the timeout and the replicas matter here.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            link: Arc::new(Link::new(options.place, options.timeout, options.replicas)),
            prefix: options.prefix,
            memory: None,
        }
    }

    /// Forgets a fence that was not used for so long, to bound their number.
    ///
    /// A late write that arrives after that is not refused. Take a multiple of the longest pause you can imagine:
    /// days rather than minutes.
    #[must_use]
    pub fn remember_for(mut self, ttl: Ttl) -> Self {
        self.memory = Some(ttl);
        self
    }

    /// The key of the fence of a name, for a key that it protects.
    ///
    /// It is `leasehold:fence:{tag}:name`, with the prefix of the options in front. The tag is that of the key or, if
    /// it has none, the key itself, so that both are in one slot. A key without a tag that is empty or has a closing
    /// brace cannot be one itself; the smallest decimal number in the same slot stands in for it.
    #[must_use]
    pub fn fence_key(&self, name: &Name, key: impl AsRef<[u8]>) -> Vec<u8> {
        let tag = slot::tag_beside(key.as_ref());
        let (prefix, name) = (self.prefix.as_bytes(), name.encoded().as_bytes());
        [prefix, b"fence:{", &*tag, b"}:", name].concat()
    }

    async fn run<T>(
        &self,
        script: &Script,
        (name, token): (&Name, Token),
        key: &[u8],
        arguments: &[Vec<u8>],
        read: fn(Answer) -> Result<T>,
    ) -> Result<Applied<T>> {
        let call = Call {
            script,
            name,
            token,
            memory: millis(self.memory),
            fence: &self.fence_key(name, key),
            key,
            arguments,
        };
        let made = call.make(&self.link, read).await;
        made.map_err(|error| error.during("apply", SCHEME).with_name(name))
    }
}

#[async_trait]
impl FencedResource<Set> for FencedKeys {
    type Output = ();

    async fn apply(&self, name: &Name, token: Token, set: Set) -> Result<Applied<()>> {
        let arguments = [set.value, millis(set.ttl).to_string().into_bytes()];
        self.run(&call::SET, (name, token), &set.key, &arguments, |_| Ok(()))
            .await
    }
}

#[async_trait]
impl FencedResource<Get> for FencedKeys {
    /// The value, if there is one.
    type Output = Option<Vec<u8>>;

    async fn apply(&self, name: &Name, token: Token, get: Get) -> Result<Applied<Self::Output>> {
        let read = |mut answer: Answer| answer.maybe_bytes();
        self.run(&call::GET, (name, token), &get.0, &[], read).await
    }
}

#[async_trait]
impl FencedResource<Delete> for FencedKeys {
    /// Whether there was such a key.
    type Output = bool;

    async fn apply(&self, name: &Name, token: Token, delete: Delete) -> Result<Applied<bool>> {
        let read = |mut answer: Answer| Ok(answer.number()? > 0);
        self.run(&call::DELETE, (name, token), &delete.0, &[], read)
            .await
    }
}

/// As the scripts want it: zero for ever.
fn millis(ttl: Option<Ttl>) -> u64 {
    ttl.map_or(0, Ttl::as_millis)
}
