//! The cost of writing comments: units, items, time.
//!
//! One client writes. The designs take turns, comment by comment. Pagemark's write is one transaction, like in its API.
//! Then the real handlers get the event of that one change. The time excludes the stream itself and the mappings'
//! polling (`lag` measures those). A write of the four-index design is done when it is acknowledged: the engine updates
//! indexes together with the table, DynamoDB a moment later.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, bail};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use four_index::{FourIndexTable, KeepCounters};
use functions::Quarantine;
use model::{Comment, CommentText, Rating, Revision, item::comment_pk, record::decode_batch};
use page_indexer::PageIndexer;
use stream_writer::{FanOut, StreamWriter, plan_calls};
use strum::VariantArray;
use table::{CommentPatch, Created, NewComment, Table, capacity::Meter};

use crate::{
    filled_stores::{TableOnEngine, four_index_table},
    money::Write,
    report::{Table as ReportTable, row},
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
    pub(super) acknowledged: Latencies,
    /// Latency until every item and rank is written.
    pub(super) derived: Latencies,
}

impl Writing {
    fn new() -> anyhow::Result<Self> {
        let (acknowledged, derived) = (Latencies::new()?, Latencies::new()?);
        Ok(Self { writes: 0, units: 0.0, items: 0, acknowledged, derived })
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
        let stream_writer = StreamWriter::new(writer.clone(), Quarantine::Mapping, FanOut::Batch, WRITE_CONCURRENCY);
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
        let began = Instant::now();
        let new = self.acknowledge(write, comment, old.as_ref()).await?;
        writing.acknowledged.record(began.elapsed());
        let acknowledged = began.elapsed();
        let image = |comment: &Option<Comment>| comment.as_ref().map(primary_item).transpose();
        let (old_image, new_image) = (image(&old)?, image(&new)?);
        let event = event(old_image.as_ref(), new_image.as_ref(), sequence_number)?;
        let began = Instant::now();
        let (duplicates, ranks) =
            tokio::join!(self.stream_writer.handle(&event, deadline()), self.page_indexer.handle(&event, deadline()));
        writing.derived.record(acknowledged + began.elapsed());
        expect_processed(&duplicates.response)?;
        expect_processed(&ranks.response)?;
        writing.units += self.meter.consumed().write - units_before;
        let calls = plan_calls(&decode_batch(&event.records).changes, FanOut::Batch);
        // The primary item and the journal entry are written first.
        writing.items += 2 + calls.iter().map(|call| call.writes().len() as u64).sum::<u64>();
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
    let began = Instant::now();
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
    writing.acknowledged.record(began.elapsed());
    writing.derived.record(began.elapsed());
    writing.units += cost.total();
    // The comment's item, and the counters of the product and of its language.
    writing.items += if counters == KeepCounters::Yes && write != Write::EditText { 3 } else { 1 };
    writing.writes += 1;
    Ok(new)
}

/// The table: one row per kind of write and design.
pub(super) fn table(writings: &[Writings]) -> ReportTable {
    let rows = writings.iter().flat_map(|Writings { write, pagemark, four, four_with_counters }| {
        let designs = [("Pagemark", pagemark), ("four-index", four), ("four-index, counters", four_with_counters)];
        designs.map(|(design, writing)| {
            let Writing { acknowledged, derived, .. } = writing;
            row![
                ("write", write.to_string()),
                ("design", design),
                ("write units", writing.units_each()),
                ("items written", writing.items_each()),
                ("acknowledged p50, us", acknowledged.p50_us()),
                ("p99, us", acknowledged.p99_us()),
                ("all written p50, us", derived.p50_us()),
                ("p99, us", derived.p99_us()),
            ]
        })
    });
    let each = writings.first().map_or(0, |writings| writings.pagemark.writes);
    let about = format!(
        "{each} of each, one after the other, the designs in turn. Units as the engine counts them, journal and duplicates \
         included. Until all is written: the handlers' time for a batch of one record, without the stream and its polling, \
         which `lag` has"
    );
    ReportTable::new("compare: writing", about, rows)
}
