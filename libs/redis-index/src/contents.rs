//! What the index holds, for callers that compare it with the table.
//!
//! A cursor of an index scan is valid only on the server that gave it, and not after a restart of
//! that server. A key whose slot moved may now be on a server that the scan has already visited. In
//! these cases the scan starts anew.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures_util::future::try_join;
use model::{BaseSet, CommentId, ProductId, RankEntry, plan::reconcile::Names};
use page_index::{Contents, IndexPart, IndexScanPosition, Markers, Sought};
use process::{Remedy, StoreError};

use crate::{
    RedisIndex,
    connection::Routed,
    keys::{MARKER, language_and_rating, part_of_product},
    member::entry_of,
};

/// How many keys one step of an index scan reads: few, because a position stores the names of the
/// keys that are left.
const KEYS_COUNT: u32 = 100;

/// The step of a key that follows a comparison of its counts.
const MEMBERS_STEP: u64 = 1;

/// What `check.lua` says about right counts.
const RIGHT: &str = "right";

/// How many names of products one step reads.
const NAMES_COUNT: u32 = 500;

/// How many blocks one round trip reads.
const BLOCKS_STEP: usize = 50;

#[async_trait]
impl Contents for RedisIndex {
    async fn names(
        &self,
        products: &BTreeSet<&ProductId>,
    ) -> Result<BTreeMap<ProductId, Names>, StoreError> {
        let is_named = products.iter().map(|product| {
            let names = self.keys.products(self.keys.partition_of(product));
            Routed::new("SISMEMBER", &names).arg(product.escaped())
        });
        let totals = products
            .iter()
            .map(|product| Routed::new("HKEYS", &self.keys.totals(product)));
        let (is_named, totals) = try_join(
            self.ask_all::<bool>(is_named),
            self.ask_all::<Vec<String>>(totals),
        )
        .await?;
        let mut names = BTreeMap::new();
        for ((product, is_named), fields) in products.iter().zip(is_named).zip(totals) {
            let mut languages = BTreeSet::new();
            for field in &fields {
                if let Some((language, _)) = language_and_rating(field) {
                    languages.insert(language);
                }
            }
            let of_product = Names {
                is_named,
                languages,
                without_members: BTreeSet::new(),
            };
            names.insert((*product).clone(), of_product);
        }
        Ok(names)
    }

