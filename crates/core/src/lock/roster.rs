//! Who holds what in this process: the keeper renews from it, shutdown releases from it, the gauge counts it.

use std::sync::{Arc, Weak};

use super::hold::Hold;
use crate::sync::{Mutex, lock};

const SHARDS: usize = 16;

/// Every live acquisition of a manager.
#[derive(Default)]
pub(super) struct Roster {
    shards: [Mutex<Seats>; SHARDS],
}

#[derive(Default)]
struct Seats {
    seats: Vec<Weak<Hold>>,
    free: Vec<u32>,
}

/// Where an acquisition sits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    shard: u32,
    index: u32,
}

impl Roster {
    /// Seats an acquisition; `spread` (a hash of its name) decides with whom it shares a lock.
    pub(super) fn seat(&self, hold: &Weak<Hold>, spread: u64) -> Seat {
        let shard = (spread >> 16) as u32 % SHARDS as u32;
        let mut seats = lock(&self.shards[shard as usize]);
        let index = match seats.free.pop() {
            Some(index) => {
                seats.seats[index as usize] = hold.clone();
                index
            }
            None => {
                seats.seats.push(hold.clone());
                (seats.seats.len() - 1) as u32
            }
        };
        Seat { shard, index }
    }

    pub(super) fn leave(&self, seat: Seat) {
        let mut seats = lock(&self.shards[seat.shard as usize]);
        seats.seats[seat.index as usize] = Weak::new();
        seats.free.push(seat.index);
    }

    /// How many acquisitions there are.
    pub(super) fn len(&self) -> usize {
        let taken = |shard: &Mutex<Seats>| {
            let seats = lock(shard);
            seats.seats.len() - seats.free.len()
        };
        self.shards.iter().map(taken).sum()
    }

    /// All acquisitions that are still there.
    pub(super) fn all(&self) -> Vec<Arc<Hold>> {
        // The references are dropped outside the lock: dropping the last one of a hold comes back here.
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            let seats = lock(shard);
            all.extend(seats.seats.iter().filter_map(Weak::upgrade));
        }
        all
    }
}
