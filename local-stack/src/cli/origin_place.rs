//! Where another table is, from which comments come.

use crate::{clients::streams_client, origin::Origin};

/// Another table.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Another DynamoDB table")]
pub(super) struct OriginPlace {
    /// The other table.
    #[arg(long, value_name = "NAME")]
    pub(super) from_table: Option<String>,
    /// Endpoint of its engine [default: AWS's, by region and credentials]
    #[arg(long, value_name = "URL")]
    pub(super) from_endpoint: Option<String>,
    /// Its region [default: as in AWS's own tools]
    #[arg(long, value_name = "REGION")]
    pub(super) from_region: Option<String>,
}

impl OriginPlace {
    /// The table of a name.
    ///
    /// # Errors
    /// There is no such table, or its engine does not answer.
    pub(super) async fn connect(&self, name: &str) -> anyhow::Result<Origin> {
        Origin::connect(name, self.from_endpoint.as_deref(), self.from_region.as_deref()).await
    }

    /// A client of a stream. Its region is in its ARN, unless the command line names one.
    pub(super) async fn streams(&self, arn: &str) -> aws_sdk_dynamodbstreams::Client {
        let region = self.from_region.as_deref().or_else(|| arn.split(':').nth(3));
        streams_client(self.from_endpoint.as_deref(), region).await
    }
}
