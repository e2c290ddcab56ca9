//! One server, and the single connection to it that all callers share.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use derive_more::Display;
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, Pipeline,
    RedisResult, Script, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};

use super::{IamLogin, circuit_breaker::CircuitBreakers};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Display)]
#[display("{host}:{port}")]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// The connection opens on first use. A failed call discards it. The next call then connects again
/// and asks the resolver again, for two reasons. After a time-out the machine may be gone, and the
/// old connection would never report that. A fail-over may have moved the name to another server.
///
/// **Invariant:** a writer that gives up a call discards its connection, and the connection ends by
/// a reset. So the operating system discards the bytes that it has not sent yet (ADR 81,
/// `tests/functions/paused.rs`). Readers, which have breakers, keep their connection: a late read
/// is harmless.
// Without the client, which holds the password.
#[derive(derive_more::Debug)]
#[debug("Node {{ name: {name:?} }}")]
pub(crate) struct Node {
    name: String,
    client: Client,
    /// Signs the token of each new connection. `None` when the client has the password.
    iam: Option<IamLogin>,
    config: AsyncConnectionConfig,
    connection: Mutex<Option<Arc<MultiplexedConnection>>>,
    opening: tokio::sync::Mutex<()>,
    /// `None` for callers that may wait.
    breakers: Option<Arc<CircuitBreakers>>,
}

impl Node {
    pub(super) fn new(
        info: ConnectionInfo,
        iam: Option<IamLogin>,
        timeout: Duration,
    ) -> RedisResult<Self> {
        // Sending the library's name needs permission for one more command, and Redis before 7.2
        // does not know that command.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        // Closing a connection then sends a reset, and no bytes that wait.
        let tcp = info.tcp_settings().clone().set_linger_time(Duration::ZERO);
        Ok(Self {
            name: info.addr().to_string(),
            client: Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp))?,
            iam,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(timeout))
                .set_response_timeout(Some(timeout)),
            connection: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            breakers: None,
        })
    }

    /// This server through a separate connection. It has the given circuit breakers, or shares
    /// those of `self`.
    pub(super) fn another(&self, breakers: Option<Arc<CircuitBreakers>>) -> Self {
        Self {
            name: self.name.clone(),
            client: self.client.clone(),
            iam: self.iam.clone(),
            config: self.config.clone(),
            connection: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            breakers: breakers.or_else(|| self.breakers.clone()),
        }
    }

    /// Another server that takes the same user, password and certificates.
    pub(super) fn at(&self, Address { host, port }: Address) -> RedisResult<Self> {
        let info = self.client.get_connection_info();
        let addr = match info.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_) | _ => {
                ConnectionAddr::Tcp(host, port)
            }
        };
        let name = addr.to_string();
        Ok(Self {
            name,
            client: Client::open(info.clone().set_addr(addr))?,
            ..self.another(None)
        })
    }

    /// The server as its URL names it, without user and password.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The server's address; `None` for a socket in the file system.
    pub(super) fn address(&self) -> Option<Address> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Address {
                    host: host.clone(),
                    port: *port,
                })
            }
            ConnectionAddr::Unix(_) | _ => None,
        }
    }

    /// Sends commands in one round trip. A refused command's answer is a [`Value::ServerError`]. A
    /// lost connection may only have been idle for too long, so it gets one more try.
    pub(super) async fn send(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let permit = self
            .breakers
            .as_ref()
            .map(|breakers| breakers.admit(&self.name))
            .transpose()?;
        let mut answers = self.send_once(pipeline).await;
        if answers
            .as_ref()
            .is_err_and(|error| error.is_connection_dropped())
        {
            answers = self.send_once(pipeline).await;
        }
        if let Some(permit) = permit {
            permit.record(&answers);
        }
        answers
    }

    async fn send_once(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let used = self.connection().await?;
        let mut call = Call {
            node: self,
            used: &used,
            may_be_unsent: self.breakers.is_none(),
        };
        let mut connection = MultiplexedConnection::clone(&used);
        let answers = connection
            .req_packed_commands(pipeline, 0, pipeline.len())
            .await;
        call.may_be_unsent = answers.is_err();
        answers
    }

    /// Sends one command that has no keys.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command.clone());
        let answer = self
            .send(&pipeline)
            .await?
            .pop()
            .unwrap_or(Value::Nil)
            .extract_error()?;
        Ok(redis::from_redis_value(answer)?)
    }

    pub(crate) async fn load(&self, script: &Script) -> RedisResult<()> {
        let used = self.connection().await?;
        let loaded = script
            .load_async(&mut MultiplexedConnection::clone(&used))
            .await;
        if loaded.is_err() {
            self.forget(Some(&used));
        }
        loaded.map(|_| ())
    }

    /// Discards the connection `used`, or with `None` the current one.
    pub(super) fn forget(&self, used: Option<&Arc<MultiplexedConnection>>) {
        let mut connection = self.connection.lock();
        let is_used = |present: &Arc<MultiplexedConnection>| {
            used.is_none_or(|used| Arc::ptr_eq(present, used))
        };
        if connection.as_ref().is_some_and(is_used) {
            *connection = None;
        }
    }

    async fn connection(&self) -> RedisResult<Arc<MultiplexedConnection>> {
        if let Some(present) = &*self.connection.lock() {
            return Ok(Arc::clone(present));
        }
        // Callers that arrive meanwhile wait for this connection instead of opening another.
        let began = Instant::now();
        let _opening = self.opening.lock().await;
        if let Some(present) = &*self.connection.lock() {
            return Ok(Arc::clone(present));
        }
        if let Some(breakers) = &self.breakers {
            breakers.still_admit(&self.name, began)?;
        }
        let client = self.logged_in().await?;
        let made = Arc::new(
            client
                .get_multiplexed_async_connection_with_config(&self.config)
                .await?,
        );
        *self.connection.lock() = Some(Arc::clone(&made));
        Ok(made)
    }

    async fn logged_in(&self) -> RedisResult<Client> {
        let Some(iam) = &self.iam else {
            return Ok(self.client.clone());
        };
        let info = self.client.get_connection_info();
        let settings = info.redis_settings();
        let token = iam.token(settings.username().unwrap_or_default()).await?;
        Client::open(
            info.clone()
                .set_redis_settings(settings.clone().set_password(token)),
        )
    }
}

/// A call under way. When it ends without an answer, or its caller gives it up, its bytes may not
/// be sent yet. The connection is then discarded.
struct Call<'node> {
    node: &'node Node,
    used: &'node Arc<MultiplexedConnection>,
    may_be_unsent: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.may_be_unsent {
            self.node.forget(Some(self.used));
        }
    }
}
