//! `pagemark repair undo-import`.

use std::{convert::identity, path::PathBuf, process::ExitCode, sync::Arc};

use indicatif::HumanCount;
use model::Timestamp;
use repair_job::{RunOptions, Signals, Stop, StopReason, exit};
use serde::Serialize;
use serde_json::json;
use table::{Table, capacity::Meter};

use super::{
    INTERRUPTED,
    import::open_all,
    progress::{mistake_text, say},
};
use crate::{
    attached::TableAddress,
    import::{ImportSource, ReadingArgs, UndoOptions, UndoReport, undo_import},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code:
    0  there is nothing to remove
    1  lines were bad, comments stay of which the journal knows nothing any more, or it ended early
    2  the command line is wrong
    4  comments were removed
   12  comments would be removed by --apply
  130  interrupted by Ctrl-C or SIGTERM; the same command resumes it

Examples:
  pagemark repair undo-import reviews.csv --since 2024-01-31T06:00:00Z
  pagemark repair undo-import reviews.csv --since 2024-01-31T06:00:00Z --apply")]
pub(super) struct UndoArgs {
    /// The files that were imported. They are read by the same options as in the import.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// When the import began, such as 2024-01-31T06:00:00Z. What earlier imports created stays.
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    since: Timestamp,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub(super) async fn run(
    table: &TableAddress,
    options: &RunOptions,
    args: UndoArgs,
) -> anyhow::Result<ExitCode> {
    let sources = open_all(&args.files, |path| ImportSource::open(path, &args.reading))?;
    let mut signals = Signals::listen()?;
    let stop = Stop::after(options.max_run_time);
    let attached = tokio::select! {
        opened = table.open("repair", identity) => opened?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let undo = UndoOptions {
        apply: options.settings.apply,
        since: args.since,
    };
    let settings = &options.settings;
    let meter = Meter::new(settings.max_read_units, settings.max_write_units);
    let table = attached.table.clone().metered(Arc::new(meter.until(&stop)));
    let undoing = undo_all(&table, sources, undo, &stop);
    tokio::pin!(undoing);
    let files = tokio::select! {
        files = &mut undoing => files,
        () = signals.next() => {
            stop.ask();
            undoing.await
        }
    };
    attached.end().await;
    let mut exit_code = 0;
    for file in &files {
        exit_code |= file.exit_code();
        if !options.json {
            say(&file.text());
        }
        if let Some(reason) = &file.failure {
            eprintln!(
                "pagemark: {} was not undone to its end: {reason}",
                file.file
            );
        }
    }
    if options.json {
        let outcome = json!({ "files": files, "exit_code": exit_code });
        say(&format!("{}\n", serde_json::to_string_pretty(&outcome)?));
    }
    if stop.reason() == Some(StopReason::Asked) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::from(exit_code))
}

/// What became of a file.
#[derive(Debug, Serialize)]
struct UndoneFile {
    file: String,
    #[serde(flatten)]
    report: UndoReport,
    /// Why it ended early.
    failure: Option<String>,
}

/// Undoes files, one after another, up to one that ends early.
async fn undo_all(
    table: &Table,
    sources: Vec<ImportSource>,
    options: UndoOptions,
    stop: &Stop,
) -> Vec<UndoneFile> {
    let mut files = Vec::new();
    for source in sources {
        let file = source.name.clone();
        let display = source.progress.show(&file);
        let (report, ended) = undo_import(table, source, options, stop).await;
        drop(display);
        let mut failure = ended.err().map(|error| error.to_string());
        if let Some(reason) = stop.reason() {
            failure = Some(format!("{reason}; the same command resumes it"));
        }
        let has_failed = failure.is_some();
        files.push(UndoneFile {
            file,
            report,
            failure,
        });
        if has_failed {
            break;
        }
    }
    files
}

impl UndoneFile {
    fn exit_code(&self) -> u8 {
        let mut exit_code = 0;
        if self.failure.is_some() || self.report.bad + self.report.unknown > 0 {
            exit_code |= exit::FAILURE;
        }
        if self.report.as_imported > 0 {
            exit_code |= exit::DRIFT_FOUND;
            if !self.report.apply {
                exit_code |= exit::DRIFT_LEFT;
            }
        }
        exit_code
    }

    fn text(&self) -> String {
        let Self { file, report, .. } = self;
        let does = if report.apply {
            "removed"
        } else {
            "would be removed by --apply"
        };
        let mut text = format!(
            "{file}: {} comments {does}, {} stay (they were there before, were changed since, or are of another file), {} stay because the journal no longer says who wrote them, {} are not there, {} bad lines\n",
            HumanCount(report.as_imported),
            HumanCount(report.staying),
            HumanCount(report.unknown),
            HumanCount(report.absent),
            HumanCount(report.bad)
        );
        if let Some((first, last)) = report.written {
            text += &format!("{file}: they were written between {first} and {last}\n");
        }
        for mistake in &report.mistakes {
            text += &mistake_text(file, "", mistake);
        }
        text
    }
}
