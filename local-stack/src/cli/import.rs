//! `pagemark import`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use table::{CommentBlobArgs, Table, TableConfig};

use super::{
    interrupt::{INTERRUPTED, interrupt},
    progress::{import_file, settle},
    table_place::{TablePlace, connect},
};
use crate::{
    attached::Attached,
    import::{
        ImportError, ImportOptions, Importable, LineReader, Reading, ReadingArgs, Rejects, Source, SourceError,
        json_rows, parse_product_line,
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
    /// Files of comments, plain or compressed by gzip or zstd; `-` is the standard input.
    #[arg(required_unless_present = "products", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file of products' records, one on each line as JSON; repeatable. Records are imported before comments.
    #[arg(long, value_name = "FILE")]
    products: Vec<PathBuf>,
    #[command(flatten)]
    place: TablePlace,
    /// Change existing comments and records that differ, instead of leaving them as they are. Fields that a file does not
    /// name stay.
    #[arg(long)]
    update: bool,
    /// Write nothing, and say what an import would do.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
    /// The file of what is refused, with the reasons; `jq -c .row` gives lines to correct and import.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// What to import, and how. All files are open, so that a missing one is reported before anything is written.
struct Work {
    products: Vec<(PathBuf, LineReader)>,
    comments: Vec<(PathBuf, LineReader)>,
    reading: Reading,
    options: ImportOptions,
}

impl Work {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let (products, comments) = (open_all(&args.products)?, open_all(&args.files)?);
        if let Some(output) = &args.rejects {
            let is_read = args.files.iter().chain(&args.products).any(|file| is_same_file(file, output));
            ensure!(!is_read, "{} would be overwritten: name another file", output.display());
        }
        let create =
            |path: &PathBuf| Rejects::create(path).with_context(|| format!("{} cannot be written", path.display()));
        let rejects = args.rejects.as_ref().map(create).transpose()?;
        let reading = Reading::new(args.reading.clone());
        let options = ImportOptions { update: args.update, dry_run: args.dry_run, rejects };
        Ok(Self { products, comments, reading, options })
    }

    /// Imports the files, one after another.
    async fn import(self, table: &Table, interrupt: impl Future<Output = ()> + Clone + Send + 'static) -> ExitCode {
        let Self { products, comments, reading, options } = self;
        let mut bad = 0;
        for (path, file) in products {
            let source = |file| json_rows(file, parse_product_line).until(interrupt.clone());
            match import_one(table, &path, file, source, &options).await {
                Ok(of_file) => bad += of_file,
                Err(code) => return code,
            }
        }
        for (path, file) in comments {
            let source = |file| reading.source(&path, file).until(interrupt.clone());
            match import_one(table, &path, file, source, &options).await {
                Ok(of_file) => bad += of_file,
                Err(code) => return code,
            }
        }
        let left_out = reading.left_out();
        if !left_out.is_empty() {
            eprintln!("pagemark: left out, because no field takes them: {}", left_out.join(", "));
        }
        if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Imports a file. Returns the number of bad rows; an exit code if the file was not imported to its end.
async fn import_one<T: Importable>(
    table: &Table,
    path: &Path,
    file: LineReader,
    source: impl FnOnce(LineReader) -> Source<T>,
    options: &ImportOptions,
) -> Result<u64, ExitCode> {
    let rejects = options.rejects.as_ref().map(|rejects| rejects.of_file(&path.display().to_string()));
    let (options, progress) = (ImportOptions { rejects, ..options.clone() }, file.progress.clone());
    match import_file(table, path, source(file), progress, &options).await {
        Ok(report) => Ok(report.bad),
        Err(ended) => {
            eprintln!("pagemark: {} was not imported to its end: {ended}", path.display());
            let interrupted = matches!(ended.reason, ImportError::Source(SourceError::Interrupted));
            Err(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE })
        }
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).ok().zip(std::fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b)
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let work = Work::new(&args)?;
    let interrupt = interrupt()?;
    let comment_blob = args.comment_blob.comment_blob;
    let config = |table: &str, url: Option<&str>| TableConfig {
        comment_blob,
        ..TableConfig::new(table, url.map(str::to_owned))
    };
    let Some(folder) = &args.place.data_dir else {
        let (table, url) = args.place.table_and_url();
        return Ok(work.import(&connect(&config(table, url)).await?, interrupt).await);
    };
    let mut attached = tokio::select! {
        attached = Attached::to(folder, "import") => attached?,
        () = interrupt.clone() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let imported = match connect(&config(TABLE, Some(attached.dynamodb_url()))).await {
        Ok(table) => Ok(work.import(&table, interrupt.clone()).await),
        Err(error) => Err(error),
    };
    if let (Ok(_), Some(stack)) = (&imported, attached.own()) {
        tokio::select! {
            () = settle(stack) => {}
            // The next start processes the rest.
            () = interrupt => {}
        }
    }
    attached.end().await;
    imported
}

pub(super) fn open_all(files: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, LineReader)>> {
    let open = |path: &PathBuf| {
        let file = LineReader::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok((path.clone(), file))
    };
    files.iter().map(open).collect()
}
