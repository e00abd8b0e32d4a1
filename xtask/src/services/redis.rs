//! Redis: one server that has every write on the disk before it answers.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::{Place, Service, apt};

/// How long the server may take over one answer.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) const REDIS: Service = Service {
    name: "redis",
    install: || apt::provide("redis-server", "redis-server"),
    start,
    ready,
    env: |place| vec![("LEASEHOLD_REDIS_URL".to_owned(), url(place))],
};

fn start(place: &Place) -> Command {
    let mut server = Command::new("redis-server");
    server.args(["--bind", "127.0.0.1", "--port", &place.port.to_string()]);
    server.arg("--dir").arg(&place.data);
    server.args(["--appendonly", "yes", "--appendfsync", "always"]);
    server.args(["--save", "", "--maxmemory-policy", "noeviction"]);
    server.args(["--daemonize", "no"]);
    server
}

fn url(place: &Place) -> String {
    format!("redis://127.0.0.1:{}", place.port)
}

fn ready(place: &Place) -> bool {
    ping(place.port).unwrap_or(false)
}

/// A server that is still loading its data answers too, but not like this.
fn ping(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    Ok(&answer == b"+PONG\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_it_answers_a_ping() {
        for (answer, is_ready) in [("+PONG\r\n", true), ("-LOADING Redis\r\n", false)] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = [0; 6];
                stream.read_exact(&mut question).unwrap();
                assert_eq!(&question, b"PING\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let data = std::env::temp_dir();
            assert_eq!(ready(&Place { port, data }), is_ready, "{answer}");
        }
    }
}
