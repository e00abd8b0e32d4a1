//! Numbers that come again with their seed, and how much to do with them.

use super::process::setting;

/// A small seeded generator (SplitMix64): the same numbers for the same seed, on every machine and for ever.
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(from.len() as u64)).unwrap_or_default();
        &from[at]
    }
}

/// A seed of this run's own, or the one in `LEASEHOLD_SEED`, which a failure shows.
pub fn seed() -> u64 {
    let given = setting("LEASEHOLD_SEED").and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        let drawn = leasehold_core::Holder::random();
        u64::from(u32::from_le_bytes(
            [0, 1, 2, 3].map(|at| drawn.secret()[at]),
        ))
    })
}

/// How much more than usual to do: `LEASEHOLD_LONG` asks for twenty times as much.
pub fn effort() -> u64 {
    let long = setting("LEASEHOLD_LONG").is_some_and(|value| !value.is_empty() && value != "0");
    if long { 20 } else { 1 }
}
