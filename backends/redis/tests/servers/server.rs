//! One server.

use std::net::SocketAddr;
use std::path::PathBuf;

use leasehold_faults::process::{self, Port};

use super::options::{Options, socket};
use super::talk::{Reply, Talk};
use super::wait_until;

/// A running server, killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    options: Options,
    process: process::Server,
    tls_port: Option<Port>,
}

impl Server {
    /// Starts one.
    pub fn start(options: Options) -> Self {
        let tls_port = options.certificates.as_ref();
        let tls_port = tls_port.map(|_| Port::reserve().unwrap());
        let launch = options.launch(tls_port.as_ref().map(Port::number));
        let process = launch.start().unwrap_or_else(|why| panic!("{why}"));
        Self {
            options,
            process,
            tls_port,
        }
    }

    pub fn port(&self) -> u16 {
        self.process.port()
    }

    pub fn addr(&self) -> SocketAddr {
        self.process.place().addr()
    }

    /// Where a client finds it, with the login if it wants one.
    pub fn url(&self) -> String {
        self.url_at("redis", self.port())
    }

    /// The same over TLS.
    pub fn tls_url(&self) -> String {
        let port = self.tls_port.as_ref().unwrap();
        self.url_at("rediss", port.number())
    }

    /// The URL of somebody else than the server, who is in front of it.
    pub fn url_through(&self, port: u16) -> String {
        self.url_at("redis", port)
    }

    fn url_at(&self, scheme: &str, port: u16) -> String {
        let login = self.options.login.as_ref();
        let login = login.map(|it| format!("{}:{}@", it.user, it.password));
        let login = login.unwrap_or_default();
        format!("{scheme}://{login}127.0.0.1:{port}")
    }

    /// Its socket, if it was to have one.
    pub fn socket(&self) -> PathBuf {
        assert!(self.options.has_unix_socket, "it has no socket");
        socket(self.process.place())
    }

    /// A connection, logged in.
    pub fn talk(&self) -> Talk {
        Talk::open(self.addr(), self.options.login.as_ref()).unwrap()
    }

    /// Its answer to a command, which must not be an error.
    pub fn ask(&self, command: &[&str]) -> Reply {
        let reply = self.talk().ask(command).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
        reply
    }

    /// One value of `INFO`.
    pub fn info(&self, key: &str) -> Option<String> {
        let all = self.ask(&["INFO", "everything"]).text();
        let mut lines = all.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(found, _)| *found == key)?;
        Some(value.to_owned())
    }

    /// Whether it is a primary, by its own account; `false` if it does not answer.
    pub fn is_primary(&self) -> bool {
        let talk = Talk::open(self.addr(), self.options.login.as_ref());
        let role = talk.and_then(|mut talk| talk.ask(&["ROLE"]));
        let Ok(Reply::Several(role)) = role else {
            return false;
        };
        role.first() == Some(&Reply::Text("master".to_owned()))
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it in its tracks (SIGSTOP).
    pub fn stop(&self) {
        self.process.stop().unwrap();
    }

    /// Lets it go on (SIGCONT).
    pub fn cont(&self) {
        self.process.cont().unwrap();
    }

    /// Kills it if it runs and starts it again, with what it has on the disk.
    pub fn restart(&mut self) {
        self.process.restart().unwrap_or_else(|why| panic!("{why}"));
    }

    /// The same with other options. The port for TLS stays as it was.
    pub fn restart_as(&mut self, options: Options) {
        let launch = options.launch(self.tls_port.as_ref().map(Port::number));
        self.options = options;
        let restarted = self.process.restart_as(launch);
        restarted.unwrap_or_else(|why| panic!("{why}"));
    }

    /// The end of what it has printed.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until a replica has everything its primary sends.
    pub(super) fn wait_until_it_follows(&self, primary: u16) {
        wait_until("the replica follows its primary", || {
            self.info("master_port") == Some(primary.to_string())
                && self.info("master_link_status").as_deref() == Some("up")
        });
    }
}
