//! Routes commands of the page index to Redis: one server, or the masters of a cluster.
//!
//! **Invariant:** all keys of a command are in one slot, because they are in one index partition.
//! The commands of one call are sent together, in one pipeline per server, and may run in any
//! order. A command whose answer was lost is sent again, so each command must be idempotent.
//!
//! The client library's cluster client is not used (ADR 10).

mod circuit_breaker;
mod cluster;
mod node;
mod routed;
mod topology;

use std::{path::Path, sync::Arc, time::Duration};

use derive_more::Display;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use redis::{
    Client, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, TlsCertificates, Value,
};

use super::error::{DAMAGED, store_error};
use super::settings::ignored_part;
use super::{IamLogin, RedisIndexConfig, RedisMode};
use circuit_breaker::CircuitBreakers;
use cluster::Cluster;
pub(super) use node::Node;
use process::{Store, StoreError};
pub(super) use routed::Routed;
pub(super) use topology::Layout;
use topology::{Topology, parse_redirect};

/// Maximum number of times a command is sent: the first try, one after loading a script, one after
/// a lost connection, and several after redirections. A slot that is moving may redirect twice.
const TRIES_MAX: u32 = 6;

/// Pause before the third try; each further pause is twice as long. The pause gives the keys of a
/// slot time to move.
const TRY_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Display)]
pub(super) enum Connection {
    /// One server, or one address with one active server behind it.
    #[display("Redis at {}", _0.name())]
    Single(Arc<Node>),
    #[display("the Redis cluster at {}", _0.name())]
    Cluster(Arc<Cluster>),
}

/// The server that receives a command.
#[derive(Clone)]
struct Target {
    node: Arc<Node>,
    /// The slot is moving to this server. Until then it accepts only commands after an `ASKING`.
    asking: bool,
    /// The topology that says so.
    topology: Option<Arc<Topology>>,
}

/// Commands that go to one server together, and their places in the call.
struct Group<'scripts> {
    target: Target,
    commands: Vec<(usize, Routed<'scripts>)>,
}

/// A server that gave a command no answer. The command is not sent there again.
struct Silence {
    node: Arc<Node>,
    error: RedisError,
}

impl Connection {
    pub(super) fn open(config: &RedisIndexConfig) -> Result<Self, StoreError> {
        let certificates = config.ca.as_deref().map(read_ca).transpose()?;
        let urls = config
            .url
            .split(',')
            .map(str::trim)
            .filter(|url| !url.is_empty());
        if let Some(ignored) = urls.clone().find_map(ignored_part) {
            let detail = format!("{ignored} of its URL is not understood");
            return Err(StoreError::refused(Store::PageIndex, detail));
        }
        let nodes = urls.map(|url| {
            let client = match &certificates {
                Some(certificates) => Client::build_with_tls(url, certificates.clone()),
                None => Client::open(url),
            };
            let node = Node::new(
                client?.get_connection_info().clone(),
                config.iam.clone(),
                config.timeout,
            )?;
            Ok(Arc::new(node))
        });
        let nodes: Vec<Arc<Node>> = nodes.collect::<RedisResult<_>>().map_err(store_error)?;
        match (config.mode, nodes.as_slice()) {
            (RedisMode::Single, [node]) => Ok(Self::Single(Arc::clone(node))),
            (RedisMode::Single, _) => {
                let detail = format!("{} URLs are given, a single server has one", nodes.len());
                Err(StoreError::refused(Store::PageIndex, detail))
            }
            (RedisMode::Cluster, _) => Ok(Self::Cluster(Arc::new(
                Cluster::new(nodes).map_err(store_error)?,
            ))),
        }
    }

    /// These servers through separate connections. These have the given circuit breakers, or
    /// share those of `self`.
    pub(super) fn another(&self, breakers: Option<Arc<CircuitBreakers>>) -> Self {
        match self {
            Self::Single(node) => Self::Single(Arc::new(node.another(breakers))),
            Self::Cluster(cluster) => Self::Cluster(Arc::new(cluster.another(breakers.as_ref()))),
        }
    }

    pub(super) async fn masters(&self) -> RedisResult<Vec<Arc<Node>>> {
        match self {
            Self::Single(node) => Ok(vec![Arc::clone(node)]),
            Self::Cluster(cluster) => cluster.masters().await,
        }
    }

    pub(super) async fn layout(&self) -> RedisResult<Layout> {
        match self {
            Self::Single(node) => Ok(Layout {
                masters: vec![Arc::clone(node)],
                ..Layout::default()
            }),
            Self::Cluster(cluster) => cluster.layout().await,
        }
    }

