//! The cost of the repair job, by the number of comments.

use std::path::Path;

use super::growth::{CONSTANT, PROPORTIONAL, Point, Quantity};
use crate::{
    repair::{World, audit_by_binary, expect_clean},
    statistics::timed,
};

/// Audit: the binary as a whole, with the table scan and the index scan.
pub(super) const QUANTITIES: [Quantity; 3] = [
    ("audit, s", "audit, time", PROPORTIONAL),
    ("audit's memory, MiB", "audit, memory", CONSTANT),
    ("rebuild, s", "rebuild, time", PROPORTIONAL),
];

/// Rebuilds the page index of `comments` comments with all their items, and audits both.
pub(super) async fn measure(comments: u32, binary: &Path) -> anyhow::Result<Point<3>> {
    let world = World::load(comments).await?;
    let (_, rebuild) = timed(async { expect_clean(world.job(true).rebuild(1).await) }).await?;
    let audit = audit_by_binary(binary, &world).await?;
    world.stop().await;
    Ok((f64::from(comments), [audit.took.as_secs_f64(), audit.peak_mib, rebuild.as_secs_f64()]))
}
