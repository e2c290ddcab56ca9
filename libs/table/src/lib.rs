//! The table in DynamoDB: comments with their journal, duplicates, and pages.
//!
//! A file has one subject, with all calls about it:
//!
//! - `comments`, `pages`, `sparse_indexes`: what readers see, by id, in the order of a page, and by
//!   the indexes of primary items alone.
//! - `comment_changes`, `idempotency`, `products`: what clients write.
//! - `duplicates`, `guarded`: what the fan-out and the repair job write of comments.
//! - `journal`, `states`, `leases`, `scan`: what else the repair job reads and writes.
//! - `creation`, `definition`: the table itself.
//!
//! They stand on:
//!
//! - `change`, `parts`: what callers ask for, and the answers.
//! - `queries`, `actions`, `transaction`, `item`: the parts that calls are made of.
//! - `page_answer`: reads a query's answer directly from its JSON. `page_rows`: makes a page of it.
//!   `direct`: sends such a query without the SDK first.
//! - `error`: the meaning of the SDK's errors.
//! - `capacity`: counts and limits the units that calls consume.
//! - `observer`: shows the calls to the metrics of a service.
//! - `args`: the settings.

mod actions;
mod args;
pub mod capacity;
mod change;
mod comment_changes;
mod comments;
mod creation;
pub mod definition;
mod direct;
mod duplicates;
mod error;
mod guarded;
mod idempotency;
mod index_entries;
mod item;
mod journal;
mod leases;
mod observer;
mod page_answer;
mod page_rows;
mod pages;
mod parts;
mod products;
mod queries;
mod scan;
mod sparse_indexes;
mod states;
pub mod transaction;

use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::Client;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use model::BlobFormat;
use process::aws::{Calls, NewHttpClient, dynamodb_config, new_http_client, with_json_answers};

use crate::{capacity::Meter, direct::Direct, observer::CallTimer};
pub use args::{CommentBlobArgs, TableArgs};
pub use change::{CommentPatch, Created, NewComment, ProductChange, ProductPut, WriteError};
pub use definition::{AUTHORS, GSI, MODERATION, PRIMARIES, TableDescription};
pub use duplicates::{DuplicatesWritten, FailedWrites};
pub use error::store_error;
pub use idempotency::Idempotency;
pub use item::{InvalidEntry, ItemKey};
pub use journal::JournalRow;
pub use leases::Lease;
pub use observer::{AnsweredQuery, EndedCall, Observer};
pub use page_answer::{QueryAnswer, QueryReader, StoredItem};
pub use parts::{MalformedItem, Page, PageQuery, Part, Position};
pub use transaction::Transacted;

#[derive(Debug, Clone)]
pub struct TableConfig {
    pub name: String,
    /// An endpoint other than AWS's, such as `http://127.0.0.1:8000`. It may name an access key:
    /// `http://KEY@127.0.0.1:8000`. Without any in the environment, the credentials are constants
    /// that local engines accept.
    pub endpoint_url: Option<String>,
    pub calls: Calls,
    /// How long a change is repeated while other writers of its comment are faster. Also how long
    /// after its instant its transaction may still be started: with the time-out of a call, clearly
    /// less than the minimum age of journal entries that the repair job reconciles (`--settle`).
    pub started_within: Duration,
    pub comment_blob: BlobFormat,
}

impl TableConfig {
    /// Times that suit both a request that a person waits for and a Lambda; texts are written as
    /// maps.
    pub fn new(name: impl Into<String>, endpoint_url: Option<String>) -> Self {
        Self {
            name: name.into(),
            endpoint_url,
            calls: Calls::PROMPT,
            started_within: transaction::STARTED_WITHIN,
            comment_blob: BlobFormat::Map,
        }
    }
}

/// The table.
///
/// Every call may fail with the store's error. `# Errors` names only what else a call may fail
/// with, or what that error means there. A call that reads a sparse index is refused as long as the
/// table lacks it.
#[derive(Debug, Clone)]
pub struct Table {
    client: Client,
    config: Arc<TableConfig>,
    /// `None` when the caller made the HTTP client.
    new_http_client: Option<NewHttpClient>,
    meter: Arc<Meter>,
    observer: Option<Arc<dyn Observer>>,
    direct: Direct,
    /// Who changes comments, for the journal.
    writer: Option<Arc<str>>,
}

impl Table {
    /// A client of the table; sends nothing yet.
    pub async fn connect(config: &TableConfig) -> Self {
        let new_http_client = new_http_client(config.endpoint_url.as_deref());
        let table = Self::connect_through(config, new_http_client()).await;
        Self {
            new_http_client: Some(new_http_client),
            ..table
        }
    }

    /// Like [`Table::connect`], through the caller's HTTP client.
    pub async fn connect_through(config: &TableConfig, http_client: SharedHttpClient) -> Self {
        let client = Client::new(
            &dynamodb_config(config.endpoint_url.as_deref(), http_client, config.calls).await,
        );
        Self {
            client,
            config: Arc::new(config.clone()),
            new_http_client: None,
            meter: Arc::default(),
            observer: None,
            direct: Direct::default(),
            writer: None,
        }
    }

    /// The table behind a client that the caller configured; texts are written as maps.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        let config = Arc::new(TableConfig::new(name, None));
        Self {
            client,
            config,
            new_http_client: None,
            meter: Arc::default(),
            observer: None,
            direct: Direct::default(),
            writer: None,
        }
    }

    /// The table, whose changes are of this writer: the name of a token, or of a command.
    pub fn written_by(&self, writer: &str) -> Self {
        Self {
            writer: Some(writer.into()),
            ..self.clone()
        }
    }

    /// The table with a meter, which counts and limits the repair job's calls.
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }

    /// The table whose calls an observer follows.
    pub fn observed(self, observer: Arc<dyn Observer>) -> Self {
        let config = self
            .client
            .config()
            .to_builder()
            .interceptor(CallTimer(Arc::clone(&observer)))
            .build();
        Self {
            client: Client::from_conf(config),
            observer: Some(observer),
            ..self
        }
    }

    /// The table with separate connections, unless the caller made the HTTP client. Everything else
    /// is shared, also the credentials.
    pub fn with_own_connections(&self) -> Self {
        let Some(new_http_client) = self.new_http_client else {
            return self.clone();
        };
        let config = self
            .client
            .config()
            .to_builder()
            .http_client(with_json_answers(new_http_client()))
            .build();
        Self {
            client: Client::from_conf(config),
            direct: Direct::default(),
            ..self.clone()
        }
    }

    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The client, for calls that only the local stack, tests and benchmarks make.
    pub fn client(&self) -> &Client {
        &self.client
    }
}
