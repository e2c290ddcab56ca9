//! The table in DynamoDB: comments with their journal, duplicates, and pages.
//!
//! - `definition`: the definition of the table; creating it and finding its id.
//! - `change`: the changes that a caller asks for.
//! - `writer`: creating, patching and deleting comments, each by one transaction with its journal entry.
//! - `authors`: the comments of an author, and their erasure.
//! - `idempotency`: the keys that identify a repeated creation.
//! - `reader`: comments by id, and pages.
//! - `page_answer`, `item_json`: read a query's answer directly from its JSON.
//! - `item_key`: the key of an item.
//! - `duplicates`: the writes of the fan-out, by batches or by transactions.
//! - `guarded`: the repair job's writes, on condition that the primary item is as it was read.
//! - `products`: the records of products.
//! - `inspection`: reads for the repair job only.
//! - `whole`: reads every published comment, for an export.
//! - `moderation`: reads the comments that readers do not see.
//! - `state`: the stored state of the repair job.
//! - `error`: the meaning of the SDK's errors.
//! - `capacity`: counts and limits the units that calls consume.
//! - `args`: the settings.
//! - `transaction`: sends transactions; the meaning of the answers to them.

mod args;
mod authors;
pub mod capacity;
mod change;
pub mod definition;
mod duplicates;
mod error;
mod guarded;
mod idempotency;
mod inspection;
mod item_json;
mod item_key;
mod moderation;
mod page_answer;
mod products;
mod reader;
mod state;
pub mod transaction;
mod whole;
mod writer;

use std::{collections::HashMap, sync::Arc, time::Duration};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use model::{BlobFormat, Malformed};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::capacity::Meter;
pub use args::{CommentBlobArgs, TableArgs};
pub use authors::AuthorPart;
pub use change::{CommentPatch, Created, NewComment, WriteError};
pub use definition::{AUTHORS, GSI, MODERATION, PRIMARIES, TableDescription};
pub use duplicates::{DuplicatesWritten, FailedWrites};
pub use error::store_error;
pub use idempotency::Idempotency;
pub use inspection::{JournalPart, JournalPosition, JournalRow, PrimariesPart, PrimariesPosition, Scanned};
pub use item_json::ItemJson;
pub use item_key::{InvalidEntry, ItemKey};
pub use moderation::{ModerationPart, ModerationPosition};
pub use page_answer::{Consumed, MalformedItem, QueryAnswer, QueryReader};
use process::{
    StoreError,
    aws::{Calls, NewHttpClient, new_http_client, sdk_config},
};
pub use products::{ProductChange, ProductPut, RecordsPart, RecordsPosition};
pub use reader::{Page, PageQuery};
pub use state::Lease;
pub use transaction::Guarded;
pub use whole::{CommentsPart, CommentsPosition, ProductsPart};

/// The longest that one attempt of one call may take, unless a configuration says otherwise.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) type SdkItem = HashMap<String, AttributeValue>;

#[derive(Debug, Clone)]
pub struct TableConfig {
    pub name: String,
    /// An endpoint other than AWS's, such as `http://127.0.0.1:8000`. With it, the credentials are constants that local
    /// engines accept. It may name another access key: `http://KEY@127.0.0.1:8000`.
    pub endpoint_url: Option<String>,
    /// The longest that one attempt of one call may take.
    pub attempt_timeout: Duration,
    /// The longest that one call with its retries may take.
    pub call_timeout: Duration,
    /// Maximum number of attempts of one call by the SDK, the first included.
    pub max_attempts: u32,
    /// How long a change is repeated while other writers of its comment are faster. Also how long after its instant its
    /// transaction may still be started: with `call_timeout`, clearly less than the repair job's settle delay.
    pub started_within: Duration,
    pub comment_blob: BlobFormat,
}

impl TableConfig {
    /// Times that suit both a request that a person waits for and a Lambda; texts are written as maps.
    pub fn new(name: impl Into<String>, endpoint_url: Option<String>) -> Self {
        Self {
            name: name.into(),
            endpoint_url,
            attempt_timeout: ATTEMPT_TIMEOUT,
            call_timeout: Duration::from_secs(8),
            max_attempts: 3,
            started_within: writer::STARTED_WITHIN,
            comment_blob: BlobFormat::Map,
        }
    }
}

/// The table.
///
/// Every call may fail with the store's error. `# Errors` names only what else a call may fail with, or what that error
/// means there.
#[derive(Debug, Clone)]
pub struct Table {
    client: Client,
    name: String,
    comment_blob: BlobFormat,
    started_within: Duration,
    /// The time of one attempt: of the configured one, three seconds at most.
    attempt_time: Duration,
    /// `None` when the caller made the HTTP client.
    new_http_client: Option<NewHttpClient>,
    pub(crate) meter: Option<Arc<Meter>>,
}

