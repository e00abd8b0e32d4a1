//! The floor: the least that could be called a lease map.
//!
//! 64 shards, one hash per operation; a grant costs a look at the clock, 128 random bits and a token, and only its
//! holder can release it. No queue, no history, no kinds, no quantities, no owner.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use leasehold_core::{Clock, SystemClock};

const SHARDS: usize = 64;
const TTL_NANOS: u64 = 60_000_000_000;

/// A sharded lease map.
pub(super) struct LeaseMap {
    hasher: RandomState,
    shards: Box<[Shard]>,
}

#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<Table>);

#[derive(Default)]
struct Table {
    leases: HashTable<(Arc<str>, Lease)>,
    last_token: u64,
}

struct Lease {
    grant: Grant,
    expires: u64,
}

/// Proof that a key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    holder: u128,
    token: u64,
}

impl LeaseMap {
    /// An empty map.
    pub(super) fn new() -> Self {
        let shards = std::iter::repeat_with(Shard::default).take(SHARDS);
        Self {
            hasher: RandomState::new(),
            shards: shards.collect(),
        }
    }

    /// Takes a key that is free or whose lease has run out.
    pub(super) fn try_acquire(&self, key: &Arc<str>) -> Option<Grant> {
        let holder = rand::random();
        let hash = self.hasher.hash_one(key);
        let mut table = self.table(hash);
        let now = SystemClock.now().as_nanos();
        let token = table.last_token + 1;
        let lease = Lease {
            grant: Grant { holder, token },
            expires: now + TTL_NANOS,
        };
        let hash_of = |(key, _): &(Arc<str>, Lease)| self.hasher.hash_one(key);
        match table.leases.entry(hash, |(held, _)| held == key, hash_of) {
            Entry::Occupied(held) if held.get().1.expires > now => return None,
            Entry::Occupied(mut held) => held.get_mut().1 = lease,
            Entry::Vacant(free) => drop(free.insert((key.clone(), lease))),
        }
        table.last_token = token;
        Some(Grant { holder, token })
    }

    /// Frees a key if this grant is the one that holds it.
    pub(super) fn release(&self, key: &Arc<str>, grant: Grant) -> bool {
        let hash = self.hasher.hash_one(key);
        let ours = |(held, lease): &(Arc<str>, Lease)| held == key && lease.grant == grant;
        match self.table(hash).leases.find_entry(hash, ours) {
            Ok(held) => {
                held.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Prolongs a lease to its full time from `now`, in nanoseconds, if this grant is the one that holds the key.
    pub(super) fn renew(&self, key: &Arc<str>, grant: Grant, now: u64) -> bool {
        let hash = self.hasher.hash_one(key);
        let ours = |(held, lease): &(Arc<str>, Lease)| held == key && lease.grant == grant;
        match self.table(hash).leases.find_mut(hash, ours) {
            Some((_, lease)) => {
                lease.expires = now + TTL_NANOS;
                true
            }
            None => false,
        }
    }

    fn table(&self, hash: u64) -> std::sync::MutexGuard<'_, Table> {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_holder_releases_and_renews() {
        let (map, key): (_, Arc<str>) = (LeaseMap::new(), "k".into());
        let grant = map.try_acquire(&key).unwrap();
        assert_eq!(map.try_acquire(&key), None);
        let other = Grant { holder: 0, ..grant };
        assert!(!map.release(&key, other) && !map.renew(&key, other, 0));
        assert!(map.renew(&key, grant, SystemClock.now().as_nanos()));
        assert!(map.release(&key, grant));
        assert!(map.try_acquire(&key).unwrap().token > grant.token);
    }
}