    async fn entries(&self, sought: &[Sought<'_>]) -> Result<Vec<Vec<RankEntry>>, StoreError> {
        let calls = sought.iter().map(|Sought { product, id, times }| {
            let call = Routed::call(&self.scripts.entries, &[self.keys.totals(product)]);
            let times = times.iter().flatten().map(|time| time.epoch_ms());
            call.arg(id.as_str()).arg(times.collect::<Vec<_>>())
        });
        let answers: Vec<Vec<String>> = self.ask_all(calls).await?;
        let mut at_any_time: BTreeMap<&ProductId, BTreeSet<&CommentId>> = BTreeMap::new();
        let mut found = Vec::with_capacity(sought.len());
        for (Sought { product, id, times }, members) in sought.iter().zip(answers) {
            if times.is_none() {
                at_any_time.entry(product).or_default().insert(id);
            }
            let entries = members
                .iter()
                .filter_map(|member| entry_of(product, member));
            found.push(entries.map(|(_, entry)| entry).collect());
        }
        for (product, ids) in at_any_time {
            let entries = self.entries_at_any_time(product, &ids).await?;
            for (
                Sought {
                    product: of,
                    id,
                    times,
                },
                found,
            ) in sought.iter().zip(&mut found)
            {
                if times.is_none()
                    && *of == product
                    && let Some(of_comment) = entries.get(*id)
                {
                    *found = of_comment.clone();
                }
            }
        }
        Ok(found)
    }

    async fn sizes(&self, sets: &[BaseSet]) -> Result<Vec<u64>, StoreError> {
        let sizes = sets.iter().map(|set| {
            let language = match &set.language {
                Some(language) => language.as_str(),
                None => model::ANY,
            };
            let field = [language, "/", set.rating.as_str()].concat();
            Routed::new("HGET", &self.keys.totals(&set.product)).arg(field)
        });
        let sizes: Vec<Option<u64>> = self.ask_all(sizes).await?;
        Ok(sizes.into_iter().map(Option::unwrap_or_default).collect())
    }

    async fn is_miscounted(&self, product: &ProductId) -> Result<bool, StoreError> {
        Ok(self.check(product, "open", false).await? != RIGHT)
    }

    async fn begin_index_scan(&self) -> Result<IndexScanPosition, StoreError> {
        Ok(IndexScanPosition {
            servers: self.server_identity().await?,
            layout: self.layout().await?.serving,
            ..IndexScanPosition::default()
        })
    }

    async fn is_index_scan_valid(&self, position: &IndexScanPosition) -> Result<bool, StoreError> {
        let is_same = self.server_identity().await? == position.servers;
        let layout = self.bounded(self.connection.layout()).await?;
        Ok(is_same && !layout.is_moving && layout.serving == position.layout)
    }

    async fn next_index_part(
        &self,
        position: &mut IndexScanPosition,
    ) -> Result<Option<IndexPart>, StoreError> {
        if position.pending.is_empty() {
            return self.next_pending(position).await;
        }
        let Some(key) = position.pending.last().cloned() else {
            return Ok(None);
        };
        let (next, part) = match self.read_from(&key, number(&position.key_cursor)).await {
            Err(error) if error.remedy() == Remedy::Quarantine => {
                (0, IndexPart::Unreadable(key, error.to_string()))
            }
            read => read?,
        };
        position.key_cursor = next.to_string();
        if next == 0 {
            position.pending.pop();
        }
        Ok(Some(part))
    }
}

impl RedisIndex {
    async fn next_pending(
        &self,
        position: &mut IndexScanPosition,
    ) -> Result<Option<IndexPart>, StoreError> {
        if position.is_last {
            (position.part, position.cursor, position.is_last) =
                (position.part + 1, String::new(), false);
        }
        let layout = self.layout().await?;
        let Some(master) = layout.masters.get(position.part) else {
            return Ok(None);
        };
        let (next, mut keys) = self
            .scan_keys(master, number(&position.cursor), KEYS_COUNT)
            .await?;
        keys.sort_unstable();
        keys.dedup();
        (position.cursor, position.is_last) = (next.to_string(), next == 0);
        (position.pending, position.key_cursor) = (keys, String::new());
        Ok(Some(IndexPart::Nothing))
    }

    async fn read_from(&self, key: &str, cursor: u64) -> Result<(u64, IndexPart), StoreError> {
        let unknown = || Ok((0, IndexPart::Unknown(key.to_owned())));
        let Some((partition, name)) = self.keys.split(key) else {
            return unknown();
        };
        if name == MARKER || name == "rebuild" {
            return Ok((0, IndexPart::Nothing));
        }
        if name == "products" {
            let scan = Routed::new("SSCAN", key).arg(cursor);
            let (next, names) = self.ask(scan.arg("COUNT").arg(NAMES_COUNT)).await?;
            return Ok((next, IndexPart::Products(partition, names)));
        }
        match part_of_product(name) {
            Some((product, part)) if self.keys.partition_of(&product) == partition => {
                self.read_part(&product, part, key, cursor).await
            }
            Some(_) | None => unknown(),
        }
    }

    /// Compares the counts of a key of a product, and reads its members. If the counts are wrong,
    /// the members follow in a second step.
    async fn read_part(
        &self,
        product: &ProductId,
        part: &str,
        key: &str,
        cursor: u64,
    ) -> Result<(u64, IndexPart), StoreError> {
        let has_members = is_block(part);
        if cursor != MEMBERS_STEP {
            match self.check(product, part, false).await?.as_str() {
                RIGHT => {}
                "stray" => return Ok((0, IndexPart::Unknown(key.to_owned()))),
                _ => {
                    let next = if has_members { MEMBERS_STEP } else { 0 };
                    return Ok((next, IndexPart::Miscounted(product.clone())));
                }
            }
        }
        if !has_members {
            return Ok((0, IndexPart::Nothing));
        }
        let entries = self.members(product, key).await?.entries;
        Ok((0, IndexPart::Entries(entries)))
    }

