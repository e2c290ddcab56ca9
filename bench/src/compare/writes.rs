//! The cost of writing comments: units, items, round trips.
//!
//! One client writes. The designs take turns, comment by comment. Pagemark's write is one transaction, like in its API.
//! Then the real handlers get the event of that one change. A write of the four-index design is done when it is
//! acknowledged: the engine updates indexes together with the table, DynamoDB a moment later.
//!
//! How long an acknowledgement takes is not reported. The engine charges nothing for a transaction, and DynamoDB does.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, bail};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use four_index::{FourIndexTable, KeepCounters};
use functions::Quarantine;
use model::{Comment, CommentText, Rating, Revision, item::comment_pk, record::decode_batch};
use page_indexer::PageIndexer;
use stream_writer::{StreamWriter, plan_calls};
use strum::VariantArray;
use table::{CommentPatch, Created, NewComment, Table, capacity::Meter};

use crate::{
    filled_stores::{TableOnEngine, four_index_table},
    money::Write,
    report::{FOUR_INDEXES, FOUR_INDEXES_COUNTERS, PAGEMARK, Quantity, Report, Table as ReportTable, row},
    statistics::{Latencies, as_f64},
    workload::{Comments, Redis, create_table_without_stream, deadline, event, expect_processed, primary_item},
};

/// Calls in parallel: the function's default.
const WRITE_CONCURRENCY: usize = 8;

pub(super) struct Writing {
    pub(super) writes: u64,
    pub(super) units: f64,
    /// Puts, updates and deletes of items.
    pub(super) items: u64,
    /// How long the functions take after the acknowledgement.
    pub(super) functions: Latencies,
}

impl Writing {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { writes: 0, units: 0.0, items: 0, functions: Latencies::new()? })
    }

    pub(super) fn units_each(&self) -> f64 {
        self.units / as_f64(self.writes.max(1))
    }

    pub(super) fn items_each(&self) -> f64 {
        as_f64(self.items) / as_f64(self.writes.max(1))
    }
}

pub(super) struct Writings {
    pub(super) write: Write,
    pub(super) pagemark: Writing,
    pub(super) four: Writing,
    pub(super) four_with_counters: Writing,
}

/// Writes, edits and deletes `comments` comments.
pub(super) async fn measure(comments: u32) -> anyhow::Result<Vec<Writings>> {
    let store = TableOnEngine::start("pagemark").await?;
    let redis = Redis::start().await?;
    let pagemark = Pagemark::new(&store.table, &redis).await?;
    let four = four_index_table(&pagemark.writer, "four-index");
    let four_with_counters = four_index_table(&pagemark.writer, "four-index-counters");
    let client = pagemark.writer.client();
    four.create().await?;
    four_with_counters.create().await?;
    let mut all = fresh()?;
    let mut workload = Comments::new(5)?;
    // The first comment warms up, and its figures are discarded.
    for number in 0..=comments {
        if number == 1 {
            all = fresh()?;
        }
        let comment = workload.draw()?;
        let mut ours = None;
        let (mut theirs, mut counted) = (None, None);
        for Writings { write, pagemark: by_pagemark, four: by_four, four_with_counters: by_counters } in &mut all {
            ours = pagemark.write(*write, &comment, ours, u64::from(number), by_pagemark).await?;
            theirs = write_four(client, &four, *write, &comment, theirs, KeepCounters::No, by_four).await?;
            counted =
                write_four(client, &four_with_counters, *write, &comment, counted, KeepCounters::Yes, by_counters)
                    .await?;
        }
    }
    redis.stop().await;
    store.engine.stop().await;
    Ok(all)
}

fn fresh() -> anyhow::Result<Vec<Writings>> {
    let of = |write| {
        let (pagemark, four, four_with_counters) = (Writing::new()?, Writing::new()?, Writing::new()?);
        Ok(Writings { write, pagemark, four, four_with_counters })
    };
    Write::VARIANTS.iter().copied().map(of).collect()
}

/// The comment after an edit or a change of its rating.
fn changed(write: Write, comment: &Comment) -> anyhow::Result<Comment> {
    let revision = Revision::after(Some(comment.revision), process::now(), rand::random());
    let mut changed = Comment { revision, ..comment.clone() };
    match write {
        Write::EditText => {
            let CommentText { title, body, author } = comment.text.clone();
            changed.text = CommentText::new(title, format!("{body} (edited)"), author)?;
        }
        Write::ChangeRating => changed.rating = Rating::new(1 + u64::from(comment.rating.get()) % 5)?,
        Write::Insert | Write::Delete => bail!("{write} changes nothing"),
    }
    Ok(changed)
}

/// This design's writer, functions and meters.
struct Pagemark {
    writer: Table,
    stream_writer: StreamWriter,
    page_indexer: PageIndexer,
    /// Counts the units of writer and functions together.
    meter: Arc<Meter>,
}

impl Pagemark {
    async fn new(table: &Table, redis: &Redis) -> anyhow::Result<Self> {
        let meter = Arc::new(Meter::default());
        let writer = table.clone().metered(meter.clone());
        create_table_without_stream(&writer).await?;
        let stream_writer = StreamWriter::new(writer.clone(), Quarantine::Mapping, WRITE_CONCURRENCY);
        let page_indexer = PageIndexer::new(redis.index.clone(), Quarantine::Mapping);
        Ok(Self { writer, stream_writer, page_indexer, meter })
    }

