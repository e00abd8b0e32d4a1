//! Storage in memory that does to the store what disks do: it loses what was not synced, tears writes, is full, fails.
//!
//! [`Disk`] is what the store writes to and can be told to [fail](fault::Fault); [`Replay`](crash::Replay) goes through
//! what it has logged and gives the image that a crash at any moment would have left.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several test binaries, each of which uses a part"
)]

pub mod calls;
pub mod child;
pub mod crash;
pub mod fault;
pub mod rot;
pub mod run;
pub mod sample;
pub mod short;
pub mod witness;
pub mod work;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use crash::Survives;
use fault::{Fault, On, Unsynced};

/// Something done to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Bytes at an offset.
    Write(u64, Vec<u8>),
    /// A new length; what is added is zero.
    SetLen(u64),
    /// What was done before is safe from now on.
    Sync,
}

impl Op {
    /// Does it to an image.
    pub fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write(at, bytes) => {
                let at = usize::try_from(*at).unwrap();
                let end = at + bytes.len();
                if end > image.len() {
                    image.resize(end, 0);
                }
                image[at..end].copy_from_slice(bytes);
            }
            Self::SetLen(length) => image.resize(usize::try_from(*length).unwrap(), 0),
            Self::Sync => {}
        }
    }
}

/// A disk. Clones are the same one, so that a test keeps what the store has closed.
#[derive(Debug, Clone)]
pub struct Disk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Told when syncs may go on.
    gate: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What was on it in the beginning.
    first: Vec<u8>,
    /// What was done since.
    log: Vec<Op>,
    /// What a read finds.
    seen: Vec<u8>,
    /// What a power loss leaves in any case.
    durable: Vec<u8>,
    /// What is on its way from one to the other.
    unsynced: Vec<Op>,
    fault: Option<Fault>,
    /// Whether a sync waits at the gate until it is opened.
    is_shut: bool,
    /// How many wait there.
    at_gate: usize,
}

impl Disk {
    /// A disk with this on it, all of it safe.
    pub fn new(image: Vec<u8>) -> Self {
        let state = State {
            first: image.clone(),
            seen: image.clone(),
            durable: image,
            ..State::default()
        };
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            gate: Condvar::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations were done so far: the moment of this world.
    pub fn moment(&self) -> usize {
        self.state().log.len()
    }

    /// What was on it in the beginning, and what was done since.
    pub fn story(&self) -> (Vec<u8>, Vec<Op>) {
        let state = self.state();
        (state.first.clone(), state.log.clone())
    }

    /// What would be left if the machine stopped now.
    pub fn after_crash(&self, survives: Survives) -> Vec<u8> {
        let state = self.state();
        match survives {
            // The system outlives the process, with all that it has in memory.
            Survives::Everything => state.seen.clone(),
            _ => survives.image(&state.durable, &state.unsynced),
        }
    }

    /// Changes bytes behind everybody's back.
    pub fn rot(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        change(&mut state.seen);
        state.durable = state.seen.clone();
        state.unsynced.clear();
    }

    /// Fails from now on as this says, or no more.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Whether the fault has shown itself.
    pub fn has_failed(&self) -> bool {
        let state = self.state();
        state.fault.as_ref().is_some_and(Fault::has_struck)
    }

    /// Makes the system forget what it has in memory of the disk, as it does when memory is short. What it still means to
    /// write stays.
    pub fn evict(&self) {
        let mut state = self.state();
        let mut seen = state.durable.clone();
        state.unsynced.iter().for_each(|op| op.apply(&mut seen));
        state.seen = seen;
    }

    /// Makes every sync wait until the gate is opened.
    pub fn shut_gate(&self) {
        self.state().is_shut = true;
    }

    /// Waits until a sync waits at the gate.
    pub fn await_sync(&self) {
        let mut state = self.state();
        while state.at_gate == 0 {
            let woken = self.0.gate.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets syncs go on.
    pub fn open_gate(&self) {
        self.state().is_shut = false;
        self.0.gate.notify_all();
    }

    fn pass_gate(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.at_gate += 1;
        self.0.gate.notify_all();
        while state.is_shut {
            let woken = self.0.gate.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.at_gate -= 1;
        state
    }
}

impl State {
    fn strikes(&mut self, on: On) -> Option<io::Error> {
        self.fault.as_mut().and_then(|fault| fault.strikes(on))
    }

    fn do_op(&mut self, op: Op) {
        op.apply(&mut self.seen);
        self.unsynced.push(op.clone());
        self.log.push(op);
    }

    fn sync(&mut self) {
        for op in self.unsynced.drain(..) {
            op.apply(&mut self.durable);
        }
        self.log.push(Op::Sync);
    }

    /// What becomes of the writes whose sync has failed. Linux reports the failure once and then takes them for written.
    fn fail_sync(&mut self) {
        match self.fault.as_ref().map_or(Unsynced::Kept, Fault::unsynced) {
            Unsynced::Kept => {}
            Unsynced::SeenUntilEvicted => self.unsynced.clear(),
            Unsynced::Gone => {
                self.unsynced.clear();
                self.seen = self.durable.clone();
            }
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        if let Some(error) = state.strikes(On::Read) {
            return Err(error);
        }
        let from = usize::try_from(offset).unwrap();
        let found = state.seen.get(from..from + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        match state.strikes(On::SetLen) {
            Some(error) => Err(error),
            None => {
                state.do_op(Op::SetLen(length));
                Ok(())
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.pass_gate();
        match state.strikes(On::Sync) {
            Some(error) => {
                state.fail_sync();
                Err(error)
            }
            None => {
                state.sync();
                Ok(())
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        match state.strikes(On::Write) {
            Some(error) => {
                // A disk runs full in the middle of a write.
                state.do_op(Op::Write(offset, data[..data.len() / 2].to_vec()));
                Err(error)
            }
            None => {
                state.do_op(Op::Write(offset, data.to_vec()));
                Ok(())
            }
        }
    }
}
