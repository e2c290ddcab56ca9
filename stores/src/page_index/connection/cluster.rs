//! The masters of a cluster, learnt from any of its nodes, and learnt anew when they change.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{
    future::try_join_all,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, sleep_until};

use super::{
    node::{Address, Node},
    shunned::Shunned,
    topology::{SlotRange, Topology, parse_slots},
};

/// How many nodes are asked for the topology at the same time, besides those of the configuration: enough that some of
/// them are alive.
const ASKED_MAX: usize = 6;

/// Between two questions for the topology: a fail-over takes seconds, and every caller notices it.
const REFRESH_PAUSE: Duration = Duration::from_millis(20);

/// A cluster. Nothing is connected before it is first needed.
pub(in crate::page_index) struct Cluster {
    /// The nodes of the configuration: names that may lead to other machines over time.
    seeds: Vec<Arc<Node>>,
    /// User, password and certificates, the same for all nodes.
    template: ConnectionInfo,
    timeout: Duration,
    /// `None` for callers who rather wait.
    shunned: Option<Arc<Shunned>>,
    known: Mutex<Known>,
    /// When the topology was last asked for; held while it is asked for.
    refreshing: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    topology: Option<Arc<Topology>>,
    generation: u64,
    /// All that were met, by address, so that their connections live on when slots move.
    nodes: HashMap<Address, Arc<Node>>,
}

impl fmt::Debug for Cluster {
    /// Without the template, which holds the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

impl Cluster {
    /// # Errors
    /// The settings' that are not possible.
    pub(super) fn new(clients: Vec<Client>, timeout: Duration) -> RedisResult<Self> {
        let infos: Vec<ConnectionInfo> = clients.iter().map(|client| client.get_connection_info().clone()).collect();
        let seeds = infos.iter().map(|info| Ok(Arc::new(Node::new(info.clone(), timeout)?)));
        let seeds: Vec<Arc<Node>> = seeds.collect::<RedisResult<_>>()?;
        if seeds.iter().any(|seed| seed.address().is_none()) {
            return Err((ErrorKind::InvalidClientConfig, "a cluster is not reached through a unix:// socket").into());
        }
        let no_url = || RedisError::from((ErrorKind::InvalidClientConfig, "no URL is given"));
        let template = infos.into_iter().next().ok_or_else(no_url)?;
        let (known, refreshing) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { seeds, template, timeout, shunned: None, known, refreshing })
    }

    /// The same cluster, by connections of its own.
    pub(super) fn another(&self) -> Self {
        self.another_shunned_by(self.shunned.clone())
    }

