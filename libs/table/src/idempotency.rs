//! Idempotency keys: a creation that is repeated with its key gets the first answer again.
//!
//! A key belongs to the client that chose it and to one product. With another client or product, an equal text is a
//! different key. Its record stays in the table for [`HOURS`]. The transaction that creates the comment writes it.

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{Comment, CommentId, ProductId, Revision, Status, Timestamp};
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Table,
    change::{NewComment, WriteError},
    error::refused,
    from_sdk_item,
    item_key::item_key,
    to_sdk_item,
};

const HOURS: i64 = 24;

const SK: &str = "IDEMPOTENCY";

/// A client's promise that two creations of one product with one key are the same request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client that promises: the name of its token. Never the token.
    pub client: String,
    /// What earlier versions called this client: the hash of its token.
    pub former_client: String,
    pub key: String,
    /// A hash of the whole content of the request, the product included.
    pub body_hash: String,
}

impl Idempotency {
    fn pk(&self, product: &ProductId) -> String {
        self.pk_of(&self.client, product)
    }

    /// The partition key of the record in earlier versions.
    fn former_pk(&self, product: &ProductId) -> String {
        self.pk_of(&self.former_client, product)
    }

    /// The key is a hash of the parts, each after its length, so two different lists of parts never give one text to
    /// hash.
    fn pk_of(&self, client: &str, product: &ProductId) -> String {
        let mut hash = Sha256::new();
        for part in [client, product.as_str(), self.key.as_str()] {
            hash.update(format!("{}:", part.len()));
            hash.update(part);
        }
        format!("{SK}#{}", BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    pk: String,
    sk: String,
    body_hash: String,
    comment_id: CommentId,
    /// With the request's content, this gives the first answer. Records of earlier versions lack it.
    #[serde(flatten)]
    made: Option<Made>,
    expires_at: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Made {
    created_at: Timestamp,
    revision: Revision,
    #[serde(default)]
    status: Status,
}

impl Table {
    /// The action that writes the record, on condition that it does not exist.
    pub(super) fn put_idempotency(
        &self,
        idempotency: &Idempotency,
        made: &Comment,
    ) -> Result<TransactWriteItem, StoreError> {
        let now_seconds = now().epoch_seconds();
        let record = Record {
            pk: idempotency.pk(&made.product),
            sk: SK.to_owned(),
            body_hash: idempotency.body_hash.clone(),
            comment_id: made.id.clone(),
            made: Some(Made { created_at: made.created_at, revision: made.revision, status: made.status }),
            expires_at: now_seconds + HOURS * 3600,
        };
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(to_sdk_item(&record)?))
            // DynamoDB removes expired items late.
            .condition_expression("attribute_not_exists(pk) OR expires_at < :now")
            .expression_attribute_values(":now", AttributeValue::N(now_seconds.to_string()))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// The comment that an earlier request with this key created, in its original state: `again` with the values from
    /// the record. `None` when the record has just expired.
    ///
    /// # Errors
    /// [`WriteError::IdempotencyMismatch`], [`WriteError::DeletedSince`], the store's.
    pub(super) async fn created_before(
        &self,
        idempotency: &Idempotency,
        again: &NewComment,
    ) -> Result<Option<Comment>, WriteError> {
        let record = self.idempotency_record(idempotency.pk(&again.product)).await?;
        self.created_by(record, idempotency, again).await
    }

    async fn created_by(
        &self,
        record: Option<Record>,
        idempotency: &Idempotency,
        again: &NewComment,
    ) -> Result<Option<Comment>, WriteError> {
        match record {
            None => Ok(None),
            Some(record) if record.body_hash != idempotency.body_hash => Err(WriteError::IdempotencyMismatch),
            Some(record) => self.as_it_was_made(record, again).await.map(Some),
        }
    }

    /// Like [`Table::created_before`], by a record that an earlier version of the service wrote under the hash of the
    /// client's token. All such records have expired [`HOURS`] after the last instance of such a version has stopped.
    ///
    /// # Errors
    /// [`WriteError::IdempotencyMismatch`], [`WriteError::DeletedSince`], the store's.
    pub(super) async fn created_by_earlier_version(
        &self,
        idempotency: &Idempotency,
        again: &NewComment,
    ) -> Result<Option<Comment>, WriteError> {
        let record = self.idempotency_record(idempotency.former_pk(&again.product)).await?;
        let now_seconds = now().epoch_seconds();
        self.created_by(record.filter(|record| record.expires_at >= now_seconds), idempotency, again).await
    }

    async fn as_it_was_made(&self, record: Record, again: &NewComment) -> Result<Comment, WriteError> {
        if let Some(Made { created_at, revision, status }) = record.made {
            let status = Some(status);
            let again = NewComment { id: record.comment_id, created_at, status, ..again.clone() };
            return Ok(again.at(revision));
        }
        self.comment(&record.comment_id).await?.ok_or(WriteError::DeletedSince)
    }

    async fn idempotency_record(&self, pk: String) -> Result<Option<Record>, StoreError> {
        self.item(item_key(pk, SK.to_owned())).await?.map(from_sdk_item).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pk(client: &str, product: &str, key: &str) -> String {
        let [client, former_client, key, body_hash] = [client, "sha256:00", key, "hash"].map(str::to_owned);
        let idempotency = Idempotency { client, former_client, key, body_hash };
        idempotency.pk(&ProductId::parse(product).unwrap())
    }

    #[test]
    fn a_key_belongs_to_one_client_and_one_product() {
        let one = pk("ann", "p1", "k1");
        assert_eq!(one, pk("ann", "p1", "k1"));
        // The last two lists would be equal if they were concatenated.
        for other in [pk("bob", "p1", "k1"), pk("ann", "p2", "k1"), pk("ann", "p1", "k2"), pk("annp", "1", "k1")] {
            assert_ne!(one, other);
        }
        assert_ne!(pk("a", "3:p1", "k1"), pk("a3:", "p1", "k1"));
    }

    #[test]
    fn a_record_names_neither_its_key_nor_its_client() {
        let pk = pk("ann", "p1", "secret-key");
        assert!(pk.starts_with("IDEMPOTENCY#") && !pk.contains("ann") && !pk.contains("secret-key"), "{pk}");
    }
}
