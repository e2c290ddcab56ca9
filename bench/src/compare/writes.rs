//! The cost of writing comments. The designs take turns, comment by comment: each is inserted,
//! edited, rated again and deleted. Pagemark's write is one transaction, like in its API. Then the
//! real handlers get the event of that one change.
//!
//! How long an acknowledgement takes is not reported. The engine charges nothing for a transaction,
//! and DynamoDB does.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, bail};
use cost::{Write, primary_item};
use four_index::{FourIndexTable, KeepCounters};
use model::{Comment, CommentText, ProductId, Rating, Revision};
use page_indexer::PageIndexer;
use rand::random;
use stream_writer::StreamWriter;
use strum::VariantArray;
use table::{CommentPatch, Created, Table, capacity::Meter};

use super::contestants::Contestants;
use crate::{
    listing::PRODUCT,
    measure::{Latencies, as_f64},
    report::{BenchReport, FOUR_INDEXES, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_STREAM, PAGEMARK},
    stores::four_index_table,
    workload::{
        Comments, EVENT_RECORDS, deadline, event, expect_processed, new_comment, page_indexer,
        stream_writer,
    },
};

/// The designs: Pagemark, four indexes, and four indexes with counters in both ways.
const DESIGNS: [(&str, Option<KeepCounters>); 4] = [
    (PAGEMARK, None),
    (FOUR_INDEXES, Some(KeepCounters::No)),
    (FOUR_INDEXES_COUNTERS, Some(KeepCounters::InTransaction)),
    (FOUR_INDEXES_STREAM, Some(KeepCounters::ByStream)),
];

/// What the writes of one kind took in one design.
struct Writing {
    design: &'static str,
    write: Write,
    writes: u64,
    units: f64,
    /// How long the functions take after the acknowledgement.
    functions: Latencies,
}

impl Writing {
    fn units_each(&self) -> f64 {
        self.units / as_f64(self.writes.max(1))
    }
}

pub(super) async fn measure(
    report: &mut BenchReport,
    contestants: &Contestants,
    comments: u32,
) -> anyhow::Result<()> {
    report.step("writing");
    for writing in write_all(contestants, comments).await? {
        let Writing { write, design, .. } = writing;
        report.add(
            format!("{write}, written: {design}"),
            writing.units_each(),
            "write units",
        );
        if design == PAGEMARK {
            report.noted(
                format!("{write}, functions, p50: {design}"),
                writing.functions.p50_us(),
                "us",
                "both handlers, one record",
            );
        }
    }
    let name = format!("insert, {EVENT_RECORDS} of one product in a batch: {FOUR_INDEXES_STREAM}");
    let units = units_in_a_batch(contestants).await?;
    report.add(name, units, "write units");
    Ok(())
}

/// Of a new comment, in a full batch of the stream whose comments have one product.
async fn units_in_a_batch(contestants: &Contestants) -> anyhow::Result<f64> {
    let four = four_index_table(&contestants.stores.store.table);
    let product = ProductId::parse(PRODUCT)?;
    let mut workload = Comments::new(7)?;
    let mut comments = Vec::new();
    let mut units = 0.0;
    for _ in 0..EVENT_RECORDS {
        let comment = Comment {
            product: product.clone(),
            ..workload.draw()?
        };
        let cost = four.write(None, Some(&comment), KeepCounters::ByStream);
        units += cost.await?.total();
        comments.push(comment);
    }
    let batch = comments.iter().map(|comment| (None, Some(comment)));
    units += four.count_batch(&event_id(), batch).await?.total();
    Ok(units / as_f64(EVENT_RECORDS as u64))
}

/// A new one, which no batch had before.
fn event_id() -> String {
    format!("{:032x}", random::<u128>())
}

async fn write_all(contestants: &Contestants, comments: u32) -> anyhow::Result<Vec<Writing>> {
    let designs = Designs::new(contestants);
    let mut workload = Comments::new(5)?;
    designs.write(&workload.draw()?, &mut fresh()).await?;
    let mut all = fresh();
    for _ in 0..comments {
        designs.write(&workload.draw()?, &mut all).await?;
    }
    Ok(all)
}

