//! The page index: the embedded one, standing in for Redis with what can happen to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, Mutex, RwLock, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use embedded_index::EmbeddedIndex;
use model::{
    BaseSet, Cd, Language, ProductId, RankEntry, Timestamp,
    plan::{IndexEdit, reconcile::Names},
};
use page_index::{
    Advance, Backend, CommentPosition, ConfirmationTime, Contents, Edits, IndexPart,
    IndexPartition, IndexScanPosition, Marker, Markers, PageIndex, PositionQuery, RankedQuery,
    RawRanked, Reads, Rebuild, Rebuilds, ServerIdentity, Sought,
};
use process::{Store, StoreError};
use rand::{RngExt, rngs::StdRng};

use super::{
    engine::Engine,
    plan::{Part, Plan},
    trace::Trace,
};

pub(crate) const PARTITIONS: u16 = 2;

/// As deployed.
const MAX_AGE: Duration = Duration::from_secs(900);

/// The most calls of a check that fail after its edit, also in a calm world. Their pauses take 16 s on
/// average, and 42 s at most. So a repair can end in its minute.
const FAILURES_AFTER_EDIT_MAX: u32 = 21;

/// The calls that mark partitions.
const MARKING: [&str; 4] = [
    "begin_rebuild_of",
    "finish_step",
    "advance_step",
    "leave_token",
];

tokio::task_local! {
    /// The ranks that the page index named to a request.
    pub(crate) static NAMED: Mutex<Vec<Named>>;
}

#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) comments: Vec<Cd>,
    pub(crate) total: u64,
}

/// The servers, which all processes share.
#[derive(Debug)]
pub(crate) struct Servers {
    now: RwLock<EmbeddedIndex>,
    /// The last snapshot, and the replica.
    copies: Mutex<[EmbeddedIndex; 2]>,
    refuses: Mutex<bool>,
    /// How many of the next calls of a check fail.
    failures_left: Mutex<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Copied {
    Snapshot = 0,
    Replica = 1,
}

impl Servers {
    pub(crate) fn new() -> Arc<Self> {
        let empty = EmbeddedIndex::new(PARTITIONS);
        let copies = Mutex::new([empty.copy().unwrap(), empty.copy().unwrap()]);
        Arc::new(Self {
            now: RwLock::new(empty),
            copies,
            refuses: Mutex::default(),
            failures_left: Mutex::default(),
        })
    }

    pub(crate) fn present(&self) -> EmbeddedIndex {
        self.now.read().unwrap().clone()
    }

    pub(crate) fn copy(&self, to: Copied) {
        self.copies.lock().unwrap()[to as usize] = self.present().copy().unwrap();
    }

    /// The servers hold what was copied, and are others.
    pub(crate) fn replace_by(&self, from: Copied) {
        *self.now.write().unwrap() = self.copies.lock().unwrap()[from as usize].copy().unwrap();
    }

    pub(crate) fn restart_with(&self, index: EmbeddedIndex) {
        *self.now.write().unwrap() = index;
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        *self.refuses.lock().unwrap() = refuses;
    }

    /// Ends the failures that follow the edit of a check.
    pub(crate) fn end_failures(&self) {
        *self.failures_left.lock().unwrap() = 0;
    }

    /// The index as one process uses it.
    pub(crate) fn client(
        self: &Arc<Self>,
        engine: &Engine,
        plan: &Arc<Plan>,
        trace: &Trace,
        process: &'static str,
    ) -> PageIndex {
        let random = plan.random(&format!("{process} of the page index"));
        let shared = Shared {
            servers: Arc::clone(self),
            engine: engine.clone(),
            plan: Arc::clone(plan),
            trace: trace.clone(),
            process,
            random: Mutex::new(random),
        };
        PageIndex::new(Client(Arc::new(shared)), MAX_AGE)
    }

    /// The index without faults.
    pub(crate) fn calm_client(&self) -> PageIndex {
        PageIndex::new(self.present(), MAX_AGE)
    }
}

#[derive(Clone)]
struct Client(Arc<Shared>);

struct Shared {
    servers: Arc<Servers>,
    engine: Engine,
    plan: Arc<Plan>,
    trace: Trace,
    process: &'static str,
    random: Mutex<StdRng>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a simulated page index")
    }
}

/// What happens to one call.
struct Chance<'client> {
    plan: &'client Plan,
    is_calm: bool,
    /// Decides which fault happens: each has some of the numbers below 100.
    number: u32,
    fast_ms: u64,
    slow_ms: u64,
}

