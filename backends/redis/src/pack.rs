//! Numbers that belong together, packed into one argument: every argument takes its time.

use leasehold_core::HolderDigest;
use redis::{Cmd, ToRedisArgs as _};

/// An argument in the making, big-endian. Most fit without an allocation beyond this one.
#[derive(Debug, Default)]
pub(crate) struct Pack(Vec<u8>);

impl Pack {
    /// Room for what most arguments hold.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(96))
    }

    pub(crate) fn u8(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    pub(crate) fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// The position of a bucket in the keys of a script.
    pub(crate) fn place(self, place: usize) -> Self {
        self.u32(u32::try_from(place).unwrap_or(u32::MAX))
    }

    pub(crate) fn digest(mut self, holder: HolderDigest) -> Self {
        self.0.extend(holder.to_bytes());
        self
    }

    /// Bytes up to the end of the argument, or of a known length.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds the argument to a command.
    pub(crate) fn to(&self, command: &mut Cmd) {
        self.0.write_redis_args(command);
    }
}
