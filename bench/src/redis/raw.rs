//! The floor: the least that makes a lock on Redis, without tokens, queue or history.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Script};

use super::crowd::Pair;
use crate::bench::Outcome;
use crate::setup::TTL;

/// As the store's own connection has it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Compare and delete.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// A connection that any number of tasks share, of the kind the store has.
pub(super) async fn connect(client: &Client) -> Outcome<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    Ok(connection.await?)
}

/// Brings a script to the server and gives the name it is called by.
pub(super) async fn load(connection: &mut MultiplexedConnection, text: &str) -> Outcome<String> {
    Ok(Script::new(text).load_async(connection).await?)
}

/// A script by its name, with the number of its keys; keys and arguments follow.
pub(super) fn evalsha(script: &str, keys: usize) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script).arg(keys);
    command
}

/// Takes a key unless it is taken, and deletes it unless it is somebody else's.
#[derive(Clone)]
pub(super) struct Raw {
    connection: MultiplexedConnection,
    release: String,
}

impl Raw {
    /// Connects.
    pub(super) async fn connect(client: &Client) -> Outcome<Self> {
        let mut connection = connect(client).await?;
        let release = load(&mut connection, RELEASE).await?;
        Ok(Self {
            connection,
            release,
        })
    }
}

impl Pair for Raw {
    async fn pair(&mut self, key: &str) -> Outcome<()> {
        let holder: [u8; 16] = rand::random();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&holder).arg("NX");
        set.arg("PX").arg(TTL.as_millis() as u64);
        let taken: bool = set.query_async(&mut self.connection).await?;
        let mut release = evalsha(&self.release, 1);
        release.arg(key).arg(&holder);
        let released: bool = release.query_async(&mut self.connection).await?;
        match taken && released {
            true => Ok(()),
            false => Err("a free key was refused, or lost".into()),
        }
    }
}
