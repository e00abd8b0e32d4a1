//! What a crash leaves on a disk.

use super::Op;
use super::calls::Seeded;

/// What is left of the writes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// Nothing: the worst a power loss can do to an honest disk that writes nothing early.
    Nothing,
    /// All of it: the process was killed, the system was not.
    Everything,
    /// Some of it by this seed, in which one write is torn: what a power loss does to a disk that reorders.
    Some(u64),
}

impl Survives {
    /// What is on a disk that had this safe and this on its way.
    pub fn image(self, durable: &[u8], unsynced: &[Op]) -> Vec<u8> {
        let mut image = durable.to_vec();
        match self {
            Self::Nothing => {}
            Self::Everything => unsynced.iter().for_each(|op| op.apply(&mut image)),
            Self::Some(seed) => {
                let mut random = Seeded::new(seed);
                let mut left: Vec<Op> = unsynced.to_vec();
                left.retain(|_| random.once_in(2));
                tear(&mut left, &mut random);
                left.iter().for_each(|op| op.apply(&mut image));
            }
        }
        image
    }
}

/// Leaves only the beginning, or only the end, of one of the writes.
fn tear(ops: &mut [Op], random: &mut Seeded) {
    if ops.is_empty() {
        return;
    }
    let at = random.below(ops.len());
    if let Op::Write(offset, bytes) = &mut ops[at] {
        let cut = random.below(bytes.len() + 1);
        if random.once_in(2) {
            bytes.truncate(cut);
        } else {
            *offset += cut as u64;
            bytes.drain(..cut);
        }
    }
}

/// Goes through what was done to a disk, one operation after the other.
#[derive(Debug)]
pub struct Replay {
    durable: Vec<u8>,
    log: Vec<Op>,
    /// From here on it was not synced.
    synced: usize,
    moment: usize,
}

impl Replay {
    pub fn new((first, log): (Vec<u8>, Vec<Op>)) -> Self {
        Self {
            durable: first,
            log,
            synced: 0,
            moment: 0,
        }
    }

    /// How many operations there are.
    pub fn end(&self) -> usize {
        self.log.len()
    }

    /// Goes on to when so many operations were done.
    pub fn go_to(&mut self, moment: usize) {
        assert!(moment >= self.moment, "a replay goes on, never back");
        let done = &self.log[..moment];
        if let Some(sync) = done.iter().rposition(|op| *op == Op::Sync)
            && sync >= self.synced
        {
            for op in &done[self.synced..sync] {
                op.apply(&mut self.durable);
            }
            self.synced = sync + 1;
        }
        self.moment = moment;
    }

    /// What a crash at this moment leaves.
    pub fn image(&self, survives: Survives) -> Vec<u8> {
        let unsynced = &self.log[self.synced..self.moment];
        survives.image(&self.durable, unsynced)
    }
}
