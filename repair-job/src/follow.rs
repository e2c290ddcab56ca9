//! The partitions of the page index that a run keeps up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{ProductId, Timestamp};
use page_index::{IndexPartition, Marked, PageIndex, ServerIdentity};
use process::StoreError;

use crate::{
    error::RepairError,
    job::{Run, index_is_away},
    reconcile::IndexScope,
};

/// The partitions kept up to date, as the run read them.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    table_id: String,
    servers: ServerIdentity,
    watermarks: BTreeMap<IndexPartition, Timestamp>,
}

impl Kept {
    /// Whether a product's partition is one of them.
    pub(crate) fn has(&self, index: &PageIndex, product: &ProductId) -> bool {
        self.watermarks.contains_key(&index.partition_of(product))
    }

    /// Checks that an index from which some products were just read is still kept up to date.
    ///
    /// # Errors
    /// The index is not kept up to date any more, or does not answer. Nothing may be concluded from what was read.
    pub(crate) async fn assert_still(
        &self,
        index: &PageIndex,
        products: impl IntoIterator<Item = &ProductId>,
    ) -> Result<(), StoreError> {
        let partitions: BTreeSet<IndexPartition> =
            products.into_iter().map(|product| index.partition_of(product)).collect();
        let since: Vec<(IndexPartition, Timestamp)> =
            partitions.iter().filter_map(|partition| Some((*partition, *self.watermarks.get(partition)?))).collect();
        index.assert_kept(&self.table_id, &since, &self.servers).await
    }
}

/// The partitions kept up to date, with their watermarks.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    table_id: String,
    /// The servers that answered when the run began; `None` when none did.
    servers: Option<ServerIdentity>,
    pub(crate) watermarks: BTreeMap<IndexPartition, Timestamp>,
    /// Partitions whose watermarks are later than the present: a clock is wrong, or was.
    doubted: BTreeSet<IndexPartition>,
    /// Whether the run has stopped using the page index, because it did not answer or its servers have changed.
    has_given_up: bool,
}

impl Follow {
    /// Reads the markers, and reports the partitions that are not kept up to date.
    pub(crate) async fn read(run: &Run<'_>, table_id: &str) -> Result<Self, RepairError> {
        let mut follow = Self {
            table_id: table_id.to_owned(),
            servers: None,
            watermarks: BTreeMap::new(),
            doubted: BTreeSet::new(),
            has_given_up: false,
        };
        let index = &run.job.index;
        let looked = async {
            let servers = index.server_identity().await?;
            Ok::<_, StoreError>((servers, index.watermarks(table_id).await?))
        };
        match looked.await {
            Err(error) if index_is_away(&error) => {
                run.add_skipped(format!("the page index, because {error}; only duplicates are looked at"));
            }
            Err(error) => return Err(error.into()),
            Ok((servers, marked)) => {
                let all = marked.len();
                follow.watermarks = marked
                    .into_iter()
                    .filter_map(|(partition, marked)| match marked {
                        Marked::UpTo(watermark) => Some((partition, watermark)),
                        Marked::Not => None,
                    })
                    .collect();
                follow.servers = Some(servers);
                let missing = all - follow.watermarks.len();
                if missing > 0 {
                    run.add_skipped(format!(
                        "{missing} of {all} partitions of the page index, which are not ready and have no watermark: \
                         repair-job rebuild"
                    ));
                }
            }
        }
        Ok(follow)
    }

    /// The part of the page index to check.
    pub(crate) fn scope(&self) -> IndexScope {
        self.kept().map_or(IndexScope::Nothing, |kept| IndexScope::Partitions(Arc::new(kept)))
    }

    /// The partitions kept up to date; `None` when there are none.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let servers = self.servers.clone().filter(|_| !self.watermarks.is_empty())?;
        Some(Kept { table_id: self.table_id.clone(), servers, watermarks: self.watermarks.clone() })
    }

    /// Drops partitions whose watermarks are older than `oldest`, because the journal does not reach back to them.
    pub(crate) fn drop_older(&mut self, run: &Run<'_>, oldest: Timestamp) {
        let before = self.watermarks.len();
        self.watermarks.retain(|_, watermark| *watermark >= oldest);
        let dropped = before - self.watermarks.len();
        if dropped > 0 {
            run.add_unresolved(format!(
                "the journal does not reach back to the watermarks of {dropped} partitions of the page index: \
                 repair-job rebuild"
            ));
        }
    }

    /// Doubts watermarks that are later than the present.
    pub(crate) fn doubt_later(&mut self, run: &Run<'_>, present: Timestamp) {
        let later = self.watermarks.iter().filter(|(_, watermark)| **watermark > present);
        self.doubted = later.map(|(partition, _)| *partition).collect();
        if !self.doubted.is_empty() {
            run.add_unresolved(format!(
                "the watermarks of {} partitions of the page index are later than the present: a clock is wrong, or was; \
                 the journal is read from its beginning",
                self.doubted.len()
            ));
        }
    }

    /// From when on each partition must be reconciled: its watermark, or `oldest` when the watermark is doubted.
    pub(crate) fn begins(&self, oldest: Timestamp) -> impl Iterator<Item = Timestamp> {
        let begins = self.watermarks.iter();
        begins.map(move |(partition, watermark)| if self.doubted.contains(partition) { oldest } else { *watermark })
    }

    /// Stops using the page index.
    pub(crate) fn give_up(&mut self) {
        self.watermarks.clear();
        self.has_given_up = true;
    }

    /// Whether the run has stopped using the page index.
    pub(crate) fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Advances the watermarks after a window has been reconciled up to `to`.
    pub(crate) async fn advance(&mut self, run: &Run<'_>, to: Timestamp, is_last: bool) -> Result<(), RepairError> {
        let Some(servers) = &self.servers else { return Ok(()) };
        let from: Vec<(IndexPartition, Timestamp)> = self
            .watermarks
            .iter()
            .filter(|(partition, watermark)| match self.doubted.contains(partition) {
                true => is_last,
                false => **watermark < to,
            })
            .map(|(partition, watermark)| (*partition, *watermark))
            .collect();
        if from.is_empty() {
            return Ok(());
        }
        let index = &run.job.index;
        let advanced = async {
            let prepared = index.prepare_advance(&self.table_id, &from, servers).await?;
            index.advance(prepared, to).await
        };
        match advanced.await {
            Err(error) if index_is_away(&error) => {
                run.add_skipped(format!("moving the watermarks of the page index on, because {error}"));
                self.give_up();
            }
            Err(error) => return Err(error.into()),
            Ok(advanced) => {
                for partition in &advanced {
                    self.watermarks.insert(*partition, to);
                }
                let other = from.len() - advanced.len();
                if other > 0 {
                    run.add_skipped(format!(
                        "the watermarks of {other} partitions of the page index, whose markers somebody else has changed \
                         (a rebuild, or the index was lost)"
                    ));
                    for (partition, _) in from.iter().filter(|(partition, _)| !advanced.contains(partition)) {
                        self.watermarks.remove(partition);
                    }
                }
            }
        }
        Ok(())
    }

    /// The servers that answered when the run began; `None` when none did.
    pub(crate) fn servers(&self) -> Option<&ServerIdentity> {
        self.servers.as_ref()
    }

    /// Whether the page index answered when the run began.
    pub(crate) fn answers(&self) -> bool {
        self.servers.is_some()
    }
}