    /// The same for callers who must not wait, by connections of its own: see [`Shunned`].
    pub(super) fn another_shunned_by(&self, shunned: Option<Arc<Shunned>>) -> Self {
        let seed = |seed: &Arc<Node>| Arc::new(seed.another().shunned_by(shunned.as_ref()));
        Self {
            seeds: self.seeds.iter().map(seed).collect(),
            template: self.template.clone(),
            timeout: self.timeout,
            shunned,
            known: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    /// The topology as it is known, asked for when it is not.
    pub(super) async fn topology(&self) -> RedisResult<Arc<Topology>> {
        let (topology, generation) = {
            let known = self.known();
            (known.topology.clone(), known.generation)
        };
        match topology {
            Some(topology) => Ok(topology),
            None => self.refresh(generation).await,
        }
    }

    /// The topology as it is now, and whether slots are being moved.
    pub(super) async fn layout(&self) -> RedisResult<(Arc<Topology>, bool)> {
        let generation = self.known().generation;
        let topology = self.refresh(generation).await?;
        let nodes = redis::cmd("CLUSTER").arg("NODES").to_owned();
        let told: Vec<String> = try_join_all(topology.masters.iter().map(|master| master.query(&nodes))).await?;
        // A master shows a slot that it is giving away or receiving in brackets, in the line about itself (CLUSTER
        // NODES, "Special slot entries").
        let is_moving = |nodes: &String| {
            let mut lines = nodes.lines().map(|line| line.split(' '));
            lines.any(|mut fields| {
                let flags = fields.nth(2).unwrap_or_default();
                flags.split(',').any(|flag| flag == "myself") && fields.any(|field| field.starts_with('['))
            })
        };
        let is_at_rest = !told.iter().any(is_moving);
        Ok((topology, is_at_rest))
    }

    /// Has the topology asked for when it is next needed, if it is still that of `generation`.
    pub(super) fn doubt(&self, generation: u64) {
        let mut known = self.known();
        if known.generation == generation {
            known.topology = None;
        }
    }

    /// The same for whatever is known.
    pub(super) fn doubt_all(&self) {
        self.known().topology = None;
    }

    /// Asks for the topology, unless a later one than that of `generation` is known already.
    async fn refresh(&self, generation: u64) -> RedisResult<Arc<Topology>> {
        let mut last = self.refreshing.lock().await;
        {
            let known = self.known();
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

    /// A node by its address.
    pub(super) fn node(&self, address: &Address) -> RedisResult<Arc<Node>> {
        let mut known = self.known();
        if let Some(node) = known.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let info = self.template.clone().set_addr(self.addr_of(address));
        let node = Arc::new(Node::new(info, self.timeout)?.shunned_by(self.shunned.as_ref()));
        known.nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    /// Asks the nodes of the configuration and some of those that were met, all at the same time: some may be gone.
    async fn ask(&self) -> RedisResult<Vec<SlotRange>> {
        let mut asked: Vec<Arc<Node>> = self.seeds.clone();
        let met: Vec<Arc<Node>> = self.known().nodes.values().cloned().collect();
        let seeds: HashSet<Option<Address>> = self.seeds.iter().map(|seed| seed.address()).collect();
        asked.extend(met.into_iter().filter(|node| !seeds.contains(&node.address())).take(ASKED_MAX));
        let mut answers: FuturesUnordered<_> = asked.iter().map(|node| ask_one(node)).collect();
        let mut error: Option<RedisError> = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(ranges) => return Ok(ranges),
                // That some node is gone says less than what another one has to say.
                Err(other) if error.as_ref().is_none_or(|error| error.is_io_error()) => error = Some(other),
                Err(_) => {}
            }
        }
        Err(error.unwrap_or_else(|| (ErrorKind::ClusterConnectionNotFound, "the cluster has no nodes").into()))
    }

    fn install(&self, ranges: Vec<SlotRange>) -> RedisResult<Arc<Topology>> {
        let mut masters: Vec<Arc<Node>> = Vec::new();
        let mut places: HashMap<&Address, usize> = HashMap::new();
        let mut serving = Vec::with_capacity(ranges.len());
        for range in &ranges {
            for replica in &range.replicas {
                // Known, so that it can be asked when the masters are gone.
                self.node(replica)?;
            }
            let place = match places.get(&range.master) {
                Some(place) => *place,
                None => {
                    masters.push(self.node(&range.master)?);
                    places.insert(&range.master, masters.len() - 1);
                    masters.len() - 1
                }
            };
            serving.push(place);
        }
        let mut known = self.known();
        known.generation += 1;
        let topology = Arc::new(Topology { generation: known.generation, ranges, masters, serving });
        // Nodes that have left are forgotten, their connections end.
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

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Every change leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask_one(node: &Node) -> RedisResult<Vec<SlotRange>> {
    let asked = node.address().unwrap_or(Address { host: String::new(), port: 0 });
    let answer: Value = match node.query(redis::cmd("CLUSTER").arg("SLOTS")).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) => {
            let told = "the server does not answer CLUSTER SLOTS; PAGEMARK_REDIS_MODE=cluster is for a Redis Cluster";
            return Err((ErrorKind::InvalidClientConfig, told, error.to_string()).into());
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
