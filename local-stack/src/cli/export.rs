//! `pagemark export`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use indicatif::HumanCount;
use model::{ProductId, primaries::PRIMARIES_SHARDS};
use repair_job::Display;
use table::TableConfig;

use super::{
    interrupt::{INTERRUPTED, Signals},
    progress::{per_second, share},
    table_place::{TablePlace, connect},
};
use crate::{
    attached::Attached,
    compression::Compression,
    export::{ExportProgress, Exported, Target, export, export_products},
    stack::TABLE,
};

/// Printed below the help.
pub(super) const EXIT_CODES: &str = "\
Exit code:
    0  everything is in the export
    1  it lacks what the messages name, or it ended early and wrote no file
    2  the command line is wrong
  130  interrupted by Ctrl-C or SIGTERM; the same command goes on where it stopped";

/// A call may take long on a busy table. No reader waits for an export.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of one attempt of a call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of attempts of a call. With the SDK's back-off, they last about half of the call's time.
const ATTEMPTS_MAX: u32 = 6;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write, replaced when everything is written; - for the standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The file to write products' records to, one on each line, compressed by its name.
    #[arg(long, value_name = "FILE")]
    products: Option<PathBuf>,
    /// Only comments of this product, and its record; repeatable.
    #[arg(long, value_name = "PRODUCT", value_parser = |text: &str| ProductId::parse(text).map_err(|error| error.to_string()))]
    product: Vec<ProductId>,
    /// How the file is compressed [default: by its name, .gz or .zst]
    #[arg(long, value_name = "HOW")]
    compress: Option<Compression>,
    #[command(flatten)]
    place: TablePlace,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let at = |path: &Path, compression| {
        Target::at(path, compression).with_context(|| format!("{} cannot be written", path.display()))
    };
    let compression = args.compress.unwrap_or_else(|| Compression::of_name(&args.output));
    let target = match args.output.as_path() {
        path if path == Path::new("-") => Target::stdout(compression),
        path => at(path, compression)?,
    };
    let mut products = None;
    if let Some(path) = &args.products {
        ensure!(path != Path::new("-"), "--products needs the name of a file");
        let records = at(path, Compression::of_name(path))?;
        // Both names may lead to one file.
        let is_one = *path == args.output || records.name() == target.name();
        ensure!(!is_one, "comments and records need two files, not {}", path.display());
        products = Some(records);
    }
    let targets = Targets { comments: target, products };
    let Some(folder) = &args.place.data_dir else {
        let (table, url) = args.place.table_and_url();
        return export_table(table, url, &args.product, targets, &mut signals).await;
    };
    let attached = tokio::select! {
        attached = Attached::to(folder, "export") => attached?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let exported = export_table(TABLE, Some(attached.dynamodb_url()), &args.product, targets, &mut signals).await;
    attached.end().await;
    exported
}

/// Where an export goes.
struct Targets {
    comments: Target,
    /// Where products' records go.
    products: Option<Target>,
}

/// Exports a table, shows progress, and says what the export holds. `url` is the engine's; `None` for AWS.
async fn export_table(
    table: &str,
    url: Option<&str>,
    products: &[ProductId],
    targets: Targets,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let config = TableConfig {
        attempt_timeout: ATTEMPT_TIMEOUT,
        call_timeout: CALL_TIMEOUT,
        max_attempts: ATTEMPTS_MAX,
        ..TableConfig::new(table, url.map(str::to_owned))
    };
    let table = connect(&config).await?;
    let Targets { comments: target, products: records } = targets;
    let (name, is_resumable) = (target.name(), target.is_resumable());
    let progress = ExportProgress::default();
    let began = Instant::now();
    let display = Display::show("export".to_owned(), {
        let progress = progress.clone();
        move || {
            let (comments, shards) = progress.counts();
            // The scan is most of the work, but not all of it.
            (comments, 0.99 * share(shards, PRIMARIES_SHARDS.into()))
        }
    });
    let export = export(&table, products, target, &progress, |text| eprintln!("pagemark: {text}"));
    let exported = tokio::select! {
        exported = export => exported,
        () = signals.next() => {
            drop(display);
            let advice = if is_resumable { " is as it was; the same command goes on where this one stopped" } else { "" };
            eprintln!("pagemark: interrupted; {name}{advice}");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    drop(display);
    let exported = exported?;
    eprint!("{}", report(&name, &exported, began.elapsed()));
    let mut is_whole = exported.problem_count == 0 && exported.unknown.is_empty();
    if let Some(records) = &records {
        let name = records.name();
        let written = tokio::select! {
            written = export_products(&table, products, records) => written?,
            () = signals.next() => {
                eprintln!("pagemark: interrupted; {name} is as it was");
                return Ok(ExitCode::from(INTERRUPTED));
            }
        };
        written.problems.iter().for_each(|problem| eprintln!("pagemark: {problem}"));
        eprintln!("{name}: the records of {} products", HumanCount(u64::try_from(written.records).unwrap_or(u64::MAX)));
        is_whole &= written.problems.is_empty();
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The outcome, for the standard error: the standard output may be the export.
fn report(name: &str, exported: &Exported, took: Duration) -> String {
    let mut text = String::new();
    for problem in &exported.problems {
        text.push_str(&format!("pagemark: {problem}\n"));
    }
    let more = exported.problem_count.saturating_sub(u64::try_from(exported.problems.len()).unwrap_or(u64::MAX));
    if more > 0 {
        text.push_str(&format!("pagemark: and {} more items\n", HumanCount(more)));
    }
    for product in &exported.unknown {
        text.push_str(&format!("pagemark: product {:?} has no comments\n", product.as_str()));
    }
    text.push_str(&format!(
        "{name}: {} comments, of which {} were read again because they had changed, in {:.1} s ({:.0}/s)\n\
         {name}: every change acknowledged before {} is in it, and none made after {}\n",
        HumanCount(exported.comments),
        HumanCount(exported.changed),
        took.as_secs_f64(),
        per_second(exported.comments, took),
        exported.bounds.holds,
        exported.bounds.ends,
    ));
    if exported.problem_count > 0 {
        text.push_str(&format!(
            "{name}: {} items need a person: `pagemark repair audit` looks at all\n",
            HumanCount(exported.problem_count)
        ));
    }
    text
}