    /// Sends commands and returns their answers in the same order.
    ///
    /// # Errors
    /// The most urgent of the servers' errors. The other commands may have run.
    pub(super) fn run<'run>(
        &'run self,
        commands: Vec<Routed<'run>>,
    ) -> BoxFuture<'run, RedisResult<Vec<Value>>> {
        // Boxed, so that the future types of all callers do not nest too deeply for the compiler.
        self.run_all(commands).boxed()
    }

    async fn run_all(&self, commands: Vec<Routed<'_>>) -> RedisResult<Vec<Value>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for command in commands.into_iter().enumerate() {
            let target = self.master_of(command.1.slot).await?;
            match groups
                .iter_mut()
                .find(|group| Arc::ptr_eq(&group.target.node, &target.node))
            {
                Some(group) => group.commands.push(command),
                None => groups.push(Group {
                    target,
                    commands: vec![command],
                }),
            }
        }
        let answers = join_all(groups.into_iter().map(|group| self.run_group(group))).await;
        let mut answers: Vec<(usize, RedisResult<Value>)> = answers.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(place, _)| *place);
        let failed = answers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().err());
        let worst = failed
            .min_by_key(|error| store_error((*error).clone()).remedy())
            .cloned();
        match worst {
            Some(error) => Err(error),
            None => answers.into_iter().map(|(_, answer)| answer).collect(),
        }
    }

    /// Sends the commands of one server in one round trip. Each that was refused or has no answer
    /// continues alone.
    async fn run_group(
        &self,
        Group {
            target,
            mut commands,
        }: Group<'_>,
    ) -> Vec<(usize, RedisResult<Value>)> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for (_, routed) in &mut commands {
            pipeline.add_command(std::mem::take(&mut routed.command));
        }
        let mut answered = target.node.send(&pipeline).await.map(Vec::into_iter);
        let mut done = Vec::with_capacity(commands.len());
        let mut open = Vec::new();
        for (number, (place, mut routed)) in commands.into_iter().enumerate() {
            let answer = match &mut answered {
                Ok(answers) => Ok(judged(answers.next(), target.asking)),
                Err(error) => Err(error.clone()),
            };
            if matches!(answer, Err(_) | Ok(Value::ServerError(_))) {
                // The pipeline has taken the command. It is needed again.
                if let Some(command) = pipeline.cmd_iter().nth(number) {
                    routed.command = command.clone();
                }
                let target = target.clone();
                open.push(async move { (place, self.run_alone(routed, target, answer).await) });
            } else {
                done.push((place, answer));
            }
        }
        done.append(&mut join_all(open).await);
        done
    }

    /// Sends a command again until it has an answer. `target` gave it the first one.
    async fn run_alone(
        &self,
        routed: Routed<'_>,
        mut target: Target,
        mut answer: RedisResult<Value>,
    ) -> RedisResult<Value> {
        let mut silences: Vec<Silence> = Vec::new();
        for attempt in 1..TRIES_MAX {
            let next = match answer {
                Ok(Value::ServerError(refusal)) => {
                    self.after_refusal(&routed, &target, refusal).await?
                }
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    silences.push(self.after_silence(&target, error)?);
                    None
                }
            };
            if attempt > 1 {
                tokio::time::sleep(TRY_PAUSE * (1 << (attempt - 2))).await;
            }
            target = match next {
                Some(target) => target,
                None => self.master_of(routed.slot).await?,
            };
            if let Some(silence) = silences
                .iter()
                .find(|silence| Arc::ptr_eq(&silence.node, &target.node))
            {
                return Err(silence.error.clone());
            }
            answer = target.send(&routed).await;
        }
        answer?.extract_error()
    }

    /// The server that serves a slot.
    async fn master_of(&self, slot: u16) -> RedisResult<Target> {
        let cluster = match self {
            Self::Single(node) => {
                return Ok(Target {
                    node: Arc::clone(node),
                    asking: false,
                    topology: None,
                });
            }
            Self::Cluster(cluster) => cluster,
        };
        let topology = cluster.topology().await?;
        let Some(node) = topology.master_of(slot).cloned() else {
            cluster.doubt(&topology);
            let detail = format!("slot {slot}");
            return Err((
                ErrorKind::ClusterConnectionNotFound,
                "no master serves a slot",
                detail,
            )
                .into());
        };
        Ok(Target {
            node,
            asking: false,
            topology: Some(topology),
        })
    }

    /// Where a refused command is sent next; `None` for the server that then serves its slot.
    ///
    /// # Errors
    /// The command has failed.
    async fn after_refusal(
        &self,
        routed: &Routed<'_>,
        target: &Target,
        refusal: redis::ServerError,
    ) -> RedisResult<Option<Target>> {
        use ServerErrorKind::{Ask, ClusterDown, MasterDown, Moved, NoScript, ReadOnly, TryAgain};
        let (kind, error) = (refusal.kind(), RedisError::from(refusal));
        let is_cluster = matches!(self, Self::Cluster(_));
        match (kind, routed.script) {
            (Some(NoScript), Some(script)) => {
                target.node.load(script).await?;
                Ok(Some(target.clone()))
            }
            (Some(Moved | Ask), _) if !is_cluster => {
                let remedy = "the server is part of a cluster: set PAGEMARK_REDIS_MODE=cluster";
                Err((ErrorKind::InvalidClientConfig, remedy, error.to_string()).into())
            }
            (Some(Ask), _) => Ok(self.redirect(&error, target, true)),
            (Some(Moved), _) => {
                self.doubt(target);
                Ok(self.redirect(&error, target, false))
            }
            // The command's keys are split between two servers. The move ends soon.
            (Some(TryAgain), _) => Ok(None),
            // The server was a master until a moment ago.
            (Some(ReadOnly), _) if is_cluster => {
                self.doubt(target);
                Ok(None)
            }
            (kind, _) => {
                if matches!(kind, Some(ReadOnly | MasterDown | ClusterDown)) {
                    self.doubt(target);
                    // The name may lead to another server by now.
                    target.node.forget(None);
                }
                Err(error)
            }
        }
    }

    /// Remembers that a server gave no answer. The cluster may have replaced it.
    ///
    /// # Errors
    /// The command has failed.
    fn after_silence(&self, target: &Target, error: RedisError) -> RedisResult<Silence> {
        match self {
            Self::Cluster(_) if error.is_io_error() => {
                self.doubt(target);
                Ok(Silence {
                    node: Arc::clone(&target.node),
                    error,
                })
            }
            Self::Single(_) | Self::Cluster(_) => Err(error),
        }
    }

    fn redirect(&self, error: &RedisError, asked: &Target, asking: bool) -> Option<Target> {
        let Self::Cluster(cluster) = self else {
            return None;
        };
        let (address, _) = error.redirect_node()?;
        let node = cluster
            .node(&parse_redirect(address, &asked.node.address()?)?)
            .ok()?;
        Some(Target {
            node,
            asking,
            topology: cluster.known(),
        })
    }

    fn doubt(&self, target: &Target) {
        if let (Self::Cluster(cluster), Some(topology)) = (self, &target.topology) {
            cluster.doubt(topology);
        }
    }
}

