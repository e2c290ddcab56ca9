//! A quarantine in a bucket of S3: the one where the event source mappings put their batches.

use std::time::Duration;

use aws_sdk_s3::{Client, primitives::ByteStream};

use super::Document;
use crate::{
    aws::{Calls, new_http_client, sdk_config},
    error::{Store, StoreError},
};

/// A part of a bucket.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    bucket: String,
    prefix: String,
}

/// An object is a few kilobytes; a function that waits longer than this reports the record instead.
const CALLS: Calls =
    Calls { attempt_timeout: Duration::from_secs(3), call_timeout: Duration::from_secs(8), max_attempts: 3 };

impl Bucket {
    /// Nothing is sent yet.
    pub(super) async fn connect(bucket: String, prefix: String, s3_url: Option<&str>) -> Self {
        let shared = sdk_config(s3_url, new_http_client(s3_url)(), CALLS).await;
        let config = aws_sdk_s3::config::Builder::from(&shared)
            // An endpoint that is not AWS's has no host name for each bucket.
            .force_path_style(s3_url.is_some())
            .build();
        Self { client: Client::from_conf(config), bucket, prefix }
    }

    pub(super) async fn put(&self, document: &Document) -> Result<(), StoreError> {
        let key = format!("{}{}", self.prefix, document.name);
        let put = self.client.put_object().bucket(&self.bucket).key(key).content_type("application/json");
        let sent = put.body(ByteStream::from(document.body.clone().into_bytes())).send().await;
        // Whatever the reason: a record that is not kept here must be reported.
        sent.map(drop).map_err(|error| StoreError::unavailable_because(Store::Quarantine, error))
    }
}
