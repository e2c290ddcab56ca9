//! `site`: serves HTML pages of both designs, tested like in the articles: `ab -n 1000 -c 20`.
//!
//! The page is the first one of a product, without a filter and with three ratings. Twenty clients send a thousand
//! requests, each on a new connection, like `ab`. Two processes answer: the API as deployed, with access log, metrics
//! and request limit; and a server of the four-index design, which shares template, access log and metrics with it. For
//! the numbers beside the filters, that server reads the product's counters with one more call, while the API asks the
//! page index. Both run on one machine with the engine, Redis and the load generator. Before the timing, the comments
//! on the pages must be equal.
//!
//! The articles measured 782.96 and 268.47 requests per second on a t2.medium (two cores) with DynamoDB behind it, with
//! their implementation in Go (<https://alexjreid.dev/posts/dynamodb-efficient-filtering-3/>). Here the database is an
//! engine on the same two cores, which answers one call at a time. So only the ratio of the filtered page's rate to the
//! other's is comparable.

use anyhow::ensure;

use crate::{
    api::{ApiProcess, Served},
    binaries::binary,
    compare::{Comments, Contestants, Listing},
    http::{get, load},
    options::Options,
    report::{Cell, Limit, Report, Table},
    statistics::{Latencies, median, percentile},
};

/// `ab -n`.
const REQUESTS: u32 = 1_000;
/// `ab -c`.
const CLIENTS: usize = 20;
/// Rounds, in each of which every case is requested in turn. One more round warms up.
const ROUNDS: u32 = 5;
/// Requests per second in the articles: without a filter, and with three ratings.
const ARTICLES: [f64; 2] = [782.96, 268.47];

/// One design's results for one page.
struct Asked<'asked> {
    design: &'static str,
    process: &'asked ApiProcess,
    listing: &'asked Listing,
    latencies: Latencies,
    /// Requests per second, one value per round.
    rates: Vec<f64>,
}

/// Measures.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> anyhow::Result<()> {
    let comments = Comments::new(options.data.as_deref(), options.comments_or(5_000, 50_000))?;
    report.step(&format!("loading {} comments", comments.all.len()));
    let contestants = Contestants::fill(&comments).await?;
    let listings = contestants.unfiltered_and_three_ratings()?;
    let (dynamodb_url, redis_url) = contestants.addresses();
    let [our_table, their_table] = contestants.table_names();
    let ours = Served {
        table: our_table,
        dynamodb_url: dynamodb_url.clone(),
        redis_url: Some(redis_url),
        sample_page: format!("{}?page=2", listings[0].html_path()),
    };
    let theirs = Served { table: their_table, dynamodb_url, redis_url: None, sample_page: listings[0].html_path() };
    let api = match &options.api {
        Some(binary) => binary.clone(),
        None => binary("api")?,
    };
    let api = ApiProcess::start(&api, &ours).await?;
    let four = ApiProcess::start(&binary("four-index-site")?, &theirs).await?;

    let mut asked = Vec::new();
    for listing in &listings {
        let path = listing.html_path();
        for (design, process) in [("Pagemark", &api), ("four-index", &four)] {
            let (status, body) = get(process.address(), &path).await?;
            let shown = comments_in(std::str::from_utf8(&body)?);
            ensure!(
                status.is_success() && shown == listing.page(1),
                "{design} shows {shown:?} at {path} ({status}) instead of {:?}",
                listing.page(1)
            );
            asked.push(Asked { design, process, listing, latencies: Latencies::new()?, rates: Vec::new() });
        }
    }
    report.step("asking for pages");
    let (requests, rounds) = if options.quick { (100, 1) } else { (REQUESTS, ROUNDS) };
    for round in 0..=rounds {
        for Asked { process, listing, latencies, rates, .. } in &mut asked {
            let mut of_round = Latencies::new()?;
            let took = load(process.address(), &listing.html_path(), requests, CLIENTS, &mut of_round).await?;
            if round > 0 {
                latencies.add(&of_round)?;
                rates.push(f64::from(requests) / took.as_secs_f64());
            }
        }
    }
    report.table(table(&asked, requests, rounds))?;
    if let [ours, theirs, ours_filtered, theirs_filtered] = asked.as_slice() {
        let rate = |asked: &Asked<'_>| median(&asked.rates);
        report.ratio_noted("site_filtered_vs_unfiltered", rate(ours_filtered) / rate(ours), Limit::None, "Pagemark");
        report.ratio_noted(
            "site_filtered_vs_unfiltered_four_index",
            rate(theirs_filtered) / rate(theirs),
            Limit::None,
            &format!("the articles' own figures: {:.2}", ARTICLES[1] / ARTICLES[0]),
        );
        if rate(ours) < rate(theirs) {
            report.loses(
                "site",
                &format!(
                    "The unfiltered HTML page is served {:.0} times a second, by the four-index design {:.0} times: that needs no \
                     page index for it.",
                    rate(ours),
                    rate(theirs)
                ),
            );
        }
    }
    drop(asked);
    drop((api, four));
    contestants.stop().await;
    Ok(())
}

fn table(asked: &[Asked<'_>], requests: u32, rounds: u32) -> Table {
    let columns = ["page", "design", "pages/s", "lowest round", "highest round", "p50, us", "p99, us"];
    let mut rows: Vec<_> = asked
        .iter()
        .map(|Asked { design, listing, latencies, rates, .. }| {
            vec![
                listing.name().into(),
                (*design).into(),
                median(rates).into(),
                percentile(rates, 0.0).into(),
                percentile(rates, 1.0).into(),
                latencies.p50_us().into(),
                latencies.p99_us().into(),
            ]
        })
        .collect();
    for (page, rate) in ["unfiltered", "1, 4 or 5"].into_iter().zip(ARTICLES) {
        let none = || Cell::None;
        rows.push(vec![
            page.into(),
            "the articles, t2.medium and DynamoDB".into(),
            rate.into(),
            none(),
            none(),
            none(),
            none(),
        ]);
    }
    Table {
        name: "site".to_owned(),
        about: format!(
            "HTML pages: {requests} requests by {CLIENTS} clients, each on a connection of its own, {rounds} rounds in turn. The \
             articles' figures have DynamoDB behind them, these an engine on the same two cores"
        ),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// The comments that a page shows.
fn comments_in(html: &str) -> Vec<&str> {
    html.split("id=\"comment-").skip(1).filter_map(|after| after.split('"').next()).collect()
}
