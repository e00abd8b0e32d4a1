//! Peers, for information: they exclude inside one process and know no expiry, token or holder.

use std::hint::black_box;
use std::sync::Arc;

use dashmap::DashMap;
use keyed_lock::r#async::KeyedLock;
use lockmap::LockMap;

use super::setup::scattered;

/// One empty instance of each.
pub(super) struct Peers {
    keyed: KeyedLock<Arc<str>>,
    lockmap: LockMap<Arc<str>, ()>,
    dashmap: DashMap<Arc<str>, u64>,
}

impl Peers {
    /// Makes all of them.
    pub(super) fn new() -> Self {
        Self {
            keyed: KeyedLock::new(),
            lockmap: LockMap::new(),
            dashmap: DashMap::new(),
        }
    }

    /// One pair per key with `keyed-lock`.
    pub(super) async fn keyed_lock(&self, keys: &[Arc<str>]) {
        for at in scattered(keys.len()) {
            drop(black_box(self.keyed.lock(keys[at].clone()).await));
        }
    }

    /// One pair per key with `lockmap`.
    pub(super) fn lockmap(&self, keys: &[Arc<str>]) {
        for at in scattered(keys.len()) {
            drop(black_box(self.lockmap.entry(keys[at].clone())));
        }
    }

    /// One insert and remove per key with `dashmap`.
    pub(super) fn dashmap(&self, keys: &[Arc<str>]) {
        for at in scattered(keys.len()) {
            self.dashmap.insert(keys[at].clone(), at as u64);
            black_box(self.dashmap.remove(&keys[at]));
        }
    }
}
