//! The connection that all calls share. One that breaks is replaced by whoever calls next.

use std::io::ErrorKind::TimedOut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Effect, Error, ErrorKind, Result};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::cluster::{ClusterClient, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::SentinelClient;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind as RedisKind, RedisError, RedisResult,
    ServerErrorKind, Value,
};
use tokio::sync::Mutex;

use crate::config::Place;
use crate::error::{ends_connection, is_unknown_script, of_call, of_dial};

pub(crate) struct Link {
    dial: Dial,
    timeout: Duration,
    replicas: u32,
    /// What all calls use, and which one it is, counted from the first.
    live: StdMutex<Option<(Connection, u64)>>,
    /// Held by whoever makes a new one.
    dialling: Mutex<u64>,
    /// Calls sent so far.
    sent: AtomicU64,
}

enum Dial {
    Single(Box<Client>),
    Sentinel(Box<Mutex<SentinelClient>>),
    Cluster(Box<ClusterClient>, Vec<Client>),
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Many(ClusterConnection),
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(place: Place, timeout: Duration, replicas: u32) -> Self {
        Self {
            dial: match place {
                Place::Single(client) => Dial::Single(client),
                Place::Sentinel(client) => Dial::Sentinel(Box::new(Mutex::new(*client))),
                Place::Cluster(client, nodes) => Dial::Cluster(client, nodes),
            },
            timeout,
            replicas,
            live: StdMutex::new(None),
            dialling: Mutex::new(0),
            sent: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.dial, Dial::Cluster(..))
    }

    pub(crate) fn is_sentinel(&self) -> bool {
        matches!(self.dial, Dial::Sentinel(_))
    }

    /// Calls sent so far, for those who count.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// How long the server may take to connect, and how long to answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends a command and gives what it answers; `None` if the server does not know the script it names.
    pub(crate) async fn call(&self, command: &Cmd, writes: bool) -> Result<Option<Value>> {
        let (mut connection, number) = self.connection().await?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = match self.replicas {
            0 => self.ask(&mut connection, number, command).await,
            _ if !writes => self.ask(&mut connection, number, command).await,
            replicas => {
                let answer = connection.ask_and_wait(command, replicas, self.timeout);
                match answer.await {
                    Ok((_, Err(error))) => return Err(error),
                    answer => answer.map(|(value, _)| value),
                }
            }
        };
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_unknown_script(&error) => Ok(None),
            Err(error) => {
                // The driver mends the connections of a cluster by itself, each for its node.
                if ends_connection(&error) && !self.is_cluster() {
                    self.give_up(number);
                }
                let told = of_call(error);
                Err(if writes {
                    told
                } else {
                    told.with_effect(Effect::None)
                })
            }
        }
    }

    /// Asks. The driver knows the timeout; one that lets it pass is stuck, as it may be while it looks for the nodes of a
    /// cluster, and the next call begins anew.
    async fn ask(
        &self,
        connection: &mut Connection,
        number: u64,
        command: &Cmd,
    ) -> RedisResult<Value> {
        let patience = self.timeout + self.timeout / 4;
        match within(patience, connection.ask(command)).await {
            Some(answer) => answer,
            None => {
                self.give_up(number);
                Err(std::io::Error::from(TimedOut).into())
            }
        }
    }

    /// A connection of its own to be told of events over.
    pub(crate) async fn listen(&self) -> Result<PubSub> {
        let dialled = async {
            match &self.dial {
                Dial::Single(client) => client.get_async_pubsub().await,
                Dial::Sentinel(client) => {
                    let client = client.lock().await.async_get_client().await?;
                    client.get_async_pubsub().await
                }
                Dial::Cluster(_, nodes) => listen_to_any(nodes).await,
            }
        };
        self.in_time(dialled).await
    }

    async fn connection(&self) -> Result<(Connection, u64)> {
        match self.live() {
            Some(live) => Ok(live),
            // The wait for those who dial already counts: one after the other they would wait longer and longer.
            None => self.in_time(self.dial_unless_live()).await,
        }
    }

    async fn dial_unless_live(&self) -> RedisResult<(Connection, u64)> {
        let mut number = self.dialling.lock().await;
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let connection = self.dial().await?;
        *number += 1;
        let live = (connection, *number);
        *self.lock() = Some(live.clone());
        Ok(live)
    }

    fn live(&self) -> Option<(Connection, u64)> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Connection, u64)>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a connection, unless there is a newer one already.
    fn give_up(&self, number: u64) {
        let mut live = self.lock();
        if live.as_ref().is_some_and(|(_, it)| *it == number) {
            *live = None;
        }
    }

    async fn dial(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(self.timeout))
            .set_connection_timeout(Some(self.timeout));
        match &self.dial {
            Dial::Single(client) => {
                let connection = client.get_multiplexed_async_connection_with_config(&config);
                connection.await.map(Connection::One)
            }
            Dial::Sentinel(client) => {
                let mut client = client.lock().await;
                let connection = client.get_async_connection_with_config(&config);
                connection.await.map(Connection::One)
            }
            Dial::Cluster(client, _) => {
                // A part of the time for one node, so that one that is silent does not keep us from the others. It is
                // tried twice: when nodes are looked for, and when they are known.
                let config = ClusterConfig::new()
                    .set_response_timeout(self.timeout)
                    .set_connection_timeout(self.timeout / 4);
                let connection = client.get_async_connection_with_config(config);
                connection.await.map(Connection::Many)
            }
        }
    }

    async fn in_time<T>(&self, dialled: impl Future<Output = RedisResult<T>>) -> Result<T> {
        match within(self.timeout, dialled).await {
            Some(dialled) => dialled.map_err(of_dial),
            None => Err(Error::new(
                ErrorKind::Timeout,
                format!("there was no connection within {:?}", self.timeout),
            )),
        }
    }
}

