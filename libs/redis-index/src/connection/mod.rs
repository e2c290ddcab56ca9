//! Routes commands of the page index to Redis: one server, or the masters of a cluster.
//!
//! **Invariant:** all keys of a command are in one slot, because they are in one index partition. The commands of one
//! call are sent together, in one pipeline per server, and may run in any order. A command whose answer was lost is
//! sent again, so each command must be idempotent.
//!
//! The client library's cluster client is not used (ADR 10).

mod circuit_breaker;
mod cluster;
mod node;
mod routed;
mod topology;

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, join_all};
use redis::{Client, ErrorKind, Pipeline, RedisError, RedisResult, Script, ServerErrorKind, TlsCertificates, Value};

use super::error::{store_error, urgency};
use super::{IamLogin, RedisIndexConfig, RedisMode};
use circuit_breaker::CircuitBreakers;
use cluster::Cluster;
pub(super) use node::Node;
use process::{Remedy, Store, StoreError};
pub(super) use routed::Routed;
use topology::{SlotRange, Topology, parse_redirect};

/// Maximum number of times a command is sent: the first try, one after loading a script, one after a lost connection,
/// and several after redirections. A slot that is moving may redirect twice.
const TRIES_MAX: u32 = 6;

/// Pause before the third try; each further pause is twice as long. The pause gives the keys of a slot time to move.
const TRY_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub(super) enum Connection {
    /// One server, or one address with one active server behind it.
    Single(Arc<Node>),
    Cluster(Arc<Cluster>),
}

pub(super) struct Layout {
    pub(super) masters: Vec<Arc<Node>>,
    slots: Vec<SlotRange>,
    /// Whether no slot is moving.
    pub(super) is_at_rest: bool,
}

impl Layout {
    /// Which master serves which slots, as text. Empty without a cluster.
    pub(super) fn serving(&self) -> String {
        let ranges = self
            .slots
            .iter()
            .map(|SlotRange { first, last, master, .. }| format!("{first}-{last} {}:{}", master.host, master.port));
        ranges.collect::<Vec<_>>().join(", ")
    }
}

/// A command without an answer so far.
struct Open<'scripts> {
    at: usize,
    routed: Routed<'scripts>,
    redirect: Option<Redirect>,
}

struct Redirect {
    node: Arc<Node>,
    /// The slot is moving to this server. Until then it accepts only commands after an `ASKING`.
    asking: bool,
}

/// Commands that go to one server together.
struct Group<'scripts> {
    node: Arc<Node>,
    sent: Vec<Open<'scripts>>,
}

#[derive(Default)]
struct Outcome<'scripts> {
    open: Vec<Open<'scripts>>,
    passing: Option<RedisError>,
    failed: Vec<RedisError>,
    is_stale: bool,
}

impl Connection {
    pub(super) fn open(config: &RedisIndexConfig) -> Result<Self, StoreError> {
        let certificates = config.ca.as_deref().map(read_ca).transpose()?;
        let urls: Vec<&str> = config.url.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        let clients = urls.iter().map(|url| match &certificates {
            Some(certificates) => Client::build_with_tls(*url, certificates.clone()),
            None => Client::open(*url),
        });
        let clients: Vec<Client> = clients.collect::<RedisResult<_>>().map_err(store_error)?;
        match (config.mode, clients.as_slice()) {
            (RedisMode::Single, [client]) => Ok(Self::Single(Arc::new(
                Node::new(client.get_connection_info().clone(), config.iam.clone(), config.timeout)
                    .map_err(store_error)?,
            ))),
            (RedisMode::Single, _) => {
                let detail = format!("{} URLs are given, a single server has one", clients.len());
                Err(StoreError::refused(Store::PageIndex, detail))
            }
            (RedisMode::Cluster, _) => Ok(Self::Cluster(Arc::new(
                Cluster::new(clients, config.iam.clone(), config.timeout).map_err(store_error)?,
            ))),
        }
    }

    pub(super) fn another(&self) -> Self {
        match self {
            Self::Single(node) => Self::Single(Arc::new(node.another())),
            Self::Cluster(cluster) => Self::Cluster(Arc::new(cluster.another())),
        }
    }

