//! Settings that the functions share: flags and `PAGEMARK_*` variables.

use clap::{Args, builder::NonEmptyStringValueParser};

use crate::{
    metrics,
    quarantine::{Quarantine, QuarantinePlace},
};

/// Where records go that can never be processed.
#[derive(Debug, Clone, Args)]
pub struct QuarantineArgs {
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`, `folder:PATH`, or `mapping` (report them; after its last try, the event
    /// source mapping puts them to its on-failure destination).
    #[arg(long, env = "PAGEMARK_QUARANTINE", value_name = "PLACE")]
    pub quarantine: QuarantinePlace,
    /// Endpoint of a local S3, such as http://127.0.0.1:9000; without it, AWS's by region and credentials.
    #[arg(long, env = "PAGEMARK_S3_URL", value_name = "URL")]
    pub s3_url: Option<String>,
}

impl QuarantineArgs {
    /// The quarantine; nothing is sent yet.
    pub async fn connect(&self) -> Quarantine {
        Quarantine::connect(&self.quarantine, self.s3_url.as_deref()).await
    }
}

/// Where metrics go.
#[derive(Debug, Clone, Args)]
pub struct MetricsArgs {
    /// The namespace of the metrics in CloudWatch; each stack of an account needs one of its own.
    #[arg(
        long,
        env = "PAGEMARK_METRICS_NAMESPACE",
        value_name = "NAME",
        default_value = metrics::NAMESPACE,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub metrics_namespace: String,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser, builder::Resettable};
    use page_index::PageIndexArgs;
    use process::with_variables;
    use table::{CommentBlobArgs, TableArgs};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "tested")]
    struct Settings {
        #[command(flatten)]
        table: TableArgs,
        #[command(flatten)]
        page_index: PageIndexArgs,
        #[command(flatten)]
        quarantine: QuarantineArgs,
        #[command(flatten)]
        comment_blob: CommentBlobArgs,
    }

    /// The message about some flags must name a variable.
    fn check(flags: &[&str], variable: &str) {
        // Ignores the variables that are set for the tests themselves.
        let command = Settings::command().mut_args(|argument| argument.env(Resettable::Reset));
        let error = command.try_get_matches_from([&["tested"], flags].concat()).unwrap_err();
        let message = with_variables(error, Settings::command()).to_string();
        assert!(message.contains(variable), "{message}");
    }

    #[test]
    fn a_missing_or_wrong_setting_is_named_by_its_variable() {
        let (table, redis) = (["--table", "t"], ["--redis-url", "redis://localhost/"]);
        check(&[redis.as_slice(), &["--quarantine", "mapping"]].concat(), "PAGEMARK_TABLE");
        check(&[table.as_slice(), &["--quarantine", "mapping"]].concat(), "PAGEMARK_REDIS_URL");
        check(&[table, redis].concat(), "PAGEMARK_QUARANTINE");
        check(&["--table", ""], "PAGEMARK_TABLE");
        check(&[table.as_slice(), &["--redis-url", ""]].concat(), "PAGEMARK_REDIS_URL");
        check(&["--quarantine", "anywhere"], "PAGEMARK_QUARANTINE");
        check(&["--index-partitions", "many"], "PAGEMARK_INDEX_PARTITIONS");
        check(&["--redis-mode", "sentinel"], "PAGEMARK_REDIS_MODE");
        check(&["--comment-blob", "gzip"], "PAGEMARK_COMMENT_BLOB");
    }
}
