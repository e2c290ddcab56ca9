//! Checks what clients write, and creates comments, whether a program sends JSON (`json`) or a person sends the form (`html::form`).
//!
//! - `content`: the fields of a new comment or of a change, each checked.
//! - `product`: the fields of a product's record.

pub(crate) mod content;
pub(crate) mod product;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{Comment, CommentId, InvalidInput, ProductId, SiteData};
use sha2::{Digest, Sha256};
use table::{Created, Idempotency, NewComment};

use crate::{error::ApiError, store::StoreClients, tokens::NamedToken};
use content::NewContent;

/// What a request carries so that sending it twice makes one comment.
pub(crate) struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The header of the JSON API, which also names the key in problems.
    pub(crate) const HEADER: &str = "Idempotency-Key";

    pub(crate) const MAX_LEN: usize = 255;

    /// # Errors
    /// The key is empty, too long, or has other characters than visible ASCII.
    pub(crate) fn parse(key: &str) -> Result<Self, InvalidInput> {
        if key.is_empty() || key.len() > Self::MAX_LEN || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = format!("must be 1 to {} visible ASCII characters", Self::MAX_LEN);
            return Err(InvalidInput::new(Self::HEADER, problem));
        }
        Ok(Self(key.to_owned()))
    }
}

/// Creates a comment, dated now. A request whose key was used before gets the comment that was created then. A key
/// counts only together with the product and with the name of the token that it was sent with.
///
/// # Errors
/// The key was used for another request; the table's.
pub(crate) async fn create(
    stores: &StoreClients,
    product: ProductId,
    content: NewContent,
    writer: &NamedToken,
    key: Option<IdempotencyKey>,
) -> Result<Comment, ApiError> {
    let idempotency = match key {
        Some(IdempotencyKey(key)) => {
            let client = writer.name.as_str().to_owned();
            Some(Idempotency { client, key, body_hash: body_hash(&product, &content)? })
        }
        None => None,
    };
    // One instant for both makes cursors at the comment shorter.
    let created_at = process::now();
    let new = NewComment {
        id: CommentId::parse(&process::new_ulid_at(created_at)).map_err(ApiError::internal)?,
        product,
        language: content.language,
        rating: content.rating,
        created_at,
        status: None,
        text: content.text,
        site: content.site,
    };
    let (Created::New(comment) | Created::Before(comment)) = stores.create(new, idempotency).await?;
    Ok(comment)
}

/// Identifies a request to create this content, however it is spelled.
fn body_hash(product: &ProductId, content: &NewContent) -> Result<String, ApiError> {
    let NewContent { language, rating, text, site: SiteData { attributes, author_id } } = content;
    let fields = (product, language, rating, text);
    // Without the site's data, the hash is that of earlier versions, whose records live on for a day.
    let request = match (attributes, author_id) {
        (None, None) => serde_json::to_vec(&fields),
        site => serde_json::to_vec(&(fields, site)),
    };
    let request = request.map_err(ApiError::internal)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(request)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_hash_of_a_request_does_not_depend_on_its_spelling() {
        let hash_for = |product: &str, json: &str| {
            let content = NewContent::of_fields(&serde_json::from_str(json).unwrap()).unwrap();
            body_hash(&ProductId::parse(product).unwrap(), &content).unwrap()
        };
        let hash = |json| hash_for("p", json);
        let one = hash(r#"{"language": "PT-br", "rating": 5, "body": "b", "title": null, "author": ""}"#);
        assert_eq!(one, hash(r#"{"body":"\u0062","rating":5,"language":"pt-BR"}"#));
        assert_ne!(one, hash(r#"{"body":"b","rating":4,"language":"pt-BR"}"#));
        assert_ne!(one, hash_for("q", r#"{"body":"b","rating":5,"language":"pt-BR"}"#));
        assert_ne!(one, hash(r#"{"body":"b","rating":5,"language":"pt-BR","author_id":"7"}"#));
        assert_ne!(one, hash(r#"{"body":"b","rating":5,"language":"pt-BR","attributes":"{\"a\":1}"}"#));
        assert_eq!(one, "PIYn9cu0fb81Uz4NKJ-G5wXLBgmRrgUB3wrABZ6gkHE", "records of earlier versions count");
    }

    proptest! {
        #[test]
        fn an_idempotency_key_is_kept_as_it_is_or_refused(key in "[ -~]{0,300}|.{0,20}") {
            if let Ok(IdempotencyKey(kept)) = IdempotencyKey::parse(&key) {
                prop_assert_eq!(kept, key);
            }
        }
    }
}
