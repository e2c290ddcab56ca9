//! Reads everything that the page index holds, in steps that can resume later.

use model::{BaseSet, FilterKey, ProductId};
use process::{Remedy, StoreError};
use redis::FromRedisValue;
use serde::{Deserialize, Serialize};

use super::{IndexPartition, PageIndex, connection::Routed, watermarks::ServerIdentity};

/// How many keys one step reads: few, because a position stores the names of the keys that are left.
const KEYS_COUNT: u32 = 100;

/// How many members one step reads. Redis returns small sets whole, by default up to 128 members.
const MEMBERS_COUNT: u32 = 500;

/// The position from which an index scan resumes.
///
/// A cursor is valid only on the server that gave it, and not after a restart of that server. A key whose slot moved
/// may now be on a server that the scan has already visited. In these cases the scan starts anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexScanPosition {
    servers: ServerIdentity,
    /// Which server serves which slots.
    #[serde(default)]
    slots: String,
    /// The index of the current master.
    master: usize,
    /// The cursor of the current master, after the pending keys.
    cursor: u64,
    /// Whether the pending keys are the last ones of this master.
    is_last: bool,
    /// Keys that are not read yet.
    pending: Vec<String>,
    /// How far the last pending key is read.
    member_cursor: u64,
}

/// A part of the page index's content.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexPart {
    /// Members of a base set with their scores.
    Members(BaseSet, Vec<(String, f64)>),
    /// Names of products, escaped as in filter keys.
    Products(IndexPartition, Vec<String>),
    /// Names of a product's languages.
    Languages(ProductId, Vec<String>),
    /// A key that Pagemark never creates. A rebuild removes it.
    Unknown(String),
    /// A key with a value of the wrong type, and why it cannot be read. A rebuild removes it.
    Unreadable(String, String),
    /// The step found nothing.
    Nothing,
}

/// The kind of a key.
enum KeyKind {
    Base(BaseSet),
    Products(IndexPartition),
    Languages(ProductId),
    Bookkeeping,
    Unknown,
}

impl PageIndex {
    /// The position at the start of an index scan.
    pub async fn begin_index_scan(&self) -> Result<IndexScanPosition, StoreError> {
        Ok(IndexScanPosition {
            servers: self.server_identity().await?,
            slots: self.layout().await?.serving(),
            master: 0,
            cursor: 0,
            is_last: false,
            pending: Vec::new(),
            member_cursor: 0,
        })
    }

    /// Whether an index scan can resume from a position.
    pub async fn is_index_scan_valid(&self, position: &IndexScanPosition) -> Result<bool, StoreError> {
        let is_same = self.server_identity().await? == position.servers;
        let layout = self.bounded(self.connection.layout()).await?;
        Ok(is_same && layout.is_at_rest && layout.serving() == position.slots)
    }

    /// The next step. `None` when the scan has returned every key that existed during the whole scan, unless the
    /// servers changed meanwhile ([`PageIndex::is_index_scan_valid`]). Something may come more than once.
    ///
    /// # Errors
    /// The store's. The position is then unchanged.
    pub async fn next_index_part(&self, position: &mut IndexScanPosition) -> Result<Option<IndexPart>, StoreError> {
        if position.pending.is_empty() {
            return self.next_pending(position).await;
        }
        let Some(key) = position.pending.last().cloned() else { return Ok(None) };
        let (next, part) = match self.read_from(&key, position.member_cursor).await {
            Err(error) if error.remedy() == Remedy::Quarantine => (0, IndexPart::Unreadable(key, error.to_string())),
            read => read?,
        };
        position.member_cursor = next;
        if position.member_cursor == 0 {
            position.pending.pop();
        }
        Ok(Some(part))
    }

    async fn next_pending(&self, position: &mut IndexScanPosition) -> Result<Option<IndexPart>, StoreError> {
        if position.is_last {
            (position.master, position.cursor, position.is_last) = (position.master + 1, 0, false);
        }
        let layout = self.layout().await?;
        let Some(master) = layout.masters.get(position.master) else { return Ok(None) };
        let (next, mut keys) = self.scan_keys(master, position.cursor, KEYS_COUNT).await?;
        keys.sort_unstable();
        keys.dedup();
        (position.cursor, position.is_last) = (next, next == 0);
        (position.pending, position.member_cursor) = (keys, 0);
        Ok(Some(IndexPart::Nothing))
    }

    async fn read_from(&self, key: &str, cursor: u64) -> Result<(u64, IndexPart), StoreError> {
        Ok(match self.kind(key) {
            KeyKind::Bookkeeping => (0, IndexPart::Nothing),
            KeyKind::Unknown => (0, IndexPart::Unknown(key.to_owned())),
            KeyKind::Base(set) => {
                let (next, members) = self.members_from("ZSCAN", key, cursor).await?;
                (next, IndexPart::Members(set, members))
            }
            KeyKind::Products(partition) => {
                let (next, names) = self.members_from("SSCAN", key, cursor).await?;
                (next, IndexPart::Products(partition, names))
            }
            KeyKind::Languages(product) => {
                let (next, names) = self.members_from("SSCAN", key, cursor).await?;
                (next, IndexPart::Languages(product, names))
            }
        })
    }

    /// Some members of a set, read by `command`, and the cursor that follows.
    async fn members_from<T: FromRedisValue>(
        &self,
        command: &str,
        key: &str,
        cursor: u64,
    ) -> Result<(u64, T), StoreError> {
        self.ask(Routed::new(command, key).arg(cursor).arg("COUNT").arg(MEMBERS_COUNT)).await
    }

    /// Classifies a key by its name. A product's key in a wrong partition is unknown.
    fn kind(&self, key: &str) -> KeyKind {
        let Some((partition, name)) = self.keys.split(key) else { return KeyKind::Unknown };
        match name {
            "marker" | "rebuild" => return KeyKind::Bookkeeping,
            "products" => return KeyKind::Products(partition),
            _ => {}
        }
        let read = || {
            // A product may hold colons. A language and a rating hold none.
            let (product, rest) = name.strip_prefix("PRODUCT#")?.rsplit_once(':')?;
            // Product and filter are written as in a filter key, so the filter key's parser reads them.
            let filter = if rest == "languages" { "~/~" } else { rest };
            let key = FilterKey::parse(&format!("PRODUCT#{product}/{filter}")).ok()?;
            if self.keys.partition_of(&key.product) != partition {
                return None;
            }
            if rest == "languages" {
                return Some(KeyKind::Languages(key.product));
            }
            let [set] = key.filter.base_sets(&key.product).try_into().ok()?;
            Some(KeyKind::Base(set))
        };
        read().unwrap_or(KeyKind::Unknown)
    }
}