impl Table {
    /// A client of the table; sends nothing yet.
    pub async fn connect(config: &TableConfig) -> Self {
        let new_http_client = new_http_client(config.endpoint_url.as_deref());
        let table = Self::connect_through(config, new_http_client()).await;
        Self { new_http_client: Some(new_http_client), ..table }
    }

    /// Like [`Table::connect`], through the caller's HTTP client.
    pub async fn connect_through(config: &TableConfig, http_client: SharedHttpClient) -> Self {
        let table = Self::new(client(config, http_client).await, config.name.clone());
        let attempt_time = config.attempt_timeout.min(ATTEMPT_TIMEOUT);
        Self { comment_blob: config.comment_blob, started_within: config.started_within, attempt_time, ..table }
    }

    /// The table behind a client that the caller configured; texts are written as maps.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self {
            client,
            name: name.into(),
            comment_blob: BlobFormat::Map,
            started_within: writer::STARTED_WITHIN,
            attempt_time: ATTEMPT_TIMEOUT,
            new_http_client: None,
            meter: None,
        }
    }

    /// The table with a meter, which counts and limits the repair job's calls.
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// The last instant at which a call may start whose first attempt has to end before `deadline`.
    fn last_start(&self, deadline: Instant) -> Instant {
        deadline.checked_sub(self.attempt_time).unwrap_or(deadline)
    }

    /// The table with separate connections, unless the caller made the HTTP client. Everything else is shared, also the
    /// credentials.
    pub fn with_own_connections(&self) -> Self {
        let Some(new_http_client) = self.new_http_client else { return self.clone() };
        let config = self.client.config().to_builder().http_client(new_http_client()).build();
        Self { client: Client::from_conf(config), ..self.clone() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client, for calls that only the local stack, tests and benchmarks make.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

async fn client(config: &TableConfig, http_client: SharedHttpClient) -> Client {
    let calls = Calls {
        attempt_timeout: config.attempt_timeout,
        call_timeout: config.call_timeout,
        max_attempts: config.max_attempts,
    };
    Client::new(&sdk_config(config.endpoint_url.as_deref(), http_client, calls).await)
}

pub(crate) fn to_sdk_item<T: Serialize>(value: &T) -> Result<SdkItem, StoreError> {
    let item: serde_dynamo::Item =
        serde_dynamo::to_item(value).map_err(|error| Malformed::new("item", error.to_string()))?;
    Ok(item.into())
}

/// One of `model`'s types, or of the job's states, from an item. An error names the item and the attribute, but never a
/// value.
pub(crate) fn from_sdk_item<T: DeserializeOwned>(item: SdkItem) -> Result<T, StoreError> {
    let ItemKey { pk, sk } = ItemKey::of(&item);
    let attributes = serde_dynamo::AttributeValue::M(serde_dynamo::Item::from(item).into_inner());
    let item = serde_dynamo::Deserializer::from_attribute_value(attributes);
    Ok(serde_path_to_error::deserialize(item).map_err(|error| {
        let message = error.inner().to_string();
        let missing = message.strip_prefix("missing field `").and_then(|name| name.strip_suffix('`'));
        match missing {
            Some(name) => Malformed::of_item(&pk, &sk, name, "is missing"),
            None => Malformed::of_item(&pk, &sk, &error.path().to_string(), "is of another type or form"),
        }
    })?)
}

#[cfg(test)]
mod tests {
    use model::journal::JournalItem;

    use super::*;

    fn said(name: &str, value: Option<AttributeValue>) -> String {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let rating = AttributeValue::N("4".to_owned());
        let placement = [("product", text("p")), ("language", text("en")), ("rating", rating)];
        let placement = placement.map(|(name, value)| (name.to_owned(), value)).into();
        let mut item: SdkItem = [
            ("pk", text("CHANGE#1")),
            ("sk", text("2024-02-29T12:00:00.123Z#c1")),
            ("revision", text("01HQTBRNKV0000000000000007")),
            ("after", AttributeValue::M(placement)),
            ("expires_at", AttributeValue::N("1".to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        assert!(from_sdk_item::<JournalItem>(item.clone()).is_ok());
        item.remove(name);
        item.extend(value.map(|value| (name.to_owned(), value)));
        from_sdk_item::<JournalItem>(item).unwrap_err().to_string()
    }

    #[test]
    fn an_item_that_cannot_be_read_is_named_with_its_attribute_and_no_value() {
        let secret = || Some(AttributeValue::S("said in confidence".to_owned()));
        let rating = ("rating".to_owned(), AttributeValue::N("6".to_owned()));
        for (name, value, says) in [
            ("expires_at", None, "expires_at: is missing"),
            ("expires_at", secret(), "expires_at: is of another type or form"),
            ("revision", secret(), "revision: is of another type or form"),
            ("after", Some(AttributeValue::M([rating].into())), "after.rating: is of another type or form"),
        ] {
            let key = "malformed item: pk \"CHANGE#1\", sk \"2024-02-29T12:00:00.123Z#c1\", attribute ";
            assert_eq!(said(name, value), format!("{key}{says}"));
        }
    }
}