impl Chance<'_> {
    fn fails(&self, fault: Part, numbers: Range<u32>) -> bool {
        self.plan.has(fault) && !self.is_calm && numbers.contains(&self.number)
    }
}

impl Client {
    fn draw(&self) -> Chance<'_> {
        let mut random = self.0.random.lock().unwrap();
        Chance {
            plan: &self.0.plan,
            is_calm: self.0.engine.is_calm.load(Ordering::Relaxed),
            number: random.random_range(0..100),
            fast_ms: random.random_range(0..3),
            slow_ms: random.random_range(0..8_000),
        }
    }

    /// Lets the next calls of a check fail, after its edit.
    fn fail_after_edit(&self) {
        let mut random = self.0.random.lock().unwrap();
        let failures = random.random_range(0..=FAILURES_AFTER_EDIT_MAX);
        if self.0.plan.has(Part::IndexCallsLost) {
            *self.0.servers.failures_left.lock().unwrap() = failures;
        }
    }

    /// Takes one of the failures that follow the edit of a check, if one is left for this call.
    fn take_failure(&self) -> bool {
        let mut left = self.0.servers.failures_left.lock().unwrap();
        if self.0.process != "check" || *left == 0 {
            return false;
        }
        *left -= 1;
        true
    }

    /// Makes a call. `refusable` is one that a server refuses which has no room or no replica.
    async fn call<T, Answered>(
        &self,
        name: &'static str,
        refusable: bool,
        call: impl FnOnce(EmbeddedIndex) -> Answered,
    ) -> Result<T, StoreError>
    where
        Answered: Future<Output = Result<T, StoreError>>,
    {
        let servers = &self.0.servers;
        let process = self.0.process;
        let chance = self.draw();
        // As with writes of a repair in the table.
        let is_late = name == "apply" && process == "check";
        let delay_ms = if is_late {
            chance.slow_ms
        } else {
            chance.fast_ms
        };
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        if chance.fails(Part::IndexCallsLost, 0..4) || self.take_failure() {
            return self.failed(name, "lost before the server");
        }
        if refusable && *servers.refuses.lock().unwrap() {
            return self.failed(name, "it refuses writes");
        }
        let answered = call(servers.present()).await;
        // Right after an edit that came late, a repair must not give up.
        if is_late {
            self.fail_after_edit();
        }
        // Between two steps of a rebuild or a confirmation, other servers are the worst that can
        // happen.
        if MARKING.contains(&name) {
            if chance.fails(Part::IndexFailsOver, 80..90) {
                self.replace_servers(Part::IndexFailsOver, Copied::Replica, name);
            }
            if chance.fails(Part::IndexRestored, 90..100) {
                self.replace_servers(Part::IndexRestored, Copied::Snapshot, name);
            }
        }
        if chance.fails(Part::IndexAnswersLost, 4..8) {
            return self.failed(name, "the answer was lost");
        }
        self.0
            .trace
            .note(|| format!("{process}: {name} of the page index"));
        answered
    }

    fn failed<T>(&self, name: &str, why: &str) -> Result<T, StoreError> {
        let process = self.0.process;
        self.0
            .trace
            .note(|| format!("{process}: {name} of the page index: {why}"));
        Err(StoreError::unavailable(Store::PageIndex, why))
    }

    fn replace_servers(&self, fault: Part, from: Copied, name: &str) {
        self.0.servers.replace_by(from);
        self.0
            .trace
            .note(|| format!("servers: {fault} after {name}"));
    }
}

impl Backend for Client {
    fn partition_count(&self) -> u16 {
        PARTITIONS
    }

