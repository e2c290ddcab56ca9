//! The masters of a Redis cluster. Any node reports them, and they are read again when they change.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    future::try_join_all,
    stream::{FuturesUnordered, StreamExt},
};
use parking_lot::Mutex;
use redis::{Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, sleep_until};

use super::{
    IamLogin,
    circuit_breaker::CircuitBreakers,
    node::{Address, Node},
    topology::{SlotRange, Topology, parse_slots},
};

/// How many known nodes are asked for the topology in parallel, besides the configured nodes. Some of them should be
/// alive.
const ASKED_MAX: usize = 6;

/// Pause between two topology requests. A fail-over takes seconds, and every caller notices it.
const REFRESH_PAUSE: Duration = Duration::from_millis(20);

/// A Redis cluster. Connections open on first use.
// Without the template, which holds the password.
#[derive(derive_more::Debug)]
#[debug("Cluster {{ seeds: {seeds:?}, .. }}")]
pub(crate) struct Cluster {
    /// The configured nodes. Over time, their names may lead to other machines.
    seeds: Vec<Arc<Node>>,
    /// User, password and certificates. All nodes use the same.
    template: ConnectionInfo,
    iam: Option<IamLogin>,
    timeout: Duration,
    /// The circuit breakers. `None` for callers that may wait.
    breakers: Option<Arc<CircuitBreakers>>,
    known: Mutex<Known>,
    /// When the topology was last requested. Locked during a request.
    refreshing: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    topology: Option<Arc<Topology>>,
    generation: u64,
    /// All nodes seen so far, by address. So their connections stay open when slots move.
    nodes: HashMap<Address, Arc<Node>>,
}

