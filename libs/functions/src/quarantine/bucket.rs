//! A quarantine in an S3 bucket, next to the batches of the event source mappings.

use std::error::Error;

use aws_sdk_s3::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    primitives::ByteStream,
};
use process::{
    Remedy, Store, StoreError,
    aws::{Calls, describe, new_http_client, sdk_config},
};

use super::{Document, document::BATCHES};

#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    bucket: String,
    prefix: String,
}

impl Bucket {
    /// Sends nothing yet. An object is a few kilobytes. A function that waits longer than these
    /// calls reports the record for retry instead.
    pub(super) async fn connect(bucket: String, prefix: String, s3_url: Option<&str>) -> Self {
        let shared = sdk_config(s3_url, new_http_client(s3_url)(), Calls::PROMPT).await;
        let config = aws_sdk_s3::config::Builder::from(&shared)
            // An S3 endpoint other than AWS's has no host name for each bucket.
            .force_path_style(s3_url.is_some())
            .build();
        Self {
            client: Client::from_conf(config),
            bucket,
            prefix,
        }
    }

    pub(super) async fn put(&self, document: &Document) -> Result<(), StoreError> {
        let key = format!("{}{}", self.prefix, document.name);
        let put = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .content_type("application/json");
        let sent = put
            .body(ByteStream::from(document.body.clone().into_bytes()))
            .send()
            .await;
        sent.map(drop).map_err(not_done)
    }

    /// The names of batches after `after`, as many as one or several calls of a thousand return.
    /// The bucket may hold other objects, such as the reports of big repairs.
    pub(super) async fn list(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        let batches = format!("{}{BATCHES}", self.prefix);
        let mut after = after.map(|name| format!("{}{name}", self.prefix));
        while names.len() < limit {
            let remaining = i32::try_from(limit - names.len()).unwrap_or(i32::MAX);
            let list = self
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(&batches)
                .max_keys(remaining);
            let listed = list.set_start_after(after).send().await;
            let listed = listed.map_err(not_done)?;
            let keys: Vec<String> = listed
                .contents
                .unwrap_or_default()
                .into_iter()
                .filter_map(|object| object.key)
                .collect();
            after = keys.last().cloned();
            names.extend(
                keys.iter()
                    .filter_map(|key| key.strip_prefix(&self.prefix))
                    .map(str::to_owned),
            );
            if listed.is_truncated != Some(true) || after.is_none() {
                break;
            }
        }
        Ok(names)
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = format!("{}{name}", self.prefix);
        let got = match self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await
        {
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_no_such_key()) =>
            {
                return Ok(None);
            }
            got => got.map_err(not_done)?,
        };
        let body = got.body.collect().await;
        let body =
            body.map_err(|error| StoreError::unavailable(Store::Quarantine, error.to_string()))?;
        Ok(Some(body.to_vec()))
    }

    pub(super) async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let key = format!("{}{name}", self.prefix);
        let removed = self
            .client
            .delete_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await;
        removed.map(drop).map_err(not_done)
    }
}

/// In all cases the call may succeed later, and until then a record must be reported.
fn not_done<E>(error: SdkError<E>) -> StoreError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let detail = describe(&error);
    StoreError::of(
        Remedy::TryAgain,
        Store::Quarantine,
        detail,
        Some(Box::new(error)),
    )
}
