//! What the index holds, for callers that compare it with the table.
//!
//! A cursor of an index scan is valid only on the server that gave it, and not after a restart of
//! that server. A key whose slot moved may now be on a server that the scan has already visited. In
//! these cases the scan starts anew.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures_util::future::try_join;
use model::{BaseSet, FilterKey, Language, ProductId, plan::reconcile::Names};
use page_index::{Contents, IndexPart, IndexScanPosition, Markers};
use process::{Remedy, StoreError};

use crate::{RedisIndex, connection::Routed, keys::MARKER};

/// How many keys one step of an index scan reads: few, because a position stores the names of the
/// keys that are left.
const KEYS_COUNT: u32 = 100;

/// How many members one step reads. Redis returns small sets whole, by default up to 128 members.
const MEMBERS_COUNT: u32 = 500;

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
        let languages = products
            .iter()
            .map(|product| Routed::new("SMEMBERS", &self.keys.languages(product)));
        let (is_named, languages) = try_join(
            self.ask_all::<bool>(is_named),
            self.ask_all::<BTreeSet<String>>(languages),
        )
        .await?;
        let languages = languages
            .into_iter()
            .map(|tags| tags.iter().filter_map(|tag| language(tag)).collect());
        let names = is_named
            .into_iter()
            .zip(languages)
            .map(|(is_named, languages)| Names {
                is_named,
                languages,
                without_members: BTreeSet::new(),
            });
        Ok(products.iter().copied().cloned().zip(names).collect())
    }

    async fn scores(
        &self,
        asked: &[(&BaseSet, Vec<&str>)],
    ) -> Result<Vec<Vec<Option<f64>>>, StoreError> {
        let command = |(set, members): &(&BaseSet, Vec<&str>)| {
            Routed::new("ZMSCORE", &self.keys.base_set(set)).arg(members)
        };
        self.ask_all(asked.iter().map(command)).await
    }

    async fn sizes(&self, sets: &[BaseSet]) -> Result<Vec<u64>, StoreError> {
        self.ask_all(
            sets.iter()
                .map(|set| Routed::new("ZCARD", &self.keys.base_set(set))),
        )
        .await
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
        let scan = |command| {
            Routed::new(command, key)
                .arg(cursor)
                .arg("COUNT")
                .arg(MEMBERS_COUNT)
        };
        let unknown = || Ok((0, IndexPart::Unknown(key.to_owned())));
        let Some((partition, name)) = self.keys.split(key) else {
            return unknown();
        };
        if name == MARKER || name == "rebuild" {
            return Ok((0, IndexPart::Nothing));
        }
        if name == "products" {
            let (next, names) = self.ask(scan("SSCAN")).await?;
            return Ok((next, IndexPart::Products(partition, names)));
        }
        match product_key(name).filter(|(product, _)| self.keys.partition_of(product) == partition)
        {
            None => unknown(),
            Some((product, None)) => {
                let (next, names) = self.ask(scan("SSCAN")).await?;
                Ok((next, IndexPart::Languages(product, names)))
            }
            Some((_, Some(set))) => {
                let (next, members) = self.ask(scan("ZSCAN")).await?;
                Ok((next, IndexPart::Members([(set, members)].into())))
            }
        }
    }
}

/// The product that a key's name has, and the base set; `None` if it is the product's set of
/// languages.
fn product_key(name: &str) -> Option<(ProductId, Option<BaseSet>)> {
    // A product may hold colons. A language and a rating hold none.
    let (product, rest) = name.strip_prefix("PRODUCT#")?.rsplit_once(':')?;
    let is_languages = rest == "languages";
    // Product and filter are written as in a filter key, so the filter key's parser reads them.
    let key = FilterKey::parse(&format!(
        "PRODUCT#{product}/{}",
        if is_languages { "~/~" } else { rest }
    ))
    .ok()?;
    if is_languages {
        return Some((key.product, None));
    }
    let [set] = key.filter.base_sets(&key.product).try_into().ok()?;
    Some((key.product, Some(set)))
}

/// A cursor as Redis counts it. Another text than a number begins, as an empty one does.
fn number(cursor: &str) -> u64 {
    cursor.parse().unwrap_or(0)
}

pub(super) fn language(tag: &str) -> Option<Language> {
    Language::parse_stored(tag)
        .ok()
        .filter(|language| language.as_str() == tag)
}
