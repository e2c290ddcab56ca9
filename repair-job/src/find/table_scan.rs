//! Finds suspect comments by a scan of one segment of the table.
//!
//! A scan returns the items of one comment one after the other. So they are compared as they
//! arrive: eventually consistent, and each read once. Any comment that is not exactly right is
//! *suspect*. The repair reads it again. So an item that was about to change does no harm, nor a
//! collection that a scan returns in pieces.
//!
//! When a comment is right in the table, the table's own indexes may be asked for it, and its entry in
//! the page index is also checked. The index scan finds superfluous entries.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use model::{
    CommentId, Malformed,
    item::{COMMENT_PREFIX, Image, attribute, comment_id_of_pk, text},
    plan::reconcile::{Collection, Places},
};
use page_index::Sought;
use process::{Remedy, StoreError};
use serde_dynamo::Item;
use table::ItemKey;

use crate::{
    repair::{
        index_snapshot::{IndexScope, IndexSnapshot},
        is_in_indexes,
        pipeline::{Finder, Finding},
    },
    run::{Job, Run, index_is_away},
};

/// Maximum number of items read in one call. An answer also ends after a megabyte.
const SCAN_LIMIT: u32 = 2_000;

/// Maximum number of items of one id kept in memory. A comment never has as many.
const COLLECTION_MAX: usize = 500;

/// Number of comments whose entries in the table's indexes are asked for in parallel.
const ENTRIES_AT_ONCE: usize = 16;

pub(crate) struct TableScan<'run> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    segment: u32,
    segments: u32,
    compares_indexes: bool,
    /// The last item of the last whole comment.
    position: Option<ItemKey>,
    /// The last item that was read; `None` at the beginning.
    last: Option<ItemKey>,
    is_over: bool,
    open: Vec<Item>,
    resumes: &'run str,
}

impl<'run> TableScan<'run> {
    pub(crate) fn new(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        (segment, segments): (u32, u32),
        position: Option<ItemKey>,
        compares_indexes: bool,
        resumes: &'run str,
    ) -> Self {
        let last = position.clone();
        Self {
            run,
            snapshot,
            segment,
            segments,
            compares_indexes,
            position,
            last,
            is_over: false,
            open: Vec::new(),
            resumes,
        }
    }

    /// The comments of which all items were read. The last comment of an answer may go on in the
    /// next answer.
    fn whole_collections(&mut self, items: Vec<Item>) -> Vec<Vec<Item>> {
        let mut whole = Vec::new();
        for item in items {
            if let Some(first) = self.open.first()
                && first.get(attribute::PK) != item.get(attribute::PK)
            {
                self.position = self.open.last().and_then(key_of);
                whole.push(std::mem::take(&mut self.open));
            }
            // A collection that is cut off here is suspect by what is kept, and is read again as a
            // whole.
            if self.open.len() < COLLECTION_MAX {
                self.open.push(item);
            }
        }
        if self.is_over && !self.open.is_empty() {
            whole.push(std::mem::take(&mut self.open));
        }
        whole
    }

    async fn compare(
        &self,
        collections: &[Vec<Item>],
    ) -> Result<(BTreeMap<CommentId, Places>, usize), StoreError> {
        let mut suspects: BTreeMap<CommentId, Places> = BTreeMap::new();
        let mut right: Vec<Image<'_>> = Vec::new();
        let mut checked = 0;
        for items in collections {
            let Some(pk) = items.first().and_then(|item| text(item, attribute::PK)) else {
                continue;
            };
            if !pk.starts_with(COMMENT_PREFIX) {
                continue;
            }
            let Some(id) = comment_id_of_pk(pk) else {
                let sk = items
                    .first()
                    .and_then(|item| text(item, attribute::SK))
                    .unwrap_or_default();
                let malformed = Malformed::of_item(pk, sk, attribute::PK, "is not a comment's");
                self.run.ledger.add_unresolved(malformed.to_string());
                continue;
            };
            checked += 1;
            match Collection::whole(items) {
                // The index scan finds the ranks that an unpublished comment still has.
                Some(image) => right.push(image),
                None => {
                    suspects.insert(id, Places::default());
                }
            }
        }
        for image in self.without_entries(&right).await? {
            suspects.insert(image.id.clone(), Places::default());
        }
        right.retain(|image| image.status.is_published());
        for image in self.without_ranks(&right).await? {
            // They may be in the index with another creation time.
            let places = Places::of(&image.entry()).at_any_time();
            suspects.insert(image.id.clone(), places);
        }
        Ok((suspects, checked))
    }