    /// This target with separate connections, for callers that must not wait. A server that does not answer in time
    /// opens its circuit breaker for a moment. This connection and every [other](Self::another) made from it share the
    /// breakers.
    pub(super) fn with_circuit_breakers(&self) -> Self {
        let breakers = Arc::new(CircuitBreakers::default());
        match self {
            Self::Single(node) => Self::Single(Arc::new(node.another().with_breakers(Some(&breakers)))),
            Self::Cluster(cluster) => Self::Cluster(Arc::new(cluster.another_with_breakers(Some(breakers)))),
        }
    }

    pub(super) async fn layout(&self) -> RedisResult<Layout> {
        match self {
            Self::Single(node) => Ok(Layout { masters: vec![Arc::clone(node)], slots: Vec::new(), is_at_rest: true }),
            Self::Cluster(cluster) => {
                let (topology, is_at_rest) = cluster.layout().await?;
                Ok(Layout { masters: topology.masters.clone(), slots: topology.ranges.clone(), is_at_rest })
            }
        }
    }

    /// Sends commands and returns their answers in the same order.
    ///
    /// # Errors
    /// One of the servers' errors. The other commands may have run.
    pub(super) fn run<'run>(&'run self, commands: Vec<Routed<'run>>) -> BoxFuture<'run, RedisResult<Vec<Value>>> {
        // Boxed, so that the future types of all callers do not nest too deeply for the compiler.
        self.run_all(commands).boxed()
    }

    async fn run_all(&self, commands: Vec<Routed<'_>>) -> RedisResult<Vec<Value>> {
        let mut answers = vec![Value::Nil; commands.len()];
        let open = commands.into_iter().enumerate().map(|(at, routed)| Open { at, routed, redirect: None });
        let mut open: Vec<Open<'_>> = open.collect();
        let mut failures: Vec<Failure> = Vec::new();
        let mut failed: Vec<RedisError> = Vec::new();
        for attempt in 0..TRIES_MAX {
            if attempt > 1 {
                tokio::time::sleep(TRY_PAUSE * (1 << (attempt - 2))).await;
            }
            let topology = match self {
                Self::Single(_) => None,
                Self::Cluster(cluster) => Some(cluster.topology().await?),
            };
            let groups = self.group(open, topology.as_deref(), &failures)?;
            let sent = join_all(groups.into_iter().map(Group::send)).await;
            let mut outcome = Outcome::default();
            for (group, answered) in sent {
                self.judge(group, answered, &mut answers, &mut failures, &mut outcome).await;
            }
            if let (true, Self::Cluster(cluster), Some(topology)) = (outcome.is_stale, self, &topology) {
                cluster.doubt(topology.generation);
            }
            failed.append(&mut outcome.failed);
            // An error about the data of some commands does not stop the others.
            let remedy = |error: &RedisError| store_error(error.clone()).remedy();
            if failed.iter().any(|error| remedy(error) != Remedy::Quarantine) || outcome.open.is_empty() {
                let worst = failed.into_iter().min_by_key(|error| urgency(remedy(error)));
                return worst.map_or(Ok(answers), Err);
            }
            if attempt + 1 == TRIES_MAX {
                return Err(outcome.passing.unwrap_or_else(no_answer));
            }
            open = outcome.open;
        }
        Err(no_answer())
    }

