//! A second connection to the server, for copies of requests.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

/// Takes copies of requests. What the server replies is read and thrown away, so that it is never stopped by its replies.
pub(super) struct Shadow {
    server: OwnedWriteHalf,
}

impl Shadow {
    pub(super) async fn open(target: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(target).await?;
        stream.set_nodelay(true)?;
        let (mut replies, server) = stream.into_split();
        // Ends with the connection: when the other half is dropped, the server closes its side.
        tokio::spawn(async move { tokio::io::copy(&mut replies, &mut tokio::io::sink()).await });
        Ok(Self { server })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.server.write_all(bytes).await
    }
}
