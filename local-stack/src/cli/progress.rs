//! What the command line says about imports, and about what follows them.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use indicatif::HumanCount;
use table::Table;

use crate::{
    import::{ImportError, ImportOptions, ImportReport, Mistake, Source, import},
    stack::{Stack, TABLE},
};

/// Imports what a source says, and shows its progress and its outcome, even when the import ends early.
pub(super) async fn import_shown(
    table: &Table,
    source: Source,
    options: &ImportOptions,
) -> (ImportReport, Result<(), ImportError>) {
    let (began, name) = (Instant::now(), source.name.clone());
    let display = source.progress.show(&name);
    let (report, ended) = import(table, source, options).await;
    drop(display);
    say(&report_text(&name, &report, options.dry_run, began.elapsed()));
    (report, ended)
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(0.001)
}

/// Writes a text to stdout. The process must not end when the reader of stdout has gone; `println!` would panic then.
pub(super) fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).ok();
}

fn report_text(name: &str, report: &ImportReport, dry_run: bool, took: Duration) -> String {
    let (seconds, rows) =
        (took.as_secs_f64(), report.created + report.unchanged + report.differing + report.updated + report.bad);
    let updated = if report.updated > 0 { format!("{} updated, ", HumanCount(report.updated)) } else { String::new() };
    let dry = if dry_run { "nothing was written; an import would find " } else { "" };
    let mut text = format!(
        "{name}: {dry}{} new, {} unchanged, {updated}{} differ from what is there (left as they are), {} bad, in {seconds:.1} s ({:.0}/s)\n",
        HumanCount(report.created),
        HumanCount(report.unchanged),
        HumanCount(report.differing),
        HumanCount(report.bad),
        per_second(rows, took),
    );
    let mut named = 0;
    for Mistake { reason, number, more } in &report.mistakes {
        named += more + 1;
        let more = if *more > 0 { format!(" and {} others", HumanCount(*more)) } else { String::new() };
        text.push_str(&format!("{name}: line {number}{more}: {reason}\n"));
    }
    if report.bad > named {
        text.push_str(&format!("{name}: and {} more bad lines\n", HumanCount(report.bad - named)));
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
