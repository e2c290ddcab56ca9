//! The page index as a run found it: the partitions that are kept up to date, their watermarks, and
//! the servers.
//!
//! Only those partitions are repaired. Missing entries in other partitions say nothing: a rebuild
//! fills those from the table.

use std::collections::{BTreeMap, BTreeSet};

use model::{ProductId, Timestamp};
use page_index::{IndexPartition, PageIndex, ServerIdentity};
use parking_lot::Mutex;
use process::{StoreError, now};

use crate::run::{IndexAnswer, Run, answer_of_index, ledger::Ledger};

#[derive(Debug, Clone, Copy)]
pub(crate) struct RepairScope<'run> {
    pub(crate) duplicates: bool,
    /// Whether the table's own indexes are asked for the comment.
    pub(crate) entries: bool,
    pub(crate) index: IndexScope<'run>,
}

impl<'run> RepairScope<'run> {
    /// The duplicates, and the page index while it answers.
    pub(crate) fn of_all(snapshot: &'run IndexSnapshot) -> Self {
        Self {
            duplicates: true,
            entries: false,
            index: snapshot.scope(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum IndexScope<'run> {
    Nothing,
    /// Partitions that a rebuild fills, ready or not.
    Partitions(&'run BTreeSet<IndexPartition>),
    Snapshot(&'run IndexSnapshot),
}

impl IndexScope<'_> {
    pub(crate) fn has(&self, partition: IndexPartition) -> bool {
        match self {
            Self::Nothing => false,
            Self::Partitions(partitions) => partitions.contains(&partition),
            Self::Snapshot(snapshot) => snapshot.has(partition),
        }
    }
}

/// Whether a run uses the page index. If not, only duplicates are checked.
#[derive(Debug)]
enum IndexUse {
    InUse,
    /// No server answered when the run began.
    NeverAnswered(String),
    /// It did not answer later, or its servers have changed.
    GivenUp(String),
}

impl IndexUse {
    /// Reports an index that is not used.
    fn report(&self, ledger: &Ledger) {
        match self {
            Self::InUse => {}
            Self::NeverAnswered(why) => ledger.add_skipped(format!(
                "the page index, because {why}; only duplicates are checked"
            )),
            Self::GivenUp(why) => ledger.add_skipped(format!(
                "the page index from here on, because {why}; only duplicates are checked"
            )),
        }
    }
}

/// The partitions kept up to date, with their watermarks.
#[derive(Debug)]
pub(crate) struct IndexSnapshot {
    pub(crate) table_id: String,
    /// The servers that answered when the run began; `None` when none did.
    pub(crate) servers: Option<ServerIdentity>,
    watermarks: BTreeMap<IndexPartition, Timestamp>,
    read_at: Timestamp,
    index_use: Mutex<IndexUse>,
}

impl IndexSnapshot {
    /// Reads the markers, and reports the partitions that are not kept up to date.
    pub(crate) async fn read(run: &Run<'_>, table_id: &str) -> Result<Self, StoreError> {
        let index = &run.job.index;
        let ledger = &run.ledger;
        let read = async { Ok((index.server_identity().await?, index.marks(table_id).await?)) };
        let mut servers = None;
        let mut marks = Vec::new();
        let mut index_use = IndexUse::InUse;
        match answer_of_index(read.await)? {
            IndexAnswer::Answered((read_servers, read_marks)) => {
                servers = Some(read_servers);
                marks = read_marks;
            }
            IndexAnswer::Away(error) => index_use = IndexUse::NeverAnswered(error.to_string()),
        }
        index_use.report(ledger);
        let all = index.partitions().count();
        let missing = all - marks.len();
        if servers.is_some() && missing > 0 {
            ledger.add_skipped(format!(
                "{missing} of {all} partitions of the page index, which are not ready and have no watermark: \
                 repair-job rebuild --apply"
            ));
        }
        Ok(Self {
            table_id: table_id.to_owned(),
            servers,
            watermarks: marks
                .into_iter()
                .map(|(partition, mark)| (partition, mark.watermark))
                .collect(),
            read_at: now(),
            index_use: Mutex::new(index_use),
        })
    }

    pub(crate) fn scope(&self) -> IndexScope<'_> {
        if self.is_in_use() && !self.watermarks.is_empty() {
            IndexScope::Snapshot(self)
        } else {
            IndexScope::Nothing
        }
    }

    pub(crate) fn has(&self, partition: IndexPartition) -> bool {
        self.watermarks.contains_key(&partition)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.watermarks.is_empty()
    }

    /// Checks that an index from which some products were just read is still the one of this
    /// snapshot.
    ///
    /// # Errors
    /// The index is not kept up to date any more, or does not answer. Nothing may be concluded from
    /// what was read.
    pub(crate) async fn assert_current(
        &self,
        index: &PageIndex,
        products: impl IntoIterator<Item = &ProductId>,
    ) -> Result<(), StoreError> {
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        let partitions: BTreeSet<IndexPartition> = products
            .into_iter()
            .map(|product| index.partition_of(product))
            .collect();
        let since = self.watermarks_of(|partition, _| partitions.contains(partition));
        index
            .assert_up_to_date(&self.table_id, &since, servers)
            .await
    }

    /// Whether the index is still the one of this snapshot, so that a run may remember what it
    /// checked and repaired there. If not, the run stops using the index, and reports why.
    ///
    /// Without this check, the run would remember repairs that a fail-over or a restored snapshot
    /// has taken with it.
    pub(crate) async fn has_kept_repairs(&self, run: &Run<'_>) -> Result<bool, StoreError> {
        let Some(servers) = self.servers_in_use() else {
            return Ok(false);
        };
        let since = self.watermarks_of(|_, _| true);
        let index = &run.job.index;
        let asserted = index.assert_up_to_date(&self.table_id, &since, servers);
        match answer_of_index(asserted.await)? {
            IndexAnswer::Answered(()) => Ok(true),
            IndexAnswer::Away(error) => {
                self.give_up(&error.to_string(), &run.ledger);
                Ok(false)
            }
        }
    }

    /// Whether a watermark is later than the present: a clock is wrong, or was.
    fn is_doubted(&self, watermark: Timestamp) -> bool {
        watermark > self.read_at
    }

    /// Drops partitions whose watermarks are older than `oldest`, because the journal does not
    /// reach back to them. Reports doubted watermarks.
    pub(crate) fn judge_watermarks(&mut self, oldest: Timestamp, ledger: &Ledger) {
        let before = self.watermarks.len();
        self.watermarks.retain(|_, watermark| *watermark >= oldest);
        let dropped = before - self.watermarks.len();
        if dropped > 0 {
            ledger.add_unresolved(format!(
                "the journal does not reach back to the watermarks of {dropped} partitions of the page index: \
                 repair-job rebuild --apply"
            ));
        }
        let doubted = self
            .watermarks
            .values()
            .filter(|watermark| self.is_doubted(**watermark))
            .count();
        if doubted > 0 {
            ledger.add_unresolved(format!(
                "the watermarks of {doubted} partitions of the page index are later than the present: a clock is wrong, or \
                 was; the journal is read from its beginning"
            ));
        }
    }

    /// From when on each partition must be reconciled: its watermark, or `oldest` when the
    /// watermark is doubted.
    pub(crate) fn begins(&self, oldest: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.watermarks.values().map(move |watermark| {
            if self.is_doubted(*watermark) {
                oldest
            } else {
                *watermark
            }
        })
    }

    /// Stops using the page index in this run, and reports why.
    pub(crate) fn give_up(&self, why: &str, ledger: &Ledger) {
        let mut index_use = self.index_use.lock();
        if let IndexUse::InUse = *index_use {
            *index_use = IndexUse::GivenUp(why.to_owned());
            index_use.report(ledger);
        }
    }

    pub(crate) fn is_in_use(&self) -> bool {
        matches!(*self.index_use.lock(), IndexUse::InUse)
    }

    fn watermarks_of(
        &self,
        is_wanted: impl Fn(&IndexPartition, &Timestamp) -> bool,
    ) -> Vec<(IndexPartition, Timestamp)> {
        let wanted = self
            .watermarks
            .iter()
            .filter(|(partition, watermark)| is_wanted(partition, watermark));
        wanted
            .map(|(partition, watermark)| (*partition, *watermark))
            .collect()
    }

    fn servers_in_use(&self) -> Option<&ServerIdentity> {
        if self.is_in_use() {
            self.servers.as_ref()
        } else {
            None
        }
    }

    /// Advances the watermarks after the journal has been reconciled up to `to`. Doubted watermarks
    /// wait for the end.
    pub(crate) async fn advance(
        &mut self,
        index: &PageIndex,
        to: Timestamp,
        is_last: bool,
        ledger: &Ledger,
    ) -> Result<(), StoreError> {
        let Some(servers) = self.servers_in_use() else {
            return Ok(());
        };
        let from = self.watermarks_of(|_, watermark| {
            if self.is_doubted(*watermark) {
                is_last
            } else {
                *watermark < to
            }
        });
        if from.is_empty() {
            return Ok(());
        }
        let advanced = async {
            let prepared = index
                .prepare_advance(&self.table_id, &from, servers)
                .await?;
            index.advance(prepared, to).await
        };
        let advanced = match answer_of_index(advanced.await)? {
            IndexAnswer::Answered(advanced) => advanced,
            IndexAnswer::Away(error) => {
                self.give_up(&error.to_string(), ledger);
                return Ok(());
            }
        };
        for (partition, _) in &from {
            if advanced.contains(partition) {
                self.watermarks.insert(*partition, to);
            } else {
                self.watermarks.remove(partition);
            }
        }
        let others = from.len() - advanced.len();
        if others > 0 {
            ledger.add_skipped(format!(
                "the watermarks of {others} partitions of the page index, whose markers have changed meanwhile (a rebuild, \
                 or the index was lost)"
            ));
        }
        Ok(())
    }
}
