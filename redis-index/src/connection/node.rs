//! One server, and the single connection to it that all callers share.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, Pipeline, RedisResult, Script,
    Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::sync::Mutex;

use super::circuit_breaker::CircuitBreakers;

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// One server.
///
/// The connection opens on first use. A failed call discards it. The next call then connects again and asks the
/// resolver again, for two reasons. After a time-out the machine may be gone, and the old connection would never report
/// that. A fail-over may have moved the name to another server.
pub(crate) struct Node {
    client: Client,
    config: AsyncConnectionConfig,
    connection: Mutex<Option<Arc<MultiplexedConnection>>>,
    /// The server's name among the circuit breakers, and the breakers. `None` for callers that may wait.
    breakers: Option<(String, Arc<CircuitBreakers>)>,
}

impl fmt::Debug for Node {
    /// Omits the client, which holds the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("address", &self.client.get_connection_info().addr().to_string()).finish()
    }
}

impl Node {
    /// # Errors
    /// When the settings are invalid.
    pub(super) fn new(info: ConnectionInfo, timeout: Duration) -> RedisResult<Self> {
        // Sending the library's name needs permission for one more command, and Redis before 7.2 does not know that
        // command.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(Self {
            client: Client::open(info.set_redis_settings(settings))?,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(timeout))
                .set_response_timeout(Some(timeout)),
            connection: Mutex::default(),
            breakers: None,
        })
    }

    /// This server with a separate connection.
    pub(super) fn another(&self) -> Self {
        Self {
            client: self.client.clone(),
            config: self.config.clone(),
            connection: Mutex::default(),
            breakers: self.breakers.clone(),
        }
    }

    /// This server, for callers that must not wait: see [`CircuitBreakers`].
    pub(super) fn with_breakers(self, breakers: Option<&Arc<CircuitBreakers>>) -> Self {
        let name = self.client.get_connection_info().addr().to_string();
        Self { breakers: breakers.map(|breakers| (name, Arc::clone(breakers))), ..self }
    }

    /// The server's address; `None` for a socket in the file system.
    pub(super) fn address(&self) -> Option<Address> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Address { host: host.clone(), port: *port })
            }
            ConnectionAddr::Unix(_) | _ => None,
        }
    }

    /// Sends commands in one round trip. A refused command's answer is a [`Value::ServerError`].
    pub(super) async fn send(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let Some((name, breakers)) = &self.breakers else { return self.send_anyway(pipeline).await };
        let permit = breakers.admit(name)?;
        let answers = self.send_anyway(pipeline).await;
        permit.record(&answers);
        answers
    }

    async fn send_anyway(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let used = self.connection().await?;
        let mut connection = MultiplexedConnection::clone(&used);
        let answers = connection.req_packed_commands(pipeline, 0, pipeline.len()).await;
        if answers.is_err() {
            self.forget(Some(&used)).await;
        }
        answers
    }

    /// Sends one command that has no keys.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command.clone());
        let answer = self.send(&pipeline).await?.pop().unwrap_or(Value::Nil).extract_error()?;
        Ok(redis::from_redis_value(answer)?)
    }

    /// Loads a script that the server does not have.
    pub(super) async fn load(&self, script: &Script) -> RedisResult<()> {
        let used = self.connection().await?;
        let loaded = script.load_async(&mut MultiplexedConnection::clone(&used)).await;
        if loaded.is_err() {
            self.forget(Some(&used)).await;
        }
        loaded.map(|_| ())
    }

    /// Discards the connection `used`, or with `None` the current one.
    pub(super) async fn forget(&self, used: Option<&Arc<MultiplexedConnection>>) {
        let mut connection = self.connection.lock().await;
        let is_used = |present: &Arc<MultiplexedConnection>| used.is_none_or(|used| Arc::ptr_eq(present, used));
        if connection.as_ref().is_some_and(is_used) {
            *connection = None;
        }
    }

    async fn connection(&self) -> RedisResult<Arc<MultiplexedConnection>> {
        // Callers that arrive meanwhile wait for this connection instead of opening another.
        let began = Instant::now();
        let mut connection = self.connection.lock().await;
        if let Some(present) = &*connection {
            return Ok(Arc::clone(present));
        }
        if let Some((name, breakers)) = &self.breakers {
            breakers.still_admit(name, began)?;
        }
        let made = Arc::new(self.client.get_multiplexed_async_connection_with_config(&self.config).await?);
        *connection = Some(Arc::clone(&made));
        Ok(made)
    }
}
