//! `pagemark import`.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use stores::{Table, config::CommentBlobArgs, table::TableConfig};

use super::progress::{Display, print_report};
use crate::{
    import::{ImportReport, LineReader, import, read_lines},
    stack::TABLE,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of JSON lines, compressed by gzip or not.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name of the DynamoDB table.
    #[arg(long, env = "PAGEMARK_TABLE", value_name = "NAME", default_value = TABLE)]
    table: String,
    /// Endpoint of the engine; `aws` for AWS's by region and credentials.
    #[arg(long, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL", default_value = "http://127.0.0.1:8000")]
    dynamodb_url: String,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let endpoint = Some(args.dynamodb_url).filter(|url| url != "aws");
    let config =
        TableConfig { comment_blob: args.comment_blob.comment_blob, ..TableConfig::new(args.table, endpoint.clone()) };
    let table = Table::connect(&config).await;
    table.describe().await.with_context(|| match &endpoint {
        Some(url) => format!("no table {:?} at {url}; is `pagemark up` running?", table.name()),
        None => format!("no table {:?}", table.name()),
    })?;
    let mut bad = 0;
    for (path, reader) in open_all(&args.files)? {
        bad += import_file(&table, &path, reader).await?.bad;
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opens every file, so that a missing one is told before anything is written.
pub(super) fn open_all(files: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, LineReader)>> {
    let open = |path: &PathBuf| {
        let reader = LineReader::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok((path.clone(), reader))
    };
    files.iter().map(open).collect()
}

/// Imports a file and shows its progress and outcome.
pub(super) async fn import_file(
    table: &Table,
    path: &std::path::Path,
    reader: LineReader,
) -> anyhow::Result<ImportReport> {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let done = Arc::default();
    let display = Display::show(name.clone(), Arc::clone(&done), reader.progress.clone());
    let imported = import(table, read_lines(reader), &done).await;
    drop(display);
    let report = imported.with_context(|| format!("{name} was not imported to its end; run it again to go on"))?;
    print_report(&name, &report);
    Ok(report)
}
