//! How long the page index's server works for a page.
//!
//! One product has all comments. A page asks for what a page for people shows: its ranks, totals,
//! counts by rating and language. The server's own clock counts (`INFO commandstats`), so neither
//! the client nor other load on the machine is in the figures.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use cost::Month;
use model::{Filter, Language, Order, ProductId, Rating, RatingSet};
use page_index::{RankedQuery, StatsWanted};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::index::{TABLE_ID, fill};
use crate::{
    measure::{Effort, Spread},
    report::{BenchReport, count},
    stores::Redis,
    workload::Comments,
};

const PAGE_SIZE: u16 = 20;
/// The front page asks for twice as many comments: those that fill no archive page yet.
const FRONT_SIZE: u16 = 2 * PAGE_SIZE;

/// Pages of any number with filters by none, one, two, three and four ratings.
const OF_MONTH: [&str; 5] = [
    "no filter",
    "one rating",
    "two ratings",
    "three ratings",
    "four ratings",
];

struct Asked {
    name: &'static str,
    language: Option<&'static str>,
    ratings: &'static [u64],
    pages: Pages,
}

/// Which pages are asked for.
#[derive(Clone, Copy)]
enum Pages {
    Front,
    Second,
    /// Archive pages, drawn evenly.
    Any,
}

const ASKED: [Asked; 10] = [
    asked("front page", None, &[], Pages::Front),
    asked("page 2", None, &[], Pages::Second),
    asked("no filter", None, &[], Pages::Any),
    asked("one rating", None, &[4], Pages::Any),
    asked("two ratings", None, &[4, 5], Pages::Any),
    asked("three ratings", None, &[1, 2, 3], Pages::Any),
    asked("four ratings", None, &[1, 2, 3, 4], Pages::Any),
    asked("a common language", Some("en"), &[], Pages::Any),
    asked("a rare language", Some("ja"), &[], Pages::Any),
    asked("a rare language and rating", Some("ja"), &[2], Pages::Any),
];

const fn asked(
    name: &'static str,
    language: Option<&'static str>,
    ratings: &'static [u64],
    pages: Pages,
) -> Asked {
    Asked {
        name,
        language,
        ratings,
        pages,
    }
}

/// Measures pages of a product with `comments` comments.
pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    effort: Effort,
) -> anyhow::Result<()> {
    report.step(&format!(
        "{} comments of a product in Redis",
        count(comments)
    ));
    let mut redis = Redis::start().await?;
    let product = ProductId::parse("the-product")?;
    let mut workload = Comments::new(3)?.in_order();
    fill(&redis.index, &mut workload, comments, Some(&product)).await?;
    report.step(&format!("{} rounds of pages", effort.rounds));
    let mut took: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut of_month = Vec::new();
    for round in 0..effort.rounds {
        let mut random = StdRng::seed_from_u64(u64::from(round));
        for asked in &ASKED {
            let us = us_a_page(&mut redis, &product, asked, &mut random, effort.a_turn).await?;
            took.entry(asked.name).or_default().push(us);
        }
        of_month.push(month(&took)?);
    }
    for asked in &ASKED {
        let us = took.get(asked.name).context("a figure")?;
        report.add(format!("server: {}", asked.name), Spread::of(us), "us");
    }
    let note = "each page's ratings as in the bill of docs/benchmarks.md, in any language";
    report.noted(
        "server: the month's pages",
        Spread::of(&of_month),
        "us",
        note,
    );
    Ok(())
}

/// The mean of the last round, by the shares of the month that the documents bill.
fn month(took: &BTreeMap<&str, Vec<f64>>) -> anyhow::Result<f64> {
    let mut mean = 0.0;
    for (name, percent) in OF_MONTH.into_iter().zip(Month::parse("")?.mix) {
        let last = took.get(name).and_then(|us| us.last());
        mean += percent / 100.0 * last.context("a figure")?;
    }
    Ok(mean)
}

async fn us_a_page(
    redis: &mut Redis,
    product: &ProductId,
    asked: &Asked,
    random: &mut StdRng,
    pages: u32,
) -> anyhow::Result<f64> {
    let language = asked.language.map(Language::parse).transpose()?;
    let ratings: Result<Vec<Rating>, _> = asked.ratings.iter().copied().map(Rating::new).collect();
    let filter = Filter::new(language, RatingSet::of(ratings?));
    let settled_at = process::now();
    let of_filter = RankedQuery {
        settled_at: Some(settled_at),
        stats: StatsWanted::WithLanguages,
        ..RankedQuery::new(product, &filter)
    };
    let ranked = redis
        .index
        .ranked(&[of_filter], TABLE_ID, settled_at)
        .await?
        .remove(0)
        .map_err(|why| anyhow!("the page index is not ready: {why}"))?;
    redis.reset_statistics().await?;
    for _ in 0..pages {
        let page = random.random_range(0..ranked.total / u64::from(PAGE_SIZE));
        let query = match asked.pages {
            Pages::Front => RankedQuery {
                count: FRONT_SIZE,
                ..of_filter
            },
            Pages::Second => RankedQuery {
                skip: PAGE_SIZE.into(),
                count: PAGE_SIZE,
                ..of_filter
            },
            Pages::Any => RankedQuery {
                order: Order::Oldest,
                skip: page * u64::from(PAGE_SIZE),
                count: PAGE_SIZE,
                as_of: Some(settled_at),
                ..of_filter
            },
        };
        redis.index.ranked(&[query], TABLE_ID, settled_at).await?;
    }
    Ok(redis.script_us().await? / f64::from(pages))
}
