//! The cost of the repair job, by the number of comments.

use anyhow::ensure;

use crate::repair::{World, audit_by_binary};
use std::{path::Path, time::Instant};

/// Upkeep at one number of comments.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpkeepPoint {
    pub(super) comments: f64,
    /// Total time of the binary: scan of the table, sweep of the page index.
    pub(super) audit_s: f64,
    /// Its largest resident set.
    pub(super) audit_mib: f64,
    pub(super) rebuild_s: f64,
}

/// Rebuilds the page index of `comments` comments with all their items, and audits both.
pub(super) async fn measure(comments: u32, binary: &Path) -> anyhow::Result<UpkeepPoint> {
    let world = World::load(comments).await?;
    let began = Instant::now();
    let rebuilt = world.job(true).rebuild(1).await;
    let rebuild_s = began.elapsed().as_secs_f64();
    ensure!(rebuilt.exit_code() == 0, "{rebuilt}");
    let audit = audit_by_binary(binary, &world).await?;
    world.stop().await;
    let comments = f64::from(comments);
    Ok(UpkeepPoint { comments, audit_s: audit.took.as_secs_f64(), audit_mib: audit.peak_mib, rebuild_s })
}
