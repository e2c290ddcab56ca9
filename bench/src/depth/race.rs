//! Requests for one page by all contestants in turn, and walks through all pages.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::LocalBoxFuture;
use model::{Cd, Comment};

use super::curve::{Curve, depths};
use crate::{
    listing::Listing,
    statistics::{Latencies, as_f64, timed},
};

type Page<'store> = LocalBoxFuture<'store, anyhow::Result<Vec<Comment>>>;

/// A contestant that shows any page of a listing by its number, from 1.
pub(super) struct Contestant<'store> {
    name: String,
    page: Box<dyn Fn(u64) -> Page<'store> + 'store>,
}

impl<'store> Contestant<'store> {
    pub(super) fn new(name: impl Into<String>, page: impl Fn(u64) -> Page<'store> + 'store) -> Self {
        Self { name: name.into(), page: Box::new(page) }
    }
}

/// Timed requests of a turn. An untimed one precedes them. Without it, a contestant that follows one that read a
/// million index entries would find the processor's caches empty.
const A_TURN: u32 = 5;

#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) rounds: usize,
    /// After its first turn, a contestant spends at most this time on a page.
    pub(super) time: Duration,
    /// A walk ends when its requests have taken this long in total.
    pub(super) walk: Duration,
    /// Number of pages available to the walk through the four-index design. It has never walked that far within the
    /// time.
    pub(super) walk_pages: u64,
}

impl Budget {
    /// A hundred requests for a median. Slow contestants get fewer.
    pub(super) const FULL: Self =
        Self { rounds: 20, time: Duration::from_millis(250), walk: Duration::from_secs(10), walk_pages: 15_000 };
    pub(super) const QUICK: Self =
        Self { rounds: 3, time: Duration::from_millis(20), walk: Duration::from_millis(500), walk_pages: 500 };
}

#[derive(Debug)]
pub(super) struct ContestantLatencies {
    pub(super) name: String,
    pub(super) by_page: Vec<(u64, Latencies)>,
}

impl ContestantLatencies {
    pub(super) fn curve_of(&self, figure: fn(&Latencies) -> f64) -> Curve {
        self.by_page.iter().map(|(page, latencies)| (*page, figure(latencies))).collect()
    }
}

/// Requests pages at all depths from all contestants. Compares their answers before timing any.
pub(super) async fn race(
    listing: &Listing,
    contestants: &[Contestant<'_>],
    budget: Budget,
) -> anyhow::Result<Vec<ContestantLatencies>> {
    let names = contestants.iter().map(|contestant| contestant.name.clone());
    let mut all: Vec<_> = names.map(|name| ContestantLatencies { name, by_page: Vec::new() }).collect();
    for page in depths(listing.pages()) {
        compare(listing, contestants, page).await?;
        let mut turns = Vec::new();
        for contestant in contestants {
            turns.push((contestant, Latencies::new()?, Duration::ZERO));
        }
        for _ in 0..budget.rounds {
            for (contestant, latencies, spent) in &mut turns {
                if *spent < budget.time {
                    *spent += take_turn(contestant, page, latencies).await?;
                }
            }
            // A different contestant begins each round, so that none always follows the same one.
            turns.rotate_left(1);
        }
        turns.rotate_right(budget.rounds % contestants.len().max(1));
        for (latencies, (_, of_page, _)) in all.iter_mut().zip(turns) {
            latencies.by_page.push((page, of_page));
        }
    }
    Ok(all)
}

/// Returns the duration of the timed requests.
async fn take_turn(contestant: &Contestant<'_>, page: u64, latencies: &mut Latencies) -> anyhow::Result<Duration> {
    (contestant.page)(page).await?;
    let mut spent = Duration::ZERO;
    for _ in 0..A_TURN {
        let (_, took) = timed((contestant.page)(page)).await?;
        latencies.record(took);
        spent += took;
    }
    Ok(spent)
}

/// Refuses a page whose comments are incomplete or differ from the expected ones.
async fn compare(listing: &Listing, contestants: &[Contestant<'_>], page: u64) -> anyhow::Result<()> {
    let mut first: Option<Vec<Comment>> = None;
    for Contestant { name, page: read } in contestants {
        let comments = read(page).await.with_context(|| format!("{name}, page {page}"))?;
        expect_page(listing, page, &comments).with_context(|| name.clone())?;
        let first = first.get_or_insert_with(|| comments.clone());
        ensure!(*first == comments, "{name} has other fields on page {page} than the first contestant");
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
    pub(super) pages: u64,
    pub(super) pages_per_s: f64,
}

/// Walks from the first page to the last, or until the time is up; `next` reads the next page. Compares each page right
/// after its request, outside the timing. A wrong page ends the measurement.
pub(super) async fn walk(
    name: &'static str,
    listing: &Listing,
    pages_max: u64,
    time: Duration,
    mut next: impl AsyncFnMut() -> anyhow::Result<Vec<Comment>>,
) -> anyhow::Result<Walk> {
    let depths = depths(listing.pages());
    let (mut took, mut curve, mut pages) = (Duration::ZERO, Curve::new(), 0);
    while pages < pages_max.min(listing.pages()) && took < time {
        let (comments, of_page) = timed(next()).await.with_context(|| format!("{name}, after page {pages}"))?;
        took += of_page;
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
