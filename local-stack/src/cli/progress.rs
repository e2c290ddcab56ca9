//! What the command line says about imports, and about what follows them.

use std::{
    io::Write,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use indicatif::{HumanCount, ProgressBar};
use repair_job::Display;
use table::Table;

use crate::{
    import::{ImportOptions, ImportReport, Importable, Mistake, Source, Unfinished, import_with},
    stack::{Stack, TABLE},
};

/// Imports what a file says, and shows its progress and its outcome, even when it ends early. `progress` is that of
/// reading the file.
pub(super) async fn import_file<T: Importable>(
    table: &Table,
    path: &Path,
    source: Source<T>,
    progress: ProgressBar,
    options: &ImportOptions,
) -> Result<ImportReport, Unfinished> {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let share = move |_| share(progress.position(), progress.length().unwrap_or(0));
    import_shown(table, &name, source, options, share).await
}

/// Imports comments or records, and shows their progress and their outcome under a name, even when the import ends early.
/// `share` is the share that is done, from 0 to 1, after so many of them.
pub(super) async fn import_shown<T: Importable>(
    table: &Table,
    name: &str,
    source: Source<T>,
    options: &ImportOptions,
    share: impl Fn(u64) -> f64 + Send + 'static,
) -> Result<ImportReport, Unfinished> {
    let done: Arc<AtomicU64> = Arc::default();
    let shown = done.clone();
    let display = Display::show(name.to_owned(), move || {
        let done = shown.load(Ordering::Relaxed);
        (done, share(done))
    });
    let imported = import_with(table, source, options, &done).await;
    drop(display);
    let report = imported.as_ref().unwrap_or_else(|ended| &ended.report);
    say(&report_text(name, report, options.dry_run));
    imported
}

/// The share that is done, from 0 to 1; 0 of an unknown total.
#[expect(clippy::cast_precision_loss, reason = "a share of a bar")]
pub(crate) fn share(done: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { done as f64 / total as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(0.001)
}

/// Writes a text to stdout. The process must not end when the reader of stdout has gone; `println!` would panic then.
pub(super) fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).ok();
}

pub(super) fn report_text(name: &str, report: &ImportReport, dry_run: bool) -> String {
    let seconds = report.took.as_secs_f64();
    let updated = if report.updated > 0 { format!("{} updated, ", HumanCount(report.updated)) } else { String::new() };
    let dry = if dry_run { "nothing was written; an import would find " } else { "" };
    let mut text = format!(
        "{name}: {dry}{} new, {} unchanged, {updated}{} differ from what is there (left as they are), {} bad, in {seconds:.1} s ({:.0}/s)\n",
        HumanCount(report.created),
        HumanCount(report.unchanged),
        HumanCount(report.differing),
        HumanCount(report.bad),
        per_second(report.lines(), report.took),
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
