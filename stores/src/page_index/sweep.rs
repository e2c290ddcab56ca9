//! Going over everything that the page index holds, in steps that can be gone on with later.

use model::{BaseSet, FilterKey, Language, ProductId, Rating};
use serde::{Deserialize, Serialize};

use super::{IndexPartition, PageIndex, connection::Routed, walk::moving, watermarks::ServerIdentity};
use crate::error::{Remedy, StoreError};

/// How many keys one step looks at: few, because a position holds the names of those that are left.
const KEYS_COUNT: u32 = 100;

/// How many members one step reads. Small sets come whole, 128 members by default.
const MEMBERS_COUNT: u32 = 500;

/// Where a sweep goes on.
///
/// Cursors of a server mean nothing to another one, also not to itself after a restart, and keys whose slot was moved may
/// be where the sweep has already been: it begins anew then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPosition {
    servers: ServerIdentity,
    /// Which of them serves which slots.
    #[serde(default)]
    slots: String,
    /// The place of the master that is being swept.
    master: usize,
    /// Its cursor, after the keys that are pending.
    cursor: u64,
    /// Whether the last keys of this master are pending.
    is_last: bool,
    /// Keys that are left.
    pending: Vec<String>,
    /// How far the last of them has been read.
    member_cursor: u64,
}

/// Some of what the page index holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Swept {
    /// Members of a base set and their scores, as they stand there.
    Members(BaseSet, Vec<(String, f64)>),
    /// Names of products, escaped as in filter keys.
    Products(IndexPartition, Vec<String>),
    /// Names of a product's languages.
    Languages(ProductId, Vec<String>),
    /// A key that no part of Pagemark makes; a rebuild removes it.
    Unknown(String),
    /// A key that holds something else than it should, and why it cannot be read; a rebuild removes it.
    Unreadable(String, String),
    /// Nothing in this step.
    Nothing,
}

/// What a key holds.
enum KeyKind {
    Base(BaseSet),
    Products(IndexPartition),
    Languages(ProductId),
    Bookkeeping,
    Unknown,
}

impl PageIndex {
    /// The beginning of a sweep.
    ///
    /// # Errors
    /// The store's.
    pub async fn sweep(&self) -> Result<SweepPosition, StoreError> {
        let (servers, slots) = (self.server_identity().await?, self.slots().await?.ok_or_else(moving)?);
        Ok(SweepPosition {
            servers,
            slots,
            master: 0,
            cursor: 0,
            is_last: false,
            pending: Vec::new(),
            member_cursor: 0,
        })
    }

    /// Whether a position can still be gone on from.
    ///
    /// # Errors
    /// The store's.
    pub async fn is_sweep_valid(&self, position: &SweepPosition) -> Result<bool, StoreError> {
        let is_same = self.server_identity().await? == position.servers;
        Ok(is_same && self.slots().await?.is_some_and(|slots| slots == position.slots))
    }

    /// Which server serves which slots; `None` while slots are being moved.
    async fn slots(&self) -> Result<Option<String>, StoreError> {
        let layout = self.bounded(self.connection.layout()).await?;
        Ok(layout.is_at_rest.then(|| layout.serving()))
    }

    /// The next step; `None` when every key there was from the beginning to now has come, unless the servers have
    /// changed since ([`PageIndex::is_sweep_valid`]). Something may come more than once.
    ///
    /// # Errors
    /// The store's; the position is then where it was.
    pub async fn sweep_on(&self, position: &mut SweepPosition) -> Result<Option<Swept>, StoreError> {
        if position.pending.is_empty() {
            return self.next_pending(position).await;
        }
        let Some(key) = position.pending.last().cloned() else { return Ok(None) };
        let (next, swept) = match self.read_from(&key, position.member_cursor).await {
            Err(error) if error.remedy() == Remedy::Quarantine => (0, Swept::Unreadable(key, error.to_string())),
            read => read?,
        };
        position.member_cursor = next;
        if position.member_cursor == 0 {
            position.pending.pop();
        }
        Ok(Some(swept))
    }

    async fn next_pending(&self, position: &mut SweepPosition) -> Result<Option<Swept>, StoreError> {
        if position.is_last {
            (position.master, position.cursor, position.is_last) = (position.master + 1, 0, false);
        }
        let layout = self.bounded(self.connection.layout()).await?;
        if !layout.is_at_rest {
            return Err(moving());
        }
        let Some(master) = layout.masters.get(position.master) else { return Ok(None) };
        let mut scan = redis::cmd("SCAN");
        scan.arg(position.cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(KEYS_COUNT);
        let (next, mut keys): (u64, Vec<String>) = self.bounded(master.query(&scan)).await?;
        keys.sort_unstable();
        keys.dedup();
        (position.cursor, position.is_last) = (next, next == 0);
        (position.pending, position.member_cursor) = (keys, 0);
        Ok(Some(Swept::Nothing))
    }

    async fn read_from(&self, key: &str, cursor: u64) -> Result<(u64, Swept), StoreError> {
        Ok(match self.kind(key) {
            KeyKind::Bookkeeping => (0, Swept::Nothing),
            KeyKind::Unknown => (0, Swept::Unknown(key.to_owned())),
            KeyKind::Base(set) => {
                let (next, members) = self.members_from(key, cursor).await?;
                (next, Swept::Members(set, members))
            }
            KeyKind::Products(partition) => {
                let (next, names) = self.names_from(key, cursor).await?;
                (next, Swept::Products(partition, names))
            }
            KeyKind::Languages(product) => {
                let (next, names) = self.names_from(key, cursor).await?;
                (next, Swept::Languages(product, names))
            }
        })
    }

    async fn members_from(&self, key: &str, cursor: u64) -> Result<(u64, Vec<(String, f64)>), StoreError> {
        let mut scan = Routed::new("ZSCAN", key);
        scan.arg(cursor).arg("COUNT").arg(MEMBERS_COUNT);
        self.ask(scan).await
    }

    async fn names_from(&self, key: &str, cursor: u64) -> Result<(u64, Vec<String>), StoreError> {
        let mut scan = Routed::new("SSCAN", key);
        scan.arg(cursor).arg("COUNT").arg(MEMBERS_COUNT);
        self.ask(scan).await
    }

    /// Reads a key's name; one in the partition of another product is unknown.
    fn kind(&self, key: &str) -> KeyKind {
        let Some((partition, name)) = self.keys.split(key) else { return KeyKind::Unknown };
        match name {
            "marker" | "rebuild" => return KeyKind::Bookkeeping,
            "products" => return KeyKind::Products(partition),
            _ => {}
        }
        let read = || {
            let (product, rest) = name.strip_prefix("PRODUCT#")?.split_once(':')?;
            // Escaped as in a filter key, and read by what reads those.
            let product = FilterKey::parse(&format!("PRODUCT#{product}/~/~")).ok()?.product;
            if self.keys.partition_of(&product) != partition {
                return None;
            }
            if rest == "languages" {
                return Some(KeyKind::Languages(product));
            }
            let (language, rating) = rest.split_once('/')?;
            let language = match language {
                model::ANY => None,
                tag => Some(Language::parse(tag).ok().filter(|language| language.as_str() == tag)?),
            };
            let rating = match rating {
                model::ANY => None,
                digit => Some(Rating::parse(digit).ok()?),
            };
            Some(KeyKind::Base(BaseSet { product, language, rating }))
        };
        read().unwrap_or(KeyKind::Unknown)
    }
}
