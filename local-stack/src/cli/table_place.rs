//! Where the comments are that `pagemark import` and `pagemark export` work on.

use std::path::PathBuf;

use anyhow::Context;
use table::{Table, TableConfig};

use crate::{
    attached::Attached,
    index_place::IndexPlace,
    stack::{LOCAL_ENGINE, TABLE},
};

/// A stack, by its folder or its engine, or any table.
#[derive(Debug, clap::Args)]
pub(super) struct TablePlace {
    /// Work on the stack of this data folder. If none runs there, one runs for this command.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["table", "dynamodb_url"])]
    data_dir: Option<PathBuf>,
    /// Name of the DynamoDB table [default: pagemark]
    #[arg(long, env = "PAGEMARK_TABLE", value_name = "NAME")]
    table: Option<String>,
    /// Endpoint of the engine; `aws` for AWS's by region and credentials [default: http://127.0.0.1:8000]
    #[arg(long, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL")]
    dynamodb_url: Option<String>,
}

impl TablePlace {
    /// The table's configuration, and the stack of the folder, which must be ended.
    pub(super) async fn open(&self, command: &str) -> anyhow::Result<(TableConfig, Option<Attached>)> {
        let attached = match &self.data_dir {
            Some(folder) => Some(Attached::to(folder, command, IndexPlace::remembered(folder)).await?),
            None => None,
        };
        let config = match &attached {
            Some(attached) => TableConfig::new(TABLE, Some(attached.dynamodb_url().to_owned())),
            None => {
                // No endpoint is AWS's.
                let url = Some(self.dynamodb_url.as_deref().unwrap_or(LOCAL_ENGINE)).filter(|url| *url != "aws");
                TableConfig::new(self.table.as_deref().unwrap_or(TABLE), url.map(str::to_owned))
            }
        };
        Ok((config, attached))
    }
}

/// A table that exists.
///
/// # Errors
/// There is no such table, or its engine does not answer.
pub(super) async fn connect(config: &TableConfig) -> anyhow::Result<Table> {
    let table = Table::connect(config).await;
    table.describe().await.with_context(|| match &config.endpoint_url {
        Some(url) => format!("no table {:?} at {url}; is `pagemark up` running?", table.name()),
        None => format!("no table {:?}", table.name()),
    })?;
    Ok(table)
}
