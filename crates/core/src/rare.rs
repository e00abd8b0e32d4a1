//! A collection that is nearly always empty and then takes no more room than a pointer.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A collection of a record that most records do not have.
#[derive(Clone)]
pub struct Rare<C>(Option<Box<C>>);

/// The two collections that records keep.
pub trait Collection: Default {
    /// What it holds.
    type Item;
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All of them, in order.
    fn iter(&self) -> impl DoubleEndedIterator<Item = &Self::Item>;
    /// Keeps those the predicate likes.
    fn retain(&mut self, keep: impl FnMut(&Self::Item) -> bool);
}

impl<T> Collection for Vec<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.len()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.as_slice().iter()
    }

    fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.retain(keep);
    }
}

impl<T> Collection for VecDeque<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.len()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.iter()
    }

    fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.retain(keep);
    }
}

impl<C> Default for Rare<C> {
    fn default() -> Self {
        Self(None)
    }
}

impl<C: Collection> Rare<C> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |c| c.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &C::Item> {
        self.0.iter().flat_map(|c| c.iter())
    }

    /// The collection itself, to change it.
    pub fn make(&mut self) -> &mut C {
        self.0.get_or_insert_default()
    }

    /// Keeps those the predicate likes, and gives the room back when none is left.
    pub fn retain(&mut self, keep: impl FnMut(&C::Item) -> bool) {
        if let Some(c) = &mut self.0 {
            c.retain(keep);
        }
        self.trim();
    }

    /// Gives the room back if it is empty.
    pub fn trim(&mut self) {
        if self.is_empty() {
            self.0 = None;
        }
    }
}

impl<C: Collection> PartialEq for Rare<C>
where
    C::Item: PartialEq,
{
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<C: Collection> Eq for Rare<C> where C::Item: Eq {}

impl<C: Collection> fmt::Debug for Rare<C>
where
    C::Item: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<C: Collection> Serialize for Rare<C>
where
    C::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items: Vec<&C::Item> = self.iter().collect();
        items.serialize(serializer)
    }
}

impl<'de, C: Collection + Deserialize<'de>> Deserialize<'de> for Rare<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut rare = Self(Some(Box::new(C::deserialize(deserializer)?)));
        rare.trim();
        Ok(rare)
    }
}
