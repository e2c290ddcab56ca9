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
use indicatif::{HumanCount, ProgressBar};
use repair_job::Display;
use table::Table;

use super::{
    interrupt::{INTERRUPTED, interrupt},
    origin_place::OriginPlace,
    progress::{report_text, say, settle, share},
    table_place::{TablePlace, connect},
    write_args::WriteArgs,
};
use crate::{
    attached::Attached,
    import::{
        Checkpoint, Existing, Format, ImportError, ImportOptions, ImportReport, Importable, InputFile, LineReader,
        MappingArgs, Reading, Rejects, Scan, Source, SourceError, Unfinished, import_with, parse_product_line,
        read_lines_with,
    },
    origin::Origin,
    stack::TABLE,
};

/// Printed below the help.
pub(super) const EXIT_CODES: &str = "\
Exit code:
    0  every line was imported, now or before
    1  lines were bad, or an import ended early; the counts and the reason say how far it came
    2  the command line is wrong
  130  interrupted by Ctrl-C or SIGTERM; what was under way was finished";

/// In how many segments another table is scanned by default. One gives some megabytes a second.
pub(super) const SEGMENTS_DEFAULT: u32 = 4;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of comments, plain or compressed by gzip or zstd.
    #[arg(required_unless_present_any = ["products", "from_table"], value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file of products' records, one on each line as JSON; repeatable. Records are imported before comments.
    #[arg(long, value_name = "FILE")]
    products: Vec<PathBuf>,
    #[command(flatten)]
    place: TablePlace,
    /// Change existing comments and records that differ, instead of leaving them as they are.
    #[arg(long)]
    update: bool,
    /// Write nothing, and say what an import would do.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// A file that keeps how far the import has come. The same import with it skips what is done, without look-ups.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    /// The format of the files [default: csv or tsv for names that say so, otherwise json-lines]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    origin: OriginPlace,
    /// In how many segments the other table is scanned at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = SEGMENTS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    from_segments: u32,
    #[command(flatten)]
    mapping: MappingArgs,
}

/// What to import, and how.
pub(super) struct Work {
    pub(super) products: Vec<(PathBuf, InputFile)>,
    pub(super) comments: Vec<(PathBuf, InputFile)>,
    /// Another table, and in how many segments it is scanned.
    pub(super) origin: Option<(Origin, u32)>,
    pub(super) reading: Reading,
    /// What decides about what is written, for the checkpoint.
    pub(super) choices: String,
    pub(super) options: ImportOptions,
    pub(super) rejects: Option<PathBuf>,
    /// Where it is kept how far the import has come.
    pub(super) checkpoint: Option<PathBuf>,
}

