//! What each mode means for each direction.

use std::time::Duration;

use super::mode::Mode;

/// Where something is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the server.
    Requests,
    /// To the client.
    Replies,
}

/// What becomes of something that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is passed on.
    Pass,
    /// It is passed on this long after it arrived, and a random part of the second.
    Later(Duration, Duration),
    /// It is lost, and with it the connection.
    Lose,
    /// It is kept until there is another mode.
    Keep,
    /// It is passed on until this many bytes have been, which ends the connection.
    UpTo(u64),
    /// It is passed on, and sent once more.
    Twice,
    /// It is passed on at this many bytes a second.
    Slowly(u64),
}

impl Fate {
    /// The table.
    pub(super) fn of(mode: Mode, direction: Direction) -> Self {
        match (mode, direction) {
            (Mode::Delay { fixed, jitter }, _) => Self::Later(fixed, jitter),
            (Mode::BlackHole, _) | (Mode::DropReplies, Direction::Replies) => Self::Lose,
            (Mode::Hold, Direction::Requests) => Self::Keep,
            (Mode::CutAfter(bytes), Direction::Replies) => Self::UpTo(bytes),
            (Mode::DuplicateRequests, Direction::Requests) => Self::Twice,
            (Mode::Throttle(rate), _) => Self::Slowly(rate.max(1)),
            (
                Mode::Pass
                | Mode::Refuse
                | Mode::DropReplies
                | Mode::Hold
                | Mode::CutAfter(_)
                | Mode::DuplicateRequests,
                _,
            ) => Self::Pass,
        }
    }
}
