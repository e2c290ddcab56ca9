//! Requests for one page by all contestants in turn, and walks through all pages.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::future::LocalBoxFuture;
use model::{Cd, Comment};

use super::curve::{Curve, depths};
use crate::{
    listing::Listing,
    statistics::{Latencies, as_f64},
};

/// A contestant that shows any page of a listing by its number.
pub(super) trait Contestant {
    fn name(&self) -> &'static str;

    /// The comments of a page, from 1.
    fn page(&mut self, page: u64) -> LocalBoxFuture<'_, anyhow::Result<Vec<Comment>>>;
}

/// A contestant that shows only the next page of a listing, starting with the first.
pub(super) trait Walker {
    fn name(&self) -> &'static str;

    /// The comments of the next page.
    fn next(&mut self) -> LocalBoxFuture<'_, anyhow::Result<Vec<Comment>>>;
}

/// Timed requests of a turn. An untimed one precedes them. Without it, a contestant that follows one that read a
/// million index entries would find the processor's caches empty.
const A_TURN: u32 = 5;

/// The amount of measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Maximum number of turns for each contestant.
    pub(super) rounds: usize,
    /// After its first turn, a contestant spends at most this time on a page.
    pub(super) time: Duration,
    /// A walk ends when its requests have taken this long in total.
    pub(super) walk: Duration,
    /// Number of pages available to the walk through the four-index design. It has never walked that far within the
    /// time.
    pub(super) walk_pages: u64,
}

impl Effort {
    /// Enough requests that two lie beyond the 99th percentile. Slow contestants get fewer.
    pub(super) const FULL: Self =
        Self { rounds: 40, time: Duration::from_millis(500), walk: Duration::from_secs(15), walk_pages: 20_000 };
    /// A shorter race of a few seconds.
    pub(super) const QUICK: Self =
        Self { rounds: 3, time: Duration::from_millis(20), walk: Duration::from_millis(500), walk_pages: 500 };
}

/// A contestant's latencies by page.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: &'static str,
    pub(super) latencies: Vec<(u64, Latencies)>,
}

impl Lane {
    /// A figure of the latencies of each page.
    pub(super) fn curve_of(&self, figure: fn(&Latencies) -> f64) -> Curve {
        self.latencies.iter().map(|(page, latencies)| (*page, figure(latencies))).collect()
    }
}

/// Requests pages at all depths from all contestants. Compares their answers before timing any.
pub(super) async fn race(
    listing: &Listing,
    contestants: &mut [Box<dyn Contestant + '_>],
    effort: Effort,
) -> anyhow::Result<Vec<Lane>> {
    let mut lanes: Vec<Lane> =
        contestants.iter().map(|contestant| Lane { name: contestant.name(), latencies: Vec::new() }).collect();
    for page in depths(listing.pages()) {
        compare(listing, contestants, page).await?;
        for lane in &mut lanes {
            lane.latencies.push((page, Latencies::new()?));
        }
        let count = contestants.len();
        let mut spent = vec![Duration::ZERO; count];
        for round in 0..effort.rounds {
            // A different contestant begins each round, so that none always follows the same one.
            for turn in 0..count {
                let of = (round + turn) % count;
                let contestant = contestants.get_mut(of).context("a contestant")?;
                let (_, latencies) = lanes.get_mut(of).and_then(|lane| lane.latencies.last_mut()).context("a lane")?;
                let spent = spent.get_mut(of).context("a time")?;
                if *spent < effort.time {
                    *spent += take_turn(contestant.as_mut(), page, latencies).await?;
                }
            }
        }
    }
    Ok(lanes)
}

/// Returns the duration of the timed requests.
async fn take_turn(contestant: &mut dyn Contestant, page: u64, latencies: &mut Latencies) -> anyhow::Result<Duration> {
    contestant.page(page).await?;
    let mut spent = Duration::ZERO;
    for _ in 0..A_TURN {
        let began = Instant::now();
        contestant.page(page).await?;
        let took = began.elapsed();
        latencies.record(took);
        spent += took;
    }
    Ok(spent)
}

/// Refuses a page whose comments are incomplete or differ from the expected ones.
async fn compare(listing: &Listing, contestants: &mut [Box<dyn Contestant + '_>], page: u64) -> anyhow::Result<()> {
    let mut first: Option<Vec<Comment>> = None;
    for contestant in contestants {
        let name = contestant.name();
        let comments = contestant.page(page).await.with_context(|| format!("{name}, page {page}"))?;
        expect_page(listing, page, &comments).context(name)?;
        match &first {
            Some(first) => {
                ensure!(*first == comments, "{name} has other fields on page {page} than the first contestant")
            }
            None => first = Some(comments),
        }
    }
    Ok(())
}

fn expect_page(listing: &Listing, page: u64, comments: &[Comment]) -> anyhow::Result<()> {
    let shown: Vec<Cd> = comments.iter().map(Comment::cd).collect();
    let expected: Vec<&Cd> = listing.page(page).collect();
    ensure!(shown.iter().eq(expected.iter().copied()), "page {page} shows {shown:?} instead of {expected:?}");
    Ok(())
}

/// The time to walk to each page.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) name: &'static str,
    /// The time of all requests up to and including each page, in microseconds.
    pub(super) curve: Curve,
    /// Pages walked.
    pub(super) pages: u64,
    pub(super) pages_per_s: f64,
}

/// Walks from the first page to the last, or until the time is up. Compares each page right after its request, outside
/// the timing. A wrong page ends the measurement.
pub(super) async fn walk(
    listing: &Listing,
    walker: &mut dyn Walker,
    pages_max: u64,
    time: Duration,
) -> anyhow::Result<Walk> {
    let name = walker.name();
    let depths = depths(listing.pages());
    let (mut took, mut curve, mut pages) = (Duration::ZERO, Curve::new(), 0);
    while pages < pages_max.min(listing.pages()) && took < time {
        let began = Instant::now();
        let comments = walker.next().await.with_context(|| format!("{name}, after page {pages}"))?;
        took += began.elapsed();
        pages += 1;
        expect_page(listing, pages, &comments).context(name)?;
        if depths.contains(&pages) {
            curve.push((pages, took.as_secs_f64() * 1e6));
        }
    }
    // The page at which the walk was stopped. So the last point is measured too.
    if curve.last().is_some_and(|(page, _)| *page < pages) {
        curve.push((pages, took.as_secs_f64() * 1e6));
    }
    Ok(Walk { name, curve, pages, pages_per_s: as_f64(pages) / took.as_secs_f64() })
}
