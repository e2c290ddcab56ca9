//! Idempotency keys: a creation that is repeated with its key gets the first answer again.
//!
//! A key belongs to the client that chose it and to one product. With another client or product, an
//! equal text is a different key. Its record stays in the table for [`HOURS`]. The transaction that
//! creates the comment writes it.

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{Comment, CommentId, ProductId, Revision, Status, Timestamp};
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Table,
    change::{NewComment, WriteError},
    item::{from_sdk_item, item_key},
};

const HOURS: i64 = 24;

const SK: &str = "IDEMPOTENCY";

/// A client's promise that two creations of one product with one key are the same request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client that promises: the name of its token. Never the token.
    pub client: String,
    pub key: String,
    /// A hash of the whole content of the request, the product included.
    pub body_hash: String,
}

impl Idempotency {
    /// The key is a hash of the parts, each after its length, so two different lists of parts never
    /// give one text to hash.
    fn pk(&self, product: &ProductId) -> String {
        let mut hash = Sha256::new();
        for part in [self.client.as_str(), product.as_str(), self.key.as_str()] {
            hash.update(format!("{}:", part.len()));
            hash.update(part);
        }
        format!("{SK}#{}", BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct IdempotencyRecord {
    pk: String,
    sk: String,
    body_hash: String,
    comment_id: CommentId,
    // With the request's content, these give the first answer.
    created_at: Timestamp,
    revision: Revision,
    #[serde(default)]
    status: Status,
    expires_at: i64,
}

impl Table {
    /// The action that writes the record, on condition that it does not exist.
    pub(crate) fn put_idempotency(
        &self,
        idempotency: &Idempotency,
        made: &Comment,
    ) -> Result<TransactWriteItem, StoreError> {
        let now_seconds = now().epoch_seconds();
        let record = IdempotencyRecord {
            pk: idempotency.pk(&made.product),
            sk: SK.to_owned(),
            body_hash: idempotency.body_hash.clone(),
            comment_id: made.id.clone(),
            created_at: made.created_at,
            revision: made.revision,
            status: made.status,
            expires_at: now_seconds + HOURS * 3600,
        };
        // DynamoDB removes expired items late.
        let condition = "attribute_not_exists(pk) OR expires_at < :now";
        self.put_if(
            &record,
            condition,
            [(
                ":now".to_owned(),
                AttributeValue::N(now_seconds.to_string()),
            )],
        )
    }

    /// The comment that an earlier request with this key created, in its original state: `again`
    /// with the values from the record. `None` when the record has just expired.
    ///
    /// # Errors
    /// [`WriteError::IdempotencyMismatch`], the store's.
    pub(crate) async fn created_before(
        &self,
        idempotency: &Idempotency,
        again: &NewComment,
    ) -> Result<Option<Comment>, WriteError> {
        let key = item_key(idempotency.pk(&again.product), SK.to_owned());
        let record: Option<IdempotencyRecord> =
            self.item(key).await?.map(from_sdk_item).transpose()?;
        let Some(record) = record else {
            return Ok(None);
        };
        if record.body_hash != idempotency.body_hash {
            return Err(WriteError::IdempotencyMismatch);
        }
        let IdempotencyRecord {
            comment_id: id,
            created_at,
            revision,
            status,
            ..
        } = record;
        Ok(Some(
            NewComment {
                id,
                created_at,
                status: Some(status),
                ..again.clone()
            }
            .at(revision),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pk(client: &str, product: &str, key: &str) -> String {
        let [client, key, body_hash] = [client, key, "hash"].map(str::to_owned);
        let idempotency = Idempotency {
            client,
            key,
            body_hash,
        };
        idempotency.pk(&ProductId::parse(product).unwrap())
    }

    #[test]
    fn a_key_belongs_to_one_client_and_one_product() {
        let one = pk("ann", "p1", "k1");
        assert_eq!(one, pk("ann", "p1", "k1"));
        // The last two lists would be equal if they were concatenated.
        for other in [
            pk("bob", "p1", "k1"),
            pk("ann", "p2", "k1"),
            pk("ann", "p1", "k2"),
            pk("annp", "1", "k1"),
        ] {
            assert_ne!(one, other);
        }
        assert_ne!(pk("a", "3:p1", "k1"), pk("a3:", "p1", "k1"));
    }

    #[test]
    fn a_record_names_neither_its_key_nor_its_client() {
        let pk = pk("ann", "p1", "secret-key");
        assert!(
            pk.starts_with("IDEMPOTENCY#") && !pk.contains("ann") && !pk.contains("secret-key"),
            "{pk}"
        );
    }
}
