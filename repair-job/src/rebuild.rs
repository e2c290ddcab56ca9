//! `rebuild`: from the table to the page index, then the markers.
//!
//! There are two ways of reading the comments. Where the product catalogue is whole (`model::catalogue`), product by product:
//! the index `gsi` has the primary items of a product under one key, so nothing is read but those. Otherwise, or when it is
//! told to, by a scan of the whole table, of which they are one item in 32; it lists the products that it meets, so that
//! the next rebuild has a catalogue.
//!
//! Live writes may go on: a comment that changes during the rebuild has a journal entry, and every comment that the
//! journal names is reconciled after the table has been read. So what was read too early cannot stay in the index.
//!
//! **Invariant:** every comment written through a writer is read, or named by the journal that is read. By a scan: what a
//! replica did not have yet was written later than the overlap before it began. By the catalogue: a product that is not
//! listed has no comments but such as were written since the catalogue ends, and what `gsi` did not have yet was written
//! later than [`INDEX_LAG`] before the rebuild began; the journal is read from the earlier of the two
//! (`tests/repair/catalogue.rs`). A comment put there behind the writers' backs, of a product that nobody else commented, is
//! found by a scan and by the audit.
//!
//! The journal is read again until little has been left, so that the index is ready when a rebuild ends, however long it
//! took; and it is marked up to where the last pass found the journal complete, never further
//! (`tests/repair/rebuild.rs`).

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Mutex,
    time::Duration,
};

use futures_util::{TryStreamExt, future::try_join, stream};
use model::{
    FilterKey, Instant, ProductId,
    catalogue::{Catalogue, NotWhole},
    item::{Image, PlacedComment, attribute, text},
    plan::{IndexEdit, index_edits},
};
use serde_dynamo::Item;
use stores::{
    PageIndex, StoreError, Table,
    capacity::Meter,
    now,
    table::{ProductPosition, ScanOf},
};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    catalogue::{Listing, product_of},
    changed::{Reader, reconcile_part, windows},
    error::RepairError,
    job::{Job, JobSettings, Run},
    recent::oldest_entry,
    reconcile::{IndexScope, Scope},
    report::Report,
    stop::Stop,
    vouch::remember_rebuild,
};

/// Items read in one call; an answer ends at a megabyte read.
const READ_LIMIT: u32 = 4_000;

/// So many edits are sent together: enough to hide the round trip, also when each product has few comments.
const EDITS_TOGETHER: usize = 128;

/// Items of a comment, of which a rebuild by the catalogue reads one.
const ITEMS_OF_A_COMMENT: u64 = 32;

/// How far behind the table its index may be. AWS names no bound ("eventually consistent"); it is moments as a rule, and a
/// table whose index does not keep up is throttled.
pub(crate) const INDEX_LAG: Duration = Duration::from_secs(600);

/// Of so many entries that cannot be read it is known that they have been counted.
const UNREADABLE_KNOWN_MAX: usize = 10_000;

/// How often the journal is read at most, and a pass over it that took no longer is the last.
const PASSES_MAX: u32 = 10;
const PASS_MS_SHORT: i64 = 60_000;

/// What a rebuild did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Items read from the table.
    pub items: u64,
    /// Products that were read one by one; `None` when the whole table was scanned.
    pub products: Option<u64>,
    /// Comments put into the page index.
    pub comments: u64,
    /// Comments that changed meanwhile and were reconciled.
    pub changed_meanwhile: u64,
    /// Primary items that cannot be read; a person has to look.
    pub unresolved: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// Rebuilds the page index, reading `segments` products, or parts of the table, at the same time.