    fn group<'scripts>(
        &self,
        open: Vec<Open<'scripts>>,
        topology: Option<&Topology>,
        failures: &[Failure],
    ) -> RedisResult<Vec<Group<'scripts>>> {
        let mut groups: Vec<Group<'scripts>> = Vec::new();
        let mut places: HashMap<*const Node, usize> = HashMap::new();
        for open in open {
            let node = match (&open.redirect, self, topology) {
                (Some(redirect), _, _) => &redirect.node,
                (None, Self::Single(node), _) => node,
                (None, Self::Cluster(cluster), topology) => {
                    let slot = open.routed.slot;
                    topology.and_then(|topology| topology.master_of(slot)).ok_or_else(|| {
                        cluster.doubt(topology.map_or(0, |topology| topology.generation));
                        let detail = format!("slot {slot}");
                        RedisError::from((ErrorKind::ClusterConnectionNotFound, "no master serves a slot", detail))
                    })?
                }
            };
            if let Some(failure) = failures.iter().find(|failure| failure.is_final && Arc::ptr_eq(&failure.node, node))
            {
                return Err(failure.error.clone());
            }
            let node = Arc::clone(node);
            let place = *places.entry(Arc::as_ptr(&node)).or_insert_with(|| {
                groups.push(Group { node, sent: Vec::new() });
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(place) {
                group.sent.push(open);
            }
        }
        Ok(groups)
    }

    async fn judge<'scripts>(
        &self,
        group: Group<'scripts>,
        answered: RedisResult<Vec<Value>>,
        answers: &mut [Value],
        failures: &mut Vec<Failure>,
        outcome: &mut Outcome<'scripts>,
    ) {
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => return self.judge_silence(group, error, failures, outcome),
        };
        let Group { node, sent } = group;
        let mut missing: Vec<&Script> = Vec::new();
        for (open, answer) in sent.into_iter().zip(answered) {
            let Value::ServerError(refusal) = answer else {
                if let Some(place) = answers.get_mut(open.at) {
                    *place = answer;
                }
                continue;
            };
            let error = RedisError::from(refusal.clone());
            let is_cluster = matches!(self, Self::Cluster(_));
            match (refusal.kind(), open.routed.script) {
                (Some(ServerErrorKind::NoScript), Some(script)) => {
                    if !missing.iter().any(|missing| missing.get_hash() == script.get_hash()) {
                        missing.push(script);
                    }
                    outcome.open.push(open);
                }
                (Some(ServerErrorKind::Moved | ServerErrorKind::Ask), _) if !is_cluster => {
                    let remedy = "the server is part of a cluster: set PAGEMARK_REDIS_MODE=cluster";
                    outcome.failed.push((ErrorKind::InvalidClientConfig, remedy, error.to_string()).into());
                    continue;
                }
                // See `Routed::transaction`.
                (Some(ServerErrorKind::Ask | ServerErrorKind::TryAgain), _) if open.routed.is_transaction() => {
                    outcome.failed.push(error);
                    continue;
                }
                (Some(kind @ (ServerErrorKind::Moved | ServerErrorKind::Ask)), _) => {
                    let asking = kind == ServerErrorKind::Ask;
                    outcome.is_stale |= !asking;
                    let redirect = self.redirect(&error, &node, asking);
                    outcome.open.push(Open { redirect, ..open });
                }
                // The command's keys are split between two servers. The move ends soon.
                (Some(ServerErrorKind::TryAgain), _) => outcome.open.push(Open { redirect: None, ..open }),
                // The server was a master until a moment ago.
                (Some(ServerErrorKind::ReadOnly), _) if is_cluster => {
                    outcome.is_stale = true;
                    outcome.open.push(Open { redirect: None, ..open });
                }
                (kind, _) => {
                    let is_failing_over =
                        [ServerErrorKind::ReadOnly, ServerErrorKind::MasterDown, ServerErrorKind::ClusterDown];
                    if kind.is_some_and(|kind| is_failing_over.contains(&kind)) {
                        outcome.is_stale = true;
                        // The name may lead to another server by now.
                        node.forget(None);
                    }
                    outcome.failed.push(error);
                    continue;
                }
            }
            outcome.passing = Some(error);
        }
        for script in missing {
            if let Err(error) = node.load(script).await {
                outcome.failed.push(error);
            }
        }
    }

    /// Decides what happens to the commands of a server that gave no answer.
    fn judge_silence<'scripts>(
        &self,
        Group { node, sent }: Group<'scripts>,
        error: RedisError,
        failures: &mut Vec<Failure>,
        outcome: &mut Outcome<'scripts>,
    ) {
        // A lost connection may only have been idle for too long, so it gets one more try. A server that does not
        // answer in time is not asked again, unless the cluster replaced it.
        let is_final =
            !error.is_connection_dropped() || failures.iter().any(|failure| Arc::ptr_eq(&failure.node, &node));
        match self {
            Self::Single(_) if is_final => outcome.failed.push(error),
            Self::Cluster(_) if !error.is_io_error() => outcome.failed.push(error),
            Self::Single(_) | Self::Cluster(_) => {
                failures.push(Failure { node, is_final, error });
                outcome.open.extend(sent.into_iter().map(|open| Open { redirect: None, ..open }));
                outcome.is_stale = true;
            }
        }
    }

    fn redirect(&self, error: &RedisError, asked: &Node, asking: bool) -> Option<Redirect> {
        let Self::Cluster(cluster) = self else { return None };
        let (address, _) = error.redirect_node()?;
        let address = parse_redirect(address, &asked.address()?)?;
        Some(Redirect { node: cluster.node(&address).ok()?, asking })
    }
}

