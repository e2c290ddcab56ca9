//! Idempotency keys: a creation that is repeated with its key gets the first answer again.
//!
//! A key belongs to the client that chose it and to one product. With another client or product, an
//! equal text is a different key. Its record stays in the table for [`HOURS`]. The transaction that
//! creates the comment writes it.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{CommentId, ProductId, Revision, Status, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(crate) const HOURS: i64 = 24;

pub(crate) const SK: &str = "IDEMPOTENCY";

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
    pub(crate) fn pk(&self, product: &ProductId) -> String {
        let mut hash = Sha256::new();
        for part in [self.client.as_str(), product.as_str(), self.key.as_str()] {
            hash.update(format!("{}:", part.len()));
            hash.update(part);
        }
        format!("{SK}#{}", BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pk: String,
    pub(crate) sk: String,
    pub(crate) body_hash: String,
    pub(crate) comment_id: CommentId,
    // With the request's content, these give the first answer.
    pub(crate) created_at: Timestamp,
    pub(crate) revision: Revision,
    #[serde(default)]
    pub(crate) status: Status,
    pub(crate) expires_at: i64,
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