/// Empty results for each design and write, in this order.
fn fresh() -> Vec<Writing> {
    let mut writings = Vec::new();
    for (design, _) in DESIGNS {
        for write in Write::VARIANTS {
            writings.push(Writing {
                design,
                write: *write,
                writes: 0,
                units: 0.0,
                functions: Latencies::default(),
            });
        }
    }
    writings
}

fn changed(write: Write, comment: &Comment) -> anyhow::Result<Comment> {
    let revision = Revision::after(Some(comment.revision), process::now(), random());
    let mut changed = Comment {
        revision,
        ..comment.clone()
    };
    match write {
        Write::EditText => {
            let CommentText {
                title,
                body,
                author,
            } = comment.text.clone();
            let body = format!("{} (edited)", body.unwrap_or_default());
            changed.text = CommentText::new(title, body, author)?;
        }
        Write::ChangeRating => {
            changed.rating = Rating::new(1 + u64::from(comment.rating.get()) % 5)?
        }
        Write::Insert | Write::Delete => bail!("{write} changes nothing"),
    }
    Ok(changed)
}

struct Designs {
    writer: Table,
    stream_writer: StreamWriter,
    page_indexer: PageIndexer,
    /// Counts the units of Pagemark's writer and functions together.
    meter: Arc<Meter>,
    four: FourIndexTable,
}

impl Designs {
    fn new(Contestants { stores, .. }: &Contestants) -> Self {
        let meter = Arc::new(Meter::new(None, None));
        let writer = stores.store.table.clone().metered(meter.clone());
        Self {
            stream_writer: stream_writer(&writer),
            page_indexer: page_indexer(&stores.redis.index),
            meter,
            four: four_index_table(&writer),
            writer,
        }
    }

    /// Inserts, edits, rates again and deletes a comment in each design.
    async fn write(&self, comment: &Comment, all: &mut [Writing]) -> anyhow::Result<()> {
        for (writings, (_, counters)) in all.chunks_mut(Write::VARIANTS.len()).zip(DESIGNS) {
            let mut old = None;
            for writing in writings {
                old = match counters {
                    None => self.write_ours(comment, old, writing).await?,
                    Some(counters) => self.write_four(comment, old, counters, writing).await?,
                };
                writing.writes += 1;
            }
        }
        Ok(())
    }

    async fn write_ours(
        &self,
        comment: &Comment,
        old: Option<Comment>,
        writing: &mut Writing,
    ) -> anyhow::Result<Option<Comment>> {
        let units_before = self.meter.consumed().write;
        let new = self
            .acknowledge(writing.write, comment, old.as_ref())
            .await?;
        let old_image = old.as_ref().map(primary_item).transpose()?;
        let new_image = new.as_ref().map(primary_item).transpose()?;
        let event = event(old_image.as_ref(), new_image.as_ref(), writing.writes)?;
        let began = Instant::now();
        let (duplicates, ranks) = tokio::join!(
            self.stream_writer.handle(&event, deadline()),
            self.page_indexer.handle(&event, deadline())
        );
        writing.functions.record(began.elapsed());
        expect_processed(&duplicates)?;
        expect_processed(&ranks)?;
        writing.units += self.meter.consumed().write - units_before;
        Ok(new)
    }

    async fn acknowledge(
        &self,
        write: Write,
        comment: &Comment,
        old: Option<&Comment>,
    ) -> anyhow::Result<Option<Comment>> {
        if write == Write::Insert {
            return match self
                .writer
                .create_comment(new_comment(comment.clone()), None)
                .await?
            {
                Created::New(comment) => Ok(Some(comment)),
                Created::Before(comment) => bail!("{} was there before", comment.id),
            };
        }
        let old = old.context("a comment to change")?;
        if write == Write::Delete {
            self.writer.delete_comment(&old.id, |_| true).await?;
            return Ok(None);
        }
        let Comment { rating, text, .. } = changed(write, old)?;
        let patch = CommentPatch {
            rating: Some(rating),
            body: Some(text.body),
            ..CommentPatch::default()
        };
        Ok(Some(
            self.writer.patch_comment(&old.id, |_| true, &patch).await?,
        ))
    }