impl Cluster {
    pub(super) fn new(clients: Vec<Client>, iam: Option<IamLogin>, timeout: Duration) -> RedisResult<Self> {
        let infos: Vec<ConnectionInfo> = clients.iter().map(|client| client.get_connection_info().clone()).collect();
        let seeds = infos.iter().map(|info| Ok(Arc::new(Node::new(info.clone(), iam.clone(), timeout)?)));
        let seeds: Vec<Arc<Node>> = seeds.collect::<RedisResult<_>>()?;
        if seeds.iter().any(|seed| seed.address().is_none()) {
            return Err((ErrorKind::InvalidClientConfig, "a cluster is not reached through a unix:// socket").into());
        }
        let no_url = || RedisError::from((ErrorKind::InvalidClientConfig, "no URL is given"));
        let template = infos.into_iter().next().ok_or_else(no_url)?;
        let (known, refreshing) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { seeds, template, iam, timeout, breakers: None, known, refreshing })
    }

    pub(super) fn another(&self) -> Self {
        self.another_with_breakers(self.breakers.clone())
    }

    /// This cluster with separate connections, for callers that must not wait: see [`CircuitBreakers`].
    pub(super) fn another_with_breakers(&self, breakers: Option<Arc<CircuitBreakers>>) -> Self {
        let seed = |seed: &Arc<Node>| Arc::new(seed.another().with_breakers(breakers.as_ref()));
        Self {
            seeds: self.seeds.iter().map(seed).collect(),
            template: self.template.clone(),
            iam: self.iam.clone(),
            timeout: self.timeout,
            breakers,
            known: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    pub(super) async fn topology(&self) -> RedisResult<Arc<Topology>> {
        let (topology, generation) = {
            let known = self.known.lock();
            (known.topology.clone(), known.generation)
        };
        match topology {
            Some(topology) => Ok(topology),
            None => self.refresh(generation).await,
        }
    }

    pub(super) async fn layout(&self) -> RedisResult<(Arc<Topology>, bool)> {
        let generation = self.known.lock().generation;
        let topology = self.refresh(generation).await?;
        let nodes = redis::cmd("CLUSTER").arg("NODES").to_owned();
        let answers: Vec<String> = try_join_all(topology.masters.iter().map(|master| master.query(&nodes))).await?;
        // A master lists a slot that it gives away or receives in brackets, on its own line (CLUSTER NODES, "Special
        // slot entries").
        let is_moving = |nodes: &String| {
            let mut lines = nodes.lines().map(|line| line.split(' '));
            lines.any(|mut fields| {
                let flags = fields.nth(2).unwrap_or_default();
                flags.split(',').any(|flag| flag == "myself") && fields.any(|field| field.starts_with('['))
            })
        };
        let is_at_rest = !answers.iter().any(is_moving);
        Ok((topology, is_at_rest))
    }

    /// Has the next use request the topology again, if the known one is still `generation`.
    pub(super) fn doubt(&self, generation: u64) {
        let mut known = self.known.lock();
        if known.generation == generation {
            known.topology = None;
        }
    }

    /// Requests the topology, unless one newer than `generation` is already known.
    async fn refresh(&self, generation: u64) -> RedisResult<Arc<Topology>> {
        let mut last = self.refreshing.lock().await;
        {
            let known = self.known.lock();
            if let Some(topology) = known.topology.as_ref().filter(|_| known.generation > generation) {
                return Ok(Arc::clone(topology));
            }
        }
        if let Some(last) = *last {
            sleep_until(last + REFRESH_PAUSE).await;
        }
        let ranges = self.ask().await;
        *last = Some(Instant::now());
        self.install(ranges?)
    }

    pub(super) fn node(&self, address: &Address) -> RedisResult<Arc<Node>> {
        let mut known = self.known.lock();
        if let Some(node) = known.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let info = self.template.clone().set_addr(self.addr_of(address));
        let node = Arc::new(Node::new(info, self.iam.clone(), self.timeout)?.with_breakers(self.breakers.as_ref()));
        known.nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    /// Asks the configured nodes and some known nodes in parallel, because some may be gone.
    async fn ask(&self) -> RedisResult<Vec<SlotRange>> {
        let mut asked: Vec<Arc<Node>> = self.seeds.clone();
        let met: Vec<Arc<Node>> = self.known.lock().nodes.values().cloned().collect();
        let seeds: HashSet<Option<Address>> = self.seeds.iter().map(|seed| seed.address()).collect();
        asked.extend(met.into_iter().filter(|node| !seeds.contains(&node.address())).take(ASKED_MAX));
        let mut answers: FuturesUnordered<_> = asked.iter().map(|node| ask_one(node)).collect();
        let mut error: Option<RedisError> = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(ranges) => return Ok(ranges),
                // A node's answer says more than an I/O error, so keep the answer.
                Err(other) if error.as_ref().is_none_or(|error| error.is_io_error()) => error = Some(other),
                Err(_) => {}
            }
        }
        Err(error.unwrap_or_else(|| (ErrorKind::ClusterConnectionNotFound, "the cluster has no nodes").into()))
    }

    fn install(&self, ranges: Vec<SlotRange>) -> RedisResult<Arc<Topology>> {
        let mut masters: Vec<Arc<Node>> = Vec::new();
        let mut serving = Vec::with_capacity(ranges.len());
        for range in &ranges {
            for replica in &range.replicas {
                // Keep the replicas too. They can be asked when the masters are gone.
                self.node(replica)?;
            }
            let master = self.node(&range.master)?;
            if !masters.iter().any(|present| Arc::ptr_eq(present, &master)) {
                masters.push(Arc::clone(&master));
            }
            serving.push(master);
        }
        let mut known = self.known.lock();
        known.generation += 1;
        let topology = Arc::new(Topology { generation: known.generation, ranges, masters, serving });
        // Forget nodes that left the cluster; their connections close.
        let named: HashSet<&Address> = topology.addresses().collect();
        known.nodes.retain(|address, _| named.contains(address));
        known.topology = Some(Arc::clone(&topology));
        Ok(topology)
    }

    fn addr_of(&self, address: &Address) -> ConnectionAddr {
        let (host, port) = (address.host.clone(), address.port);
        match self.template.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_) | _ => ConnectionAddr::Tcp(host, port),
        }
    }
}

async fn ask_one(node: &Node) -> RedisResult<Vec<SlotRange>> {
    let asked = node.address().unwrap_or(Address { host: String::new(), port: 0 });
    let answer: Value = match node.query(redis::cmd("CLUSTER").arg("SLOTS")).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) => {
            let problem =
                "the server does not answer CLUSTER SLOTS; PAGEMARK_REDIS_MODE=cluster is for a Redis Cluster";
            return Err((ErrorKind::InvalidClientConfig, problem, error.to_string()).into());
        }
        answer => answer?,
    };
    let ranges = parse_slots(answer, &asked)?;
    if ranges.is_empty() {
        let detail = format!("{asked} knows no masters");
        return Err((ErrorKind::ClusterConnectionNotFound, "a node is not part of a cluster yet", detail).into());
    }
    Ok(ranges)
}
