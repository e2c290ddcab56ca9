//! What the command line says about imports, and about what follows them.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration};
use repair_job::{per_second, time_left};
use table::Table;

use crate::{
    backlog::Backlog,
    import::{
        EarlierRows, ImportError, ImportOptions, ImportReport, ImportSource, Mistake, import,
    },
};

/// Imports what a source says, and shows its progress and its outcome, even when the import ends
/// early.
pub(super) async fn import_shown(
    table: &Table,
    source: ImportSource,
    options: &ImportOptions,
    earlier: &mut EarlierRows,
) -> (ImportReport, Result<(), ImportError>) {
    let began = Instant::now();
    let name = source.name.clone();
    let display = source.progress.show(&name);
    let (report, ended) = import(table, source, options, earlier).await;
    drop(display);
    let has_counts = ended
        .as_ref()
        .err()
        .is_none_or(|error| !error.is_of_the_whole_file());
    if has_counts {
        let took = began.elapsed();
        say(&report_text(&name, &report, options.dry_run, took));
    }
    (report, ended)
}

/// Writes a text to stdout. The process must not end when the reader of stdout has gone; `println!`
/// would panic then.
pub(super) fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).ok();
}

fn report_text(name: &str, report: &ImportReport, dry_run: bool, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    let rows = report.created
        + report.repeated
        + report.unchanged
        + report.differing
        + report.updated
        + report.bad;
    let repeated = match report.repeated {
        0 => String::new(),
        repeated => format!("{} repeated, ", HumanCount(repeated)),
    };
    let emptied = match report.emptied {
        0 => String::new(),
        emptied => {
            format!(
                " (which {} {} fields)",
                if dry_run { "would empty" } else { "emptied" },
                HumanCount(emptied)
            )
        }
    };
    let updated = match report.updated {
        0 => String::new(),
        updated => format!("{} updated{emptied}, ", HumanCount(updated)),
    };
    let dry = if dry_run {
        "nothing was written; an import would find "
    } else {
        ""
    };
    let mut text = format!(
        "{name}: {dry}{} new, {} unchanged, {repeated}{updated}{} differ from what is there (left as they are), {} bad, in {seconds:.1} s ({:.0}/s)\n",
        HumanCount(report.created),
        HumanCount(report.unchanged),
        HumanCount(report.differing),
        HumanCount(report.bad),
        per_second(rows, took),
    );
    if let Some((first, last)) = report.dates {
        text.push_str(&format!("{name}: the new ones are of {first} to {last}\n"));
    }
    for doubt in &report.doubts {
        text.push_str(&mistake_text(name, "warning: ", doubt));
    }
    let mut named = 0;
    for mistake in &report.mistakes {
        named += mistake.more + 1;
        text.push_str(&mistake_text(name, "", mistake));
    }
    if report.bad > named {
        text.push_str(&format!(
            "{name}: and {} more bad lines\n",
            HumanCount(report.bad - named)
        ));
    }
    text
}

/// The line of a mistake, in a file of this name.
fn mistake_text(name: &str, warning: &str, mistake: &Mistake) -> String {
    let more = match mistake.more {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {} others", HumanCount(more)),
    };
    let number = mistake.number;
    let reason = &mistake.reason;
    format!("{name}: {warning}line {number}{more}: {reason}\n")
}

/// Shows how far the mappings are with so many changes since `before`, until they have processed all,
/// and then how long so many comments took.
pub(super) async fn show_backlog(
    changed: u64,
    began: Instant,
    before: Backlog,
    mut next_backlog: impl AsyncFnMut() -> anyhow::Result<Backlog>,
) -> anyhow::Result<()> {
    loop {
        let backlog = next_backlog().await?;
        if backlog.is_processed {
            break;
        }
        let share = 1.0 - backlog.unseen(before, changed);
        let left = match time_left(share, began.elapsed()) {
            Some(left) => format!(", {} left", HumanDuration(left)),
            None => String::new(),
        };
        eprintln!("settling: {backlog}, {:.1} % done{left}", share * 100.0);
    }
    let took = began.elapsed().as_secs_f64();
    let changed_per_second = per_second(changed, began.elapsed());
    let changed = HumanCount(changed);
    say(&format!(
        "settled: {changed} comments are visible under every filter after {took:.1} s ({changed_per_second:.0}/s)\n"
    ));
    Ok(())
}
