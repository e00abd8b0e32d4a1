//! What the owner of a proxy and its connections both see.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::counts::{Counts, Flow};
use super::fate::Direction;
use super::mode::Mode;

/// The mode, and how many were set before it: setting the same one again is a change too.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    pub(super) mode: Mode,
    pub(super) turn: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: SocketAddr,
    pub(super) seed: u64,
    order: watch::Sender<Order>,
    counts: watch::Sender<Counts>,
    /// How many requests it still is to the one whose reply is lost.
    countdown: Mutex<u64>,
}

impl Shared {
    pub(super) fn new(target: SocketAddr, seed: u64) -> Self {
        Self {
            target,
            seed,
            order: watch::Sender::default(),
            counts: watch::Sender::default(),
            countdown: Mutex::default(),
        }
    }

    pub(super) fn set(&self, mode: Mode) {
        self.order.send_modify(|order| {
            order.mode = mode;
            order.turn += 1;
        });
    }

    pub(super) fn order(&self) -> Order {
        *self.order.borrow()
    }

    pub(super) fn orders(&self) -> watch::Receiver<Order> {
        self.order.subscribe()
    }

    pub(super) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    pub(super) fn count_arrival(&self, direction: Direction, length: u64) {
        self.count_flow(direction, |flow| {
            flow.chunks += u64::from(length > 0);
            flow.bytes += length;
        });
    }

    pub(super) fn count_passed(&self, direction: Direction, length: u64) {
        self.count_flow(direction, |flow| flow.passed += length);
    }

    fn count_flow(&self, direction: Direction, change: impl FnOnce(&mut Flow)) {
        self.count(|counts| match direction {
            Direction::Requests => change(&mut counts.requests),
            Direction::Replies => change(&mut counts.replies),
        });
    }

    pub(super) async fn when(&self, like_this: impl FnMut(&Counts) -> bool) {
        // Fails only if the sender is gone, which is right here.
        let _ = self.counts.subscribe().wait_for(like_this).await;
    }

    pub(super) fn lose_reply(&self, nth: u64) {
        *self.countdown() = nth;
    }

    /// Counts a request down; `true` if it is the one whose reply is lost.
    pub(super) fn is_to_be_lost(&self) -> bool {
        let mut countdown = self.countdown();
        let is_the_one = *countdown == 1;
        *countdown = countdown.saturating_sub(1);
        is_the_one
    }

    fn countdown(&self) -> std::sync::MutexGuard<'_, u64> {
        self.countdown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
