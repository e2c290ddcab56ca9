//! `rebuild`: fills the page index from the table, then writes the markers.
//!
//! A rebuild reads the comments in one of two ways:
//!
//! - By the product catalogue, if that is whole (`model::catalogue`): product by product. The index `gsi` has the
//!   primary items of a product under one key, so the rebuild reads nothing else.
//! - By a scan of the whole table otherwise, or on request. One item in 32 is a primary item. The scan lists the
//!   products that it meets, so that the next rebuild has a catalogue.
//!
//! Live writes may continue. A comment that changes during the rebuild has a journal entry. After the table has been
//! read, every comment that the journal names is reconciled. So an outdated read cannot stay in the index.
//!
//! **Invariant:** every comment written through a writer is read, or is named by the journal entries that are read
//! (`tests/repair/catalogue.rs`).
//!
//! - By a scan: a replica lacks only writes later than the scan's beginning minus the overlap.
//! - By the catalogue: a product that is not listed has only comments written since the catalogue ends. The index `gsi`
//!   lacks only writes later than the rebuild's beginning minus [`INDEX_LAG`]. The journal is read from the earlier of
//!   the two.
//!
//! An item that bypassed the writers, of a product without other comments, is found by a scan and by the audit.
//!
//! The journal is read again until a pass is short. So the index is ready when a rebuild ends, however long it took.
//! The markers get the instant up to which the last pass found the journal complete, never a later one
//! (`tests/repair/rebuild.rs`).

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Mutex,
    time::Duration,
};

use futures_util::{TryStreamExt, future::try_join, stream};
use model::{
    FilterKey, ProductId, Timestamp,
    catalogue::{Catalogue, NotWhole},
    item::{Image, PlacedComment, attribute, text},
    plan::{IndexEdit, index_edits},
};
use page_index::PageIndex;
use process::{StoreError, now};
use serde_dynamo::Item;
use table::{ProductPosition, ScanOf, Table, capacity::Meter};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    catalogue::{Listing, product_of},
    find::journal::{JournalFinder, Part, Window, oldest_entry},
    index_snapshot::{IndexScope, Scope},
    outcome::Outcome,
    pipeline::{Checkpoint, find_and_repair},
    runner::{Job, Run},
    settings::{JobSettings, ms},
    stop::Stop,
    vouch::remember_rebuild,
};

/// Maximum number of items read in one call. An answer also ends after a megabyte.
const READ_LIMIT: u32 = 4_000;

/// Number of edits sent together: enough to hide the round trip, even when each product has few comments.
const EDITS_TOGETHER: usize = 128;

/// Number of items per comment. A rebuild by the catalogue reads one of them.
const ITEMS_OF_A_COMMENT: u64 = 32;

/// How far the table's index may lag behind the table. AWS names no bound ("eventually consistent"). The lag is usually
/// moments, and DynamoDB throttles a table whose index does not keep up.
pub(crate) const INDEX_LAG: Duration = Duration::from_secs(600);

/// Maximum number of unreadable entries that are remembered as counted.
const UNREADABLE_KNOWN_MAX: usize = 10_000;

/// Maximum number of passes over the journal.
const PASSES_MAX: u32 = 10;
/// A pass over the journal that takes no longer is the last.
const PASS_MS_SHORT: i64 = 60_000;

/// The result of a rebuild.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Items read from the table.
    pub items: u64,
    /// Products read one by one; `None` when the whole table was scanned.
    pub products: Option<u64>,
    /// Comments put into the page index.
    pub comments: u64,
    /// Comments that changed meanwhile and were reconciled.
    pub changed_meanwhile: u64,
    /// Primary items that cannot be read. A person must look.
    pub unresolved: Vec<String>,
    /// Duration of the rebuild.
    pub took: Duration,
}

