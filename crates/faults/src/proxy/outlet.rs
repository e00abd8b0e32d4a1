//! The end of one direction: whatever arrived meets its fate here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::WriteHalf;
use tokio::sync::{mpsc, watch};

use super::connection::{Arrival, Stop, What};
use super::fate::{Direction, Fate};
use super::shadow::Shadow;
use super::shared::{Order, Shared};

/// How many portions a second a throttled connection passes on.
const PORTIONS: u64 = 20;

pub(super) struct Outlet<'c> {
    direction: Direction,
    to: WriteHalf<'c>,
    shared: Arc<Shared>,
    doomed: &'c AtomicBool,
    orders: watch::Receiver<Order>,
    random: StdRng,
    shadow: Option<Shadow>,
    /// The turn of the mode that was obeyed last.
    turn: u64,
    /// How much was passed on under the mode of which turn.
    passed: (u64, u64),
}

impl<'c> Outlet<'c> {
    /// For the connection with this number.
    pub(super) fn new(
        direction: Direction,
        to: WriteHalf<'c>,
        shared: Arc<Shared>,
        number: u64,
        doomed: &'c AtomicBool,
    ) -> Self {
        Self {
            direction,
            to,
            doomed,
            orders: shared.orders(),
            random: random(shared.seed, number, direction),
            shared,
            shadow: None,
            turn: 0,
            passed: (0, 0),
        }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Passes on what is in the queue until there is a reason to stop.
    pub(super) async fn run(&mut self, mut queue: mpsc::Receiver<Arrival>) -> Stop {
        while let Some(arrival) = queue.recv().await {
            if let Err(stop) = self.deliver(arrival).await {
                return stop;
            }
        }
        Stop::Done
    }

    async fn deliver(&mut self, arrival: Arrival) -> Result<(), Stop> {
        if let Some(turn) = arrival.lost_in {
            self.turn = turn;
            self.another_order().await;
            return Err(Stop::Reset);
        }
        match arrival.what {
            What::Bytes(bytes) => self.deliver_bytes(arrival.at, &bytes).await,
            What::End => {
                self.admit(arrival.at, 0.0).await?;
                let _ = self.to.shutdown().await;
                Err(Stop::Done)
            }
            What::Broken => {
                self.admit(arrival.at, 0.0).await?;
                Err(Stop::Reset)
            }
        }
    }

    async fn deliver_bytes(&mut self, at: Instant, bytes: &[u8]) -> Result<(), Stop> {
        // Drawn in every mode, so that the n-th chunk of a connection has the same number whatever was set before.
        let share = self.random.random::<f64>();
        let mut fate = self.admit(at, share).await?;
        self.lose_if_asked()?;
        let mut rest = bytes;
        loop {
            let passed = self.pass(fate, rest).await?;
            rest = &rest[passed..];
            if rest.is_empty() {
                return Ok(());
            }
            fate = self.admit(at, share).await?;
        }
    }

    /// Waits until something that arrived at this time may be passed on, and says how.
    async fn admit(&mut self, at: Instant, share: f64) -> Result<Fate, Stop> {
        loop {
            let Order { mode, turn } = *self.orders.borrow();
            self.turn = turn;
            match Fate::of(mode, self.direction) {
                Fate::Lose => {
                    self.another_order().await;
                    return Err(Stop::Reset);
                }
                Fate::Keep => self.another_order().await,
                Fate::Later(fixed, jitter) => {
                    let due = at + fixed + jitter.mul_f64(share);
                    if self.waited_until(due).await {
                        return Ok(Fate::Pass);
                    }
                }
                fate => return Ok(fate),
            }
        }
    }

    /// The fate that was asked for by number, not by mode.
    fn lose_if_asked(&self) -> Result<(), Stop> {
        match self.direction {
            Direction::Requests if self.shared.is_to_be_lost() => {
                self.doomed.store(true, Ordering::SeqCst);
                Ok(())
            }
            Direction::Replies if self.doomed.load(Ordering::SeqCst) => {
                self.shared.count(|counts| counts.lost_replies += 1);
                Err(Stop::Reset)
            }
            _ => Ok(()),
        }
    }

    /// Passes bytes on, or as many of them as the fate allows at once, and says how many.
    async fn pass(&mut self, fate: Fate, bytes: &[u8]) -> Result<usize, Stop> {
        match fate {
            Fate::UpTo(limit) => self.pass_up_to(limit, bytes).await,
            Fate::Slowly(rate) => self.pass_slowly(rate, bytes).await,
            Fate::Twice => {
                self.write(bytes).await?;
                self.send_copy(bytes).await;
                Ok(bytes.len())
            }
            _ => self.write(bytes).await,
        }
    }

    async fn pass_up_to(&mut self, limit: u64, bytes: &[u8]) -> Result<usize, Stop> {
        if self.passed.0 != self.turn {
            self.passed = (self.turn, 0);
        }
        let room = limit.saturating_sub(self.passed.1);
        let portion = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.write(&bytes[..portion]).await?;
        self.passed.1 += portion as u64;
        if self.passed.1 >= limit {
            return Err(Stop::Close);
        }
        Ok(portion)
    }

    async fn pass_slowly(&mut self, rate: u64, bytes: &[u8]) -> Result<usize, Stop> {
        let portion = usize::try_from(rate.div_ceil(PORTIONS)).unwrap_or(usize::MAX);
        let portion = portion.min(bytes.len());
        self.write(&bytes[..portion]).await?;
        let pause = Duration::from_secs_f64(portion as f64 / rate as f64);
        self.waited_until(Instant::now() + pause).await;
        Ok(portion)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        self.to.write_all(bytes).await.map_err(|_| Stop::Done)?;
        let length = bytes.len();
        self.shared.count_passed(self.direction, length as u64);
        Ok(length)
    }

    /// A copy that cannot be sent is not counted, and the next one tries a new connection.
    async fn send_copy(&mut self, bytes: &[u8]) {
        if self.shadow.is_none() {
            self.shadow = Shadow::open(self.shared.target).await.ok();
        }
        let Some(shadow) = &mut self.shadow else {
            return;
        };
        match shadow.send(bytes).await {
            Ok(()) => self.shared.count(|counts| counts.duplicated += 1),
            Err(_) => self.shadow = None,
        }
    }

    /// Waits for this moment; `false` if there was another order before it.
    async fn waited_until(&mut self, due: Instant) -> bool {
        tokio::select! {
            biased;
            () = self.another_order() => false,
            () = tokio::time::sleep_until(due.into()) => true,
        }
    }

    /// Waits for another order than the one that is obeyed now.
    async fn another_order(&mut self) {
        let turn = self.turn;
        // Fails only if the sender is gone, which is in what we share.
        let _ = self.orders.wait_for(|order| order.turn != turn).await;
    }
}

/// Each direction of each connection has its own numbers: how they are interleaved must not change them.
fn random(seed: u64, connection: u64, direction: Direction) -> StdRng {
    let stream = connection * 2 + u64::from(direction == Direction::Replies);
    StdRng::seed_from_u64(seed.wrapping_add(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_every_number_and_no_two_streams_share_theirs() {
        let first = |seed, connection, direction| {
            let mut numbers = random(seed, connection, direction);
            numbers.random::<u64>()
        };
        let (requests, replies) = (Direction::Requests, Direction::Replies);
        assert_eq!(first(7, 1, requests), first(7, 1, requests));
        assert_ne!(first(7, 1, requests), first(8, 1, requests));
        assert_ne!(first(7, 1, requests), first(7, 1, replies));
        assert_ne!(first(7, 1, replies), first(7, 2, requests));
    }
}