    async fn write(
        &self,
        write: Write,
        comment: &Comment,
        old: Option<Comment>,
        sequence_number: u64,
        writing: &mut Writing,
    ) -> anyhow::Result<Option<Comment>> {
        let units_before = self.meter.consumed().write;
        let new = self.acknowledge(write, comment, old.as_ref()).await?;
        let image = |comment: &Option<Comment>| comment.as_ref().map(primary_item).transpose();
        let (old_image, new_image) = (image(&old)?, image(&new)?);
        let event = event(old_image.as_ref(), new_image.as_ref(), sequence_number)?;
        let began = Instant::now();
        let (duplicates, ranks) =
            tokio::join!(self.stream_writer.handle(&event, deadline()), self.page_indexer.handle(&event, deadline()));
        writing.functions.record(began.elapsed());
        expect_processed(&duplicates.response)?;
        expect_processed(&ranks.response)?;
        writing.units += self.meter.consumed().write - units_before;
        let calls = plan_calls(&decode_batch(&event.records).changes);
        // The primary item and the journal entry are written first.
        writing.items += 2 + calls.iter().map(|call| call.len() as u64).sum::<u64>();
        writing.writes += 1;
        Ok(new)
    }

    /// Sends the write like the API.
    async fn acknowledge(
        &self,
        write: Write,
        comment: &Comment,
        old: Option<&Comment>,
    ) -> anyhow::Result<Option<Comment>> {
        if write == Write::Insert {
            let Comment { id, product, language, rating, created_at, text, site, .. } = comment.clone();
            let new = NewComment { id, product, language, rating, created_at, status: None, text, site };
            let Created::New(comment) = self.writer.create_comment(new, None).await? else {
                bail!("{} was there before", comment.id);
            };
            return Ok(Some(comment));
        }
        let old = old.context("a comment to change")?;
        if write == Write::Delete {
            self.writer.delete_comment(&old.id, None).await?;
            return Ok(None);
        }
        let Comment { rating, text, .. } = changed(write, old)?;
        let patch = CommentPatch { rating: Some(rating), body: Some(text.body), ..CommentPatch::default() };
        Ok(Some(self.writer.patch_comment(&old.id, None, &patch).await?))
    }
}

async fn write_four(
    client: &Client,
    table: &FourIndexTable,
    write: Write,
    comment: &Comment,
    old: Option<Comment>,
    counters: KeepCounters,
    writing: &mut Writing,
) -> anyhow::Result<Option<Comment>> {
    // A change first reads the comment, strongly consistent, like Pagemark's writer.
    if old.is_some() {
        let key = AttributeValue::S(comment_pk(&comment.id));
        let read = client.get_item().table_name(table.name()).key("PK", key.clone()).key("SK", key);
        read.consistent_read(true).send().await?.item.context("the comment is there")?;
    }
    let (new, cost) = match (write, old) {
        (Write::Insert, _) => (Some(comment.clone()), table.insert(comment, counters).await?),
        (Write::Delete, Some(old)) => (None, table.delete(&old, counters).await?),
        (Write::EditText | Write::ChangeRating, Some(old)) => {
            let new = changed(write, &old)?;
            let cost = table.edit(&old, &new, counters).await?;
            (Some(new), cost)
        }
        (_, None) => bail!("there is no comment to change"),
    };
    writing.units += cost.total();
    // The comment's item, and the counters of the product and of its language.
    writing.items += if counters == KeepCounters::Yes && write != Write::EditText { 3 } else { 1 };
    writing.writes += 1;
    Ok(new)
}

/// Calls to DynamoDB, one after the other, until a write is acknowledged. In every design a change first reads the
/// comment. Then a single put or one transaction follows.
fn round_trips(write: Write) -> u64 {
    if write == Write::Insert { 1 } else { 2 }
}

impl Writings {
    fn by_design(&self) -> [(&'static str, &Writing); 3] {
        let Self { pagemark, four, four_with_counters, .. } = self;
        [(PAGEMARK, pagemark), (FOUR_INDEXES, four), (FOUR_INDEXES_COUNTERS, four_with_counters)]
    }
}

/// The table: one row per kind of write and design.
pub(super) fn table(writings: &[Writings]) -> ReportTable {
    let rows = writings.iter().flat_map(|of_write| {
        of_write.by_design().map(|(design, writing)| {
            let functions_us = (design == PAGEMARK).then(|| writing.functions.p50_us());
            row![
                ("write", of_write.write.to_string()),
                ("design", design),
                ("write units", writing.units_each()),
                ("items written", writing.items_each()),
                ("round trips until acknowledged", round_trips(of_write.write)),
                ("functions p50, us", functions_us),
            ]
        })
    });
    let each = writings.first().map_or(0, |writings| writings.pagemark.writes);
    let about = format!(
        "{each} of each, one after the other, the designs in turn. Units as the engine counts them, journal and duplicates \
         included. Functions: both handlers' time for a batch of one record, without the stream and its polling, which \
         `lag` has"
    );
    ReportTable::new("compare: writing", about, rows)
}

/// Reports the write units and round trips of an insert.
pub(super) fn numbers(report: &mut Report, writings: &[Writings]) {
    for inserts in writings.iter().filter(|writings| writings.write == Write::Insert) {
        for (design, writing) in inserts.by_design() {
            report.number(Quantity::InsertWriteUnits, design, writing.units_each());
            report.number(Quantity::InsertRoundTrips, design, as_f64(round_trips(Write::Insert)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::write_units_of_short_comments;

    #[tokio::test]
    async fn the_engine_counts_the_units_of_the_cost_model() {
        let [pagemark, four, four_with_counters] = write_units_of_short_comments();
        let writings = measure(2).await.unwrap();
        assert_eq!(writings.iter().map(|of| of.pagemark.units_each()).collect::<Vec<_>>(), pagemark);
        assert_eq!(writings.iter().map(|of| of.four.units_each()).collect::<Vec<_>>(), four);
        assert_eq!(
            writings.iter().map(|of| of.four_with_counters.units_each()).collect::<Vec<_>>(),
            four_with_counters
        );
    }
}
