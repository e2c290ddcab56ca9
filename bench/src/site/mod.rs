//! `site`: the articles' test of their web site, for both designs: `ab -n 1000 -c 20`, without keep-alive.
//!
//! The articles asked for the first page of a product, without a filter and with three ratings. They report
//! [`ARTICLES`] for four indexes: <https://alexjreid.dev/posts/dynamodb-efficient-filtering-3/>. Their program was in
//! Go, on a t2.medium (two cores), with DynamoDB behind it. So only the ratio of two rows of one table says something.
//!
//! Here, one server answers for both designs (`server`), and the same JSON comes out. The table answers in parallel, with
//! varying delays (`recorded_table`). `ab`, the server and the table share the machine's two cores. There are two variants:
//!
//! - **As in the articles**: comments only. Pagemark sends one query. Four indexes send one for each rating.
//! - **With totals**: Pagemark also asks its page index, and four indexes their counters.

mod ab;
mod server;

use std::time::Duration;

use anyhow::ensure;
use itertools::Itertools;

use crate::{
    compare::{Ask, Contestants, Depth, filter_name},
    delayed_proxy::DelayedProxy,
    http::address_in,
    options::Options,
    recorded_table::{Delay, RecordedTable},
    report::{Cell, FOUR_INDEXES, FOUR_INDEXES_COUNTERS, PAGEMARK, Quantity, Report, Table, row},
    statistics::{median, percentile},
};
use ab::Load;
use server::{Design, Page, Server};

/// As in the articles, for each page and round.
const FULL: (u32, Load) = (5, Load { requests: 1_000, clients: 20 });
const QUICK: (u32, Load) = (1, Load { requests: 100, clients: 20 });
/// Requests a second that the articles report, by filter.
const ARTICLES: [(&str, f64); 2] = [("any, 1 to 5", 782.96), ("any, 1.4.5", 268.47)];
/// To Redis in the same zone and back: an assumption.
const REDIS_ROUND_TRIP: Duration = Duration::from_micros(500);

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
    let server = Server::start(reader, pages.clone()).await?;
    for (ours, theirs) in (0..pages.len()).tuples() {
        ensure!(server.comments(ours).await? == server.comments(theirs).await?, "the designs show different pages");
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
    drop((server, table));
    contestants.stores.stop().await;
    Ok(())
}

/// The time of a request by design: the reciprocal of the rate.
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
            ("page", if *with_total { "with totals" } else { "as in the articles" }),
            ("design", name(*design, *with_total)),
            ("requests/s", median(rates)),
            ("lowest round", percentile(rates, 0.0)),
            ("highest round", percentile(rates, 1.0)),
        ]
    });
    let published = ARTICLES.map(|(filter, rate)| {
        row![
            ("filter", filter),
            ("page", "as in the articles"),
            ("design", "the articles' four indexes on DynamoDB, t2.medium"),
            ("requests/s", rate),
            ("lowest round", Cell::None),
            ("highest round", Cell::None),
        ]
    });
    let about = format!(
        "The first page of 20. ab -n {} -c {}, {rounds} rounds in turn, each request on a new connection. ab, the server and the \
         table share two cores. The articles saw about 8 ms and about 50 read units in all.",
        load.requests, load.clients
    );
    Table::new("site", about, measured.chain(published))
}
