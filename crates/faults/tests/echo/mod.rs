//! A server that sends back what it is sent, and keeps a record of it.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "support for tests, which fail by panicking"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Nothing is ever later than this.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What each connection sent, in the order in which they came.
type Record = Vec<Vec<u8>>;

type Shared = Arc<(Mutex<Record>, Condvar)>;

pub struct Echo {
    pub addr: SocketAddr,
    record: Shared,
}

impl Echo {
    pub fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn on(listener: TcpListener) -> Self {
        let addr = listener.local_addr().unwrap();
        let record = Shared::default();
        let shared = Arc::clone(&record);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let shared = Arc::clone(&shared);
                shared.0.lock().unwrap().push(Vec::new());
                std::thread::spawn(move || serve(stream.unwrap(), number, &shared));
            }
        });
        Self { addr, record }
    }

    /// The record, once it is like this.
    pub fn record_when(&self, like_this: impl Fn(&Record) -> bool) -> Record {
        let (record, changed) = &*self.record;
        let record = record.lock().unwrap();
        let waited = changed.wait_timeout_while(record, PATIENCE, |it| !like_this(it));
        let (record, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "the server was sent {record:?}");
        record.clone()
    }

    pub fn record(&self) -> Record {
        self.record_when(|_| true)
    }
}

fn serve(mut stream: TcpStream, number: usize, shared: &(Mutex<Record>, Condvar)) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        shared.0.lock().unwrap()[number].extend(&buffer[..length]);
        shared.1.notify_all();
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

/// A client that gives up on an answer after a minute.
pub fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends something and gives as many bytes of the answer.
pub fn ask(stream: &mut TcpStream, question: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(question)?;
    let mut answer = vec![0; question.len()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// How a read ends that gets no bytes: with an error, or with `Ok(())` at the end of the stream.
pub fn end(stream: &mut TcpStream) -> Result<(), std::io::ErrorKind> {
    match stream.read(&mut [0; 64]) {
        Ok(0) => Ok(()),
        Ok(length) => panic!("{length} bytes came"),
        Err(error) => Err(error.kind()),
    }
}
