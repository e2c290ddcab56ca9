//! The memory of an audit by the binary.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use super::World;
use crate::{
    binaries::binary,
    report::{Limit, Report, count as number},
    statistics::as_f64,
};

const PROCESS_POLL: Duration = Duration::from_millis(10);
/// The second size as a multiple of the first.
const TIMES: u32 = 5;
/// The allocator does not return memory, so even a constant need varies by some percent.
const GROWTH_MAX: f64 = 1.2;

/// Measures the memory of an audit of `comments` comments, and of five times as many.
pub(super) async fn measure(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    let binary = binary("repair-job")?;
    let mut peaks = Vec::new();
    for count in [comments, comments * TIMES] {
        let count_text = number(count);
        report.step(&format!("the memory of an audit of {count_text} comments"));
        let world = World::new(count).await?;
        let peak_mib = audit_by_binary(&binary, &world).await?.peak_mib;
        peaks.push((format!("audit of {count_text} comments"), peak_mib, "MiB"));
        world.stop().await;
    }
    let about = "the largest resident set of the binary, dry run with the index scan, one segment";
    report.add("audit-memory", about, &peaks);
    if let [(_, few, _), (_, many, _)] = peaks.as_slice() {
        let note = format!("about 1 with {TIMES} times the comments");
        report.ratio_noted("audit_memory_growth", many / few, Limit::AtMost(GROWTH_MAX), &note);
    }
    Ok(())
}

/// The cost of an audit by the binary.
pub(crate) struct AuditRun {
    /// Time from the start of the process to its end.
    pub(crate) took: Duration,
    /// The largest resident set that the kernel reported during the run.
    pub(crate) peak_mib: f64,
}

/// Audits table and page index (with the index scan), with the binary as a child process and without repairs.
pub(crate) async fn audit_by_binary(binary: &Path, world: &World) -> anyhow::Result<AuditRun> {
    let began = Instant::now();
    let mut child = tokio::process::Command::new(binary)
        .env("PAGEMARK_TABLE", world.store.table.name())
        .env("PAGEMARK_DYNAMODB_URL", world.store.engine.endpoint_url())
        .env("PAGEMARK_REDIS_URL", world.redis.url())
        .args(["audit", "--segments", "1", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let status_file = format!("/proc/{}/status", child.id().context("a process id")?);
    let mut peak_kib = 0_u64;
    let status = loop {
        let status = tokio::fs::read_to_string(&status_file).await.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).and_then(|peak| peak.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        tokio::time::sleep(PROCESS_POLL).await;
    };
    ensure!(status.success(), "the audit of {} comments ended with {status}", world.comments.len());
    Ok(AuditRun { took: began.elapsed(), peak_mib: as_f64(peak_kib) / 1024.0 })
}
