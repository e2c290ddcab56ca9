//! Requests for one page by all contestants in turn, and walks through all pages.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::LocalBoxFuture;
use model::Comment;

use crate::{
    listing::ExpectedListing,
    measure::{Latencies, timed},
};

type PageFuture<'store> = LocalBoxFuture<'store, anyhow::Result<Vec<Comment>>>;

pub(super) struct Contestant<'store> {
    name: String,
    page: Box<dyn Fn(u64) -> PageFuture<'store> + 'store>,
}

impl<'store> Contestant<'store> {
    pub(super) fn new(
        name: impl Into<String>,
        page: impl Fn(u64) -> PageFuture<'store> + 'store,
    ) -> Self {
        Self {
            name: name.into(),
            page: Box::new(page),
        }
    }
}

/// Timed requests of a turn. An untimed one precedes them. Without it, a contestant that follows
/// one that read a million index entries would find the processor's caches empty.
const A_TURN: u32 = 5;

/// How long each contestant is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) rounds: usize,
    /// After its first turn, a contestant spends at most this time on a page.
    pub(super) time: Duration,
    /// A walk ends when its requests have taken this long in total.
    pub(super) walk: Duration,
}

pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(u64, f64)>,
}

fn depths(last: u64) -> Vec<u64> {
    let powers = (0..).map_while(|power| 10_u64.checked_pow(power));
    let steps = powers.flat_map(|power| {
        [1, 2, 5]
            .into_iter()
            .filter_map(move |step| power.checked_mul(step))
    });
    steps
        .take_while(|page| *page < last)
        .chain([last])
        .collect()
}

/// Requests pages at all depths from all contestants. Compares their answers before timing any.
pub(super) async fn race(
    listing: &ExpectedListing,
    contestants: &[Contestant<'_>],
    limits: Limits,
) -> anyhow::Result<Vec<Curve>> {
    let mut curves: Vec<Curve> = contestants
        .iter()
        .map(|contestant| Curve {
            name: contestant.name.clone(),
            points: Vec::new(),
        })
        .collect();
    for page in depths(listing.pages()) {
        compare(listing, contestants, page).await?;
        let turns = contestants.iter().zip(&mut curves);
        let mut turns: Vec<_> = turns
            .map(|turn| (turn, Latencies::default(), Duration::ZERO))
            .collect();
        for _ in 0..limits.rounds {
            for ((contestant, _), latencies, spent) in &mut turns {
                if *spent < limits.time {
                    *spent += take_turn(contestant, page, latencies).await?;
                }
            }
            // A different contestant begins each round, so that none always follows the same one.
            turns.rotate_left(1);
        }
        turns
            .into_iter()
            .for_each(|((_, curve), latencies, _)| curve.points.push((page, latencies.p50_us())));
    }
    Ok(curves)
}

async fn take_turn(
    contestant: &Contestant<'_>,
    page: u64,
    latencies: &mut Latencies,
) -> anyhow::Result<Duration> {
    (contestant.page)(page).await?;
    let mut spent = Duration::ZERO;
    for _ in 0..A_TURN {
        let (_, took) = timed((contestant.page)(page)).await?;
        latencies.record(took);
        spent += took;
    }
    Ok(spent)
}

async fn compare(
    listing: &ExpectedListing,
    contestants: &[Contestant<'_>],
    page: u64,
) -> anyhow::Result<()> {
    let mut first: Option<Vec<Comment>> = None;
    for Contestant { name, page: read } in contestants {
        let comments = read(page)
            .await
            .with_context(|| format!("{name}, page {page}"))?;
        listing
            .expect_comments(page, &comments)
            .with_context(|| name.clone())?;
        let first = first.get_or_insert_with(|| comments.clone());
        ensure!(
            *first == comments,
            "{name} has other fields on page {page} than the first contestant"
        );
    }
    Ok(())
}

/// Walks from the first page to the last, or until the time is up; `next` reads the next page. The
/// curve has the time of all requests up to and including each page. A page is compared right after
/// its request, outside the timing.
pub(super) async fn walk(
    name: &str,
    listing: &ExpectedListing,
    limit: Duration,
    mut next: impl AsyncFnMut() -> anyhow::Result<Vec<Comment>>,
) -> anyhow::Result<Curve> {
    let depths = depths(listing.pages());
    let (mut took, mut points, mut pages) = (Duration::ZERO, Vec::new(), 0);
    while pages < listing.pages() && took < limit {
        let (comments, of_page) = timed(next())
            .await
            .with_context(|| format!("{name}, after page {pages}"))?;
        took += of_page;
        pages += 1;
        listing
            .expect_comments(pages, &comments)
            .with_context(|| name.to_owned())?;
        // Also the page at which the walk was stopped.
        if depths.contains(&pages) || took >= limit {
            points.push((pages, took.as_secs_f64() * 1e6));
        }
    }
    Ok(Curve {
        name: name.to_owned(),
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_spaced_evenly_on_a_logarithmic_axis_and_end_on_the_last_page() {
        assert_eq!(depths(1), [1]);
        assert_eq!(depths(1_000), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]);
        assert_eq!(depths(60), [1, 2, 5, 10, 20, 50, 60]);
    }
}