struct Failure {
    node: Arc<Node>,
    /// Whether this call does not ask the server again.
    is_final: bool,
    error: RedisError,
}

impl<'scripts> Group<'scripts> {
    /// Sends everything in one round trip. Returns one answer per command.
    async fn send(mut self) -> (Self, RedisResult<Vec<Value>>) {
        let mut pipeline = Pipeline::with_capacity(self.sent.len());
        // For each command: where its answers begin, after the one to `ASKING`, and how many there are.
        let mut places = Vec::with_capacity(self.sent.len());
        for open in &mut self.sent {
            if open.redirect.as_ref().is_some_and(|redirect| redirect.asking) {
                pipeline.cmd("ASKING");
            }
            places.push((pipeline.len(), open.routed.commands.len()));
            for command in open.routed.commands.drain(..) {
                pipeline.add_command(command);
            }
        }
        let answered = self.node.send(&pipeline).await;
        let answered: RedisResult<Vec<Value>> = answered.map(|mut answers| {
            // Go backwards, so that each command's answers are at the end.
            let own = places.iter().rev().map(|(start, count)| {
                let mut own = answers.split_off((*start).min(answers.len()));
                own.truncate(*count);
                join(own)
            });
            let mut joined: Vec<Value> = own.collect();
            joined.reverse();
            joined
        });
        // The pipeline has taken the commands. Those without an answer get theirs back, to be sent again.
        for (number, (open, (start, count))) in self.sent.iter_mut().zip(&places).enumerate() {
            let answer = answered.as_ref().ok().and_then(|answers| answers.get(number));
            if matches!(answer, None | Some(Value::ServerError(_))) {
                open.routed.commands = pipeline.cmd_iter().skip(*start).take(*count).cloned().collect();
            }
        }
        (self, answered)
    }
}

/// The answer of a single command. For a transaction: the answer of `EXEC`, or the first error, because Redis discards
/// all commands when it refuses to queue one.
fn join(mut answers: Vec<Value>) -> Value {
    let last = answers.pop().unwrap_or(Value::Nil);
    if answers.is_empty() {
        return last;
    }
    let done = if let Value::Array(done) = &last { done.as_slice() } else { &[] };
    let refused = answers.iter().chain(done).find(|answer| matches!(answer, Value::ServerError(_)));
    refused.cloned().unwrap_or(last)
}

/// Whether a call failed because the keys of a slot are in two places. Single-key commands may succeed.
pub(super) fn is_moving(error: &StoreError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<RedisError>());
    let moving = [ErrorKind::Server(ServerErrorKind::Ask), ErrorKind::Server(ServerErrorKind::TryAgain)];
    source.is_some_and(|error| moving.contains(&error.kind()))
}

fn no_answer() -> RedisError {
    (ErrorKind::ClusterConnectionNotFound, "no server could be found for a command").into()
}

fn read_ca(path: &Path) -> Result<TlsCertificates, StoreError> {
    let read = std::fs::read(path).map_err(|error| {
        let detail = format!("the certificates of PAGEMARK_REDIS_CA, {}, cannot be read: {error}", path.display());
        StoreError::refused(Store::PageIndex, detail)
    })?;
    Ok(TlsCertificates { client_tls: None, root_cert: Some(read) })
}
