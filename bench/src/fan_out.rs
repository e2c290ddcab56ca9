//! `fan-out`: compares the handler of `stream-writer` with bare `BatchWriteItem` calls of the same items.
//!
//! Both use the same SDK client, engine and number of parallel calls, in alternating rounds: handler, bare, handler,
//! bare. Each half of a round has separate comments, so nothing is written twice. The handler gets Lambda events of 100
//! records, one after the other, as a shard of the stream would send them. The bare calls (25 items each, as the
//! handler packs them) are prepared from such events in advance and run without a pause between events. The time
//! excludes reading an event's JSON, which is the Lambda runtime's work.
//!
//! The table has **no stream**. The embedded engine pays for every stream record in proportion to all earlier ones. An
//! index reduces this, but it still costs more than the write. Both sides would pay the same, which would hide the
//! handler's cost.

use anyhow::bail;
use aws_lambda_events::dynamodb::Event;
use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use functions::Quarantine;
use futures_util::{TryStreamExt, stream};
use model::{plan::DuplicateWrite, record::decode_batch};
use stream_writer::{StreamWriter, plan_calls};
use table::Table;

use crate::{
    filled_stores::TableOnEngine,
    options::Effort,
    report::{Limit, Report},
    statistics::{Rounds, as_f64, timed},
    workload::{Comments, EVENT_RECORDS, create_table_without_stream, deadline, events, expect_processed},
};

/// Calls in parallel: the function's default.
const WRITE_CONCURRENCY: usize = 8;
/// Rounds of a full measurement. The caller sets the comments of a half.
const ROUNDS: u32 = 7;
pub(crate) const QUICK: Effort = Effort { rounds: 7, a_half: 100 };
pub(crate) const RATIO: &str = "fan_out_vs_batch_write";

pub(crate) async fn measure(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    // Whole events, at least one per half.
    let a_half = (comments / (2 * ROUNDS)).next_multiple_of(u32::try_from(EVENT_RECORDS)?).max(1);
    let rounds = rounds(Effort { rounds: ROUNDS, a_half }).await?;
    let count = u64::from(a_half);
    report.add(
        "fan-out",
        &format!("{ROUNDS} rounds of {a_half} comments each way, {WRITE_CONCURRENCY} calls under way, no stream"),
        &[
            ("handler", rounds.our_rate(count), "comments/s"),
            ("bare BatchWriteItem", rounds.bare_rate(count), "comments/s"),
            ("bare BatchWriteItem, items", rounds.bare_rate(count * 31), "items/s"),
            ("comments written", as_f64(count * 2 * u64::from(ROUNDS + 1)), ""),
        ],
    );
    report.ratio(RATIO, rounds.ratio(), Limit::AtLeast(0.8));
    Ok(())
}

pub(crate) async fn rounds(effort: Effort) -> anyhow::Result<Rounds> {
    let store = TableOnEngine::start("bench").await?;
    let table = &store.table;
    create_table_without_stream(table).await?;
    let handler = StreamWriter::new(table.clone(), Quarantine::Mapping, WRITE_CONCURRENCY);
    let mut workload = Comments::new(1)?;
    let rounds = Rounds::run(effort.rounds, async || {
        let of_handler = events(&workload.take(effort.a_half)?)?;
        let of_bare = bare_calls(&events(&workload.take(effort.a_half)?)?)?;
        let ours = async {
            for event in &of_handler {
                expect_processed(&handler.handle(event, deadline()).await.response)?;
            }
            Ok(())
        };
        let ((), ours) = timed(ours).await?;
        let ((), bare) = timed(write_bare(table, of_bare)).await?;
        Ok((ours, bare))
    });
    let rounds = rounds.await?;
    store.engine.stop().await;
    Ok(rounds)
}

/// The handler's calls, ready to be sent.
fn bare_calls(events: &[Event]) -> anyhow::Result<Vec<Vec<WriteRequest>>> {
    let mut calls = Vec::new();
    for event in events {
        for call in plan_calls(&decode_batch(&event.records).changes) {
            calls.push(call.into_iter().map(put).collect::<anyhow::Result<_>>()?);
        }
    }
    Ok(calls)
}

fn put(write: DuplicateWrite) -> anyhow::Result<WriteRequest> {
    let DuplicateWrite::Put { item, .. } = write else { bail!("a new comment has nothing to delete") };
    let put = PutRequest::builder().set_item(Some(item.into())).build()?;
    Ok(WriteRequest::builder().put_request(put).build())
}

async fn write_bare(table: &Table, calls: Vec<Vec<WriteRequest>>) -> anyhow::Result<()> {
    stream::iter(calls.into_iter().map(Ok))
        .try_for_each_concurrent(WRITE_CONCURRENCY, |call| async {
            let answer = table.client().batch_write_item().request_items(table.name(), call).send().await?;
            match answer.unprocessed_items.unwrap_or_default().len() {
                0 => Ok(()),
                _ => bail!("the engine left writes unprocessed, which it never does"),
            }
        })
        .await
}