/// What comes of something within a time; nothing if it takes longer.
#[allow(
    clippy::disallowed_methods,
    reason = "how long a server may be silent has nothing to do with the clock that leases run by"
)]
pub(crate) async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

async fn listen_to_any(nodes: &[Client]) -> RedisResult<PubSub> {
    let mut last = None;
    for node in nodes {
        match node.get_async_pubsub().await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| RedisError::from((redis::ErrorKind::Client, "there is no node"))))
}

impl Connection {
    async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            Self::Many(connection) => ask_cluster(connection, command).await,
        }
    }

    /// Asks, and waits on the same connection until so many replicas have what was written. Says whether they do.
    async fn ask_and_wait(
        &mut self,
        command: &Cmd,
        replicas: u32,
        timeout: Duration,
    ) -> RedisResult<(Value, Result<()>)> {
        let Self::One(connection) = self else {
            return Ok((self.ask(command).await?, Ok(())));
        };
        // Less than what the connection itself waits, so that the answer is still heard.
        let patience = u64::try_from(timeout.as_millis() / 2)
            .unwrap_or(u64::MAX)
            .max(1);
        let mut pipe = redis::pipe();
        pipe.add_command(command.clone());
        pipe.cmd("WAIT").arg(replicas).arg(patience);
        // Each answer for itself: if only the second is an error, the first has been done.
        let answers = pipe.ignore_errors().query_async(connection).await?;
        let (answer, reached): (RedisResult<Value>, RedisResult<u64>) = answers;
        Ok((answer?, reached_enough(reached, replicas)))
    }
}

/// Asks a cluster, and once more if the slot has moved: nothing was done then, and the driver finds out where it is.
async fn ask_cluster(connection: &mut ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    match command.query_async(connection).await {
        Err(error) if error.kind() == RedisKind::Server(ServerErrorKind::Moved) => {
            command.query_async(connection).await
        }
        answer => answer,
    }
}

fn reached_enough(reached: RedisResult<u64>, wanted: u32) -> Result<()> {
    match reached {
        Ok(reached) if reached >= u64::from(wanted) => Ok(()),
        Ok(reached) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("it was done, but only {reached} of {wanted} replicas have it"),
        )
        .with_effect(Effect::Unknown)),
        Err(error) => Err(of_call(error).with_effect(Effect::Unknown)),
    }
}
