//! `pagemark import`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context;
use repair_job::Display;
use table::{CommentBlobArgs, Table, TableConfig};

use super::{
    interrupt::{INTERRUPTED, interrupt},
    progress::{report_text, say, settle, share},
    table_place::{TablePlace, connect},
};
use crate::{
    attached::Attached,
    import::{
        Existing, ImportError, ImportReport, LineReader, Source, SourceError, Unfinished, import_with, read_lines,
    },
    stack::TABLE,
};

/// Printed below the help.
pub(super) const EXIT_CODES: &str = "\
Exit code:
    0  every line was imported, now or before
    1  lines were bad, or an import ended early; the counts and the reason say how far it came
    2  the command line is wrong
  130  interrupted by Ctrl-C or SIGTERM; what was under way was finished";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of JSON Lines, plain or compressed by gzip or zstd: on each line one comment, as a JSON object.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: TablePlace,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
    /// Change existing comments that differ, instead of leaving them as they are.
    #[arg(long)]
    update: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let files = open_all(&args.files)?;
    let interrupt = interrupt()?;
    let existing = if args.update { Existing::Update } else { Existing::Keep };
    let config = |table: &str, url: Option<&str>| TableConfig {
        comment_blob: args.comment_blob.comment_blob,
        ..TableConfig::new(table, url.map(str::to_owned))
    };
    let Some(folder) = &args.place.data_dir else {
        let (table, url) = args.place.table_and_url();
        return Ok(exit_code(import_all(files, config(table, url), existing, interrupt).await?));
    };
    let mut attached = tokio::select! {
        attached = Attached::to(folder, "import") => attached?,
        () = interrupt.clone() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let config = config(TABLE, Some(attached.dynamodb_url()));
    let imported = import_all(files, config, existing, interrupt.clone()).await;
    if let (Ok(Ok(_)), Some(stack)) = (&imported, attached.own()) {
        tokio::select! {
            () = settle(stack) => {}
            // The next start processes the rest.
            () = interrupt => {}
        }
    }
    attached.end().await;
    imported.map(exit_code)
}

/// Imports files, one after another. Returns the number of bad lines; an exit code if a file was not imported to its end.
async fn import_all(
    files: Vec<(PathBuf, LineReader)>,
    config: TableConfig,
    existing: Existing,
    interrupt: impl Future<Output = ()> + Clone + Send + 'static,
) -> anyhow::Result<Result<u64, ExitCode>> {
    let table = connect(&config).await?;
    let mut bad = 0;
    for (path, reader) in files {
        match import_file(&table, &path, reader, existing, interrupt.clone()).await {
            Ok(report) => bad += report.bad,
            Err(ended) => {
                eprintln!("pagemark: {} was not imported to its end: {ended}", path.display());
                let interrupted = matches!(ended.reason, ImportError::Source(SourceError::Interrupted));
                return Ok(Err(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }));
            }
        }
    }
    Ok(Ok(bad))
}

fn exit_code(imported: Result<u64, ExitCode>) -> ExitCode {
    match imported {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(code) => code,
    }
}

/// Opens every file, so that a missing one is reported before anything is written.
pub(super) fn open_all(files: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, LineReader)>> {
    let open = |path: &PathBuf| {
        let reader = LineReader::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok((path.clone(), reader))
    };
    files.iter().map(open).collect()
}

/// Imports a file, and shows its progress and its outcome, even when it ends early.
pub(super) async fn import_file(
    table: &Table,
    path: &Path,
    reader: LineReader,
    existing: Existing,
    interrupted: impl Future<Output = ()> + Send + 'static,
) -> Result<ImportReport, Unfinished> {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let progress = reader.progress.clone();
    import_shown(table, &name, read_lines(reader).until(interrupted), existing, move |_| {
        share(progress.position(), progress.length().unwrap_or(0))
    })
    .await
}

/// Imports comments, and shows their progress and their outcome under a name, even when the import ends early. `share`
/// is the share that is done, from 0 to 1, after so many comments.
pub(super) async fn import_shown(
    table: &Table,
    name: &str,
    source: Source,
    existing: Existing,
    share: impl Fn(u64) -> f64 + Send + 'static,
) -> Result<ImportReport, Unfinished> {
    let done: Arc<AtomicU64> = Arc::default();
    let shown = done.clone();
    let display = Display::show(name.to_owned(), move || {
        let done = shown.load(Ordering::Relaxed);
        (done, share(done))
    });
    let imported = import_with(table, source, existing, &done).await;
    drop(display);
    let report = imported.as_ref().unwrap_or_else(|ended| &ended.report);
    say(&report_text(name, report));
    imported
}
