//! Servers that know nothing of each other.

use super::{Options, Server};

/// Five of them, as a majority needs.
#[derive(Debug)]
pub struct Five {
    pub servers: [Server; 5],
}

impl Five {
    /// Starts five that are run in the same way.
    pub fn start(options: &Options) -> Self {
        Self::start_each(|_| options.clone())
    }

    /// Starts five, each run in its own way: each with a clock of its own, say.
    pub fn start_each(options: impl Fn(usize) -> Options) -> Self {
        let servers = std::array::from_fn(|number| options(number).start());
        Self { servers }
    }

    pub fn urls(&self) -> [String; 5] {
        self.servers.each_ref().map(Server::url)
    }
}