    /// The comments of which an index of the table lacks the item.
    async fn without_entries<'images, 'items>(
        &self,
        comments: &'images [Image<'items>],
    ) -> Result<Vec<&'images Image<'items>>, StoreError> {
        if !self.compares_indexes {
            return Ok(Vec::new());
        }
        let Job {
            table, settings, ..
        } = self.run.job;
        let mut written = Vec::new();
        let mut asked = Vec::new();
        for image in comments {
            if is_in_indexes(image, settings) {
                written.push(image);
                asked.push(table.indexes_without(image.item));
            }
        }
        let answers: Vec<_> = stream::iter(asked)
            .buffered(ENTRIES_AT_ONCE)
            .try_collect()
            .await?;
        let mut without = Vec::new();
        for (image, indexes) in written.into_iter().zip(answers) {
            if !indexes.is_empty() {
                without.push(image);
            }
        }
        Ok(without)
    }

    /// The comments that are not in their base sets with the right scores.
    async fn without_ranks<'images, 'items>(
        &self,
        comments: &'images [Image<'items>],
    ) -> Result<Vec<&'images Image<'items>>, StoreError> {
        let IndexScope::Snapshot(snapshot) = self.snapshot.scope() else {
            return Ok(Vec::new());
        };
        let index = &self.run.job.index;
        let comments: Vec<&Image<'_>> = comments
            .iter()
            .filter(|image| snapshot.has(index.partition_of(&image.placement.product)))
            .collect();
        let sought: Vec<Sought<'_>> = comments
            .iter()
            .map(|image| Sought {
                product: &image.placement.product,
                id: &image.id,
                times: Some([image.created_at].into()),
            })
            .collect();
        let entries = match index.entries(&sought).await {
            // A key holds something other than a base set. `repair` finds the affected comments.
            Err(error) if error.remedy() == Remedy::Quarantine => return Ok(comments),
            // The duplicates are still checked.
            Err(error) if index_is_away(&error) => {
                snapshot.give_up(&error.to_string(), &self.run.ledger);
                return Ok(Vec::new());
            }
            entries => entries?,
        };
        let mut without = Vec::new();
        for (image, entries) in comments.into_iter().zip(entries) {
            if entries != [image.entry()] {
                without.push(image);
            }
        }
        Ok(without)
    }
}

impl Finder for TableScan<'_> {
    /// `None` before the first comment.
    type ScanPosition = Option<ItemKey>;

    async fn find(&mut self) -> Result<Option<Finding<Self::ScanPosition>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let table = &self.run.job.table;
        let last = self.last.take();
        let scanned = table
            .scan_segment(last, self.segment, self.segments, SCAN_LIMIT)
            .await?;
        self.is_over = scanned.next.is_none();
        self.last = scanned.next;
        let read = scanned.rows.len() as u64;
        self.run.ledger.report().items += read;
        let whole = self.whole_collections(scanned.rows);
        let (suspects, checked) = self.compare(&whole).await?;
        Ok(Some(Finding {
            suspects: suspects.into(),
            checked,
            steps: read,
            position: self.position.clone(),
            is_last: self.is_over,
        }))
    }

    fn resumes(&self) -> String {
        self.resumes.to_owned()
    }
}

fn key_of(item: &Item) -> Option<ItemKey> {
    Some(ItemKey {
        pk: text(item, attribute::PK)?.to_owned(),
        sk: text(item, attribute::SK)?.to_owned(),
    })
}
