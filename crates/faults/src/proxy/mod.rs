//! A TCP proxy on the loopback interface that behaves as a bad network would.
//!
//! It knows no protocol. What one read gives counts as one request, or as one reply; that is exact for a client that writes
//! each request at once and waits for its answer.
//!
//! It does nothing that TCP could not do to a program. Above all, a connection that lost bytes never goes on behind the gap,
//! where the answer to one request would be taken for the answer to another: it stays silent as long as the [`Mode`] lasts
//! that lost them, and is reset when that ends.
//!
//! The proxy runs on a thread of its own and needs no runtime. Begin with `gate.rs`, which accepts connections; `fate.rs`
//! is the table of what happens to what.

mod connection;
mod counts;
mod fate;
mod gate;
mod mode;
mod outlet;
mod shadow;
mod shared;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::runtime;
use tokio::sync::mpsc::UnboundedSender;

pub use counts::{Counts, Flow};
pub use mode::Mode;

use gate::Gate;
use shared::Shared;

/// A way to a server that can be disturbed while it is in use.
///
/// Dropping it closes every connection and the way itself.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    resets: Option<UnboundedSender<mpsc::Sender<()>>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Opens a way to `target`, which need not be up. Whatever is random about it comes from `seed`.
    ///
    /// # Errors
    ///
    /// If there is no free port, no thread or no runtime to be had.
    pub fn start(target: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(target, seed));
        let (resets, ordered) = tokio::sync::mpsc::unbounded_channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let gate = Gate::new(listener, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("fault proxy".to_owned());
        let thread = thread.spawn(move || runtime.block_on(gate.run(ordered)))?;
        Ok(Self {
            addr,
            shared,
            resets: Some(resets),
            thread: Some(thread),
        })
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where the way leads.
    pub fn target(&self) -> SocketAddr {
        self.shared.target
    }

    /// The seed. Show it when a test fails.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Behaves like this from now on, towards everything that has not been passed on yet.
    ///
    /// Setting the same mode again is a change as well: it resets what has lost bytes and begins counts anew.
    pub fn set(&self, mode: Mode) {
        self.shared.set(mode);
    }

    /// Resets every connection there is (RST). They are gone when this returns, and those that come later are not touched.
    pub fn reset(&self) {
        let (done, wait) = mpsc::channel();
        if let Some(resets) = &self.resets
            && resets.send(done).is_ok()
        {
            let _ = wait.recv();
        }
    }

    /// Loses the reply to the `nth` request from now, counted over all connections from 1 on, and resets its connection.
    ///
    /// The request is passed on, and the connection is reset when a reply comes: so the server has done what it was asked,
    /// and the client cannot know. If several requests are under way on that connection, they share its fate. A second call
    /// replaces an order that has not been carried out.
    pub fn lose_reply(&self, nth: u64) {
        self.shared.lose_reply(nth);
    }

    /// What has passed so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Waits until the counts are like this. Dropping the future changes nothing.
    pub async fn when(&self, like_this: impl FnMut(&Counts) -> bool) {
        self.shared.when(like_this).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.resets.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
