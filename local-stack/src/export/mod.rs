//! The exporter: every comment of a table as the lines that an import reads, ordered by product,
//! creation time and id.
//!
//! 1. A scan stages the lines of published comments, by the indexes of the table. These lag, and
//!    comments change meanwhile. Or a scan of the table itself names every comment for step 2, for
//!    an engine that loses entries of its indexes.
//! 2. Every comment that the journal names since, or that the scan could not read, is read again,
//!    strongly consistent.
//! 3. The lines of the scan without those comments are merged with theirs, into the target.
//!
//! In memory are the ids of all products, and about 300 bytes for each comment that is read again.

mod google_reviews;
mod target;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Seek, Write},
    os::unix::fs::FileExt,
};

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::HumanCount;
use model::{
    AuthorId, Cd, Comment, CommentId, CommentText, FilterKey, InvalidInput, Malformed, ProductId,
    ProductRecord, Status, Timestamp,
    item::{COMMENT_PREFIX, attribute, comment_id_of_pk, comment_of_primary, comment_pk, text},
    plan::reconcile::Places,
    primaries::PRIMARIES_SHARDS,
    product::RECORD_SHARDS,
};
use process::now;
use repair_job::{
    JobSettings, Journal, Progress, Window, journal_from, journal_to, other_spellings,
    reaches_back_to, said_of_indexes, unresolved_comments,
};
use serde::{Deserialize, Serialize};
use serde_dynamo::Item;
use table::{ItemKey, Table};

use crate::import::{to_line, to_product_line};
use google_reviews::Feed;
pub use google_reviews::Publisher;
pub use target::ExportTarget;

/// Few, because the embedded engine answers one call at a time.
const PRODUCTS_AT_ONCE: usize = 4;
/// Maximum number of comments in one answer. An answer also ends after a megabyte.
const COMMENTS_MAX: u16 = 500;
const READS_AT_ONCE: usize = 16;
/// Maximum number of items in one answer of a scan of the table.
const SCANNED_MAX: u32 = 2_000;
const NOT_KEPT: &str = "what was read cannot be kept in a temporary file";

pub struct Export<'run> {
    table: &'run Table,
    named: BTreeSet<(CommentId, ProductId)>,
    /// Number of items that the export lacks, because they cannot be read.
    unreadable: u64,
    /// Number of items that the export holds, but that an import will refuse.
    refused: u64,
}

/// What an export holds.
#[derive(Debug, Serialize)]
pub struct ExportedComments {
    comments: u64,
    /// How many of them were read again at the end.
    read_again: u64,
    /// Every change that was acknowledged before this instant is in it. `None` for the comments of an
    /// author, whose index may lag.
    #[serde(rename = "has_changes_until")]
    holds: Option<Timestamp>,
    /// No change that was made later is in it.
    #[serde(rename = "has_none_after")]
    ends: Timestamp,
}

/// The lines of the comments that were read again.
struct ReadAgain {
    file: File,
    lines: BTreeMap<(ProductId, Cd), StagedLine>,
}

/// Where a line is in a file.
struct StagedLine {
    start: u64,
    bytes: usize,
}

impl StagedLine {
    fn read(&self, file: &File) -> io::Result<Vec<u8>> {
        let mut line = vec![0; self.bytes];
        file.read_exact_at(&mut line, self.start)?;
        Ok(line)
    }
}

impl<'run> Export<'run> {
    pub fn of(table: &'run Table) -> Self {
        Self {
            table,
            named: BTreeSet::new(),
            unreadable: 0,
            refused: 0,
        }
    }

