//! `pagemark export`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::ensure;
use api::PublicUrl;
use clap::ValueEnum;
use model::AuthorId;
use process::aws::Calls;
use repair_job::Signals;
use serde::Serialize;
use table::{Table, TableConfig};

use super::{INTERRUPTED, progress::say};
use crate::{
    attached::TableAddress,
    compression::Compression,
    export::{Export, ExportTarget, ExportedComments, Publisher},
    import::Format,
};

pub(super) const MORE_HELP: &str = "\
Exit code:
    0  everything is in the export
    1  it lacks what the messages name, or it ended early and wrote no file
    2  the command line is wrong
  130  interrupted by Ctrl-C or SIGTERM; the file is as it was

Examples:
  pagemark export --output comments.jsonl.zst --products products.jsonl --data-dir /var/lib/pagemark
  pagemark export --author customer-4711 --output author.jsonl --data-dir /var/lib/pagemark
  pagemark export --format google-reviews --publisher 'My shop' --public-url https://shop.example.org --output feed.xml";

/// The columns of CSV, for `jq`.
const COMMENT_FIELDS: &str = r#"["id","product","language","rating","created_at","status","title","body","author","author_id","attributes"]"#;
/// Options that write only the records, to the standard output.
const RECORDS: &str = " --output /dev/null --products -";
const RECORD_FIELDS: &str = r#"["product","name","url","image","brand","gtin","sku","language"]"#;

#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The file to write, replaced when everything is written; - for the standard output. A name
    /// that ends in .gz or .zst is compressed.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The file to write products' records to, one on each line.
    #[arg(long, value_name = "FILE")]
    products: Option<PathBuf>,
    /// Write only the comments of the author with this id, those too that readers do not see.
    #[arg(
        long,
        value_name = "ID",
        value_parser = AuthorId::parse_stored,
        conflicts_with_all = ["format", "products"]
    )]
    author: Option<AuthorId>,
    /// What to write: all comments for an import, or the published ones as a product review feed
    /// for Google Merchant Center.
    #[arg(long, value_name = "FORMAT", default_value = "json-lines")]
    format: ExportFormat,
    /// The name of the shop, for a feed.
    #[arg(long, value_name = "NAME", required_if_eq("format", "google-reviews"))]
    publisher: Option<String>,
    /// The address that readers know, for the URLs of a feed.
    #[arg(
        long,
        env = "PAGEMARK_PUBLIC_URL",
        value_name = "URL",
        required_if_eq("format", "google-reviews")
    )]
    public_url: Option<PublicUrl>,
    /// Find the comments by a scan of the table itself, not by its indexes. It reads every
    /// duplicate too.
    #[arg(long, conflicts_with = "author")]
    by_table: bool,
    /// Print what the export holds as JSON, when it goes to files.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableAddress,
}

enum WantedComments {
    OfAuthor(AuthorId),
    All {
        /// For a feed.
        publisher: Option<Publisher>,
        by_table: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    JsonLines,
    GoogleReviews,
}

pub(super) async fn run(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let publisher = match (args.format, args.publisher, args.public_url) {
        (ExportFormat::GoogleReviews, Some(name), Some(site)) => Some(Publisher { name, site }),
        _ => None,
    };
    let wanted = match args.author {
        Some(author) => WantedComments::OfAuthor(author),
        None => WantedComments::All {
            publisher,
            by_table: args.by_table,
        },
    };
    let outputs = [
        (Some(&args.output), "", COMMENT_FIELDS),
        (args.products.as_ref(), RECORDS, RECORD_FIELDS),
    ];
    for (path, options, fields) in outputs {
        let Some(path) = path.filter(|path| Format::of_name(path) != Format::JsonLines) else {
            continue;
        };
        let rows = format!(
            "{fields} as $names | $names, (inputs | (.attributes | values) |= tojson | [.[$names[]]]) | @csv"
        );
        let plain = if Compression::of_name(path) == Compression::None {
            path.clone()
        } else {
            path.with_extension("")
        };
        let csv = plain.with_extension("csv");
        let csv = csv.display();
        eprintln!(
            "error: an export is JSON Lines; for CSV: pagemark export{options} | jq -rn '{rows}' > {csv}"
        );
        return Ok(ExitCode::from(2));
    }
    let is_stdout_used =
        args.output == Path::new("-") || args.products.as_deref() == Some(Path::new("-"));
    if args.json && is_stdout_used {
        eprintln!(
            "error: --json prints to the standard output; name files by --output and --products"
        );
        return Ok(ExitCode::from(2));
    }
    let mut signals = Signals::listen()?;
    let comments = ExportTarget::at(&args.output)?;
    let records = args.products.as_deref().map(ExportTarget::at).transpose()?;
    // Both names may lead to one file.
    let is_one = records
        .as_ref()
        .is_some_and(|records| records.is_same_as(&comments));
    ensure!(
        !is_one,
        "comments and records need two files, not {}",
        comments.name
    );
    let attached = tokio::select! {
        opened = args.table.open("export", |config| TableConfig { calls: Calls::PATIENT, ..config }) => opened?,
        () = signals.next() => return Ok(ExitCode::from(interrupted())),
    };
    let exported = tokio::select! {
        exported = export_table(&attached.table, &comments, records.as_ref(), &wanted) => exported.map(Some),
        () = signals.next() => Ok(None),
    };
    attached.end().await;
    let Some(outcome) = exported? else {
        // The reader of a pipe may have stopped reading, so nothing waits for the thread that
        // writes to it.
        std::process::exit(interrupted().into());
    };
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&outcome)?));
    }
    if outcome.problems > 0 {
        eprintln!(
            "pagemark: {} items need a person: `pagemark repair audit` looks at all",
            outcome.problems
        );
    }
    Ok(ExitCode::from(outcome.exit_code))
}

#[derive(Debug, Serialize)]
struct ExportOutcome {
    #[serde(flatten)]
    comments: ExportedComments,
    /// The number of products' records; `None` without a file for them.
    products: Option<u64>,
    /// How many items need a person.
    problems: u64,
    exit_code: u8,
}

/// Says what an interruption leaves, and returns its exit code.
fn interrupted() -> u8 {
    eprintln!("pagemark: interrupted; a file that is not complete is as it was");
    INTERRUPTED
}

async fn export_table(
    table: &Table,
    comments: &ExportTarget,
    records: Option<&ExportTarget>,
    wanted: &WantedComments,
) -> anyhow::Result<ExportOutcome> {
    let mut export = Export::of(table);
    let by_indexes = !matches!(wanted, WantedComments::All { by_table: true, .. });
    let name = &comments.name;
    let comments = match wanted {
        WantedComments::OfAuthor(author) => export.comments_of_author(comments, author).await?,
        WantedComments::All {
            publisher,
            by_table,
        } => {
            export
                .comments(comments, publisher.clone(), *by_table)
                .await?
        }
    };
    if by_indexes {
        export.say_how_found(name).await?;
    }
    let products = match records {
        Some(records) => Some(export.records(records).await?),
        None => None,
    };
    let problems = export.problems();
    Ok(ExportOutcome {
        comments,
        products,
        problems,
        exit_code: u8::from(problems > 0),
    })
}
