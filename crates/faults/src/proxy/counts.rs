//! What went through a proxy, in numbers.

/// What a [`Proxy`](super::Proxy) has seen so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections that were carried to the server, or would have been if it were up.
    pub connections: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// From clients to the server.
    pub requests: Flow,
    /// From the server to clients.
    pub replies: Flow,
    /// Requests that were sent to the server once more.
    pub duplicated: u64,
    /// Replies that were lost because [`lose_reply`](super::Proxy::lose_reply) had asked for it.
    pub lost_replies: u64,
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// How many times something arrived.
    pub chunks: u64,
    /// How many bytes arrived.
    pub bytes: u64,
    /// How many of them were passed on.
    pub passed: u64,
}