    /// Exports all comments, and says what the export holds. The target stays as it was if that
    /// ends early. For a `publisher` they are a feed of its reviews. With `by_table`, comments are
    /// found by a scan of the table itself, not by its indexes.
    pub async fn comments(
        &mut self,
        target: &ExportTarget,
        publisher: Option<Publisher>,
        by_table: bool,
    ) -> anyhow::Result<ExportedComments> {
        let began = now();
        let settings = JobSettings::default();
        let mut scanned = target.stage()?;
        if by_table {
            self.name_all_of_table().await?;
        } else {
            scanned = self.scan(scanned).await?;
        }
        // An item without its keys is in no index. The repair job remembers those that it has met.
        self.name(unresolved_comments(self.table).await?);
        // A change that was acknowledged before has its entry in the journal, which is read
        // strongly consistent.
        let from = journal_from(began, &settings);
        let holds = now();
        let window = Window {
            from,
            to: journal_to(holds, &settings),
        };
        let mut journal = Journal::new(self.table, window);
        while let Some(part) = journal.next().await? {
            self.name(part.named);
            for problem in &part.unreadable {
                self.add_unreadable(problem);
            }
        }
        // Entries expire while the export reads.
        ensure!(
            reaches_back_to(from),
            "the journal has no longer every change since the export began; begin anew"
        );
        let named = std::mem::take(&mut self.named);
        let again = self.read_again(&named, target.stage()?).await?;
        let ends = now();
        let read_again = named.len() as u64;
        let name = &target.name;
        if let Some(publisher) = publisher {
            let records = self.read_records().await?;
            // Google deletes what a feed lacks.
            ensure!(
                self.unreadable == 0,
                "a feed has to be whole, and {} items cannot be read: `pagemark repair audit` looks at all",
                self.unreadable
            );
            let details = records.into_iter().map(|(id, record)| (id, record.details));
            let details = details.collect();
            let written = target.write(move |to| {
                let mut feed = Feed::begin(publisher, details, to)?;
                merge(scanned, &named, again, |line| feed.add(line))?;
                feed.end()
            });
            let report = written.await?;
            for line in report.lines(name) {
                eprintln!("{line}");
            }
            return Ok(ExportedComments {
                comments: report.reviews,
                read_again,
                holds: Some(holds),
                ends,
            });
        }
        let written =
            target.write(move |to| merge(scanned, &named, again, |line| to.write_all(line)));
        let comments = written.await?;
        eprintln!(
            "{name}: {} comments, of which {} were read again at the end",
            HumanCount(comments),
            HumanCount(read_again)
        );
        eprintln!(
            "{name}: every change acknowledged before {holds} is in it, and none made after {ends}"
        );
        Ok(ExportedComments {
            comments,
            read_again,
            holds: Some(holds),
            ends,
        })
    }

    /// Says since when an audit has compared the indexes, by which the comments were found.
    pub(crate) async fn say_how_found(&self, name: &str) -> anyhow::Result<()> {
        eprintln!("{name}: {}", said_of_indexes(self.table).await?);
        Ok(())
    }

