//! Pagemark with its other page indexes, on the same table: inside this process, and in Valkey.

use std::{env, ffi::OsString, time::Duration};

use embedded_index::EmbeddedIndex;
use futures_util::FutureExt;
use page_index::PageIndex;

use super::race::Contestant;
use crate::{
    dataset::drawn,
    filled_stores::{FilledStores, PageReader},
    listing::Listing,
    workload::Redis,
};

/// The variable that names `valkey-server`. `make bench` sets it where there is a package with that program.
const VALKEY_VARIABLE: &str = "PAGEMARK_VALKEY_SERVER";
/// The settings of an index inside the process, as in the edition for one machine.
const PARTITIONS: u16 = 256;
const MAX_AGE: Duration = Duration::from_secs(3 * 3600);

/// Page indexes beside the one in Redis, filled with the same comments.
pub(super) struct OtherIndexes {
    embedded: PageReader,
    valkey: Option<(PageReader, Redis)>,
    /// Which servers hold a page index, with their versions.
    pub(super) about: String,
}

impl OtherIndexes {
    pub(super) async fn fill(stores: &mut FilledStores, comments: u32) -> anyhow::Result<Self> {
        let reader =
            |index: &PageIndex| stores.reader_through(stores.table.clone(), index.clone()).with_own_connections();
        let embedded = PageIndex::new(EmbeddedIndex::new(PARTITIONS, MAX_AGE));
        stores.fill_index(&embedded, drawn(comments)?).await?;
        let embedded = reader(&embedded);
        let valkey = match valkey_server() {
            Some(program) => {
                let valkey = Redis::start_program(program).await?;
                stores.fill_index(&valkey.index, drawn(comments)?).await?;
                Some((reader(&valkey.index), valkey))
            }
            None => None,
        };
        let mut other = Self { embedded, valkey, about: String::new() };
        other.about = other.versions(&mut stores.redis).await?;
        Ok(other)
    }

    async fn versions(&mut self, redis: &mut Redis) -> anyhow::Result<String> {
        let redis = redis.version().await?;
        Ok(match &mut self.valkey {
            Some((_, valkey)) => format!("Page indexes: {redis}, {}, inside the process", valkey.version().await?),
            None => format!("Page indexes: {redis}, inside the process; Valkey was left out: no {VALKEY_VARIABLE}"),
        })
    }

    pub(super) fn contestants<'stores>(
        &'stores self,
        listing: &'stores Listing,
    ) -> impl Iterator<Item = Contestant<'stores>> {
        let embedded = ("Pagemark, index in the process", &self.embedded);
        let valkey = self.valkey.iter().map(|(reader, _)| ("Pagemark, index in Valkey", reader));
        [embedded].into_iter().chain(valkey).map(move |(name, reader)| {
            Contestant::new(name, move |page| async move { reader.page(listing, page).await }.boxed_local())
        })
    }

    pub(super) async fn stop(self) {
        if let Some((_, valkey)) = self.valkey {
            valkey.stop().await;
        }
    }
}

fn valkey_server() -> Option<OsString> {
    env::var_os(VALKEY_VARIABLE).filter(|program| !program.is_empty())
}
