//! The ways to behave.

use std::time::Duration;

/// What a [`Proxy`](super::Proxy) does with what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Passes everything on.
    #[default]
    Pass,
    /// Passes everything on late, in its order. A round trip is delayed twice.
    Delay {
        /// By at least this.
        fixed: Duration,
        /// And by a random part of this.
        jitter: Duration,
    },
    /// Takes connections and everything that is sent, and passes nothing on, not even the end of a connection.
    BlackHole,
    /// Resets new connections at once. Those that are there go on.
    Refuse,
    /// Passes this many bytes of the replies on, per connection and from now on, then closes the connection. The end comes
    /// with the reply that reaches the number: with 0 at the first byte.
    CutAfter(u64),
    /// Passes requests on and loses the replies: the server works, and nobody hears of it.
    DropReplies,
    /// Passes every request on, and sends it to the server once more over a connection of its own, whose replies nobody
    /// reads. A connection that was there before is copied from here on, without what it began with.
    DuplicateRequests,
    /// Keeps requests back and passes replies on. Setting another mode lets them go, also if the client that sent them has
    /// given up in the meantime.
    Hold,
    /// Passes at most this many bytes a second on, per connection and direction. 0 counts as 1.
    Throttle(u64),
}