    async fn write_four(
        &self,
        comment: &Comment,
        old: Option<Comment>,
        counters: KeepCounters,
        writing: &mut Writing,
    ) -> anyhow::Result<Option<Comment>> {
        let new = match (writing.write, &old) {
            (Write::Insert, _) => Some(comment.clone()),
            (Write::Delete, _) => None,
            (write, Some(old)) => Some(changed(write, old)?),
            (_, None) => bail!("there is no comment to change"),
        };
        let cost = self
            .four
            .write(old.as_ref(), new.as_ref(), counters)
            .await?;
        writing.units += cost.total();
        if counters == KeepCounters::ByStream {
            // A batch of one record.
            let batch = [(old.as_ref(), new.as_ref())];
            writing.units += self.four.count_batch(&event_id(), batch).await?.total();
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cost::designs;

    use super::*;
    use crate::{report::FOUR_INDEXES_PAGE_INDEX, stores::TableStore};

    #[tokio::test]
    async fn the_engine_counts_the_units_of_the_cost_model() {
        let contestants = Contestants::load(TableStore::start().await.unwrap(), 100)
            .await
            .unwrap();
        let written = write_all(&contestants, 2).await.unwrap();
        let of_model = designs(60, 1, 454.0).unwrap();
        // Four indexes with the page index are written like four indexes.
        let of_model = of_model
            .iter()
            .filter(|design| !design.name.starts_with(FOUR_INDEXES_PAGE_INDEX))
            .flat_map(|design| design.write.map(|write| write.write_units));
        assert_eq!(
            written.iter().map(Writing::units_each).collect::<Vec<_>>(),
            of_model.collect::<Vec<_>>()
        );
        contestants.stores.store.stop().await;
    }

    #[tokio::test]
    async fn a_batch_of_the_stream_that_is_delivered_again_is_counted_once() {
        let store = TableStore::start().await.unwrap();
        let contestants = Contestants::load(store, 100).await.unwrap();
        let four = four_index_table(&contestants.stores.store.table);
        // A batch has more statistics items than a transaction. Comments are inserted, rated again
        // and deleted.
        let mut changes = Vec::new();
        for (number, comment) in Comments::new(6)
            .unwrap()
            .take(200)
            .unwrap()
            .into_iter()
            .enumerate()
        {
            let other = changed(Write::ChangeRating, &comment).unwrap();
            changes.push((None, Some(comment.clone())));
            if number % 2 == 0 {
                changes.push((Some(comment), Some(other.clone())));
                if number % 4 == 0 {
                    changes.push((Some(other), None));
                }
            }
        }
        let mut expected = BTreeMap::new();
        for (old, new) in &changes {
            for (comment, times) in [(old, -1), (new, 1)] {
                let Some(comment) = comment else { continue };
                for language in [None, Some(&comment.language)] {
                    let of_item = expected
                        .entry((comment.product.clone(), language.cloned()))
                        .or_insert([0; 5]);
                    of_item[usize::from(comment.rating.get()) - 1] += times;
                }
            }
        }
        for ((product, language), counts) in &mut expected {
            let before = four.counters(product, language.as_ref()).await.unwrap();
            for (count, before) in counts.iter_mut().zip(before.by_rating) {
                *count += i64::try_from(before).unwrap();
            }
        }
        let batches: Vec<_> = changes.chunks(EVENT_RECORDS * 2).collect();
        for number in [0, 0, 1, 0, 1] {
            let batch = batches[number]
                .iter()
                .map(|(old, new)| (old.as_ref(), new.as_ref()));
            four.count_batch(&format!("{number:032x}"), batch)
                .await
                .unwrap();
        }
        for ((product, language), counts) in expected {
            let counters = four.counters(&product, language.as_ref()).await.unwrap();
            let counted = counters
                .by_rating
                .map(|count| i64::try_from(count).unwrap());
            assert_eq!(counted, counts, "{product}, {language:?}");
            assert_eq!(counters.total, counters.by_rating.iter().sum::<u64>());
        }
        contestants.stores.store.stop().await;
    }
}