/// Rebuilds the page index. Reads `segments` products, or parts of the table, in parallel.
///
/// # Errors
/// A store's. The page index may also have been lost meanwhile, or another rebuild may have begun. The index is then
/// not ready, and running the rebuild again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<RebuildReport, StoreError> {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    let job = Job::new(table.clone(), index.clone(), settings, Meter::default(), Stop::default());
    let filled = Mutex::new(Filled::default());
    let mut failed = None;
    let report = job
        .run("rebuild", None, async |run| {
            match Box::pin(fill_index(run, segments, false)).await {
                Ok(done) => *filled.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = done,
                Err(error) => failed = Some(error),
            }
            Ok(())
        })
        .await;
    if let Some(error) = failed {
        return Err(error);
    }
    let filled = filled.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(RebuildReport {
        items: report.items,
        products: filled.products,
        comments: filled.comments,
        changed_meanwhile: filled.changed_meanwhile,
        unresolved: report.unresolved,
        took: Duration::from_secs_f64(report.seconds),
    })
}

/// Rebuilds the page index, and notes what was read.
pub(crate) async fn rebuild_index(run: &Run<'_>, segments: u32, by_scan: bool) -> Result<(), StoreError> {
    let filled = fill_index(run, segments, by_scan).await?;
    run.ledger
        .add_note(format!("{} comments, of which {} changed meanwhile", filled.comments, filled.changed_meanwhile));
    run.ledger.add_note(filled.way);
    Ok(())
}

#[derive(Debug, Clone, Default)]
struct Filled {
    /// How the comments were read, and why.
    way: String,
    products: Option<u64>,
    comments: u64,
    changed_meanwhile: u64,
}

/// The instant from which the journal must be read besides the catalogue, or why the table must be scanned.
pub(crate) async fn catalogue_reaches(job: &Job, table_id: &str) -> Result<Result<Timestamp, NotWhole>, StoreError> {
    let present = now();
    let found = job.table.catalogue().await?;
    Ok(Catalogue::reaches(found.as_ref(), table_id, oldest_entry(present), present))
}

async fn fill_index(run: &Run<'_>, segments: u32, by_scan: bool) -> Result<Filled, StoreError> {
    let job = run.job;
    // Covers entries that arrive late, wrong clocks and replicas that lag.
    let margin = |at: Timestamp| at.plus_ms(-ms(job.settings.settle)).plus_ms(-ms(job.settings.overlap));
    let described = job.table.describe().await?;
    let began = now();
    let reaches = match by_scan {
        true => Err("it was asked for".to_owned()),
        false => catalogue_reaches(job, &described.id).await?.map_err(|why| why.to_string()),
    };
    let rebuild = if job.settings.apply { Some(job.index.begin_rebuild().await?) } else { None };
    let source = Source { run, segments: segments.max(1), items: described.items };
    let listed_to = reaches.as_ref().ok().copied();
    let (mut filled, read_from) = match reaches {
        Ok(listed_to) => {
            let read = source.by_catalogue().await?;
            let way = format!(
                "{} products of the product catalogue were read, and the journal since {listed_to}, where that ends",
                read.products.unwrap_or_default()
            );
            (Filled { way, ..read }, margin(listed_to).min(margin(began).plus_ms(-ms(INDEX_LAG))))
        }
        Err(why) => {
            let listing = Listing::new(run);
            let read = source.by_scan(&listing).await?;
            let filled = Filled { way: format!("the whole table was scanned: {why}"), ..read };
            if job.stop.reason().is_none() {
                listing.scanned(&described.id, margin(began)).await?;
            }
            (filled, margin(began))
        }
    };
    let Some(rebuild) = rebuild else { return Ok(filled) };
    let mut is_whole = job.stop.reason().is_none();
    // Reading may have taken hours, and entries expire.
    if read_from < oldest_entry(now()) {
        is_whole = false;
        run.ledger.add_skipped(
            "the journal does not reach back any more to where the product catalogue ends: repair-job rebuild --scan"
                .to_owned(),
        );
    }
    let mut reconciled_to = read_from;
    let mut unreadable = BTreeSet::new();
    for _ in 0..PASSES_MAX {
        let present = now();
        // Clocks of writers may be ahead.
        let to = present.plus_ms(ms(job.settings.settle));
        let mut finder = JournalFinder::new(&job.table, Window { from: reconciled_to, to }, NEXT_STARTS_ANEW);
        let mut changed = ChangedMeanwhile { run, listed_to, unreadable: &mut unreadable, comments: 0, is_whole: true };
        is_whole &= Box::pin(find_and_repair(run, &mut finder, &mut changed)).await? && changed.is_whole;
        filled.changed_meanwhile += changed.comments;
        // Later entries may have arrived after this pass looked for them.
        reconciled_to = present.plus_ms(-ms(job.settings.settle));
        if !is_whole || now().epoch_ms() - present.epoch_ms() <= PASS_MS_SHORT {
            break;
        }
    }
    // These repairs follow from the rebuild itself. They are not differences that existed before.
    run.ledger.forget_drift();
    if is_whole {
        remember_rebuild(&job.table, &rebuild).await?;
        job.index.finish_rebuild(&rebuild, &described.id, reconciled_to).await?;
    } else {
        run.ledger.add_skipped("the page index is not ready; the next rebuild starts anew".to_owned());
    }
    Ok(filled)
}

