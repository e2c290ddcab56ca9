//! Another DynamoDB table, from which comments come: its items, and its stream.

use anyhow::Context;
use table::{Table, TableDescription};

use crate::clients::{dynamodb_client, streams_client};

/// A table that exists, and how it is reached.
pub struct Origin {
    table: Table,
    keys: Vec<String>,
    description: TableDescription,
    streams: aws_sdk_dynamodbstreams::Client,
    /// The table's name and its engine's endpoint or region, for people.
    name: String,
}

impl Origin {
    /// Connects to a table. Without an endpoint, it is AWS's of the region, or of the environment.
    ///
    /// # Errors
    /// There is no such table, or its engine does not answer.
    pub async fn connect(name: &str, endpoint: Option<&str>, region: Option<&str>) -> anyhow::Result<Self> {
        let place = endpoint.or(region).unwrap_or("AWS");
        let table = Table::new(dynamodb_client(endpoint, region).await, name);
        let described = async {
            let description = table.describe().await?;
            let answer = table.client().describe_table().table_name(name).send().await?;
            let keys = answer.table.and_then(|table| table.key_schema).unwrap_or_default();
            anyhow::Ok((description, keys.into_iter().map(|key| key.attribute_name).collect()))
        };
        let (description, keys) =
            described.await.with_context(|| format!("table {name:?} cannot be read at {place}"))?;
        let streams = streams_client(endpoint, region).await;
        Ok(Self { table, keys, description, streams, name: format!("{name} at {place}") })
    }

    /// The table's identity: another table of the same name has another.
    pub fn id(&self) -> &str {
        &self.description.id
    }

    /// The table's name and place, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        self.table.name()
    }

    /// The approximate number of its items.
    pub fn items(&self) -> u64 {
        self.description.items
    }

    /// The names of the attributes of an item's key.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// A client of the table.
    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        self.table.client().clone()
    }

    /// The table's stream.
    pub(crate) fn stream_arn(&self) -> Option<&str> {
        self.description.stream_arn.as_deref()
    }

    /// A client of the stream.
    pub(crate) fn streams(&self) -> aws_sdk_dynamodbstreams::Client {
        self.streams.clone()
    }
}
