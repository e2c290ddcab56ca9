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
};
use crate::{
    attached::Attached,
    import::{
        Existing, ImportError, ImportReport, Importable, LineReader, Source, SourceError, Unfinished, import_with,
        parse_line, parse_product_line, read_lines_with,
    },
    stack::{LOCAL_ENGINE, TABLE},
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
    #[arg(required_unless_present = "products", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file of products' records, one on each line; repeatable. Records are imported before comments.
    #[arg(long, value_name = "FILE")]
    products: Vec<PathBuf>,
    /// Import into the stack of this data folder. If none runs there, one runs for the import.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["table", "dynamodb_url"])]
    data_dir: Option<PathBuf>,
    /// Name of the DynamoDB table [default: pagemark]
    #[arg(long, env = "PAGEMARK_TABLE", value_name = "NAME")]
    table: Option<String>,
    /// Endpoint of the engine; `aws` for AWS's by region and credentials [default: http://127.0.0.1:8000]
    #[arg(long, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL")]
    dynamodb_url: Option<String>,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
    /// Change existing comments and records that differ, instead of leaving them as they are.
    #[arg(long)]
    update: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let files = Files { products: open_all(&args.products)?, comments: open_all(&args.files)? };
    let interrupt = interrupt()?;
    let existing = if args.update { Existing::Update } else { Existing::Keep };
    let config = |table: &str, endpoint: Option<String>| TableConfig {
        comment_blob: args.comment_blob.comment_blob,
        ..TableConfig::new(table, endpoint)
    };
    let Some(folder) = &args.data_dir else {
        let (table, url) = (args.table.as_deref().unwrap_or(TABLE), args.dynamodb_url.as_deref());
        let url = Some(url.unwrap_or(LOCAL_ENGINE)).filter(|url| *url != "aws");
        return Ok(exit_code(import_all(files, config(table, url.map(str::to_owned)), existing, interrupt).await?));
    };
    let mut attached = tokio::select! {
        attached = Attached::to(folder, "import") => attached?,
        () = interrupt.clone() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let config = config(TABLE, Some(attached.dynamodb_url().to_owned()));
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

/// The files to import.
struct Files {
    products: Vec<(PathBuf, LineReader)>,
    comments: Vec<(PathBuf, LineReader)>,
}

/// Imports files, one after another. Returns the number of bad lines; an exit code if a file was not imported to its end.
async fn import_all(
    files: Files,
    config: TableConfig,
    existing: Existing,
    interrupt: impl Future<Output = ()> + Clone + Send + 'static,
) -> anyhow::Result<Result<u64, ExitCode>> {
    let table = Table::connect(&config).await;
    table.describe().await.with_context(|| match &config.endpoint_url {
        Some(url) => format!("no table {:?} at {url}; is `pagemark up` running?", table.name()),
        None => format!("no table {:?}", table.name()),
    })?;
    let Files { products, comments } = files;
    let mut bad = 0;
    for (path, reader) in products {
        match import_file(&table, &path, reader, parse_product_line, existing, interrupt.clone()).await {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(&path, &ended))),
        }
    }
    for (path, reader) in comments {
        match import_file(&table, &path, reader, parse_line, existing, interrupt.clone()).await {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(&path, &ended))),
        }
    }
    Ok(Ok(bad))
}

fn ended_early(path: &Path, ended: &Unfinished) -> ExitCode {
    eprintln!("pagemark: {} was not imported to its end: {ended}", path.display());
    let interrupted = matches!(ended.reason, ImportError::Source(SourceError::Interrupted));
    if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
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

/// Imports a file whose lines `parse` reads, and shows its progress and its outcome, even when it ends early.
pub(super) async fn import_file<T: Importable>(
    table: &Table,
    path: &Path,
    reader: LineReader,
    parse: fn(&[u8]) -> Result<T, String>,
    existing: Existing,
    interrupted: impl Future<Output = ()> + Send + 'static,
) -> Result<ImportReport, Unfinished> {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let progress = reader.progress.clone();
    import_shown(table, &name, read_lines_with(reader, parse).until(interrupted), existing, move |_| {
        share(progress.position(), progress.length().unwrap_or(0))
    })
    .await
}

/// Imports comments or records, and shows their progress and their outcome under a name, even when the import ends early. `share`
/// is the share that is done, from 0 to 1, after so many comments.
pub(super) async fn import_shown<T: Importable>(
    table: &Table,
    name: &str,
    source: Source<T>,
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