/// For a person: what the next run does, before an instant.
const NEXT_STARTS_ANEW: &str = "the next rebuild starts anew; this one stopped at";

/// The checkpoint of the comments that changed during the rebuild. It stores nothing.
///
/// An unreadable entry is reported unless it is already in `unreadable`. The catalogue lists all products until
/// `listed_to`. A later unreadable entry may name a product that was not read, and then not all comments were
/// reconciled.
struct ChangedMeanwhile<'run> {
    run: &'run Run<'run>,
    listed_to: Option<Timestamp>,
    unreadable: &'run mut BTreeSet<String>,
    comments: u64,
    /// Whether all comments were reconciled.
    is_whole: bool,
}

impl Checkpoint<Part> for ChangedMeanwhile<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope { duplicates: false, index: IndexScope::All }
    }

    async fn record(&mut self, part: Part, outcome: &Outcome) -> Result<bool, StoreError> {
        for (at, what) in part.unreadable {
            if self.listed_to.is_some_and(|listed_to| at >= listed_to) {
                if self.is_whole {
                    self.run
                        .ledger
                        .add_skipped(format!("the product that {what} may name, and others: rebuild --scan"));
                }
                self.is_whole = false;
            }
            if self.unreadable.len() >= UNREADABLE_KNOWN_MAX || self.unreadable.insert(what.clone()) {
                self.run.ledger.add_unresolved(what);
            }
        }
        self.comments += u64::try_from(outcome.checked()).unwrap_or(u64::MAX);
        self.is_whole &= outcome.left_out() == 0 && outcome.index_away().is_none();
        Ok(true)
    }
}

/// The source of the comments.
struct Source<'run> {
    run: &'run Run<'run>,
    /// How many parts are read in parallel.
    segments: u32,
    /// Approximate number of items in the table.
    items: u64,
}

impl Source<'_> {
    /// Counts items that were read.
    fn add_read(&self, items: u64) {
        self.run.ledger.report().items += items;
        self.run.job.progress.advance(items);
    }

    /// Reads the listed products, each by one or more queries.
    async fn by_catalogue(&self) -> Result<Filled, StoreError> {
        self.run.job.progress.expect(self.items / ITEMS_OF_A_COMMENT);
        let products =
            AsyncMutex::new(Products { table: &self.run.job.table, read: VecDeque::new(), next: Some(None) });
        let readers = stream::iter((0..self.segments).map(Ok::<u32, StoreError>))
            .map_ok(|_| self.read_products(&products))
            .try_buffer_unordered(usize::try_from(self.segments).unwrap_or(1));
        let read: Vec<(u64, u64)> = readers.try_collect().await?;
        let (products, comments) = read.into_iter().fold((0, 0), |sum, read| (sum.0 + read.0, sum.1 + read.1));
        Ok(Filled { products: Some(products), comments, ..Filled::default() })
    }

    /// Reads products until none is left. Returns the number of products and of their comments.
    async fn read_products(&self, products: &AsyncMutex<Products<'_>>) -> Result<(u64, u64), StoreError> {
        let (table, mut pipe, mut count) = (&self.run.job.table, Pipe::new(self.run), 0);
        loop {
            let product = products.lock().await.next().await?;
            let Some(product) = product else { return Ok((count, pipe.end().await?)) };
            let mut position = None;
            loop {
                if self.run.must_stop("the next rebuild starts anew") {
                    return Ok((count, pipe.comments));
                }
                let part = pipe.while_reading(table.primary_part(&product, position, READ_LIMIT)).await?;
                self.add_read(part.read);
                pipe.take(part.comments.into_iter().map(|comment| comment.map_err(|what| what.to_string())));
                position = part.next;
                if position.is_none() {
                    break;
                }
            }
            count += 1;
        }
    }

    /// Reads every item of the table and lists the products.
    async fn by_scan(&self, listing: &Listing<'_>) -> Result<Filled, StoreError> {
        self.run.job.progress.expect(self.items);
        let parts = stream::iter((0..self.segments).map(Ok::<u32, StoreError>))
            .map_ok(|segment| self.read_segment(segment, listing))
            .try_buffer_unordered(usize::try_from(self.segments).unwrap_or(1));
        let comments: Vec<u64> = parts.try_collect().await?;
        Ok(Filled { comments: comments.into_iter().sum(), ..Filled::default() })
    }

    /// Reads one segment. Returns the number of comments put into the page index.
    async fn read_segment(&self, segment: u32, listing: &Listing<'_>) -> Result<u64, StoreError> {
        let (table, mut pipe, mut position) = (&self.run.job.table, Pipe::new(self.run), None);
        loop {
            if self.run.must_stop("the next rebuild starts anew") {
                return Ok(pipe.comments);
            }
            let scan = table.scan_segment(ScanOf::Placements, position, segment, self.segments, READ_LIMIT);
            let scanned = pipe.while_reading(scan).await?;
            self.add_read(scanned.read);
            pipe.take(scanned.items.iter().filter_map(|item| placed(item).transpose()));
            listing.list(scanned.items.iter().filter_map(product_of)).await?;
            position = scanned.next;
            if position.is_none() {
                return pipe.end().await;
            }
        }
    }
}