    /// Exports the comments of an author, those too that readers do not see, ordered by id.
    pub(crate) async fn comments_of_author(
        &mut self,
        target: &ExportTarget,
        author: &AuthorId,
    ) -> anyhow::Result<ExportedComments> {
        let mut lines = Vec::new();
        let mut after = None;
        loop {
            let part = self
                .table
                .comments_of_author(author, after.as_ref(), COMMENTS_MAX)
                .await?;
            for comment in part.rows {
                match comment {
                    Ok(comment) => lines.push(to_line(comment)? + "\n"),
                    Err(problem) => self.add_unreadable(&problem.to_string()),
                }
            }
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        let ends = now();
        let comments = lines.len() as u64;
        let name = &target.name;
        target.write(move |to| write_lines(to, lines)).await?;
        eprintln!(
            "{name}: {} comments of the author; one of the last second may be missing",
            HumanCount(comments)
        );
        for spelling in other_spellings(self.table, author).await? {
            eprintln!(
                "pagemark: there are comments of {:?}, another spelling of the id: they are not in it",
                spelling.as_str()
            );
        }
        Ok(ExportedComments {
            comments,
            read_again: 0,
            holds: None,
            ends,
        })
    }

    async fn scan(&mut self, staged: File) -> anyhow::Result<File> {
        let progress = Progress::default();
        let _display = progress.show("export");
        let products = self.products().await?;
        progress.expect(products.len() as u64);
        let mut staged = BufWriter::new(staged);
        let table = self.table;
        // Tasks take their answers while the comments of an earlier product are read, whose
        // time-outs would run on else.
        let begun = stream::iter(products).map(|product| {
            let table = table.clone();
            tokio::spawn(async move {
                anyhow::Ok((
                    table.comments_part(&product, None, COMMENTS_MAX).await?,
                    product,
                ))
            })
        });
        let mut begun = begun.buffered(PRODUCTS_AT_ONCE);
        while let Some(begun) = begun.next().await {
            let (mut part, product) = begun??;
            loop {
                progress.add(part.rows.len() as u64);
                for comment in part.rows {
                    match comment {
                        Ok(comment) if check(&comment).is_err() => {
                            self.named.extend([(comment.id, comment.product)])
                        }
                        Ok(comment) => staged
                            .write_all((to_line(comment)? + "\n").as_bytes())
                            .context(NOT_KEPT)?,
                        Err(entry) => self.name_malformed(&entry.key, &entry.problem),
                    }
                }
                let Some(next) = part.next else { break };
                part = table
                    .comments_part(&product, Some(next), COMMENTS_MAX)
                    .await?;
            }
            progress.advance(1);
        }
        staged.into_inner().context(NOT_KEPT)
    }

    /// Names every comment by a scan of the whole table, duplicates included.
    async fn name_all_of_table(&mut self) -> anyhow::Result<()> {
        let progress = Progress::default();
        let _display = progress.show("export");
        progress.expect(self.table.describe().await?.items);
        let mut next = Some(None);
        while let Some(from) = next {
            let part = self.table.scan_segment(from, 0, 1, SCANNED_MAX).await?;
            progress.advance(part.rows.len() as u64);
            for item in &part.rows {
                self.name_primary(item);
            }
            next = part.next.map(Some);
        }
        Ok(())
    }

    /// Names the comment of a primary item; passes over any other item.
    fn name_primary(&mut self, item: &Item) {
        let pk = text(item, attribute::PK).unwrap_or_default();
        let sk = text(item, attribute::SK).unwrap_or_default();
        if !pk.starts_with(COMMENT_PREFIX) || !sk.ends_with(FilterKey::PRIMARY_SUFFIX) {
            return;
        }
        match (comment_id_of_pk(pk), FilterKey::parse(sk)) {
            (Some(id), Ok(key)) => self.named.extend([(id, key.product)]),
            _ => {
                let malformed = Malformed::of_item(pk, sk, attribute::PK, "is not a comment's");
                self.add_unreadable(&malformed.to_string());
            }
        }
    }

    /// The products with published comments. Names the other comments.
    async fn products(&mut self) -> anyhow::Result<BTreeSet<ProductId>> {
        let mut products = BTreeSet::new();
        for shard in 0..PRIMARIES_SHARDS {
            let mut next = Some(None);
            while let Some(from) = next {
                let part = self.table.products_part(shard, from).await?;
                for product in part.rows {
                    match product {
                        Ok(product) => {
                            products.insert(product);
                        }
                        Err(entry) => self.name_malformed(&entry.key, &entry.problem),
                    }
                }
                next = part.next.map(Some);
            }
        }
        for status in Status::UNPUBLISHED {
            let mut next = Some(None);
            while let Some(from) = next {
                let part = self
                    .table
                    .moderation_part(status, None, from, COMMENTS_MAX)
                    .await?;
                for comment in part.rows {
                    match comment {
                        Ok(comment) => self.named.extend([(comment.id, comment.product)]),
                        Err(entry) => self.name_malformed(&entry.key, &entry.problem),
                    }
                }
                next = part.next.map(Some);
            }
        }
        Ok(products)
    }

    fn name(&mut self, comments: BTreeMap<CommentId, Places>) {
        for (id, places) in comments {
            self.named.extend(
                places
                    .products()
                    .map(|product| (id.clone(), product.clone())),
            );
        }
    }

    /// Names the comment of an item that an index shows as malformed. Without a comment, it is
    /// unreadable.
    fn name_malformed(&mut self, key: &ItemKey, problem: &Malformed) {
        match (comment_id_of_pk(&key.pk), FilterKey::parse(&key.sk)) {
            (Some(id), Ok(key)) => self.named.extend([(id, key.product)]),
            _ => self.add_unreadable(&problem.to_string()),
        }
    }

    /// Stages the lines of the named comments as they are now.
    async fn read_again(
        &mut self,
        named: &BTreeSet<(CommentId, ProductId)>,
        mut file: File,
    ) -> anyhow::Result<ReadAgain> {
        let table = self.table;
        let reads = stream::iter(named).map(|(id, product)| table.primary_item_in(id, product));
        let mut reads = reads.buffered(READS_AT_ONCE);
        let mut lines = BTreeMap::new();
        let mut start = 0;
        let mut first: Option<Comment> = None;
        while let Some(item) = reads.try_next().await? {
            let Some(item) = item else { continue };
            let comment = match comment_of_primary(&item) {
                Ok(comment) => comment,
                Err(problem) => {
                    self.add_unreadable(&problem.to_string());
                    continue;
                }
            };
            let refused = match first.take_if(|first| first.id == comment.id) {
                // It has moved to another product between two reads.
                Some(first)
                    if table
                        .primary_item_in(&first.id, &first.product)
                        .await?
                        .is_none() =>
                {
                    continue;
                }
                Some(first) => Some(format!(
                    "product {:?} has a comment with this id",
                    first.product.as_str()
                )),
                None => check(&comment).err().map(|error| error.to_string()),
            };
            if let Some(reason) = refused {
                let sk = FilterKey::primary(comment.product.clone()).to_string();
                let pk = comment_pk(&comment.id);
                self.refused += 1;
                eprintln!(
                    "pagemark: pk {pk:?}, sk {sk:?}: exported, but an import will refuse it: {reason}"
                );
            }
            let key = (comment.product.clone(), comment.cd());
            let line = to_line(comment.clone())? + "\n";
            file.write_all(line.as_bytes()).context(NOT_KEPT)?;
            let bytes = line.len();
            lines.insert(key, StagedLine { start, bytes });
            start += bytes as u64;
            first = Some(comment);
        }
        Ok(ReadAgain { file, lines })
    }

    /// Exports the records of products, ordered by product. Each shard is read strongly consistent.
    /// The lines are in memory: a few hundred bytes a product.
    /// Returns their number.
    pub(crate) async fn records(&mut self, target: &ExportTarget) -> anyhow::Result<u64> {
        let mut lines = Vec::new();
        for record in self.read_records().await?.into_values() {
            lines.push(to_product_line(record)? + "\n");
        }
        let name = &target.name;
        let count = lines.len() as u64;
        target.write(move |to| write_lines(to, lines)).await?;
        eprintln!("{name}: the records of {} products", HumanCount(count));
        Ok(count)
    }

    async fn read_records(&mut self) -> anyhow::Result<BTreeMap<ProductId, ProductRecord>> {
        let mut records = BTreeMap::new();
        for shard in 0..RECORD_SHARDS {
            let mut next = Some(None);
            while let Some(from) = next {
                let part = self.table.records_part(shard, from).await?;
                for record in part.rows {
                    match record {
                        Ok(record) => {
                            records.insert(record.product.clone(), record);
                        }
                        Err(entry) => self.add_unreadable(&entry.problem.to_string()),
                    }
                }
                next = part.next.map(Some);
            }
        }
        Ok(records)
    }

    /// Number of items that need a person.
    pub(crate) fn problems(&self) -> u64 {
        self.unreadable + self.refused
    }

    fn add_unreadable(&mut self, problem: &str) {
        self.unreadable += 1;
        eprintln!("pagemark: {problem}");
    }
}

fn write_lines(to: &mut dyn Write, lines: Vec<String>) -> io::Result<()> {
    for line in lines {
        to.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn check(comment: &Comment) -> Result<(), InvalidInput> {
    let CommentText {
        title,
        body,
        author,
    } = comment.text.clone();
    CommentText::new(title, body, author).and_then(|_| comment.site.check())
}

/// What a scanned line is sorted by.
#[derive(Deserialize)]
struct ScannedLine {
    id: CommentId,
    product: ProductId,
    created_at: Timestamp,
}

/// Puts the lines in order: the scanned ones without those of `named` comments, and `again`.
/// Returns their number.
fn merge(
    mut scanned: File,
    named: &BTreeSet<(CommentId, ProductId)>,
    again: ReadAgain,
    mut put: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut count = again.lines.len() as u64;
    let mut lines_again = again.lines.into_iter().peekable();
    scanned.rewind()?;
    for line in BufReader::new(scanned).lines() {
        let line = line? + "\n";
        let ScannedLine {
            id,
            product,
            created_at,
        } = serde_json::from_str(&line)?;
        let key = (
            product.clone(),
            Cd {
                created_at,
                id: id.clone(),
            },
        );
        while let Some((_, before)) = lines_again.next_if(|(other, _)| *other < key) {
            put(&before.read(&again.file)?)?;
        }
        if !named.contains(&(id, product)) {
            put(line.as_bytes())?;
            count += 1;
        }
    }
    for (_, last) in lines_again {
        put(&last.read(&again.file)?)?;
    }
    Ok(count)
}
