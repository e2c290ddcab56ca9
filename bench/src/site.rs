//! `site`: the articles' test of their web site, for all designs: `ab -n 1000 -c 20`, without
//! keep-alive.
//!
//! The articles asked for the first page of a product
//! (<https://alexjreid.dev/posts/dynamodb-efficient-filtering-3/>): 783 requests a second without a
//! filter, and 268 with three ratings. Their machine was a t2.medium, with DynamoDB behind it. So
//! compare the figures of one run with each other only.
//!
//! Here one server answers for all designs from a table and a Redis with varying delays. Pages have
//! comments alone, as in the articles, or also totals: those of the page index, or of the counters.
//! The table's work grows with the number of queries and shares the cores, so the rate overstates
//! what a site with four indexes costs.

use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::future::try_join;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
};
use itertools::Itertools;
use serde_json::json;
use tokio::process::Command;

use crate::{
    compare::{ANY_RATING, Ask, Contestants, Reader, THREE_RATINGS},
    http::{self, address_in},
    listing::PAGE_SIZE,
    measure::Spread,
    recorded_table::{Delay, RecordedTable},
    report::{
        BenchReport, FOUR_INDEXES, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_PAGE_INDEX, PAGEMARK, count,
    },
    stores::TableStore,
};

const CLIENTS: u32 = 20;

/// The designs, and whether their pages have totals. Readers refuse a total of the page index that
/// is not the listing's.
const PAGES: [(&str, bool); 5] = [
    (PAGEMARK, false),
    (FOUR_INDEXES, false),
    (PAGEMARK, true),
    (FOUR_INDEXES_COUNTERS, true),
    (FOUR_INDEXES_PAGE_INDEX, true),
];

/// A page of one design at its address, which is its number among the server's pages.
#[derive(Debug, Clone)]
struct SitePage {
    what: String,
    design: &'static str,
    with_total: bool,
    ask: Ask,
}

/// Measures with a product of `comments` comments: in each round, so many requests of each page.
pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    rounds: usize,
    requests: u32,
) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let contestants = Contestants::load(TableStore::start().await?, comments).await?;
    let engine = address_in(&contestants.stores.store.engine_url()?)?;
    let table = RecordedTable::before(engine, Delay::Varying).await?;
    let reader = contestants
        .delayed_reader(&table.url(), Delay::Varying)
        .await?;
    let asked = [
        contestants.stores.listing(ANY_RATING)?,
        contestants.stores.listing(THREE_RATINGS)?,
    ];
    let mut pages = Vec::new();
    for (listing, (design, with_total)) in asked.into_iter().cartesian_product(PAGES) {
        let ratings = if listing.named_ratings() == 3 {
            "three ratings"
        } else {
            "any rating"
        };
        let content = if with_total {
            "with totals"
        } else {
            "comments alone"
        };
        pages.push(SitePage {
            what: format!("{ratings}, {content}"),
            design,
            with_total,
            ask: Ask::page(listing, 1)?,
        });
    }
    let server = serve(reader, pages.clone()).await?;
    let mut answers = Vec::new();
    for page in 0..pages.len() {
        answers.push(http::get(server.address, &format!("/{page}")).await?);
    }
    for ((page, answer), (next, another)) in pages.iter().zip(&answers).tuple_windows() {
        let are_right = answer.0.is_success() && (answer == another || page.what != next.what);
        ensure!(
            are_right,
            "{}: {} and {} answer different pages",
            page.what,
            page.design,
            next.design
        );
    }
    report.step(&format!(
        "{requests} requests by {CLIENTS} clients, {rounds} rounds"
    ));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); pages.len()];
    for round in 0..=rounds {
        // The design that goes first changes with each round. The first round warms up.
        let order = if round % 2 == 0 {
            (0..pages.len()).collect_vec()
        } else {
            (0..pages.len()).rev().collect()
        };
        for page in order {
            let rate =
                requests_per_s(&format!("http://{}/{page}", server.address), requests).await?;
            if round > 0 {
                rates.get_mut(page).context("a page")?.push(rate);
            }
        }
    }
    for (page, rates) in pages.iter().zip(&rates) {
        report.add(
            format!("{}: {}", page.what, page.design),
            Spread::of(rates),
            "requests/s",
        );
    }
    drop((server, table));
    contestants.stores.store.stop().await;
    Ok(())
}

