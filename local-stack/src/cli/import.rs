//! `pagemark import`.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use repair_job::{Progress, on_signals};
use serde::Serialize;
use table::{CommentBlobArgs, Table, TableConfig};
use tokio::{sync::watch, time::sleep};

use super::{
    INTERRUPTED,
    progress::{ImportedFile, Settled, import_shown, say, show_backlog},
};
use crate::{
    attached::TableAddress,
    backlog::Backlog,
    control::{Running, backlog},
    import::{EarlierRows, IMPORT, ImportError, ImportOptions, ImportSource, ReadingArgs},
};

/// How often a running import asks the stack how far it is.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Printed below the help.
pub(super) const MORE_HELP: &str = "\
Exit code:
    0  every line was imported, now or before
    1  lines were bad, or an import ended early; the counts and the reason say how far it came
    2  the command line is wrong
  130  interrupted by Ctrl-C or SIGTERM; what takes longer than a moment was not finished

Examples:
  pagemark import reviews.jsonl --data-dir /var/lib/pagemark
  pagemark import old.csv --dry-run --rejects refused.jsonl --data-dir /var/lib/pagemark
  pagemark import --products products.jsonl reviews.jsonl.zst --data-dir /var/lib/pagemark";

#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// Files of comments, plain or compressed by gzip or zstd; `-` is the standard input.
    #[arg(required_unless_present = "products", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file of products' records, one on each line as JSON; repeatable. Records are imported
    /// before comments.
    #[arg(long, value_name = "FILE")]
    products: Vec<PathBuf>,
    #[command(flatten)]
    table: TableAddress,
    /// Change existing comments and records that differ, instead of leaving them as they are.
    /// Fields that a file does not name stay.
    #[arg(long)]
    update: bool,
    /// Write nothing, and say what an import would do.
    #[arg(long)]
    dry_run: bool,
    /// End without waiting until a stack shows the comments under every filter.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
    /// The file of what is refused, with the reasons; `jq -c .row` gives lines to correct and
    /// import.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub(super) async fn run(args: ImportArgs) -> anyhow::Result<ExitCode> {
    // All files are open before anything is written, so that a missing one is reported.
    let mut sources = open_all(&args.products, ImportSource::of_products)?;
    sources.extend(open_all(&args.files, |path| {
        ImportSource::open(path, &args.reading)
    })?);
    let (interrupt, mut interrupted) = watch::channel(false);
    tokio::spawn(on_signals(
        "finishing what is under way",
        INTERRUPTED,
        move || {
            interrupt.send_replace(true);
        },
    )?);
    let options = ImportOptions {
        update: args.update,
        dry_run: args.dry_run,
        rejects: args
            .rejects
            .as_deref()
            .map(|path| create_rejects(path, &args))
            .transpose()?,
        interrupted: Some(interrupted.clone()),
    };
    let mut earlier = EarlierRows::new().map_err(ImportError::from)?;
    let comment_blob = args.comment_blob.comment_blob;
    let attached = tokio::select! {
        opened = args.table.open("import", |config| TableConfig { comment_blob, ..config }) => opened?,
        _ = interrupted.wait_for(|is| *is) => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let table = attached.table.written_by(IMPORT);
    let began = Instant::now();
    let waits = !args.dry_run && !args.no_wait;
    let stack = if waits {
        FollowedStack::of(&attached.table).await
    } else {
        Ok(None)
    };
    let progress: Vec<Progress> = sources
        .iter()
        .map(|source| source.progress.clone())
        .collect();
    let following = match &stack {
        Ok(Some(stack)) => {
            let stack = stack.clone();
            Some(tokio::spawn(async move { stack.follow(&progress).await }))
        }
        Ok(None) | Err(_) => None,
    };
    let records = args.products.len();
    let files = import_all(&table, sources, &options, &mut earlier, args.json).await;
    let mut outcome = ImportOutcome {
        files,
        ..ImportOutcome::default()
    };
    if let Some(following) = following {
        following.abort();
    }
    let changed = outcome.changed(records);
    if changed > 0 {
        match stack {
            Ok(Some(stack)) => tokio::select! {
                settled = stack.wait(changed, began) => outcome.settled = settled,
                _ = interrupted.wait_for(|is| *is) => {}
            },
            Ok(None) => {}
            Err(error) => say_not_visible(&error),
        }
    }
    attached.end().await;
    outcome.exit_code = exit_code(&outcome.files);
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&outcome)?));
    } else if let Some(settled) = outcome.settled {
        settled.say();
    }
    Ok(ExitCode::from(outcome.exit_code))
}

/// What an import did.
#[derive(Debug, Default, Serialize)]
struct ImportOutcome {
    files: Vec<ImportedFile>,
    /// `None` if it was not waited for.
    settled: Option<Settled>,
    exit_code: u8,
}

