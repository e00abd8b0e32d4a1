//! Buckets: which of them a name is in, the keys they have, and what is known about each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use leasehold_core::{Name, Token};

/// A name that says which life of a bucket is meant.
pub(crate) type Epoch = [u8; 8];

/// All buckets of one store.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// What all keys and channels begin with.
    pub(crate) prefix: String,
    all: Vec<Bucket>,
}

/// What is known about one bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    keys: [String; 3],
    /// The epoch it was last seen in; none before it was seen at all.
    epoch: RwLock<Option<Epoch>>,
    /// The largest token seen in it.
    seen: AtomicU64,
}

impl Buckets {
    pub(crate) fn new(prefix: &str, count: u32) -> Self {
        let bucket = |number| Bucket {
            keys: ["records", "due", "names"].map(|what| format!("{prefix}{{b{number}}}:{what}")),
            epoch: RwLock::new(None),
            seen: AtomicU64::new(0),
        };
        Self {
            prefix: prefix.to_owned(),
            all: (0..count).map(bucket).collect(),
        }
    }

    /// The number of the bucket a name is in. The same for everybody, for ever.
    pub(crate) fn of(&self, name: &Name) -> usize {
        crc32fast::hash(name.encoded().as_bytes()) as usize % self.all.len()
    }

    pub(crate) fn get(&self, number: usize) -> &Bucket {
        &self.all[number]
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }
}

impl Bucket {
    /// Its records, what is due, and their names.
    pub(crate) fn keys(&self) -> &[String; 3] {
        &self.keys
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        *self.epoch.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, epoch: Epoch) {
        *self.epoch.write().unwrap_or_else(PoisonError::into_inner) = Some(epoch);
    }

    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Takes note of a token. Whoever asks next says so, and a server that knows only smaller ones has lost something.
    pub(crate) fn saw(&self, token: Token) {
        self.seen.fetch_max(token.get(), Ordering::AcqRel);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// Whoever changes this changes where every lease of every user is looked for.
    #[test]
    fn a_name_stays_in_its_bucket_for_ever() {
        let buckets = Buckets::new("leasehold:", 16);
        let places = [("orders", "12345"), ("orders", "12346"), ("a/b", "c")];
        let places = places.map(|(namespace, key)| buckets.of(&Name::new(namespace, key).unwrap()));
        assert_eq!(places, [12, 6, 12]);
        assert_eq!(buckets.get(7).keys()[0], "leasehold:{b7}:records");
    }

    #[test]
    fn only_larger_tokens_are_news() {
        let buckets = Buckets::new("p", 1);
        let bucket = buckets.get(0);
        bucket.saw(Token::new(7));
        bucket.saw(Token::new(3));
        assert_eq!((bucket.seen(), bucket.epoch()), (7, None));
        bucket.enter(*b"12345678");
        assert_eq!(bucket.epoch(), Some(*b"12345678"));
    }
}
