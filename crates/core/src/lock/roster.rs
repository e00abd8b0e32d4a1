//! Who holds what in this process: the keeper renews from it, shutdown releases from it, the gauge counts it.

use std::sync::{Arc, Weak};

use super::hold::Hold;
use crate::name::Name;
use crate::sync::{Mutex, lock};

const SHARDS: usize = 16;

/// So many seats of a shard are left as they are when their acquisition goes, and cleared by whoever comes next: nearly
/// all acquisitions get one of these, and so lock the shard once instead of twice.
const CASUAL: Seat = 8;

/// Every live acquisition of a manager.
#[derive(Default)]
pub(super) struct Roster {
    shards: [Mutex<Seats>; SHARDS],
}

#[derive(Default)]
struct Seats {
    /// The casual seats come first.
    seats: Vec<Weak<Hold>>,
    /// The casual seat to be looked at first.
    next: Seat,
    /// Which of the other seats are free.
    free: Vec<Seat>,
}

/// Where an acquisition sits among those with which it shares a lock.
pub(super) type Seat = u32;

impl Roster {
    /// Seats an acquisition; its name decides with whom it shares a lock.
    pub(super) fn seat(&self, hold: &Arc<Hold>) -> Seat {
        lock(self.shard(hold.name())).sit(Arc::downgrade(hold))
    }

    /// The acquisition of this name that sat there has gone.
    pub(super) fn leave(&self, name: &Name, seat: Seat) {
        if seat < CASUAL {
            return;
        }
        let mut seats = lock(self.shard(name));
        seats.seats[seat as usize] = Weak::new();
        seats.free.push(seat);
    }

    fn shard(&self, name: &Name) -> &Mutex<Seats> {
        &self.shards[(name.process_hash() >> 16) as usize % SHARDS]
    }

    /// How many acquisitions there are.
    pub(super) fn len(&self) -> usize {
        let taken = |shard: &Mutex<Seats>| lock(shard).taken().count();
        self.shards.iter().map(taken).sum()
    }

    /// All acquisitions that are still there.
    pub(super) fn all(&self) -> Vec<Arc<Hold>> {
        // The references are dropped outside the lock: dropping the last one of a hold comes back here.
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(lock(shard).taken().filter_map(Weak::upgrade));
        }
        all
    }
}

impl Seats {
    fn sit(&mut self, hold: Weak<Hold>) -> Seat {
        match self.casual().or_else(|| self.free.pop()) {
            Some(seat) => {
                self.seats[seat as usize] = hold;
                seat
            }
            None => {
                self.seats.push(hold);
                (self.seats.len() - 1) as Seat
            }
        }
    }

    /// A casual seat whose acquisition has gone, if it is found soon.
    fn casual(&mut self) -> Option<Seat> {
        for _ in 0..2 {
            let seat = self.next;
            if self.seats.get(seat as usize)?.strong_count() == 0 {
                return Some(seat);
            }
            self.next = (seat + 1) % CASUAL;
        }
        None
    }

    fn taken(&self) -> impl Iterator<Item = &Weak<Hold>> {
        self.seats.iter().filter(|seat| seat.strong_count() > 0)
    }
}