impl ImportOutcome {
    /// How many comments were written. The first files are of records.
    fn changed(&self, records: usize) -> u64 {
        let of_comments = self.files.iter().skip(records);
        of_comments
            .map(|file| file.report.created + file.report.updated)
            .sum()
    }
}

fn exit_code(files: &[ImportedFile]) -> u8 {
    let mut exit_code = 0;
    for file in files {
        match &file.failure {
            Some(ImportError::Interrupted) => return INTERRUPTED,
            Some(_) => exit_code = 1,
            None if file.report.bad > 0 => exit_code = 1,
            None => {}
        }
    }
    exit_code
}

/// The stack that processes what is imported.
#[derive(Clone)]
struct FollowedStack {
    socket: PathBuf,
    /// How far it was before the import.
    before: Backlog,
}

impl FollowedStack {
    /// The running stack of a table. A deployed one has no such record: its functions run elsewhere.
    ///
    /// # Errors
    /// A stack runs, but does not say how far it is. It may be another version.
    async fn of(table: &Table) -> anyhow::Result<Option<Self>> {
        match Running::on(table).await? {
            Some(Running { socket, .. }) => Self::at(socket).await,
            None => Ok(None),
        }
    }

    /// The stack that listens at a socket. One that has ended may have left the socket's name.
    async fn at(socket: PathBuf) -> anyhow::Result<Option<Self>> {
        match backlog(&socket).await {
            Ok(before) => Ok(Some(Self { socket, before })),
            Err(error) if is_nobody_there(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells the progress of the files how much of what was written is not processed, while it can be
    /// asked.
    async fn follow(&self, files: &[Progress]) {
        while let Ok(backlog) = backlog(&self.socket).await {
            let changes = files.iter().map(Progress::changes).sum();
            for file in files {
                file.set_unseen(backlog.unseen(self.before, changes));
            }
            sleep(ASKED_EVERY).await;
        }
    }

    /// Shows how far it is, until the comments are visible under every filter.
    async fn wait(&self, changed: u64, began: Instant) -> Option<Settled> {
        let next = async || backlog(&self.socket).await;
        match show_backlog(changed, began, self.before, next).await {
            Ok(settled) => Some(settled),
            Err(error) => {
                say_not_visible(&error);
                None
            }
        }
    }
}

/// Whether nobody listens at a socket.
fn is_nobody_there(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        kind,
        Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    )
}

/// Says why an import does not wait any longer.
fn say_not_visible(error: &anyhow::Error) {
    eprintln!(
        "pagemark: the comments may not yet be visible under every filter, and the import does not wait for it: {error:#}"
    );
}

pub(super) fn open_all(
    files: &[PathBuf],
    open: impl Fn(&Path) -> io::Result<ImportSource>,
) -> anyhow::Result<Vec<ImportSource>> {
    let mut sources = Vec::new();
    for path in files {
        let source = open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        sources.push(source);
    }
    Ok(sources)
}

fn create_rejects(path: &Path, args: &ImportArgs) -> anyhow::Result<Arc<File>> {
    for read in args.files.iter().chain(&args.products) {
        ensure!(
            !is_same_file(read, path),
            "{} would be overwritten: name another file",
            path.display()
        );
    }
    Ok(Arc::new(File::create(path).with_context(|| {
        format!("{} cannot be written", path.display())
    })?))
}

/// Whether two paths lead to one file, which exists.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Imports files, one after another, up to one that is not imported to its end. Without `json`, says
/// at once what became of each.
async fn import_all(
    table: &Table,
    sources: Vec<ImportSource>,
    options: &ImportOptions,
    earlier: &mut EarlierRows,
    json: bool,
) -> Vec<ImportedFile> {
    let mut files = Vec::new();
    for source in sources {
        let imported = import_shown(table, source, options, earlier).await;
        if !json {
            imported.say(options.dry_run);
        }
        let has_failed = imported.failure.is_some();
        if let Some(error) = &imported.failure {
            let name = &imported.file;
            eprintln!("pagemark: {name} was not imported to its end: {error}");
        }
        files.push(imported);
        if has_failed {
            break;
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    use super::*;

    #[tokio::test]
    async fn a_stack_that_does_not_say_how_far_it_is_is_an_error_and_none_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        assert!(FollowedStack::at(socket.clone()).await.unwrap().is_none());
        let listener = UnixListener::bind(&socket).unwrap();
        let old_stack = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer).await.unwrap();
        };
        let ((), found) = tokio::join!(old_stack, FollowedStack::at(socket.clone()));
        let error = found.err().unwrap();
        assert!(
            format!("{error:#}").contains("another version"),
            "{error:#}"
        );
        // A killed stack leaves its socket.
        drop(listener);
        assert!(FollowedStack::at(socket).await.unwrap().is_none());
    }
}