    fn with_own_connections(&self, _with_circuit_breakers: bool) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Reads for Client {
    async fn ranked(
        &self,
        queries: &[RankedQuery<'_>],
    ) -> Result<Vec<(Marker, RawRanked)>, StoreError> {
        let ranked = self
            .call("ranked", false, async |index| index.ranked(queries).await)
            .await?;
        for (_, found) in &ranked {
            let named = Named {
                comments: found.comments.clone(),
                total: found.total,
            };
            // Only readers note what was named.
            NAMED.try_with(|seen| seen.lock().unwrap().push(named)).ok();
        }
        Ok(ranked)
    }

    async fn position(
        &self,
        query: &PositionQuery<'_>,
    ) -> Result<(Marker, CommentPosition), StoreError> {
        self.call("position", false, async |index| index.position(query).await)
            .await
    }

    async fn products(
        &self,
        partition: IndexPartition,
    ) -> Result<(Marker, Vec<ProductId>), StoreError> {
        self.call("products", false, async |index| {
            index.products(partition).await
        })
        .await
    }
}

#[async_trait]
impl Edits for Client {
    async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        // A pipeline that breaks off before its last edit: the others are applied.
        let may_break_off = self.0.plan.has(Part::IndexAnswersLost) && edits.len() > 1;
        let cut_at = if may_break_off {
            edits.len() - 1
        } else {
            edits.len()
        };
        let (first, rest) = edits.split_at(cut_at);
        self.call("apply", true, async |index| {
            index.apply(first).await?;
            tokio::task::yield_now().await;
            index.apply(rest).await
        })
        .await
    }

    async fn forget_if_empty(
        &self,
        product: &ProductId,
        language: Option<&Language>,
    ) -> Result<(), StoreError> {
        self.call("forget_if_empty", true, async |index| {
            index.forget_if_empty(product, language).await
        })
        .await
    }

    async fn forget_stray(
        &self,
        partition: IndexPartition,
        product: &str,
    ) -> Result<(), StoreError> {
        self.call("forget_stray", true, async |index| {
            index.forget_stray(partition, product).await
        })
        .await
    }
}

#[async_trait]
impl Rebuilds for Client {
    async fn clear(&self) -> Result<(), StoreError> {
        self.call("clear", true, async |index| index.clear().await)
            .await
    }

    async fn begin_rebuild_of(
        &self,
        partitions: BTreeSet<IndexPartition>,
    ) -> Result<Rebuild, StoreError> {
        self.call("begin_rebuild_of", true, async |index| {
            index.begin_rebuild_of(partitions).await
        })
        .await
    }

    async fn is_under_way(&self, rebuild: &Rebuild) -> Result<bool, StoreError> {
        self.call("is_under_way", false, async |index| {
            index.is_under_way(rebuild).await
        })
        .await
    }

    async fn finish_step(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Timestamp,
        nonce: &str,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        self.call("finish_step", true, async |index| {
            index
                .finish_step(rebuild, table_id, watermark, nonce, is_last)
                .await
        })
        .await
    }
}

#[async_trait]
impl Markers for Client {
    async fn markers(&self, partitions: &[IndexPartition]) -> Result<Vec<Marker>, StoreError> {
        self.call("markers", false, async |index| {
            index.markers(partitions).await
        })
        .await
    }

    async fn server_identity(&self) -> Result<ServerIdentity, StoreError> {
        self.call("server_identity", false, async |index| {
            index.server_identity().await
        })
        .await
    }

    async fn advance_step(
        &self,
        advance: &Advance,
        to: Option<Timestamp>,
    ) -> Result<Vec<bool>, StoreError> {
        self.call("advance_step", true, async |index| {
            index.advance_step(advance, to).await
        })
        .await
    }

    async fn leave_token(
        &self,
        owner: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: ConfirmationTime,
    ) -> Result<Vec<bool>, StoreError> {
        self.call("leave_token", true, async |index| {
            index.leave_token(owner, read, token, time).await
        })
        .await
    }
}

#[async_trait]
impl Contents for Client {
    async fn names(
        &self,
        products: &BTreeSet<&ProductId>,
    ) -> Result<BTreeMap<ProductId, Names>, StoreError> {
        self.call("names", false, async |index| index.names(products).await)
            .await
    }

    async fn entries(&self, sought: &[Sought<'_>]) -> Result<Vec<Vec<RankEntry>>, StoreError> {
        self.call("entries", false, async |index| index.entries(sought).await)
            .await
    }

    async fn sizes(&self, sets: &[BaseSet]) -> Result<Vec<u64>, StoreError> {
        self.call("sizes", false, async |index| index.sizes(sets).await)
            .await
    }

    async fn begin_index_scan(&self) -> Result<IndexScanPosition, StoreError> {
        self.call("begin_index_scan", false, async |index| {
            index.begin_index_scan().await
        })
        .await
    }

    async fn is_index_scan_valid(&self, position: &IndexScanPosition) -> Result<bool, StoreError> {
        self.call("is_index_scan_valid", false, async |index| {
            index.is_index_scan_valid(position).await
        })
        .await
    }

    async fn next_index_part(
        &self,
        position: &mut IndexScanPosition,
    ) -> Result<Option<IndexPart>, StoreError> {
        let mut next = position.clone();
        let part = self.call("next_index_part", false, async |index| {
            let part = index.next_index_part(&mut next).await;
            part.map(|part| (part, next))
        });
        let (part, next) = part.await?;
        *position = next;
        Ok(part)
    }
}
