//! Sweeps everything that the page index holds, in steps that can resume later.

use model::{BaseSet, FilterKey, Language, ProductId, Rating};
use process::{Remedy, StoreError};
use serde::{Deserialize, Serialize};

use super::{IndexPartition, PageIndex, connection::Routed, walk::moving, watermarks::ServerIdentity};

/// How many keys one step reads: few, because a position stores the names of the keys that are left.
const KEYS_COUNT: u32 = 100;

/// How many members one step reads. Redis returns small sets whole, by default up to 128 members.
const MEMBERS_COUNT: u32 = 500;

/// A resume position of a sweep.
///
/// A cursor is valid only on the server that gave it, and not after a restart of that server. A key whose slot moved
/// may now be on a server that the sweep has already visited. In these cases the sweep starts anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPosition {
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
pub enum Swept {
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
    /// The position at the start of a sweep.
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

    /// Whether a sweep can resume from a position.
    ///
    /// # Errors
    /// The store's.
    pub async fn is_sweep_valid(&self, position: &SweepPosition) -> Result<bool, StoreError> {
        let is_same = self.server_identity().await? == position.servers;
        Ok(is_same && self.slots().await?.is_some_and(|slots| slots == position.slots))
    }

    /// Which server serves which slots; `None` while slots are moving.
    async fn slots(&self) -> Result<Option<String>, StoreError> {
        let layout = self.bounded(self.connection.layout()).await?;
        Ok(layout.is_at_rest.then(|| layout.serving()))
    }

    /// The next step. `None` when the sweep has returned every key that existed during the whole sweep, unless the
    /// servers changed meanwhile ([`PageIndex::is_sweep_valid`]). Something may come more than once.
    ///
    /// # Errors
    /// The store's. The position is then unchanged.
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

    /// Classifies a key by its name. A product's key in a wrong partition is unknown.
    fn kind(&self, key: &str) -> KeyKind {
        let Some((partition, name)) = self.keys.split(key) else { return KeyKind::Unknown };
        match name {
            "marker" | "rebuild" => return KeyKind::Bookkeeping,
            "products" => return KeyKind::Products(partition),
            _ => {}
        }
        let read = || {
            let (product, rest) = name.strip_prefix("PRODUCT#")?.split_once(':')?;
            // The product is escaped as in a filter key, so the filter key's parser reads it.
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
