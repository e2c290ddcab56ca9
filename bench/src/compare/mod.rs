//! `compare`: this design beside the one with four indexes, for an engineer who must choose.
//!
//! Both designs hold the same comments, in separate tables, behind one client with the same
//! settings. Before the timing, their pages must be the same. Pagemark asks the page index for the
//! start of the page, then sends one Query. The other design knows its cursor, and sends a query
//! for each rating of the filter. With the page index it knows the page's number instead. The page
//! index then names the first and the last comment, and the queries read what lies between; or one
//! BatchGetItem reads all. The engine answers one call at a time. So pages are timed **on a table
//! that answers in parallel** (`recorded_table`). Its delays and those of Redis are assumed.
//!
//! On a service (`endpoint`) the same code runs, without assumed delays.

mod contestants;
pub(crate) mod endpoint;
mod pages;
mod reads;
mod writes;

use anyhow::ensure;
use cost::stored_bytes;
use model::{Comment, CommentText};

use crate::{
    http::address_in,
    measure::{Effort, as_f64},
    money::add_bills,
    recorded_table::{Delay, RecordedTable},
    report::{BenchReport, FOUR_INDEXES, PAGEMARK, Plot, PlotLine, count},
    stores::TableStore,
    workload::Comments,
};
pub(crate) use contestants::{ANY_RATING, Ask, Contestants, Reader, THREE_RATINGS};
use pages::ComparedPage;
use reads::{How, PageLatencies};

#[derive(Debug, Clone, Copy)]
pub(crate) struct CompareEffort {
    pub(crate) comments: u32,
    /// Of each page in each design. Equal delays take a fifth of the rounds: they have no tail.
    pub(crate) reads: Effort,
    pub(crate) writes: u32,
}

pub(crate) async fn measure(report: &mut BenchReport, load: CompareEffort) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(load.comments)));
    let contestants = Contestants::load(TableStore::start().await?, load.comments).await?;
    let pages = compare_pages(report, &contestants).await?;
    read_delayed(report, &contestants, &pages, load.reads).await?;
    writes::measure(report, &contestants, load.writes).await?;
    storage(report, &contestants.comments)?;
    report.add(
        "bytes in Redis",
        contestants.stores.redis_bytes_per_comment,
        "bytes/comment",
    );
    contestants.stores.store.stop().await;
    add_bills(report)
}

/// Compares the first and the last page of every listing, and the pages that are reported. Returns
/// those that are timed.
async fn compare_pages(
    report: &mut BenchReport,
    contestants: &Contestants,
) -> anyhow::Result<Vec<ComparedPage>> {
    report.step("comparing pages");
    let reader = contestants.reader();
    for listing in &contestants.stores.listings {
        for number in [1, listing.pages()] {
            let page = ComparedPage::of_number("a page", listing, number)?;
            reads::compare(&reader, &page).await?;
        }
    }
    let timed = pages::reported(contestants)?;
    for page in &timed {
        reads::consume(report, &reader, page).await?;
    }
    reads::consume(report, &reader, &pages::of_two_ratings(contestants)?).await?;
    Ok(timed)
}

async fn read_delayed(
    report: &mut BenchReport,
    contestants: &Contestants,
    pages: &[ComparedPage],
    effort: Effort,
) -> anyhow::Result<()> {
    let mut by_filter = pages.to_vec();
    by_filter.retain(|page| page.ratings.is_some());
    let how = How {
        effort: Effort {
            rounds: effort.rounds.div_ceil(5),
            ..effort
        },
        delays: ", equal delays",
    };
    let equal = read_recorded(report, contestants, &by_filter, Delay::Equal, how).await?;
    let how = How {
        effort,
        delays: ", varying delays",
    };
    let varying = read_recorded(report, contestants, pages, Delay::Varying, how).await?;
    report.plot(reads::plot(&equal, &varying))
}

async fn read_recorded(
    report: &mut BenchReport,
    contestants: &Contestants,
    pages: &[ComparedPage],
    delay: Delay,
    how: How,
) -> anyhow::Result<Vec<PageLatencies>> {
    report.step(&format!(
        "reading from a table that answers in parallel{}",
        how.delays
    ));
    let engine = address_in(&contestants.stores.store.engine_url()?)?;
    let table = RecordedTable::before(engine, delay).await?;
    let reader = contestants.delayed_reader(&table.url(), delay).await?;
    let readings = read_all(report, &reader, pages, how).await?;
    ensure!(
        table.most_waiting() > 1,
        "the table answered one call at a time"
    );
    Ok(readings)
}

async fn read_all(
    report: &mut BenchReport,
    reader: &Reader,
    pages: &[ComparedPage],
    how: How,
) -> anyhow::Result<Vec<PageLatencies>> {
    let mut readings = Vec::new();
    for page in pages {
        let reading = reads::read(reader, page, how.effort).await?;
        reading.report(report, how);
        readings.push(reading);
    }
    Ok(readings)
}

/// Bytes in table and indexes, by DynamoDB's rules with the 100 bytes that are billed for each
/// item, and a plot of them by the length of the text.
fn storage(report: &mut BenchReport, comments: &[Comment]) -> anyhow::Result<()> {
    const TEXTS_BYTES: [usize; 5] = [20, 100, 500, 2_000, 8_000];
    let means = mean_stored_bytes(comments)?;
    for (design, bytes) in [PAGEMARK, FOUR_INDEXES].into_iter().zip(means) {
        report.add(
            format!("a stored comment: {design}"),
            bytes,
            "bytes in table and indexes",
        );
    }
    let mut lines = [PAGEMARK, FOUR_INDEXES].map(|name| PlotLine::new(name, []));
    let drawn = Comments::new(8)?.take(100)?;
    for bytes in TEXTS_BYTES {
        let text = CommentText {
            title: None,
            body: Some("x".repeat(bytes)),
            author: None,
        };
        let comments: Vec<Comment> = drawn
            .iter()
            .map(|comment| Comment {
                text: text.clone(),
                ..comment.clone()
            })
            .collect();
        for (line, mean) in lines.iter_mut().zip(mean_stored_bytes(&comments)?) {
            line.points.push((as_f64(bytes as u64), mean));
        }
    }
    let axes = ["bytes of text", "bytes in table and indexes"];
    report.plot(Plot::new("bytes", axes, lines.into()))
}

/// The mean bytes of a comment in Pagemark, then in the design with four indexes.
fn mean_stored_bytes(comments: &[Comment]) -> anyhow::Result<[f64; 2]> {
    let mut sums = [0.0; 2];
    for comment in comments {
        for (sum, stored) in sums.iter_mut().zip(stored_bytes(comment)?) {
            *sum += stored.table + stored.indexes;
        }
    }
    Ok(sums.map(|sum| sum / as_f64(comments.len() as u64)))
}
