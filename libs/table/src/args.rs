//! The settings of the table: flags and `PAGEMARK_*` variables, the same for all binaries.

use clap::{Args, builder::NonEmptyStringValueParser};
use model::BlobFormat;

use crate::TableConfig;

/// Where the table is.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// Name of the DynamoDB table.
    #[arg(long, env = "PAGEMARK_TABLE", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub table: String,
    /// Endpoint of another engine, such as http://127.0.0.1:8000; without it, AWS's by region and
    /// credentials.
    #[arg(long, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL", value_parser = process::aws::parse_endpoint)]
    pub dynamodb_url: Option<String>,
}

impl TableArgs {
    pub fn config(&self) -> TableConfig {
        TableConfig::new(&self.table, self.dynamodb_url.clone())
    }
}

/// How comments are written, for the binaries that write any.
#[derive(Debug, Clone, Args)]
pub struct CommentBlobArgs {
    /// How comments' texts are written: `map` (legible in the console) or `zstd` (compressed where
    /// that is smaller). Both are always read.
    #[arg(
        long,
        env = "PAGEMARK_COMMENT_BLOB",
        value_name = "FORMAT",
        default_value_t
    )]
    pub comment_blob: BlobFormat,
}
