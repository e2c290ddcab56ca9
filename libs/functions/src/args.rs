//! Settings that the functions share: flags and `PAGEMARK_*` variables.

use clap::{Args, builder::NonEmptyStringValueParser};
use serde::{Deserialize, Serialize};

use crate::{
    metrics,
    quarantine::{Quarantine, QuarantineLocation},
};

/// Where records go that can never be processed.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuarantineArgs {
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`, `folder:PATH`, or `mapping` (report them; after its
    /// last try, the event source mapping puts them to its on-failure destination).
    #[arg(long, env = "PAGEMARK_QUARANTINE", value_name = "PLACE")]
    pub quarantine: QuarantineLocation,
    /// Endpoint of a local S3, such as http://127.0.0.1:9000; without it, AWS's by region and
    /// credentials.
    #[arg(long, env = "PAGEMARK_S3_URL", value_name = "URL", value_parser = process::aws::parse_endpoint)]
    pub s3_url: Option<String>,
}

impl QuarantineArgs {
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
