//! Where connections come in, and where all of them are reset.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::mode::Mode;
use super::shared::Shared;

/// The pause after the system could not give us a connection, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Gate {
    listener: TcpListener,
    shared: Arc<Shared>,
    connections: JoinSet<()>,
    end: watch::Sender<()>,
}

impl Gate {
    /// Takes the connections of a listener that does not block.
    pub(super) fn new(listener: TcpListener, shared: Arc<Shared>) -> Self {
        Self {
            listener,
            shared,
            connections: JoinSet::new(),
            end: watch::Sender::default(),
        }
    }

    /// Works until nobody can order a reset any more.
    pub(super) async fn run(mut self, mut resets: UnboundedReceiver<mpsc::Sender<()>>) {
        let listener = self.listener.try_clone();
        let Ok(listener) = listener.and_then(tokio::net::TcpListener::from_std) else {
            return;
        };
        loop {
            tokio::select! {
                biased;
                order = resets.recv() => match order {
                    Some(done) => {
                        self.reset_all().await;
                        let _ = done.send(());
                    }
                    None => return,
                },
                Some(_) = self.connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => self.admit(client),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
    }

    fn admit(&mut self, client: TcpStream) {
        if self.shared.order().mode == Mode::Refuse {
            let _ = client.set_zero_linger();
            self.shared.count(|counts| counts.refused += 1);
            return;
        }
        self.shared.count(|counts| counts.connections += 1);
        let number = self.shared.counts().connections;
        let connection = Connection::new(client, number, Arc::clone(&self.shared));
        self.connections.spawn(connection.run(self.end.subscribe()));
    }

    async fn reset_all(&mut self) {
        let _ = self.reset_backlog();
        self.end.send_replace(());
        while self.connections.join_next().await.is_some() {}
    }

    /// Clients whose connection is complete for the system may not have been seen by [`run`](Self::run) yet.
    fn reset_backlog(&self) -> io::Result<()> {
        loop {
            let (client, _) = self.listener.accept()?;
            client.set_nonblocking(true)?;
            TcpStream::from_std(client)?.set_zero_linger()?;
            self.shared.count(|counts| counts.connections += 1);
        }
    }
}
