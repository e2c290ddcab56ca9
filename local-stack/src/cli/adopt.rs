//! `pagemark adopt`: an import from a table of the articles' design into a new table.

use std::{path::PathBuf, process::ExitCode};

use anyhow::ensure;
use process::StoreError;
use table::Table;

use super::{
    import::{SEGMENTS_DEFAULT, Work, exit_code, import_all},
    interrupt::interrupt,
    write_args::WriteArgs,
};
use crate::{
    import::{Format, ImportOptions, MappingArgs, Reading},
    origin::Origin,
    stack::LOCAL_ENGINE,
};

/// What the new table is called unless the command line says it: the old one's name and this.
const NEW: &str = "-pagemark";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The table to adopt. It is only read.
    #[arg(long, value_name = "NAME")]
    table: String,
    /// The new table, created if it is missing [default: the name of the old one and -pagemark]
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
    /// Endpoint of the engine of both tables; `aws` for AWS's by region and credentials [default: http://127.0.0.1:8000]
    #[arg(long, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL")]
    dynamodb_url: Option<String>,
    /// Create and write nothing, and say what would be adopted.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// A file that keeps how far the scan has come. The same command with it goes on there.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    mapping: MappingArgs,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let url = Some(args.dynamodb_url.as_deref().unwrap_or(LOCAL_ENGINE)).filter(|url| *url != "aws");
    let origin = Origin::connect(&args.table, url, None).await?;
    let new = args.into.unwrap_or_else(|| args.table.clone() + NEW);
    ensure!(new != args.table, "a table is adopted into another: name it with --into");
    let table = Table::connect(&args.write.table_config(new, url)).await;
    let table_is_missing = args.dry_run && matches!(table.describe().await, Err(StoreError::Refused { .. }));
    if !args.dry_run {
        table.create_if_missing().await?;
    }
    let options = ImportOptions { dry_run: args.dry_run, table_is_missing, ..args.write.import_options() };
    let work = Work {
        products: Vec::new(),
        comments: Vec::new(),
        origin: Some((origin, SEGMENTS_DEFAULT)),
        choices: format!("adopt {:?}", args.mapping),
        reading: Reading::new(Some(Format::Article), args.mapping, args.write.rejects.is_some()),
        options,
        rejects: args.write.rejects,
        checkpoint: args.checkpoint,
    };
    eprintln!("pagemark: the comments of {} go into {}", args.table, table.name());
    import_all(work, &table, interrupt()?).await.map(exit_code)
}