///
/// # Errors
/// A store's, also that the page index was lost meanwhile or that another rebuild began: the index is then not ready,
/// and running it again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<RebuildReport, RepairError> {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    let job = Job::new(table.clone(), index.clone(), settings, Meter::default(), Stop::default());
    let filled = Mutex::new(Filled::default());
    let mut failed = None;
    let report = job
        .without_lease("rebuild", async |run| {
            match Box::pin(rebuild_index(run, segments, false)).await {
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

impl Job {
    /// Rebuilds the page index, by the product catalogue where that is whole; so many products, or segments of the table,
    /// are read at the same time. Without `--apply`, it only counts what it would put there.
    pub async fn rebuild(&self, segments: u32) -> Report {
        self.rebuild_by(segments, false).await
    }

    /// The same by a scan of the whole table, whatever the product catalogue is worth.
    pub async fn rebuild_by_scan(&self, segments: u32) -> Report {
        self.rebuild_by(segments, true).await
    }

    async fn rebuild_by(&self, segments: u32, by_scan: bool) -> Report {
        let work = async |run: &Run<'_>| {
            let filled = Box::pin(rebuild_index(run, segments, by_scan)).await?;
            run.add_note(format!(
                "{} comments, of which {} changed meanwhile",
                filled.comments, filled.changed_meanwhile
            ));
            run.add_note(filled.way);
            Ok(())
        };
        self.run("rebuild", "rebuild", work).await
    }
}

#[derive(Debug, Clone, Default)]
struct Filled {
    /// Which way it was read, and why.
    way: String,
    products: Option<u64>,
    comments: u64,
    changed_meanwhile: u64,
}

/// From when on the journal is to be read beside the catalogue; or why the table is scanned.
pub(crate) async fn catalogue_reaches(job: &Job, table_id: &str) -> Result<Result<Instant, NotWhole>, RepairError> {
    let present = now();
    let found = job.table.catalogue().await?;
    Ok(Catalogue::reaches(found.as_ref(), table_id, oldest_entry(present), present))
}

async fn rebuild_index(run: &Run<'_>, segments: u32, by_scan: bool) -> Result<Filled, RepairError> {
    let job = run.job;
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    // An entry may come after this, and its clock may be wrong; and a replica may lag.
    let margin = |at: Instant| at.plus_ms(-ms(job.settings.settle)).plus_ms(-ms(job.settings.overlap));
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
        run.add_skipped(
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
        let changed = follow_journal(run, reconciled_to, to, listed_to, &mut unreadable);
        let (comments, was_whole) = Box::pin(changed).await?;
        filled.changed_meanwhile += comments;
        is_whole &= was_whole;
        // Entries of later than that may have come after they were looked for.
        reconciled_to = present.plus_ms(-ms(job.settings.settle));
        if !is_whole || now().epoch_ms() - present.epoch_ms() <= PASS_MS_SHORT {
            break;
        }
    }
    // What it mends there is its own doing, not a difference that there was.
    run.forget_drift();
    if is_whole {
        remember_rebuild(&job.table, &rebuild).await?;
        job.index.finish_rebuild(&rebuild, &described.id, reconciled_to).await?;
    } else {
        run.add_skipped("the page index is not ready; the next rebuild begins anew".to_owned());
    }
    job.progress.set_share(1, 1);
    Ok(filled)
}

/// Reconciles what the journal names; returns how many comments, and whether all of them. An entry that cannot be read and
/// is not among the `unreadable` is reported. Where products were read by the catalogue, which lists all until `listed_to`, one
/// of later may name a product that was not read: then not all of them were reconciled.
async fn follow_journal(
    run: &Run<'_>,
    from: Instant,
    to: Instant,
    listed_to: Option<Instant>,
    unreadable: &mut BTreeSet<String>,
) -> Result<(u64, bool), RepairError> {
    let scope = Scope { duplicates: false, index: IndexScope::All };
    let (mut comments, mut is_whole) = (0, true);
    for window in windows(from, to) {
        let mut reader = Reader::new(window);
        while !run.must_stop(next_begins_anew)
            && let Some(part) = reader.next(&run.job.table).await?
        {
            for (at, what) in part.unreadable {
                if listed_to.is_some_and(|listed_to| at >= listed_to) {
                    if is_whole {
                        run.add_skipped(format!("the product that {what} may name, and others: rebuild --scan"));
                    }
                    is_whole = false;
                }
                if unreadable.len() >= UNREADABLE_KNOWN_MAX || unreadable.insert(what.clone()) {
                    run.add_unresolved(what);
                }
            }
            let outcome = Box::pin(reconcile_part(run, part.window, part.named, &scope)).await?;
            comments += outcome.comments;
            is_whole &= outcome.is_whole && !outcome.index_was_away;
        }
    }
    Ok((comments, is_whole && run.job.stop.reason().is_none()))
}

fn next_begins_anew() -> String {
    "the next rebuild begins anew".to_owned()
}

/// Where comments are read from.
struct Source<'run> {
    run: &'run Run<'run>,
    /// How many parts of it are read at the same time.
    segments: u32,
    /// About how many items the table has.
    items: u64,
}

impl Source<'_> {
    /// Reads the products that are listed, one query or several each.
    async fn by_catalogue(&self) -> Result<Filled, RepairError> {
        let products =
            AsyncMutex::new(Products { table: &self.run.job.table, read: VecDeque::new(), next: Some(None) });
        let readers = stream::iter((0..self.segments).map(Ok::<u32, RepairError>))
            .map_ok(|_| self.read_products(&products))
            .try_buffer_unordered(usize::try_from(self.segments).unwrap_or(1));
        let read: Vec<(u64, u64)> = readers.try_collect().await?;
        let (products, comments) = read.into_iter().fold((0, 0), |sum, read| (sum.0 + read.0, sum.1 + read.1));
        Ok(Filled { products: Some(products), comments, ..Filled::default() })
    }

    /// Reads products until there is none left; returns how many, and how many comments they have.
    async fn read_products(&self, products: &AsyncMutex<Products<'_>>) -> Result<(u64, u64), RepairError> {
        let (table, mut pipe, mut count) = (&self.run.job.table, Pipe::new(self.run), 0);
        loop {
            let product = products.lock().await.next().await?;
            let Some(product) = product else { return Ok((count, pipe.end().await?)) };
            let mut position = None;
            loop {
                if self.run.must_stop(next_begins_anew) {
                    return Ok((count, pipe.comments));
                }
                let part = pipe.while_reading(table.primary_part(&product, position, READ_LIMIT)).await?;
                self.run.add_items(part.read, self.items / ITEMS_OF_A_COMMENT);
                pipe.take(part.comments.into_iter().map(|comment| comment.map_err(|what| what.to_string())));
                position = part.next;
                if position.is_none() {
                    break;
                }
            }
            count += 1;
        }
    }

    /// Reads every item of the table, and lists the products.
    async fn by_scan(&self, listing: &Listing<'_>) -> Result<Filled, RepairError> {
        let parts = stream::iter((0..self.segments).map(Ok::<u32, RepairError>))
            .map_ok(|segment| self.read_segment(segment, listing))
            .try_buffer_unordered(usize::try_from(self.segments).unwrap_or(1));
        let comments: Vec<u64> = parts.try_collect().await?;
        Ok(Filled { comments: comments.into_iter().sum(), ..Filled::default() })
    }

    /// Returns how many comments it has put into the page index.
    async fn read_segment(&self, segment: u32, listing: &Listing<'_>) -> Result<u64, RepairError> {
        let (table, mut pipe, mut position) = (&self.run.job.table, Pipe::new(self.run), None);
        loop {
            if self.run.must_stop(next_begins_anew) {
                return Ok(pipe.comments);
            }
            let scan = table.scan_segment(ScanOf::Placements, position, segment, self.segments, READ_LIMIT);
            let scanned = pipe.while_reading(scan).await?;
            self.run.add_items(scanned.read, self.items);
            pipe.take(scanned.items.iter().filter_map(|item| placed(item).transpose()));
            listing.list(scanned.items.iter().filter_map(product_of)).await?;
            position = scanned.next;
            if position.is_none() {
                return pipe.end().await;
            }
        }
    }
}

