//! The start of a page in one sorted set for each of a comment's 32 filters, beside Pagemark's script over four sets.
//!
//! Two servers hold the same comments. Each page is looked up in both, one right after the other, and the order
//! alternates. In its own set, the comment before a page is one `ZREVRANGE` by rank. Pagemark's script also returns the
//! listing's total, which would be a `ZCARD` more; that is left out in favour of the 32 sets. Both must find the same
//! comment. Page 1 needs no look-up and is left out.
//!
//! Both get a tenth of the comments: at a million, 32 sets take 3.5 GB and minutes. `index` compares the memory.

use anyhow::{Context, ensure};
use itertools::Itertools;
use model::{Comment, FilterKey};
use rand::RngExt;

use super::{FILTERS, SCRIPT, Subject, TABLE_ID, server_cost};
use crate::{
    dataset::drawn,
    filled_stores::page_start,
    index::{add_to_32_sets, filter_set, insertion},
    listing::PAGE_SIZE,
    report::{Limit, ONE_SET_A_FILTER, PAGEMARK, Quantity, Report, Table, count, row},
    statistics::{Latencies, timed},
    workload::{EVENT_RECORDS, Redis},
};

const ONE_IN: u32 = 10;
/// The number of ratings in the ratio and the numbers.
const SHOWN_RATINGS: usize = 3;

/// The server's time, and the time until the client has the answer.
struct Times {
    server: Latencies,
    client: Latencies,
}

impl Times {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { server: Latencies::new()?, client: Latencies::new()? })
    }
}

/// Measures with a tenth of the comments, and this many random pages of each filter.
pub(super) async fn measure(report: &mut Report, comments_max: u32, pages: u32) -> anyhow::Result<()> {
    let comments = (comments_max / ONE_IN).max(1);
    report.step(&format!("{} comments, four sets and 32", count(comments)));
    let (mut four_sets, mut one_set) = (Redis::start().await?, Redis::start().await?);
    fill(&mut four_sets, &mut one_set, comments).await?;
    let mut rows = Vec::new();
    for ratings in FILTERS {
        let times = look_up(&four_sets, &one_set, ratings, pages).await?;
        for (design, Times { server, client }) in [PAGEMARK, ONE_SET_A_FILTER].into_iter().zip(&times) {
            rows.push(row![
                ("ratings", ratings.len()),
                ("design", design),
                ("server p50, us", server.p50_us()),
                ("p99, us", server.p99_us()),
                ("client p50, us", client.p50_us()),
                ("p99, us", client.p99_us()),
            ]);
            if ratings.len() == SHOWN_RATINGS {
                report.number(Quantity::PageStartServerUs, design, server.p50_us());
            }
        }
        if ratings.len() == SHOWN_RATINGS {
            let [ours, theirs] = &times;
            let (name, times) = ("selection_vs_32_sets", ours.server.p50_us() / theirs.server.p50_us());
            report.ratio_noted(name, times, Limit::None, "server time p50, three ratings; the less the better");
        }
    }
    four_sets.stop().await;
    one_set.stop().await;
    let about = format!(
        "Start of the same random pages of 20 among {} comments, in turns: one script call, or one ZREVRANGE by rank without \
         the total. The client's time is that of its library, on this machine.",
        count(comments)
    );
    report.table(Table::new("selection: one set for each filter", about, rows));
    Ok(())
}

async fn fill(four_sets: &mut Redis, one_set: &mut Redis, comments: u32) -> anyhow::Result<()> {
    let rebuild = four_sets.index.begin_rebuild().await?;
    for chunk in &drawn(comments)?.chunks(EVENT_RECORDS) {
        let chunk: Vec<Comment> = chunk.collect::<anyhow::Result<_>>()?;
        four_sets.index.apply(&chunk.iter().flat_map(insertion).collect::<Vec<_>>()).await?;
        add_to_32_sets(one_set, &chunk).await?;
    }
    four_sets.index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    Ok(())
}

/// Looks up random pages under a filter in four sets and in one.
async fn look_up(four_sets: &Redis, one_set: &Redis, ratings: &[u64], pages: u32) -> anyhow::Result<[Times; 2]> {
    let mut subject = Subject::new(four_sets, ratings).await?;
    ensure!(subject.pages > 1, "{} has one page", subject.key);
    let (mut ours, mut theirs) = (Times::new()?, Times::new()?);
    for number in 0..pages {
        let page = subject.rng.random_range(2..=subject.pages);
        let mut found = Vec::new();
        for is_ours in [number % 2 == 0, number % 2 == 1] {
            let (times, server, (id, client)) = if is_ours {
                let call = timed(page_start(&four_sets.index, TABLE_ID, &subject.key, page));
                let ((start, took), (server, _)) = server_cost(&four_sets.connection, SCRIPT, call).await?;
                (&mut ours, server, (start.before.context("a start")?.id.to_string(), took))
            } else {
                let call = timed(start_in_one_set(one_set, &subject.key, page));
                let (found, (server, _)) = server_cost(&one_set.connection, "zrevrange", call).await?;
                (&mut theirs, server, found)
            };
            times.server.record(server);
            times.client.record(client);
            found.push(id);
        }
        ensure!(found.iter().all_equal(), "page {page} of {} starts after {found:?}", subject.key);
    }
    Ok([ours, theirs])
}

/// The id of the comment before a page.
async fn start_in_one_set(redis: &Redis, key: &FilterKey, page: u64) -> anyhow::Result<String> {
    let rank = (page - 1) * PAGE_SIZE as u64 - 1;
    let mut range = redis::cmd("ZREVRANGE");
    range.arg(filter_set(key)).arg(rank).arg(rank).arg("WITHSCORES");
    let found: Vec<(String, i64)> = range.query_async(&mut redis.connection.clone()).await?;
    Ok(found.into_iter().next().with_context(|| format!("{key} has no page {page}"))?.0)
}