impl Work {
    async fn new(args: &Args) -> anyhow::Result<Self> {
        let (products, comments) = (open_all(&args.products)?, open_all(&args.files)?);
        let outputs = [&args.write.rejects, &args.checkpoint].into_iter().flatten();
        for output in outputs.clone() {
            let written = outputs.clone().filter(|path| *path == output).count();
            let is_read = args.files.iter().chain(&args.products).any(|file| is_same_file(file, output));
            ensure!(!is_read && written == 1, "{} would be overwritten: name another file", output.display());
        }
        let origin = match &args.origin.from_table {
            Some(name) => Some((args.origin.connect(name).await?, args.from_segments)),
            None => None,
        };
        let is_of_items = matches!(args.format, None | Some(Format::DynamodbJson | Format::Article));
        ensure!(origin.is_none() || is_of_items, "a table has items: --format is dynamodb-json or article");
        let options = ImportOptions {
            existing: if args.update { Existing::Update } else { Existing::Keep },
            dry_run: args.dry_run,
            ..args.write.import_options()
        };
        Ok(Self {
            products,
            comments,
            origin,
            reading: Reading::new(args.format, args.mapping.clone(), args.write.rejects.is_some()),
            choices: format!("{:?} {:?} {:?}", options.existing, args.format, args.mapping),
            options,
            rejects: args.write.rejects.clone(),
            checkpoint: args.checkpoint.clone(),
        })
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).ok().zip(std::fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b)
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let work = Work::new(&args).await?;
    let interrupt = interrupt()?;
    let Some(folder) = &args.place.data_dir else {
        let (table, url) = args.place.table_and_url();
        let table = connect(&args.write.table_config(table, url)).await?;
        return Ok(exit_code(import_all(work, &table, interrupt).await?));
    };
    let mut attached = tokio::select! {
        attached = Attached::to(folder, "import") => attached?,
        () = interrupt.clone() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let imported = match connect(&args.write.table_config(TABLE, Some(attached.dynamodb_url()))).await {
        Ok(table) => import_all(work, &table, interrupt.clone()).await,
        Err(error) => Err(error),
    };
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

/// Imports files, one after another, and then another table. Returns the number of bad lines; an exit code if something
/// was not imported to its end.
pub(super) async fn import_all(
    work: Work,
    table: &Table,
    interrupt: impl Future<Output = ()> + Clone + Send + 'static,
) -> anyhow::Result<Result<u64, ExitCode>> {
    let Work { products, comments, origin, reading, choices, mut options, rejects, checkpoint } = work;
    if let Some(path) = checkpoint {
        let id = table.describe().await?.id;
        let opened = Checkpoint::open(&path, &id);
        let opened = opened.with_context(|| format!("{} cannot be used as a checkpoint", path.display()))?;
        options.checkpoint = Some(Arc::new(opened));
    }
    let create =
        |path: PathBuf| Rejects::create(&path).with_context(|| format!("{} cannot be written", path.display()));
    let rejects = rejects.map(create).transpose()?;
    let begin = |path: &Path, file: &InputFile, kind: &str| {
        if let Some(checkpoint) = &options.checkpoint {
            let begun = checkpoint.begin_file(path, file, &format!("{kind} {choices}"));
            begun.with_context(|| format!("{} cannot be read", path.display()))?;
        }
        let rejects = rejects.as_ref().map(|rejects| rejects.of_file(&path.display().to_string()));
        anyhow::Ok(ImportOptions { rejects, ..options.clone() })
    };
    let mut bad = 0;
    for (path, file) in products {
        let options = begin(&path, &file, "products")?;
        let progress = file.progress.clone();
        let source = read_lines_with(LineReader::new(file), rejects.is_some(), parse_product_line);
        match import_file(table, &path, source.until(interrupt.clone()), progress, &options).await {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(&path.display().to_string(), &ended))),
        }
    }
    for (path, file) in comments {
        let options = begin(&path, &file, "comments")?;
        let progress = file.progress.clone();
        let source = reading.source(&path, file);
        match import_file(table, &path, source.until(interrupt.clone()), progress, &options).await {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(&path.display().to_string(), &ended))),
        }
    }
    if let Some((origin, segments)) = origin {
        let rejects = rejects.as_ref().map(|rejects| rejects.of_file(origin.name()));
        let options = ImportOptions { rejects, ..options.clone() };
        match import_origin(table, &origin, segments, &reading, &choices, &options, interrupt).await? {
            Ok(report) => bad += report.bad,
            Err(ended) => return Ok(Err(ended_early(origin.name(), &ended))),
        }
    }
    say_the_rest(&reading, &options);
    Ok(Ok(bad))
}

/// Says what was left out, and what the writes cost.
fn say_the_rest(reading: &Reading, options: &ImportOptions) {
    let left_out = reading.left_out();
    if !left_out.is_empty() {
        eprintln!("pagemark: left out, because no field takes them: {}", left_out.join(", "));
    }
    if reading.others() > 0 {
        eprintln!("pagemark: left out, because they are no comments: {} items", HumanCount(reading.others()));
    }
    if let Some(units) = options.pace.as_ref().map(|pace| pace.units()).filter(|units| *units > 0) {
        eprintln!("pagemark: about {} write units, those of the duplicates included", HumanCount(units));
    }
}

/// Imports another table, which is never written to.
async fn import_origin(
    table: &Table,
    origin: &Origin,
    segments: u32,
    reading: &Reading,
    choices: &str,
    options: &ImportOptions,
    interrupt: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<Result<ImportReport, Unfinished>> {
    if !options.table_is_missing {
        let is_other = table.describe().await?.id != origin.id();
        ensure!(is_other, "{} is the table to import into: name another", origin.name());
    }
    let scan = Scan::of(origin, segments, choices, options.checkpoint.as_deref());
    let (left, of) = scan.left();
    if left < of {
        eprintln!("pagemark: an earlier import has read {} of {of} segments to their ends", of - left);
    }
    let began = scan.began().to_owned();
    let source = scan.source(reading.clone(), options.checkpoint.clone()).until(interrupt);
    let items = origin.items();
    let imported = import_shown(table, origin.name(), source, options, move |done| share(done, items).min(0.99)).await;
    if imported.is_ok() && !options.dry_run {
        eprintln!("pagemark: changes of {} since {began} may be missing: follow --since {began}", origin.name());
    }
    Ok(imported)
}

pub(super) fn exit_code(imported: Result<u64, ExitCode>) -> ExitCode {
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

/// Says why the import of a file or a table ended early.
fn ended_early(name: &str, ended: &Unfinished) -> ExitCode {
    eprintln!("pagemark: {name} was not imported to its end: {ended}");
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
