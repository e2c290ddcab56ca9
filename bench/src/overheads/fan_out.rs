//! `fan-out`: the handler of `stream-writer` beside bare `BatchWriteItem` calls of the same items.
//!
//! Both use the same SDK client, engine and number of parallel calls, in alternating rounds. Each
//! turn has separate comments, so nothing is written twice. The handler gets Lambda events of 100
//! records, one after the other, as a shard of the stream would send them. The bare calls are
//! packed like the handler's, prepared in advance, and run without a pause between events. The time
//! excludes reading an event's JSON, which is the Lambda runtime's work.

use anyhow::{bail, ensure};
use aws_lambda_events::dynamodb::Event;
use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use futures_util::{TryStreamExt, stream};
use model::plan::DuplicateWrite;
use table::Table;

use crate::{
    measure::{Effort, Rounds, timed},
    report::BenchReport,
    stores::{TableStore, create_table},
    workload::{
        Comments, WRITE_CONCURRENCY, deadline, events, expect_processed, planned_calls,
        stream_writer,
    },
};

pub(crate) async fn measure(report: &mut BenchReport, effort: Effort) -> anyhow::Result<()> {
    let store = TableStore::start().await?;
    create_table(&store.table).await?;
    let handler = stream_writer(&store.table);
    let mut workload = Comments::new(1)?;
    let rounds = Rounds::run(effort.rounds, async || {
        let of_handler = events(&workload.take(effort.a_turn)?)?;
        let of_bare = bare_calls(&events(&workload.take(effort.a_turn)?)?)?;
        let ours = async {
            for event in &of_handler {
                expect_processed(&handler.handle(event, deadline()).await)?;
            }
            Ok(())
        };
        let ((), ours) = timed(ours).await?;
        let ((), bare) = timed(write_bare(&store.table, of_bare)).await?;
        Ok([ours, bare])
    });
    let rounds = rounds.await?;
    store.stop().await;
    report.add("handler", rounds.rate(0, effort.a_turn), "comments/s");
    report.add(
        "bare BatchWriteItem",
        rounds.rate(1, effort.a_turn),
        "comments/s",
    );
    report.noted(
        "fan_out_vs_batch_write",
        rounds.ratio(0, 1),
        "",
        "ratio of rates, at least 0.9",
    );
    Ok(())
}

fn bare_calls(events: &[Event]) -> anyhow::Result<Vec<Vec<WriteRequest>>> {
    let mut calls = Vec::new();
    for call in events.iter().flat_map(planned_calls) {
        calls.push(call.into_iter().map(put).collect::<anyhow::Result<_>>()?);
    }
    Ok(calls)
}

fn put(write: DuplicateWrite) -> anyhow::Result<WriteRequest> {
    let DuplicateWrite::Put { item, .. } = write else {
        bail!("a new comment has nothing to delete")
    };
    let put = PutRequest::builder().set_item(Some(item.into())).build()?;
    Ok(WriteRequest::builder().put_request(put).build())
}

async fn write_bare(table: &Table, calls: Vec<Vec<WriteRequest>>) -> anyhow::Result<()> {
    stream::iter(calls.into_iter().map(Ok))
        .try_for_each_concurrent(WRITE_CONCURRENCY, |call| async {
            let answer = table
                .client()
                .batch_write_item()
                .request_items(table.name(), call)
                .send()
                .await?;
            ensure!(
                answer.unprocessed_items.unwrap_or_default().is_empty(),
                "the engine left writes unprocessed"
            );
            Ok(())
        })
        .await
}
