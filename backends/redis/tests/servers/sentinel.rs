//! One sentinel: a server that watches a primary.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use leasehold_faults::process::{self, Launch, Place};

use super::talk::{self, Reply, Talk};

/// Every so many milliseconds a sentinel asks servers and other sentinels how they are; by default it would be seconds.
const ASK_PERIOD: &str = "100";

/// Every so many milliseconds a sentinel pings everybody. When a primary is down, replicas are asked how they are once a
/// second, and none is promoted whose answer is older than five of these.
const PING_PERIOD: &str = "500";

/// Every so many milliseconds a sentinel tells the others what it knows. One that sees a replica turn into a primary gives
/// it four of these before it turns it back, and whoever promoted it may take a second to find out that it worked.
const PUBLISH_PERIOD: &str = "1000";

/// What a sentinel watches.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) name: &'static str,
    /// The port of the primary.
    pub(super) primary: u16,
    /// How many sentinels must take it for dead.
    pub(super) quorum: u32,
    /// How long it must be silent for that.
    pub(super) down_after: Duration,
}

/// A running sentinel, killed when this is dropped.
#[derive(Debug)]
pub struct Sentinel {
    process: process::Server,
}

impl Sentinel {
    /// Starts one that watches this.
    pub(super) fn start(watched: Watched) -> Self {
        let launch = Launch::new(move |place| {
            let config = place.folder().join("sentinel.conf");
            // What the sentinel has added to its configuration is its memory.
            if !config.exists() {
                fs::write(&config, configuration(place, &watched)).unwrap();
            }
            let mut sentinel = Command::new("redis-server");
            sentinel.arg(config).arg("--sentinel");
            sentinel
        });
        let launch = launch.ready(|place| talk::is_ready(place.addr()));
        let process = launch.start().unwrap_or_else(|why| panic!("{why}"));
        let sentinel = Self { process };
        // For the time being, to be known by the others at once.
        sentinel.publish_every(ASK_PERIOD);
        sentinel
    }

    pub fn addr(&self) -> SocketAddr {
        self.process.place().addr()
    }

    /// Its answer to a command, which may be an error; `None` if it does not answer.
    pub fn ask(&self, command: &[&str]) -> Option<Reply> {
        let mut talk = Talk::open(self.addr(), None).ok()?;
        talk.ask(command).ok()
    }

    /// The port of the primary, as it sees it.
    pub fn primary_port(&self, name: &str) -> Option<u16> {
        let reply = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name])?;
        let Reply::Several(mut address) = reply else {
            return None;
        };
        address.pop()?.text().parse().ok()
    }

    /// Whether it takes the primary and its one replica for well, and knows the two other sentinels.
    pub(super) fn knows_everybody(&self, name: &str) -> bool {
        let asked = ["MASTER", "REPLICAS"].map(|what| self.ask(&["SENTINEL", what, name]));
        let [Some(primary), Some(Reply::Several(replicas))] = asked else {
            return false;
        };
        let says = |reply: &Reply, key, value| reply.field(key).as_deref() == Some(value);
        says(&primary, "flags", "master")
            && says(&primary, "num-other-sentinels", "2")
            && replicas.len() == 1
            && says(&replicas[0], "flags", "slave")
            && says(&replicas[0], "master-link-status", "ok")
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

    /// Kills it if it runs and starts it again.
    pub fn restart(&mut self) {
        self.process.restart().unwrap_or_else(|why| panic!("{why}"));
        self.calm_down();
    }

    /// To be called when all know each other, and before anything is promoted.
    pub(super) fn calm_down(&self) {
        self.publish_every(PUBLISH_PERIOD);
    }

    fn publish_every(&self, period: &str) {
        let mut command = vec!["SENTINEL", "DEBUG", "publish-period", period];
        command.extend(["ping-period", PING_PERIOD]);
        command.extend(["info-period", ASK_PERIOD, "ask-period", ASK_PERIOD]);
        let reply = self.ask(&command);
        assert_eq!(reply, Some(Reply::Text("OK".to_owned())));
    }
}

fn configuration(place: &Place, watched: &Watched) -> String {
    let (port, folder) = (place.port(), place.folder().display());
    let Watched {
        name,
        primary,
        quorum,
        down_after,
    } = watched;
    let down_after = down_after.as_millis();
    format!(
        "bind 127.0.0.1\n\
         port {port}\n\
         dir {folder}\n\
         sentinel monitor {name} 127.0.0.1 {primary} {quorum}\n\
         sentinel down-after-milliseconds {name} {down_after}\n\
         sentinel failover-timeout {name} 3000\n"
    )
}
