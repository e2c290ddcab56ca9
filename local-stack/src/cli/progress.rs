//! What the command line says about imports, and about what follows them.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration};
use repair_job::{per_second, time_left};
use serde::{Serialize, Serializer};
use table::Table;

use crate::{
    backlog::Backlog,
    import::{
        EarlierRows, ImportError, ImportOptions, ImportReport, ImportSource, Mistake, import,
    },
};

/// So long may nothing be processed without a word. A batch may take a minute with a slow engine.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// What became of a file.
#[derive(Debug, Serialize)]
pub(super) struct ImportedFile {
    pub(super) file: String,
    #[serde(flatten)]
    pub(super) report: ImportReport,
    /// Why it was not imported to its end.
    #[serde(serialize_with = "reason")]
    pub(super) failure: Option<ImportError>,
    #[serde(rename = "seconds", serialize_with = "seconds")]
    took: Duration,
}

fn reason<S: Serializer>(error: &Option<ImportError>, serializer: S) -> Result<S::Ok, S::Error> {
    error
        .as_ref()
        .map(ToString::to_string)
        .serialize(serializer)
}

pub(super) fn seconds<S: Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.as_secs_f64())
}

/// Imports what a source says, and shows its progress.
pub(super) async fn import_shown(
    table: &Table,
    source: ImportSource,
    options: &ImportOptions,
    earlier: &mut EarlierRows,
) -> ImportedFile {
    let began = Instant::now();
    let file = source.name.clone();
    let display = source.progress.show(&file);
    let (report, ended) = import(table, source, options, earlier).await;
    drop(display);
    ImportedFile {
        file,
        report,
        failure: ended.err(),
        took: began.elapsed(),
    }
}

impl ImportedFile {
    /// Says the outcome, even of an import that ended early.
    pub(super) fn say(&self, dry_run: bool) {
        let has_counts = match &self.failure {
            Some(error) => !error.is_of_the_whole_file(),
            None => true,
        };
        if has_counts {
            say(&report_text(&self.file, &self.report, dry_run, self.took));
        }
    }
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
pub(super) fn mistake_text(name: &str, warning: &str, mistake: &Mistake) -> String {
    let more = match mistake.more {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {} others", HumanCount(more)),
    };
    let number = mistake.number;
    let reason = &mistake.reason;
    format!("{name}: {warning}line {number}{more}: {reason}\n")
}

/// Comments that are visible under every filter.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Settled {
    comments: u64,
    #[serde(rename = "seconds", serialize_with = "seconds")]
    took: Duration,
}

impl Settled {
    pub(super) fn say(self) {
        let changed_per_second = per_second(self.comments, self.took);
        let comments = HumanCount(self.comments);
        let took = self.took.as_secs_f64();
        say(&format!(
            "settled: {comments} comments are visible under every filter after {took:.1} s ({changed_per_second:.0}/s)\n"
        ));
    }
}

/// What people read while the mappings are behind. Nothing was processed for `idle`.
fn settling_text(backlog: Backlog, share: f64, took: Duration, idle: Duration) -> String {
    let left = match time_left(share, took) {
        Some(left) => format!(", {} left", HumanDuration(left)),
        None => String::new(),
    };
    let stalled = if idle < STALLED_AFTER {
        String::new()
    } else {
        let idle = HumanDuration(idle);
        format!("; nothing was processed for {idle}, and the log of `pagemark up` says why")
    };
    format!(
        "settling: {backlog}, {:.1} % done{left}{stalled}",
        share * 100.0
    )
}

/// Shows how far the mappings are with so many changes since `before`, until they have processed all.
/// Returns how long so many comments took.
pub(super) async fn show_backlog(
    changed: u64,
    began: Instant,
    before: Backlog,
    mut next_backlog: impl AsyncFnMut() -> anyhow::Result<Backlog>,
) -> anyhow::Result<Settled> {
    let mut processed = before.processed();
    let mut processed_at = Instant::now();
    loop {
        let backlog = next_backlog().await?;
        if backlog.is_processed {
            return Ok(Settled {
                comments: changed,
                took: began.elapsed(),
            });
        }
        if backlog.processed() != processed {
            processed = backlog.processed();
            processed_at = Instant::now();
        }
        let share = 1.0 - backlog.unseen(before, changed);
        let idle = processed_at.elapsed();
        eprintln!("{}", settling_text(backlog, share, began.elapsed(), idle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_vain_says_where_the_reason_is() {
        let text = |idle| {
            let idle = Duration::from_secs(idle);
            settling_text(Backlog::default(), 0.0, idle, idle)
        };
        let behind = "settling: changes fanned out 0, indexed 0, 0.0 % done";
        assert_eq!(text(59), behind);
        assert_eq!(
            text(61),
            format!(
                "{behind}; nothing was processed for 61 seconds, and the log of `pagemark up` says why"
            )
        );
    }
}
