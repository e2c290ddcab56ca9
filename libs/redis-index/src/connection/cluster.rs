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
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, sleep_until};

use super::{
    circuit_breaker::CircuitBreakers,
    node::{Address, Node},
    topology::{Layout, SlotRange, Topology, parse_slots},
};

/// How many known nodes are asked for the topology in parallel, besides the configured nodes. Some
/// of them should be alive.
const ASKED_MAX: usize = 6;

/// Pause between two topology requests. A fail-over takes seconds, and every caller notices it.
const REFRESH_PAUSE: Duration = Duration::from_millis(20);

#[derive(derive_more::Debug)]
#[debug("Cluster {{ seeds: {seeds:?}, .. }}")]
pub(crate) struct Cluster {
    /// The configured nodes. Over time, their names may lead to other machines.
    seeds: Vec<Arc<Node>>,
    /// One of them. All nodes have the same user, password and certificates.
    template: Arc<Node>,
    known: Mutex<Known>,
    /// When the topology was last requested, and with which error that ended. Locked during a
    /// request.
    refreshing: tokio::sync::Mutex<Option<(Instant, Option<RedisError>)>>,
}

#[derive(Default)]
struct Known {
    topology: Option<Arc<Topology>>,
    /// All nodes seen so far, by address. So their connections stay open when slots move.
    nodes: HashMap<Address, Arc<Node>>,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Arc<Node>>) -> RedisResult<Self> {
        if seeds.iter().any(|seed| seed.address().is_none()) {
            return Err((
                ErrorKind::InvalidClientConfig,
                "a cluster is not reached through a unix:// socket",
            )
                .into());
        }
        let no_url = || RedisError::from((ErrorKind::InvalidClientConfig, "no URL is given"));
        let template = Arc::clone(seeds.first().ok_or_else(no_url)?);
        Ok(Self {
            seeds,
            template,
            known: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        })
    }

    /// This cluster through separate connections: see [`Node::another`].
    pub(super) fn another(&self, breakers: Option<&Arc<CircuitBreakers>>) -> Self {
        let another = |node: &Arc<Node>| Arc::new(node.another(breakers.cloned()));
        Self {
            seeds: self.seeds.iter().map(another).collect(),
            template: another(&self.template),
            known: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    /// The first of the configured nodes.
    pub(super) fn name(&self) -> &str {
        self.template.name()
    }

    pub(super) async fn topology(&self) -> RedisResult<Arc<Topology>> {
        match self.known() {
            Some(topology) => Ok(topology),
            None => self.refresh(None).await,
        }
    }

    pub(super) fn known(&self) -> Option<Arc<Topology>> {
        self.known.lock().topology.clone()
    }

    /// The topology as the nodes report it now.
    async fn present(&self) -> RedisResult<Arc<Topology>> {
        let seen = self.known();
        self.refresh(seen.as_ref()).await
    }

    pub(super) async fn masters(&self) -> RedisResult<Vec<Arc<Node>>> {
        Ok(self.present().await?.masters())
    }

    pub(super) async fn layout(&self) -> RedisResult<Layout> {
        let topology = self.present().await?;
        let masters = topology.masters();
        let nodes = redis::cmd("CLUSTER").arg("NODES").to_owned();
        let answers: Vec<String> =
            try_join_all(masters.iter().map(|master| master.query(&nodes))).await?;
        // A master lists a slot that it gives away or receives in brackets, on its own line
        // (CLUSTER NODES, "Special slot entries").
        let is_moving = answers.iter().flat_map(|nodes| nodes.lines()).any(|line| {
            let mut fields = line.split(' ');
            let flags = fields.nth(2).unwrap_or_default();
            flags.split(',').any(|flag| flag == "myself")
                && fields.any(|field| field.starts_with('['))
        });
        let serving: Vec<String> = topology
            .0
            .iter()
            .map(|(range, _)| range.to_string())
            .collect();
        Ok(Layout {
            masters,
            serving: serving.join(", "),
            is_moving,
        })
    }

    /// Has the next use request the topology again, if this one is still known.
    pub(super) fn doubt(&self, topology: &Arc<Topology>) {
        self.known
            .lock()
            .topology
            .take_if(|known| Arc::ptr_eq(known, topology));
    }

    /// Requests the topology, unless another one than the caller has seen is already known. Callers
    /// that wait meanwhile share the answer.
    async fn refresh(&self, seen: Option<&Arc<Topology>>) -> RedisResult<Arc<Topology>> {
        let began = Instant::now();
        let mut last = self.refreshing.lock().await;
        if let Some(known) = self
            .known()
            .filter(|known| seen.is_none_or(|seen| !Arc::ptr_eq(seen, known)))
        {
            return Ok(known);
        }
        if let Some((ended, failure)) = &*last {
            if let (true, Some(failure)) = (*ended > began, failure) {
                return Err(failure.clone());
            }
            sleep_until(*ended + REFRESH_PAUSE).await;
        }
        let ranges = self.ask().await;
        *last = Some((Instant::now(), ranges.as_ref().err().cloned()));
        self.install(ranges?)
    }

    pub(super) fn node(&self, address: &Address) -> RedisResult<Arc<Node>> {
        let mut known = self.known.lock();
        if let Some(node) = known.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(self.template.at(address.clone())?);
        known.nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    /// Asks the configured nodes and some known nodes in parallel, because some may be gone.
    async fn ask(&self) -> RedisResult<Vec<SlotRange>> {
        let mut asked: Vec<Arc<Node>> = self.seeds.clone();
        let met: Vec<Arc<Node>> = self.known.lock().nodes.values().cloned().collect();
        let seeds: HashSet<Option<Address>> =
            self.seeds.iter().map(|seed| seed.address()).collect();
        asked.extend(
            met.into_iter()
                .filter(|node| !seeds.contains(&node.address()))
                .take(ASKED_MAX),
        );
        let mut answers: FuturesUnordered<_> = asked.iter().map(|node| ask_one(node)).collect();
        let mut error: Option<RedisError> = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(ranges) => return Ok(ranges),
                // A node's answer says more than an I/O error, so keep the answer.
                Err(other) if error.as_ref().is_none_or(|error| error.is_io_error()) => {
                    error = Some(other)
                }
                Err(_) => {}
            }
        }
        Err(error.unwrap_or_else(|| {
            (
                ErrorKind::ClusterConnectionNotFound,
                "the cluster has no nodes",
            )
                .into()
        }))
    }

    fn install(&self, ranges: Vec<SlotRange>) -> RedisResult<Arc<Topology>> {
        // The replicas are known too. They can be asked when the masters are gone.
        let named = ranges
            .iter()
            .flat_map(|range| range.replicas.iter().chain([&range.master]));
        let named: HashSet<Address> = named.cloned().collect();
        named
            .iter()
            .try_for_each(|address| self.node(address).map(drop))?;
        let ranges = ranges
            .into_iter()
            .map(|range| self.node(&range.master).map(|master| (range, master)));
        let topology = Arc::new(Topology(ranges.collect::<RedisResult<_>>()?));
        let mut known = self.known.lock();
        // Forget nodes that left the cluster; their connections close.
        known.nodes.retain(|address, _| named.contains(address));
        known.topology = Some(Arc::clone(&topology));
        Ok(topology)
    }
}

async fn ask_one(node: &Node) -> RedisResult<Vec<SlotRange>> {
    let asked = node.address().unwrap_or(Address {
        host: String::new(),
        port: 0,
    });
    let answer: Value = match node.query(redis::cmd("CLUSTER").arg("SLOTS")).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) => {
            let problem = "the server does not answer CLUSTER SLOTS; PAGEMARK_REDIS_MODE=cluster is for a Redis Cluster";
            return Err((ErrorKind::InvalidClientConfig, problem, error.to_string()).into());
        }
        answer => answer?,
    };
    let ranges = parse_slots(answer, &asked)?;
    if ranges.is_empty() {
        let detail = format!("{asked} knows no masters");
        return Err((
            ErrorKind::ClusterConnectionNotFound,
            "a node is not part of a cluster yet",
            detail,
        )
            .into());
    }
    Ok(ranges)
}
