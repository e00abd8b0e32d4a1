//! The server: one of our own, which keeps nothing on the disk and shares nothing with anybody.

use std::process::Command;

use leasehold_faults::process::{self, Launch, Place};
use redis::Client;

use crate::bench::Outcome;

/// A running server, killed when this is dropped.
pub(super) struct Server {
    process: process::Server,
}

impl Server {
    /// Starts one.
    pub(super) fn start() -> Outcome<Self> {
        let launch = Launch::new(command).ready(|place| answers(place.port()));
        let advice = "`cargo xtask bench redis` installs redis-server where it can";
        let process = launch.start().map_err(|why| format!("{why}; {advice}"))?;
        Ok(Self { process })
    }

    /// The port it listens on.
    pub(super) fn port(&self) -> u16 {
        self.process.port()
    }

    /// A client of it.
    pub(super) fn client(&self) -> Outcome<Client> {
        client(self.port())
    }

    /// How often it was called by one of these commands, from outside or from a script.
    pub(super) fn calls(&self, commands: &[&str]) -> Outcome<u64> {
        let mut connection = self.client()?.get_connection()?;
        let mut ask = redis::cmd("INFO");
        let info: String = ask.arg("commandstats").query(&mut connection)?;
        Ok(calls(&info, commands))
    }
}

/// A client of the server on this port.
pub(super) fn client(port: u16) -> Outcome<Client> {
    Ok(Client::open(format!("redis://127.0.0.1:{port}"))?)
}

fn command(place: &Place) -> Command {
    let mut server = Command::new("redis-server");
    server.args(["--bind", "127.0.0.1", "--port", &place.port().to_string()]);
    server.arg("--dir").arg(place.folder());
    server.args(["--save", "", "--appendonly", "no"]);
    server
}

fn answers(port: u16) -> bool {
    let connected = client(port).and_then(|client| Ok(client.get_connection()?));
    connected.is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok())
}

/// The calls of these commands in lines such as `cmdstat_set:calls=3,usec=5`.
fn calls(info: &str, commands: &[&str]) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let (command, figures) = line.trim().strip_prefix("cmdstat_")?.split_once(':')?;
        let (calls, _) = figures.strip_prefix("calls=")?.split_once(',')?;
        commands.contains(&command).then_some(calls.parse().ok()?)
    };
    info.lines().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_commands_asked_for_are_counted() {
        let info = "# Commandstats\r\n\
                    cmdstat_set:calls=3,usec=5,usec_per_call=1.67\r\n\
                    cmdstat_setex:calls=100,usec=5,usec_per_call=1.67\r\n\
                    cmdstat_evalsha:calls=20,usec=9,usec_per_call=0.45\r\n";
        assert_eq!(calls(info, &["set", "evalsha"]), 23);
        assert_eq!(calls(info, &["get"]), 0);
    }
}