/// The products that are listed, in no order.
struct Products<'table> {
    table: &'table Table,
    read: VecDeque<ProductId>,
    /// Where to go on, `None` at the end.
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

/// What is on its way from the table to the page index.
struct Pipe<'run> {
    run: &'run Run<'run>,
    edits: Vec<IndexEdit>,
    /// Comments that it has taken.
    comments: u64,
}

impl<'run> Pipe<'run> {
    fn new(run: &'run Run<'run>) -> Self {
        Self { run, edits: Vec::new(), comments: 0 }
    }

    /// Writes what was read, if it is worth a call, while more is read.
    async fn while_reading<T>(&mut self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.edits.len() < EDITS_TOGETHER {
            return read.await;
        }
        let (read, ()) = try_join(read, self.apply()).await?;
        self.edits.clear();
        Ok(read)
    }

    /// Takes comments, or what is wrong with such as cannot be read.
    fn take(&mut self, comments: impl Iterator<Item = Result<PlacedComment, String>>) {
        let before = self.edits.len();
        for comment in comments {
            match comment {
                Ok(PlacedComment { id, placement, created_at }) => {
                    self.edits.extend(index_edits(&id, Some((&placement, created_at)), &[]));
                }
                Err(what) => self.run.add_unresolved(what),
            }
        }
        let taken = self.edits.len() - before;
        self.comments += u64::try_from(taken).unwrap_or(u64::MAX);
        self.run.add_checked(taken);
    }

    /// Writes the rest; returns how many comments there were.
    async fn end(self) -> Result<u64, RepairError> {
        self.apply().await?;
        Ok(self.comments)
    }

    async fn apply(&self) -> Result<(), StoreError> {
        if self.run.job.settings.apply { self.run.job.index.apply(&self.edits).await } else { Ok(()) }
    }
}

/// Where the comment of an item stands; nothing of one that is no primary item; what is wrong with an invalid one.
fn placed(item: &Item) -> Result<Option<PlacedComment>, String> {
    if !text(item, attribute::SK).is_some_and(|sk| sk.ends_with(FilterKey::PRIMARY_SUFFIX)) {
        return Ok(None);
    }
    let image = Image::of_primary(item).map_err(|malformed| malformed.to_string())?;
    Ok(Some(image.into_placed()))
}
