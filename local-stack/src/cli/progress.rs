//! What the command line says about imports, and about what follows them.

use std::{io::Write, time::Duration};

use indicatif::HumanCount;

use crate::{
    import::ImportReport,
    stack::{Stack, TABLE},
};

/// The share that is done, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a share of a bar")]
pub(crate) fn share(done: u64, total: u64) -> f64 {
    done as f64 / total.max(1) as f64
}

/// A rate.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(0.001)
}

/// Writes a text to stdout. The process must not end when the reader of stdout has gone; `println!` would panic then.
pub(super) fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).ok();
}

/// The outcome of an import, or what it would be.
pub(super) fn report_text(name: &str, report: &ImportReport, dry_run: bool) -> String {
    let seconds = report.took.as_secs_f64();
    let updated = if report.updated > 0 { format!("{} updated, ", HumanCount(report.updated)) } else { String::new() };
    let skipped = if report.skipped > 0 {
        format!("{} skipped (done by an earlier import), ", HumanCount(report.skipped))
    } else {
        String::new()
    };
    let dry = if dry_run { "nothing was written; an import would find " } else { "" };
    let mut text = format!(
        "{name}: {dry}{skipped}{} new, {} unchanged, {updated}{} differ from what is there (left as they are), {} bad, in {seconds:.1} s ({:.0}/s)\n",
        HumanCount(report.created),
        HumanCount(report.unchanged),
        HumanCount(report.differing),
        HumanCount(report.bad),
        per_second(report.lines(), report.took),
    );
    for line in &report.bad_lines {
        text.push_str(&format!("{name}: line {}: {}\n", line.number, line.reason));
    }
    let more = report.bad.saturating_sub(u64::try_from(report.bad_lines.len()).unwrap_or(u64::MAX));
    if more > 0 {
        text.push_str(&format!("{name}: and {} more bad lines\n", HumanCount(more)));
    }
    text
}

/// Waits until the handlers have processed everything, and prints now and then how much is left.
pub(super) async fn settle(stack: &mut Stack) {
    const SAY_EVERY: Duration = Duration::from_secs(5);
    loop {
        if tokio::time::timeout(SAY_EVERY, stack.settle()).await.is_ok() {
            return;
        }
        let [fan_out, indexing] = stack.mapping_states();
        let left = match stack.engine() {
            Some(engine) => {
                let left = engine.pending_stream_records(TABLE, fan_out.processed.as_deref()).await.unwrap_or_default();
                format!("{} stream records left; ", HumanCount(left))
            }
            // Other engines do not report this number.
            None => String::new(),
        };
        eprintln!(
            "settling: {left}changes fanned out {}, indexed {}",
            HumanCount(fan_out.records),
            HumanCount(indexing.records)
        );
    }
}
