//! How a server is run.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_faults::clock::ShiftedClock;
use leasehold_faults::process::{Launch, Place};

use super::talk::{self, Login};
use super::{Certificates, Server};

/// What a server has on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Every write, before it is answered: `appendfsync always`.
    Always,
    /// Everything but the last second: `appendfsync everysec`.
    EverySecond,
    /// Nothing.
    Never,
}

/// How to run a server: durable and nothing else, unless told.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until they are started"]
pub struct Options {
    durability: Durability,
    settings: Vec<(String, String)>,
    acl: Option<String>,
    pub(super) login: Option<Login>,
    pub(super) clock: Option<ShiftedClock>,
    pub(super) certificates: Option<Certificates>,
    pub(super) has_unix_socket: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Always,
            settings: Vec::new(),
            acl: None,
            login: None,
            clock: None,
            certificates: None,
            has_unix_socket: false,
        }
    }
}

impl Options {
    /// What it has on the disk.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// A line of its configuration, as in its file: an empty value is `""`.
    pub fn setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// How much it may keep, such as `2mb`, and what it does when that is reached.
    pub fn maxmemory(self, most: &str, policy: &str) -> Self {
        let bounded = self.setting("maxmemory", most);
        bounded.setting("maxmemory-policy", policy)
    }

    /// Its clock.
    pub fn clock(mut self, clock: &ShiftedClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// It wants this password.
    pub fn password(self, password: &str) -> Self {
        let closed = self.setting("requirepass", password);
        closed.login("default", password)
    }

    /// It has these users, as lines of an ACL file. Say with [`login`](Self::login) as whom to administer it.
    pub fn acl(mut self, lines: &str) -> Self {
        self.acl = Some(lines.to_owned());
        self
    }

    /// The user as whom the server is asked here, and who is in its URL.
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some(Login {
            user: user.to_owned(),
            password: password.to_owned(),
        });
        self
    }

    /// It also listens on a socket in its folder.
    pub fn unix_socket(mut self) -> Self {
        self.has_unix_socket = true;
        self
    }

    /// It also listens on a port that speaks TLS and shows this certificate.
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Starts one.
    pub fn start(self) -> Server {
        Server::start(self)
    }

    pub(super) fn launch(&self, tls_port: Option<u16>) -> Launch {
        static LAUNCHES: AtomicU32 = AtomicU32::new(0);
        let number = LAUNCHES.fetch_add(1, Ordering::Relaxed);
        let options = self.clone();
        let launch = Launch::new(move |place| {
            let config = place.folder().join(format!("redis-{number}.conf"));
            // A server that was made a replica, or a primary, has written that down there.
            if !config.exists() {
                fs::write(&config, options.configuration(place, tls_port)).unwrap();
            }
            let mut server = Command::new("redis-server");
            server.arg(config);
            if let Some(clock) = &options.clock {
                clock.apply(&mut server);
            }
            server
        });
        launch.ready(|place| talk::is_ready(place.addr()))
    }

    fn configuration(&self, place: &Place, tls_port: Option<u16>) -> String {
        let (port, folder) = (place.port(), place.folder().display());
        let mut config = format!("bind 127.0.0.1\nport {port}\ndir {folder}\nsave \"\"\n");
        config += match self.durability {
            Durability::Always => "appendonly yes\nappendfsync always\n",
            Durability::EverySecond => "appendonly yes\nappendfsync everysec\n",
            Durability::Never => "appendonly no\n",
        };
        if self.has_unix_socket {
            config += &format!("unixsocket {}\n", socket(place).display());
        }
        if let Some(lines) = &self.acl {
            let file = place.folder().join("users.acl");
            fs::write(&file, lines).unwrap();
            config += &format!("aclfile {}\n", file.display());
        }
        if let (Some(certificates), Some(port)) = (&self.certificates, tls_port) {
            config += &certificates.settings(port);
        }
        for (key, value) in &self.settings {
            config += &format!("{key} {value}\n");
        }
        config
    }
}

/// Where the socket of a server is.
pub(super) fn socket(place: &Place) -> std::path::PathBuf {
    place.folder().join("redis.sock")
}