/// The listed products, in no particular order.
struct Products<'table> {
    table: &'table Table,
    read: VecDeque<ProductId>,
    /// Where to resume; `None` at the end.
    next: Option<Option<ProductPosition>>,
}

impl Products<'_> {
    async fn next(&mut self) -> Result<Option<ProductId>, StoreError> {
        while let (true, Some(position)) = (self.read.is_empty(), &self.next) {
            let (products, next) = self.table.listed_products(position.clone()).await?;
            self.read.extend(products);
            self.next = next.map(Some);
        }
        Ok(self.read.pop_front())
    }
}

/// The comments on their way from the table to the page index.
struct Pipe<'run> {
    run: &'run Run<'run>,
    edits: Vec<IndexEdit>,
    /// Number of comments taken so far.
    comments: u64,
}

impl<'run> Pipe<'run> {
    fn new(run: &'run Run<'run>) -> Self {
        Self { run, edits: Vec::new(), comments: 0 }
    }

    /// Writes the pending edits while more is read, if there are enough for a call.
    async fn while_reading<T>(&mut self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.edits.len() < EDITS_TOGETHER {
            return read.await;
        }
        let (read, ()) = try_join(read, self.apply()).await?;
        self.edits.clear();
        Ok(read)
    }

    /// Takes comments, or the errors of unreadable ones.
    fn take(&mut self, comments: impl Iterator<Item = Result<PlacedComment, String>>) {
        let before = self.edits.len();
        for comment in comments {
            match comment {
                Ok(PlacedComment { id, placement, created_at }) => {
                    self.edits.extend(index_edits(&id, Some((&placement, created_at)), &[]));
                }
                Err(what) => self.run.ledger.add_unresolved(what),
            }
        }
        let taken = self.edits.len() - before;
        self.comments += u64::try_from(taken).unwrap_or(u64::MAX);
        self.run.add_checked(taken);
    }

    /// Writes the rest. Returns the number of comments.
    async fn end(self) -> Result<u64, StoreError> {
        self.apply().await?;
        Ok(self.comments)
    }

    async fn apply(&self) -> Result<(), StoreError> {
        if self.run.job.settings.apply { self.run.job.index.apply(&self.edits).await } else { Ok(()) }
    }
}

/// The place of an item's comment. `None` when the item is not a primary item; an error when it is an invalid one.
fn placed(item: &Item) -> Result<Option<PlacedComment>, String> {
    if !text(item, attribute::SK).is_some_and(|sk| sk.ends_with(FilterKey::PRIMARY_SUFFIX)) {
        return Ok(None);
    }
    let image = Image::of_primary(item).map_err(|malformed| malformed.to_string())?;
    Ok(Some(image.into_placed()))
}