async fn serve(reader: Reader, pages: Vec<SitePage>) -> anyhow::Result<http::HttpServer> {
    let site = Arc::new((reader, pages));
    http::HttpServer::start(move |request| {
        let site = site.clone();
        async move {
            let (reader, pages) = &*site;
            answer(reader, pages, &request).await
        }
    })
    .await
}

async fn answer(
    reader: &Reader,
    pages: &[SitePage],
    request: &Request<Incoming>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let number = request.uri().path().trim_start_matches('/');
    let page = pages
        .get(number.parse::<usize>()?)
        .context("an unknown page")?;
    Ok(Response::new(Full::new(read(reader, page).await?.into())))
}

async fn read(
    reader: &Reader,
    SitePage {
        design,
        with_total,
        ask,
        ..
    }: &SitePage,
) -> anyhow::Result<String> {
    let of_index = Some(ask.listing.total());
    let (comments, total) = match (*design, with_total) {
        (PAGEMARK, false) => (
            reader
                .pages
                .page_after(&ask.listing, None, PAGE_SIZE)
                .await?,
            None,
        ),
        (PAGEMARK, true) => (reader.pagemark(ask).await?, of_index),
        (FOUR_INDEXES_PAGE_INDEX, _) => (
            reader.four_index_by_number(ask, false).await?.comments,
            of_index,
        ),
        (_, false) => (reader.four_index(ask).await?.comments, None),
        (_, true) => {
            let (page, total) =
                try_join(reader.four_index(ask), reader.four_index_total(ask)).await?;
            (page.comments, Some(total))
        }
    };
    // A link to the next page is left out, in favour of four indexes: their cursor is longer than a
    // page number.
    let comments = comments.iter().map(|comment| {
        json!({
            "id": comment.id, "language": comment.language, "rating": comment.rating, "revision": comment.revision,
            "created_at": comment.created_at, "text": comment.text, "attributes": comment.site.attributes,
        })
    });
    Ok(json!({ "comments": comments.collect_vec(), "total": total }).to_string())
}

/// Requests a page by ApacheBench, the load generator of the articles.
///
/// # Errors
/// When `ab` cannot run, or a request was not answered by 200.
async fn requests_per_s(url: &str, requests: u32) -> anyhow::Result<f64> {
    let mut ab = Command::new("ab");
    ab.args([
        "-q",
        "-n",
        &requests.to_string(),
        "-c",
        &CLIENTS.to_string(),
        url,
    ])
    .kill_on_drop(true);
    let output = ab
        .output()
        .await
        .context("ab, of the package apache2-utils, cannot run: run scripts/ensure-ab.sh")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "ab fails: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    rate_in(&text, requests).with_context(|| format!("ab prints:\n{text}"))
}

fn rate_in(text: &str, requests: u32) -> anyhow::Result<f64> {
    ensure!(
        field(text, "Complete requests:")?.parse() == Ok(requests),
        "incomplete"
    );
    ensure!(
        field(text, "Failed requests:")? == "0" && !text.contains("Non-2xx responses"),
        "failed requests"
    );
    Ok(field(text, "Requests per second:")?.parse()?)
}

fn field<'text>(text: &'text str, name: &str) -> anyhow::Result<&'text str> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    value.with_context(|| format!("no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Concurrency Level:      20\nComplete requests:      1000\nFailed requests:        0\n\
                           Requests per second:    782.96 [#/sec] (mean)\n";

    #[test]
    fn a_rate_counts_only_if_every_request_was_answered_by_200() {
        assert!((rate_in(PRINTED, 1_000).unwrap() - 782.96).abs() < 1e-9);
        for (part, by, requests) in [
            (
                "Failed requests:        0",
                "Failed requests:        3",
                1_000,
            ),
            (
                "Failed requests:        0\n",
                "Failed requests:        0\nNon-2xx responses:      2\n",
                1_000,
            ),
            ("", "", 1_001),
            ("Requests per second:    782.96 [#/sec] (mean)", "", 1_000),
        ] {
            assert!(
                rate_in(&PRINTED.replace(part, by), requests).is_err(),
                "{part} {by}"
            );
        }
    }
}
