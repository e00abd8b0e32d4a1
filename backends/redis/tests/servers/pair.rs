//! A primary, its replica, and three sentinels of which two must agree.

use std::time::Duration;

use super::sentinel::Watched;
use super::{Options, Reply, Sentinel, Server, wait_until};

/// What the sentinels call it.
const NAME: &str = "leasehold";

/// How long a server may be silent before each sentinel takes it for dead, in milliseconds. The third is late, so that it
/// is there to vote: if all three stand for election at once, nobody wins, and the next is many seconds later.
const DOWN_AFTER: [u64; 3] = [500, 500, 1500];

/// A primary and a replica that may change their roles.
#[derive(Debug)]
pub struct Pair {
    /// Who was the primary at first, then who was the replica.
    pub servers: [Server; 2],
    pub sentinels: [Sentinel; 3],
}

impl Pair {
    /// Starts all five. When this returns, the replica follows and the sentinels know each other.
    pub fn start(options: &Options) -> Self {
        assert!(options.login.is_none(), "a pair is open to everybody");
        // Without it a replica waits for others to come, which would take the primary five seconds.
        let options = options.clone().setting("repl-diskless-sync-delay", "0");
        let primary = options.clone().start();
        let port = primary.port();
        let replica = options.setting("replicaof", &format!("127.0.0.1 {port}"));
        let replica = replica.start();
        replica.wait_until_it_follows(port);
        let sentinels = DOWN_AFTER.map(|down_after| {
            Sentinel::start(Watched {
                name: NAME,
                primary: port,
                quorum: 2,
                down_after: Duration::from_millis(down_after),
            })
        });
        let pair = Self {
            servers: [primary, replica],
            sentinels,
        };
        pair.wait_until_settled();
        for sentinel in &pair.sentinels {
            sentinel.calm_down();
        }
        pair
    }

    /// The name under which sentinels know the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Where a client finds the sentinels.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.each_ref().map(|it| it.addr().to_string());
        format!("redis+sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// The port of the primary that all sentinels agree on, if they do.
    pub fn primary_port(&self) -> Option<u16> {
        let seen = self.sentinels.each_ref().map(|it| it.primary_port(NAME));
        seen[0].filter(|_| seen.iter().all(|port| *port == seen[0]))
    }

    /// The server that the sentinels take for the primary.
    pub fn primary(&mut self) -> &mut Server {
        let number = self.number_of_primary();
        &mut self.servers[number]
    }

    /// The other one.
    pub fn replica(&mut self) -> &mut Server {
        let number = self.number_of_primary();
        &mut self.servers[1 - number]
    }

    fn number_of_primary(&self) -> usize {
        let port = self.primary_port().unwrap();
        usize::from(self.servers[1].port() == port)
    }

    /// Waits until the replica has everything that the primary has at this moment.
    pub fn wait_until_replicated(&mut self) {
        let offset = |server: &Server, key| server.info(key)?.parse::<u64>().ok();
        let there = offset(self.primary(), "master_repl_offset");
        let replica = self.replica();
        wait_until("the replica has what its primary has", || {
            offset(replica, "slave_repl_offset") >= there
        });
    }

    /// The replica gets what the primary has, then nothing more, and cannot come back: it logs in as somebody who does not
    /// exist. Nothing else notices. Sentinels promote a replica that has been cut off for up to five seconds.
    pub fn break_replication(&mut self) {
        self.wait_until_replicated();
        let replica = self.replica();
        replica.ask(&["CONFIG", "SET", "masteruser", "nobody"]);
        replica.ask(&["CONFIG", "SET", "masterauth", "wrong"]);
        replica.ask(&["CLIENT", "KILL", "TYPE", "master"]);
        wait_until("the replica has lost its primary", || {
            replica.info("master_link_status").as_deref() == Some("down")
        });
    }

    /// Undoes [`break_replication`](Self::break_replication), whoever is the replica by now. Both servers must run.
    pub fn mend_replication(&self) {
        for server in &self.servers {
            server.ask(&["CONFIG", "SET", "masteruser", ""]);
            server.ask(&["CONFIG", "SET", "masterauth", ""]);
        }
        self.wait_until_settled();
    }

    /// Makes the replica the primary although nothing is wrong. It is when this returns.
    pub fn promote(&self) {
        let before = self.primary_port().unwrap();
        wait_until("a sentinel begins a failover", || {
            let reply = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", NAME]);
            // It takes a while to trust a replica that is new, and to end what the last failover left to do.
            reply == Some(Reply::Text("OK".to_owned()))
        });
        self.wait_for_failover(before);
    }

    /// Waits until all sentinels agree on another primary than the one at this port, and it agrees with them.
    pub fn wait_for_failover(&self, before: u16) {
        wait_until("the failover is done", || {
            let now = self.primary_port().filter(|port| *port != before);
            let mut servers = self.servers.iter();
            now.is_some_and(|port| servers.any(|it| it.port() == port && it.is_primary()))
        });
    }

    /// Waits until one server follows the other and all sentinels know everybody: as at the start.
    pub fn wait_until_settled(&self) {
        wait_until("the sentinels know each other and both servers", || {
            let mut sentinels = self.sentinels.iter();
            self.primary_port().is_some() && sentinels.all(|it| it.knows_everybody(NAME))
        });
        let primary = self.number_of_primary();
        let (primary, replica) = (&self.servers[primary], &self.servers[1 - primary]);
        replica.wait_until_it_follows(primary.port());
    }
}
