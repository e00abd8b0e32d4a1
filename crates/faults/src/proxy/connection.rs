//! One connection of a client and the one to the server that belongs to it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::{mpsc, watch};

use super::fate::{Direction, Fate};
use super::mode::Mode;
use super::outlet::Outlet;
use super::shared::Shared;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// How many chunks may wait to be passed on before reading pauses.
const QUEUE: usize = 64;

/// Something that was read.
pub(super) struct Arrival {
    /// When it came.
    pub(super) at: Instant,
    /// The turn of the mode that loses it, if it came under such a mode.
    pub(super) lost_in: Option<u64>,
    pub(super) what: What,
}

/// What was read.
pub(super) enum What {
    Bytes(Vec<u8>),
    /// There will be no more.
    End,
    /// The server has reset the connection.
    Broken,
}

/// Why nothing more is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// In this direction there is nothing more to pass on, or nobody to pass it on to.
    Done,
    /// The connection is to be closed.
    Close,
    /// The connection is to be reset.
    Reset,
}

pub(super) struct Connection {
    client: TcpStream,
    number: u64,
    shared: Arc<Shared>,
    /// Whether the next reply is to be lost.
    doomed: AtomicBool,
}

impl Connection {
    pub(super) fn new(client: TcpStream, number: u64, shared: Arc<Shared>) -> Self {
        Self {
            client,
            number,
            shared,
            doomed: AtomicBool::new(false),
        }
    }

    /// Carries bytes both ways until one side ends it, a mode does, or `end` changes.
    pub(super) async fn run(mut self, mut end: watch::Receiver<()>) {
        let stop = tokio::select! {
            biased;
            _ = end.changed() => Stop::Reset,
            stop = self.carry() => stop,
        };
        match stop {
            Stop::Done => {}
            Stop::Close => drop(self.client.shutdown().await),
            Stop::Reset => drop(self.client.set_zero_linger()),
        }
    }

    async fn carry(&mut self) -> Stop {
        let _ = self.client.set_nodelay(true);
        let Ok(mut server) = TcpStream::connect(self.shared.target).await else {
            return self.without_server().await;
        };
        let _ = server.set_nodelay(true);
        let (from_client, to_client) = self.client.split();
        let (from_server, to_server) = server.split();
        let outlet = |direction, to| {
            let shared = Arc::clone(&self.shared);
            Outlet::new(direction, to, shared, self.number, &self.doomed)
        };
        let requests = pump(from_client, outlet(Direction::Requests, to_server));
        let replies = pump(from_server, outlet(Direction::Replies, to_client));
        match tokio::try_join!(requests, replies) {
            Ok(_) => Stop::Done,
            Err(stop) => stop,
        }
    }

    /// A black hole does not tell that there is nobody behind it.
    async fn without_server(&self) -> Stop {
        let mut orders = self.shared.orders();
        let seen = orders.wait_for(|order| order.mode != Mode::BlackHole);
        let _ = seen.await;
        Stop::Reset
    }
}

/// Carries one direction until it is done.
async fn pump(from: ReadHalf<'_>, mut outlet: Outlet<'_>) -> Result<(), Stop> {
    let (arrived, queue) = mpsc::channel(QUEUE);
    let (direction, shared) = (outlet.direction(), outlet.shared());
    let stop = tokio::select! {
        stop = outlet.run(queue) => stop,
        never = inlet(from, arrived, direction, shared) => match never {},
    };
    match stop {
        Stop::Done => Ok(()),
        stop => Err(stop),
    }
}

/// Reads what comes, so that it has its time of arrival and an end is noticed while something before it is kept back.
async fn inlet(
    mut from: ReadHalf<'_>,
    arrived: mpsc::Sender<Arrival>,
    direction: Direction,
    shared: Arc<Shared>,
) -> Infallible {
    let mut buffer = vec![0; CHUNK];
    loop {
        let what = match from.read(&mut buffer).await {
            Ok(length @ 1..) => What::Bytes(buffer[..length].to_vec()),
            Err(_) if direction == Direction::Replies => What::Broken,
            // Of a client that is gone, the server hears when all it has sent was passed on.
            Ok(0) | Err(_) => What::End,
        };
        let length = what.length();
        let order = shared.order();
        let is_lost = Fate::of(order.mode, direction) == Fate::Lose;
        let arrival = Arrival {
            at: Instant::now(),
            lost_in: is_lost.then_some(order.turn),
            what,
        };
        // After the mode was looked at: who sees the count and sets another mode does not save what is lost.
        shared.count_arrival(direction, length);
        if arrived.send(arrival).await.is_err() || length == 0 {
            std::future::pending().await
        }
    }
}

impl What {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::End | Self::Broken => 0,
        }
    }
}