impl Target {
    async fn send(&self, routed: &Routed<'_>) -> RedisResult<Value> {
        let mut pipeline = Pipeline::with_capacity(2);
        if self.asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(routed.command.clone());
        let answers = self.node.send(&pipeline).await?;
        Ok(judged(answers.into_iter().last(), self.asking))
    }
}

/// An answer, unless it only says that a slot is moving: then the server asks to try again.
///
/// A script finds most of its keys by itself. The server that gives the slot away refuses those that
/// have moved. It has no code for that, only words. On the server that gets the slot, those that
/// have not arrived yet look as if they were lost.
fn judged(answer: Option<Value>, asking: bool) -> Value {
    let answer = answer.unwrap_or(Value::Nil);
    let Value::ServerError(error) = &answer else {
        return answer;
    };
    let details = error.details().unwrap_or_default();
    let has_moved = details.contains("non local key");
    let has_not_arrived = asking && error.code() == DAMAGED;
    if has_moved || has_not_arrived {
        let try_again = b"-TRYAGAIN some keys of the product are on another server\r\n";
        return redis::parse_redis_value(try_again).unwrap_or(answer);
    }
    answer
}

fn read_ca(path: &Path) -> Result<TlsCertificates, StoreError> {
    let read = std::fs::read(path).map_err(|error| {
        let detail = format!(
            "the certificates of PAGEMARK_REDIS_CA, {}, cannot be read: {error}",
            path.display()
        );
        StoreError::refused(Store::PageIndex, detail)
    })?;
    Ok(TlsCertificates {
        client_tls: None,
        root_cert: Some(read),
    })
}
