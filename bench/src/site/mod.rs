//! `site`: the articles' test of their web site, for both designs: `ab -n 1000 -c 20`, without keep-alive.
//!
//! The articles asked for the first page of a product, without a filter and with three ratings, and report [`ARTICLES`]
//! for four indexes (<https://alexjreid.dev/posts/dynamodb-efficient-filtering-3/>). Their program was in Go, on a
//! t2.medium (two cores), with DynamoDB behind it. So compare the rows of one table with each other only.
//!
//! Here one server answers for both designs (`server`), with the same JSON. The table answers in parallel, with varying
//! delays (`recorded_table`). There are two variants:
//!
//! - **Comments alone**, as in the articles. Pagemark sends one query and does not ask its page index, which its own API
//!   always does. Four indexes send a query for each rating.
//! - **With totals**. Pagemark asks its page index first. Four indexes read their counters in parallel with the queries.
//!
//! `ab`, the server and the recorded table share the machine's two cores. The table's work is part of the rate and grows
//! with the number of queries. So the rate overstates what a site with four indexes costs.

mod ab;
mod server;

use anyhow::ensure;
use itertools::Itertools;

use crate::{
    compare::{Ask, Contestants, Depth, filter_name},
    delayed_proxy::DelayedProxy,
    http::address_in,
    options::Options,
    recorded_table::{Delay, REDIS_ROUND_TRIP, RecordedTable},
    report::{FOUR_INDEXES, FOUR_INDEXES_COUNTERS, PAGEMARK, Quantity, Report, Table, row},
    statistics::{median, percentile},
};
use ab::Load;
use server::{Design, Page, PageServer};

/// As in the articles, for each page and round.
const FULL: (u32, Load) = (5, Load { requests: 1_000, clients: 20 });
const QUICK: (u32, Load) = (1, Load { requests: 100, clients: 20 });
/// Requests a second that the articles report, by filter.
const ARTICLES: [(&str, f64); 2] = [("any, 1 to 5", 782.96), ("any, 1.4.5", 268.47)];

/// Measures with a product of `comments` comments.
pub(crate) async fn measure(report: &mut Report, comments: u32, options: &Options) -> anyhow::Result<()> {
    report.step(&format!("loading {comments} comments"));
    let contestants = Contestants::load(options.data.as_deref(), comments).await?;
    let engine = address_in(&contestants.stores.engine.endpoint_url())?;
    let redis = DelayedProxy::to(address_in(&contestants.stores.redis.url())?, REDIS_ROUND_TRIP)?;
    let table = RecordedTable::before(engine, Delay::Varying).await?;
    let reader = contestants.reader_at(&table.url(), &format!("redis://{}/", redis.address())).await?;

    let asked =
        contestants.listings.iter().filter(|listing| ARTICLES.iter().any(|(of, _)| *of == filter_name(listing)));
    let mut pages = Vec::new();
    for (listing, with_total) in asked.cartesian_product([false, true]) {
        let ask = Ask::new(listing, Depth::First.page_of(listing))?;
        pages.extend([Design::Pagemark, Design::FourIndexes].map(|design| Page {
            design,
            with_total,
            ask: ask.clone(),
        }));
    }
    ensure!(pages.len() == 2 * 2 * ARTICLES.len(), "the listings of the articles");
    let server = PageServer::start(reader, pages.clone()).await?;
    for (ours, theirs) in (0..pages.len()).tuples() {
        ensure!(server.page(ours).await? == server.page(theirs).await?, "the designs answer different pages");
    }

    let (rounds, load) = if options.quick { QUICK } else { FULL };
    report.step(&format!("{} requests by {} clients, {rounds} rounds", load.requests, load.clients));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); pages.len()];
    for round in 0..=rounds {
        // The design that goes first changes with each round. The first round warms up.
        let order = if round % 2 == 0 { (0..pages.len()).collect_vec() } else { (0..pages.len()).rev().collect() };
        for page in order {
            let rate = ab::requests_per_s(&server.url(page), load).await?;
            if round > 0
                && let Some(rates) = rates.get_mut(page)
            {
                rates.push(rate);
            }
        }
    }
    numbers(report, &pages, &rates);
    report.table(results(&pages, &rates, load, rounds));
    report.table(published());
    drop((server, table));
    contestants.stores.stop().await;
    Ok(())
}

/// The time between two answers by design: the reciprocal of the rate.
fn numbers(report: &mut Report, pages: &[Page], rates: &[Vec<f64>]) {
    for (Page { design, with_total, ask }, rates) in pages.iter().zip(rates) {
        let quantity = match (ask.listing.key.filter.ratings().is_some(), with_total) {
            (false, false) => Quantity::SiteAnyRatingUs,
            (true, false) => Quantity::SiteThreeRatingsUs,
            (false, true) => Quantity::SiteAnyRatingTotalsUs,
            (true, true) => Quantity::SiteThreeRatingsTotalsUs,
        };
        report.number(quantity, name(*design, *with_total), 1e6 / median(rates));
    }
}

fn name(design: Design, with_total: bool) -> &'static str {
    match design {
        Design::Pagemark => PAGEMARK,
        Design::FourIndexes if with_total => FOUR_INDEXES_COUNTERS,
        Design::FourIndexes => FOUR_INDEXES,
    }
}

fn results(pages: &[Page], rates: &[Vec<f64>], load: Load, rounds: u32) -> Table {
    let measured = pages.iter().zip(rates).map(|(Page { design, with_total, ask }, rates)| {
        row![
            ("filter", filter_name(&ask.listing)),
            ("page", if *with_total { "with totals" } else { "comments alone" }),
            ("design", name(*design, *with_total)),
            ("requests/s", median(rates)),
            ("lowest round", percentile(rates, 0.0)),
            ("highest round", percentile(rates, 1.0)),
        ]
    });
    let about = format!(
        "The first page of 20: ab -n {} -c {}, {rounds} rounds in turn, each request on a new connection. ab, the server and \
         the table share two cores.",
        load.requests, load.clients
    );
    Table::new("site", about, measured)
}

fn published() -> Table {
    let rows = ARTICLES.map(|(filter, rate)| row![("filter", filter), ("requests/s", rate)]);
    let about = "What the articles report of their site with four indexes, on a t2.medium with DynamoDB. They also mention about \
                 8 ms, and about 50 read units, without saying of what.";
    Table::new("site: the articles", about, rows)
}
