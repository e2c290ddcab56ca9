//! `pagemark import`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
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
        Checkpoint, Existing, Format, ImportError, ImportOptions, ImportReport, Importable, InputFile, LineReader,
        MappingArgs, Reading, Rejects, Source, SourceError, Unfinished, WORKERS_DEFAULT, import_with,
        parse_product_line, read_lines_with,
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
    /// Files of comments, plain or compressed by gzip or zstd.
    #[arg(required_unless_present = "products", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file of products' records, one on each line as JSON; repeatable. Records are imported before comments.
    #[arg(long, value_name = "FILE")]
    products: Vec<PathBuf>,
    #[command(flatten)]
    place: TablePlace,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
    /// Change existing comments and records that differ, instead of leaving them as they are.
    #[arg(long)]
    update: bool,
    /// Write nothing, and say what an import would do.
    #[arg(long)]
    dry_run: bool,
    /// How many lines are imported concurrently.
    #[arg(long, value_name = "COUNT", default_value_t = WORKERS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,
    /// Where lines go that are not imported, with the reason; `jq -c .row` gives lines to correct and import.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// A file that keeps how far the import has come. The same import with it skips what is done, without look-ups.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    /// The format of the files [default: csv or tsv for names that say so, otherwise json-lines]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    mapping: MappingArgs,
}

/// Files to import, and how.
struct Work {
    products: Vec<(PathBuf, InputFile)>,
    comments: Vec<(PathBuf, InputFile)>,
    reading: Reading,
    /// What decides about what is written, for the checkpoint.
    choices: String,
    options: ImportOptions,
    rejects: Option<PathBuf>,
    /// Where it is kept how far the import has come.
    checkpoint: Option<PathBuf>,
}

impl Work {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let (products, comments) = (open_all(&args.products)?, open_all(&args.files)?);
        for output in [&args.rejects, &args.checkpoint].into_iter().flatten() {
            let written =
                [&args.rejects, &args.checkpoint].into_iter().flatten().filter(|path| *path == output).count();
            let is_read = args.files.iter().chain(&args.products).any(|file| is_same_file(file, output));
            ensure!(!is_read && written == 1, "{} would be overwritten: name another file", output.display());
        }
        let options = ImportOptions {
            existing: if args.update { Existing::Update } else { Existing::Keep },
            dry_run: args.dry_run,
            workers: args.concurrency,
            ..ImportOptions::default()
        };
        Ok(Self {
            products,
            comments,
            reading: Reading::new(args.format, args.mapping.clone(), args.rejects.is_some()),
            choices: format!("{:?} {:?} {:?}", options.existing, args.format, args.mapping),
            options,
            rejects: args.rejects.clone(),
            checkpoint: args.checkpoint.clone(),
        })
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).ok().zip(std::fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b)
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let work = Work::new(&args)?;
    let interrupt = interrupt()?;
    let config = |table: &str, url: Option<&str>| TableConfig {
        comment_blob: args.comment_blob.comment_blob,
        ..TableConfig::new(table, url.map(str::to_owned))
    };
    let Some(folder) = &args.place.data_dir else {
        let (table, url) = args.place.table_and_url();
        return Ok(exit_code(import_all(work, config(table, url), interrupt).await?));
    };
    let mut attached = tokio::select! {
        attached = Attached::to(folder, "import") => attached?,
        () = interrupt.clone() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let config = config(TABLE, Some(attached.dynamodb_url()));
    let imported = import_all(work, config, interrupt.clone()).await;
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
    work: Work,
    config: TableConfig,
    interrupt: impl Future<Output = ()> + Clone + Send + 'static,
) -> anyhow::Result<Result<u64, ExitCode>> {
    let table = connect(&config).await?;
    let Work { products, comments, reading, choices, mut options, rejects, checkpoint } = work;
    if let Some(path) = checkpoint {
        let id = table.describe().await?.id;
        let opened = Checkpoint::open(&path, &id);
        let opened = opened.with_context(|| format!("{} cannot be used as a checkpoint", path.display()))?;
        options.checkpoint = Some(Arc::new(opened));
    }
    let create =
        |path: PathBuf| Rejects::create(&path).with_context(|| format!("{} cannot be written", path.display()));
    let rejects = rejects.map(create).transpose()?;
    let mut begin = |path: &Path, file: &InputFile, kind: &str| {
        options.rejects = rejects.as_ref().map(|rejects| rejects.of_file(&path.display().to_string()));
        if let Some(checkpoint) = &options.checkpoint {
            let begun = checkpoint.begin_file(path, file, &format!("{kind} {choices}"));
            begun.with_context(|| format!("{} cannot be read", path.display()))?;
        }
        anyhow::Ok(options.clone())
    };
    let mut bad = 0;
    for (path, file) in products {
        let options = begin(&path, &file, "products")?;
        let progress = file.progress.clone();
        let source = read_lines_with(LineReader::new(file), rejects.is_some(), parse_product_line);
        match import_file(&table, &path, source.until(interrupt.clone()), progress, &options).await {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(&path, &ended))),
        }
    }
    for (path, file) in comments {
        let options = begin(&path, &file, "comments")?;
        let progress = file.progress.clone();
        let source = reading.source(&path, file);
        match import_file(&table, &path, source.until(interrupt.clone()), progress, &options).await {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(&path, &ended))),
        }
    }
    let left_out = reading.left_out();
    if !left_out.is_empty() {
        eprintln!("pagemark: left out, because no field takes them: {}", left_out.join(", "));
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
pub(super) fn open_all(files: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, InputFile)>> {
    let open = |path: &PathBuf| {
        let file = InputFile::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok((path.clone(), file))
    };
    files.iter().map(open).collect()
}

/// Says why the import of a file ended early.
fn ended_early(path: &Path, ended: &Unfinished) -> ExitCode {
    eprintln!("pagemark: {} was not imported to its end: {ended}", path.display());
    let interrupted = matches!(ended.reason, ImportError::Source(SourceError::Interrupted));
    if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
}

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
    import_shown(table, &name, source, options, move |_| share(progress.position(), progress.length().unwrap_or(0)))
        .await
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
