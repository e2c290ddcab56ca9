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
    let mut depths = Vec::new();
    let mut power = 1_u64;
    'deeper: loop {
        for step in [1, 2, 5] {
            match power.checked_mul(step) {
                Some(page) if page < last => depths.push(page),
                _ => break 'deeper,
            }
        }
        power = power.saturating_mul(10);
    }
    depths.push(last);
    depths
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
        let mut racers: Vec<Racer<'_, '_>> = contestants
            .iter()
            .zip(&mut curves)
            .map(|(contestant, curve)| Racer {
                contestant,
                curve,
                latencies: Latencies::default(),
                spent: Duration::ZERO,
            })
            .collect();
        for _ in 0..limits.rounds {
            for racer in &mut racers {
                if racer.spent < limits.time {
                    racer.take_turn(page).await?;
                }
            }
            // A different contestant begins each round, so that none always follows the same one.
            racers.rotate_left(1);
        }
        for racer in racers {
            let p50_us = racer.latencies.p50_us();
            racer.curve.points.push((page, p50_us));
        }
    }
    Ok(curves)
}

/// A contestant on one page.
struct Racer<'race, 'store> {
    contestant: &'race Contestant<'store>,
    curve: &'race mut Curve,
    latencies: Latencies,
    spent: Duration,
}

impl Racer<'_, '_> {
    async fn take_turn(&mut self, page: u64) -> anyhow::Result<()> {
        let read = &self.contestant.page;
        read(page).await?;
        for _ in 0..A_TURN {
            let (_, took) = timed(read(page)).await?;
            self.latencies.record(took);
            self.spent += took;
        }
        Ok(())
    }
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
    let mut took = Duration::ZERO;
    let mut points = Vec::new();
    let mut pages = 0;
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
