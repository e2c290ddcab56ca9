//! One run of the canary.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use model::{Language, Placement, ProductId, Rating};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    client::Client,
    listing::{Expected, of_one},
};

/// The name of the function in its metrics.
pub const FUNCTION: &str = "canary";

/// The metrics of a run: the time from a comment's acceptance until all its filters show it, and the time from its
/// deletion until none does. A run that fails sends no time that it has not seen.
pub const METRICS: [&str; 2] = ["Freshness", "Removal"];

/// Time kept for the deletion, whatever happened before.
const DELETE_WITHIN: Duration = Duration::from_secs(15);

/// Time between two looks at the filters that are still wrong.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How many filters are read at once: few, because they are 32 requests to a site that serves readers.
const TOGETHER: usize = 4;

/// What a run has seen.
#[derive(Debug, Default)]
pub struct Run {
    /// The values of [`METRICS`].
    times: [Option<Duration>; 2],
    /// What failed.
    pub problem: Option<String>,
}

impl Run {
    /// The line of metrics, without a line feed. `None` when the run has seen no time.
    pub fn metrics_line(&self, namespace: &str) -> Option<String> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let values = METRICS.into_iter().zip(self.times);
        let values: Vec<_> = values.filter_map(|(name, time)| Some((name, "Milliseconds", ms(time?).into()))).collect();
        let line = || functions::metrics::line(namespace, FUNCTION, process::now().epoch_ms(), &values);
        (!values.is_empty()).then(line)
    }
}

/// Runs the canary, which ends before the deadline.
pub async fn run(api: &Client, deadline: Instant) -> Run {
    let mut run = Run::default();
    run.problem = steps(api, deadline, &mut run.times).await.err().map(|error| format!("{error:#}"));
    run
}

async fn steps(api: &Client, deadline: Instant, times: &mut [Option<Duration>; 2]) -> anyhow::Result<()> {
    let visible_until = deadline.checked_sub(DELETE_WITHIN).unwrap_or(deadline);
    let placement = Placement {
        product: ProductId::parse(ProductId::CANARY)?,
        language: Language::parse("en")?,
        rating: Rating::new(5)?,
    };
    let left = api.of_author(ProductId::CANARY, &placement.product).await?;
    for comment in &left {
        tracing::warn!(comment = comment.id, "an earlier run left it");
        api.delete(&comment.id).await?;
    }
    // Only then do the filters show how fast this run's comment arrives.
    wait_for(api, &placement.product, of_one(&placement, &[]), visible_until).await?;
    let comment = json!({
        "language": placement.language,
        "rating": placement.rating,
        "body": "Posted by the canary, which deletes it again.",
        "author_id": ProductId::CANARY,
    });
    let posted = api.post(&placement.product, &process::new_ulid(), &comment).await?;
    let seen = wait_for(api, &placement.product, of_one(&placement, &[&posted.id]), visible_until).await;
    let deleted = api.delete(&posted.id).await;
    let [freshness, removal] = times;
    *freshness = Some(seen?);
    deleted?;
    *removal = Some(wait_for(api, &placement.product, of_one(&placement, &[]), deadline).await?);
    Ok(())
}

/// Waits until each filter has shown what it must, and returns how long that took.
///
/// # Errors
/// One did not until then; the error names it.
pub(crate) async fn wait_for(
    api: &Client,
    product: &ProductId,
    mut expected: Expected,
    until: Instant,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    loop {
        let looks = expected.into_iter().map(async |(filter, must)| {
            let found = api.shown(product, &filter).await;
            let is_right = found.as_ref().is_ok_and(|found| *found == must);
            (!is_right).then_some((filter, must, found))
        });
        let wrong: Vec<_> = stream::iter(looks).buffered(TOGETHER).filter_map(async |look| look).collect().await;
        if wrong.is_empty() {
            return Ok(began.elapsed());
        }
        if Instant::now() + LOOK_AGAIN >= until
            && let Some((filter, must, found)) = wrong.first()
        {
            let of = wrong.len();
            let found = found.as_ref().map_or_else(|error| format!("{error:#}"), |found| format!("{found:?}"));
            anyhow::bail!("{of} filters of {product} do not show what they must; {filter}: {found}, not {must:?}");
        }
        expected = wrong.into_iter().map(|(filter, must, _)| (filter, must)).collect();
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