    async fn members(&self, product: &ProductId, block: &str) -> Result<Members, StoreError> {
        let all = Routed::new("ZRANGE", block)
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES");
        let all: Vec<(String, String)> = self.ask(all).await?;
        let mut members = Members::default();
        for (member, score) in all {
            match entry_of(product, &member) {
                Some((id, entry)) if score == entry.created_at.epoch_ms().to_string() => {
                    members.entries.push((id, entry));
                }
                Some(_) | None => members.others.push(member),
            }
        }
        Ok(members)
    }

    /// Compares the counts of a part of a product with what they count, or repairs them. Returns
    /// what `check.lua` says.
    pub(crate) async fn check(
        &self,
        product: &ProductId,
        part: &str,
        is_repaired: bool,
    ) -> Result<String, StoreError> {
        // A server without memory to spare refuses what may write, and still compares.
        let script = if is_repaired {
            &self.scripts.recount
        } else {
            &self.scripts.compare
        };
        let mut call = Routed::call(script, &[self.keys.totals(product)])
            .arg(u8::from(is_repaired))
            .arg(part);
        if is_block(part) {
            let block = self.keys.of_product(product, part);
            call = call.arg(self.members(product, &block).await?.others);
        }
        self.ask(call).await
    }

    /// Repairs the counts of a product, from its blocks to its totals.
    ///
    /// Each call leaves counts that fit the members which it has read. So comments may be added and
    /// removed meanwhile. A list must be whole before its children can be counted in it.
    ///
    /// # Errors
    /// [`StoreError::unavailable`] while slots move: keys that have not arrived look as if they were
    /// lost.
    pub(crate) async fn repair_counts(&self, product: &ProductId) -> Result<(), StoreError> {
        self.layout().await?;
        self.check(product, "groups", true).await?;
        for group in self.children(product, "groups", "group").await? {
            self.check(product, &group, true).await?;
            for block in self.children(product, &group, "block").await? {
                self.check(product, &block, true).await?;
            }
            self.check(product, &group, true).await?;
        }
        self.check(product, "open", true).await.map(drop)
    }

    /// The parts of a product that the root or a group lists.
    async fn children(
        &self,
        product: &ProductId,
        list: &str,
        kind: &str,
    ) -> Result<Vec<String>, StoreError> {
        let key = self.keys.of_product(product, list);
        let bounds: Vec<String> = self.ask(Routed::new("ZRANGE", &key).arg(0).arg(-1)).await?;
        Ok(bounds
            .iter()
            .map(|bound| format!("{kind}/{bound}"))
            .collect())
    }

    /// The entries of comments whose creation times nobody knows: reads each block of their product.
    /// What is moved to another block meanwhile may be missed.
    async fn entries_at_any_time(
        &self,
        product: &ProductId,
        ids: &BTreeSet<&CommentId>,
    ) -> Result<BTreeMap<CommentId, Vec<RankEntry>>, StoreError> {
        let mut blocks = vec!["open".to_owned()];
        for group in self.children(product, "groups", "group").await? {
            blocks.extend(self.children(product, &group, "block").await?);
        }
        let mut entries: BTreeMap<CommentId, Vec<RankEntry>> = BTreeMap::new();
        for together in blocks.chunks(BLOCKS_STEP) {
            let reads = together.iter().map(|block| {
                let block = self.keys.of_product(product, block);
                Routed::new("ZRANGE", &block).arg(0).arg(-1)
            });
            let members: Vec<Vec<String>> = self.ask_all(reads).await?;
            for member in members.iter().flatten() {
                match entry_of(product, member) {
                    Some((id, entry)) if ids.contains(&id) => {
                        entries.entry(id).or_default().push(entry);
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(entries)
    }
}

/// What a block holds.
#[derive(Default)]
struct Members {
    entries: Vec<(CommentId, RankEntry)>,
    /// Members that are no comments of their score.
    others: Vec<String>,
}

fn is_block(part: &str) -> bool {
    part == "open" || part.starts_with("block/")
}

/// A cursor as Redis counts it. Another text than a number begins, as an empty one does.
fn number(cursor: &str) -> u64 {
    cursor.parse().unwrap_or(0)
}
