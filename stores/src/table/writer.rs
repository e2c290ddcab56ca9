//! Writing comments: each change is one transaction of the primary item and its journal entry.
//!
//! **Invariant:** no primary item changes without a journal entry of the same transaction, so `recent` finds every
//! change. An attempt is not sent later than 30 s after its entry's instant, so a window of the journal that is
//! older than the repair job's settle delay is complete.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{AttributeValue, Delete, Put, TransactWriteItem},
};
use model::{
    Comment, CommentId, CommentText, FilterKey, Instant, InvalidInput, Language, Placement, ProductId, Rating,
    Revision,
    item::{CommentItem, Image, attribute, comment_pk, edited},
    journal::JournalEntry,
};
use serde::{Deserialize, Serialize};
use serde_dynamo::Item;
use thiserror::Error;

use super::{
    Table, from_sdk_item, to_sdk_item,
    transaction::{reasons, sort},
};
use crate::{
    error::{Store, StoreError},
    now,
    retry::Backoff,
};

/// How long after its revision's instant a transaction may still be started, unless the table is configured otherwise.
/// With the SDK's own attempts, 8 s at most, that stays below the 30 s that the repair job counts on.
pub(super) const STARTED_WITHIN: Duration = Duration::from_secs(20);

/// How often a change is planned anew because another writer was faster, or its journal key was taken.
const PLANS_MAX: usize = 8;

/// How long an `Idempotency-Key` is remembered.
const IDEMPOTENCY_HOURS: i64 = 24;

/// A comment to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    /// Its id; nobody may have used it for another product.
    pub id: CommentId,
    /// Its product.
    pub product: ProductId,
    /// Its language.
    pub language: Language,
    /// Its rating.
    pub rating: Rating,
    /// When it was made.
    pub created_at: Instant,
    /// Its text.
    pub text: CommentText,
}

impl NewComment {
    fn at(self, revision: Revision) -> Comment {
        let Self { id, product, language, rating, created_at, text } = self;
        Comment { id, product, language, rating, created_at, revision, text }
    }
}

/// A client's promise that a request with the same key is the same request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's key.
    pub key: String,
    /// A hash of everything the request says.
    pub body_hash: String,
}

/// What creating a comment did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    New(Comment),
    /// An earlier request with the same `Idempotency-Key` created it. This is the comment as it was made then, whatever
    /// has happened to it since.
    Before(Comment),
}

/// A change of a comment: what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommentPatch {
    /// The new language.
    pub language: Option<Language>,
    /// The new rating.
    pub rating: Option<Rating>,
    /// The new title; `Some(None)` removes it.
    pub title: Option<Option<String>>,
    /// The new body.
    pub body: Option<String>,
    /// The new author; `Some(None)` removes it.
    pub author: Option<Option<String>>,
}

impl CommentPatch {
    fn apply(&self, comment: &Comment) -> Result<Comment, InvalidInput> {
        let old = &comment.text;
        let text = CommentText::new(
            self.title.clone().unwrap_or_else(|| old.title.clone()),
            self.body.clone().unwrap_or_else(|| old.body.clone()),
            self.author.clone().unwrap_or_else(|| old.author.clone()),
        )?;
        Ok(Comment {
            language: self.language.clone().unwrap_or_else(|| comment.language.clone()),
            rating: self.rating.unwrap_or(comment.rating),
            text,
            ..comment.clone()
        })
    }
}

/// Why a write did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// There is no such comment.
    #[error("there is no such comment")]
    NotFound,
    /// The id is in use for this product.
    #[error("a comment with this id exists")]
    AlreadyExists,
    /// The comment has another revision than the caller expects.
    #[error("the comment has changed: its revision is now {current}")]
    RevisionMismatch {
        /// The present revision.
        current: Revision,
    },
    /// The `Idempotency-Key` was used for a request with another content.
    #[error("this Idempotency-Key was used for another request")]
    IdempotencyMismatch,
    /// The comment that this `Idempotency-Key` created has been deleted since, and its record, an earlier version's, does
    /// not tell what it was like.
    #[error("the comment that this Idempotency-Key created has been deleted")]
    DeletedSince,
    /// The patched comment would break a rule.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The store's error; when it is unavailable, the write may have happened or not.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, Serialize, Deserialize)]
struct IdempotencyItem {
    pk: String,
    sk: String,
    body_hash: String,
    comment_id: CommentId,
    /// With the equal body, what the first answer said. Records of earlier versions lack it; they last for
    /// [`IDEMPOTENCY_HOURS`].
    #[serde(flatten)]
    made: Option<Made>,
    expires_at: i64,
}

/// What a creation added to what was asked for.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    created_at: Instant,
    revision: Revision,
}

impl IdempotencyItem {
    const SK: &str = "IDEMPOTENCY";

    fn pk(key: &str) -> String {
        format!("IDEMPOTENCY#{key}")
    }
}

/// What a transaction did.
enum Outcome {
    Done,
    /// The indexes of the actions whose conditions did not hold.
    ConditionsFailed(Vec<usize>),
}

const PRIMARY: usize = 0;
const IDEMPOTENCY: usize = 2;

impl Table {
    /// Creates a comment.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`], [`WriteError::IdempotencyMismatch`], [`WriteError::DeletedSince`], the store's.
    pub async fn create_comment(
        &self,
        new: NewComment,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, WriteError> {
        for _ in 0..PLANS_MAX {
            let revision = Revision::after(None, now(), rand::random());
            let comment = new.clone().at(revision);
            let primary = Put::builder()
                .table_name(&self.name)
                .set_item(Some(to_sdk_item(&CommentItem::primary(&comment, self.comment_blob))?))
                .condition_expression("attribute_not_exists(pk)")
                .build()
                .map_err(refused)?;
            let mut actions = vec![
                TransactWriteItem::builder().put(primary).build(),
                self.put_journal(&comment.id, revision, None, Some(comment.placement()))?,
            ];
            if let Some(idempotency) = &idempotency {
                actions.push(self.put_idempotency(idempotency, &comment)?);
            }
            match self.transact(actions, revision).await? {
                Outcome::Done => return Ok(Created::New(comment)),
                Outcome::ConditionsFailed(failed) if failed.contains(&IDEMPOTENCY) => {
                    if let Some(idempotency) = &idempotency
                        && let Some(before) = self.created_before(idempotency, &new).await?
                    {
                        return Ok(Created::Before(before));
                    }
                }
                Outcome::ConditionsFailed(failed) if failed.contains(&PRIMARY) => {
                    return Err(WriteError::AlreadyExists);
                }
                // The journal key is taken: another revision has another.
                Outcome::ConditionsFailed(_) => {}
            }
        }
        Err(gave_up().into())
    }

    /// The comment that an earlier request with this key created, as it was then: the same as what is to be made `again`,
    /// but for what the record tells. `None` when the record has just gone.
    async fn created_before(
        &self,
        idempotency: &Idempotency,
        again: &NewComment,
    ) -> Result<Option<Comment>, WriteError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.name)
            .key(attribute::PK, AttributeValue::S(IdempotencyItem::pk(&idempotency.key)))
            .key(attribute::SK, AttributeValue::S(IdempotencyItem::SK.to_owned()))
            .consistent_read(true)
            .send()
            .await
            .map_err(StoreError::of_sdk)?;
        let Some(item) = answer.item else { return Ok(None) };
        let record: IdempotencyItem = from_sdk_item(item)?;
        if record.body_hash != idempotency.body_hash {
            return Err(WriteError::IdempotencyMismatch);
        }
        if let Some(Made { created_at, revision }) = record.made {
            let again = NewComment { id: record.comment_id, created_at, ..again.clone() };
            return Ok(Some(again.at(revision)));
        }
        match self.comment(&record.comment_id).await? {
            Some(comment) => Ok(Some(comment)),
            None => Err(WriteError::DeletedSince),
        }
    }

    /// Changes a comment. A patch that changes nothing writes nothing, also when the text is stored in another format
    /// than the configured one; any other patch writes the text in the configured format, unless unknown keys in the map would
    /// be lost.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::RevisionMismatch`] when it is not at `expected`,
    /// [`WriteError::Invalid`], the store's, that its primary item is invalid.
    pub async fn patch_comment(
        &self,
        id: &CommentId,
        expected: Option<Revision>,
        patch: &CommentPatch,
    ) -> Result<Comment, WriteError> {
        for _ in 0..PLANS_MAX {
            let (old, item) = self.read_for_change(id, expected).await?;
            let patched = patch.apply(&old)?;
            if patched == old {
                return Ok(old);
            }
            let revision = Revision::after(Some(old.revision), now(), rand::random());
            let new = Comment { revision, ..patched };
            let item = edited(item, &new, self.comment_blob).map_err(StoreError::from)?;
            let primary = Put::builder()
                .table_name(&self.name)
                .set_item(Some(item.into()))
                .condition_expression("revision = :replaced")
                .expression_attribute_values(":replaced", AttributeValue::S(old.revision.to_string()))
                .build()
                .map_err(refused)?;
            let actions = vec![
                TransactWriteItem::builder().put(primary).build(),
                self.put_journal(id, revision, Some(old.placement()), Some(new.placement()))?,
            ];
            match self.transact(actions, revision).await? {
                Outcome::Done => return Ok(new),
                // Another writer was faster; what it wrote decides how to go on.
                Outcome::ConditionsFailed(_) => {}
            }
        }
        Err(gave_up().into())
    }

    /// Deletes a comment. An invalid primary item is no comment and is left as it is.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::RevisionMismatch`] when it is not at `expected`, the store's, that its primary
    /// item is invalid.
    pub async fn delete_comment(&self, id: &CommentId, expected: Option<Revision>) -> Result<(), WriteError> {
        for _ in 0..PLANS_MAX {
            let item = Item::from(self.primary_item(id).await?.ok_or(WriteError::NotFound)?);
            let image = Image::of_primary(&item).map_err(StoreError::from)?;
            let (replaced, placement) = (image.revision, image.placement);
            if let Some(expected) = expected {
                expect_revision(replaced, expected)?;
            }
            let revision = Revision::after(Some(replaced), now(), rand::random());
            let primary = Delete::builder()
                .table_name(&self.name)
                .key(attribute::PK, AttributeValue::S(comment_pk(id)))
                .key(attribute::SK, AttributeValue::S(FilterKey::primary(placement.product.clone()).to_string()))
                .condition_expression("revision = :replaced")
                .expression_attribute_values(":replaced", AttributeValue::S(replaced.to_string()))
                .build()
                .map_err(refused)?;
            let actions = vec![
                TransactWriteItem::builder().delete(primary).build(),
                self.put_journal(id, revision, Some(placement), None)?,
            ];
            match self.transact(actions, revision).await? {
                Outcome::Done => return Ok(()),
                Outcome::ConditionsFailed(_) => {}
            }
        }
        Err(gave_up().into())
    }

    async fn read_for_change(&self, id: &CommentId, expected: Option<Revision>) -> Result<(Comment, Item), WriteError> {
        let item = Item::from(self.primary_item(id).await?.ok_or(WriteError::NotFound)?);
        let comment = Image::of_primary(&item).and_then(|image| image.comment()).map_err(StoreError::from)?;
        if let Some(expected) = expected {
            expect_revision(comment.revision, expected)?;
        }
        Ok((comment, item))
    }

    /// The entry of a change.
    pub(super) fn put_journal(
        &self,
        id: &CommentId,
        revision: Revision,
        before: Option<Placement>,
        after: Option<Placement>,
    ) -> Result<TransactWriteItem, StoreError> {
        let entry = JournalEntry { id: id.clone(), revision, before, after };
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(to_sdk_item(&entry.to_item())?))
            // An entry is never replaced: a placement that it names could be forgotten.
            .condition_expression("attribute_not_exists(pk)")
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn put_idempotency(&self, idempotency: &Idempotency, made: &Comment) -> Result<TransactWriteItem, StoreError> {
        let now_seconds = now().epoch_seconds();
        let item = IdempotencyItem {
            pk: IdempotencyItem::pk(&idempotency.key),
            sk: IdempotencyItem::SK.to_owned(),
            body_hash: idempotency.body_hash.clone(),
            comment_id: made.id.clone(),
            made: Some(Made { created_at: made.created_at, revision: made.revision }),
            expires_at: now_seconds + IDEMPOTENCY_HOURS * 3600,
        };
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(to_sdk_item(&item)?))
            // DynamoDB removes expired items late.
            .condition_expression("attribute_not_exists(pk) OR expires_at < :now")
            .expression_attribute_values(":now", AttributeValue::N(now_seconds.to_string()))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Sends a transaction, again while others get in its way.
    async fn transact(&self, actions: Vec<TransactWriteItem>, revision: Revision) -> Result<Outcome, StoreError> {
        let passed =
            Duration::from_millis(u64::try_from(now().epoch_ms() - revision.instant().epoch_ms()).unwrap_or(0));
        let left = self.started_within.saturating_sub(passed);
        let mut backoff = Backoff::until(tokio::time::Instant::now() + left);
        loop {
            let sent = self
                .client
                .transact_write_items()
                .set_transact_items(Some(actions.clone()))
                // With the token, an attempt after a lost answer is no conflict with the first.
                .client_request_token(revision.to_string())
                .set_return_consumed_capacity(self.wants_capacity())
                .send()
                .await;
            let error = match sent {
                Ok(answer) => {
                    self.charge_write(answer.consumed_capacity());
                    return Ok(Outcome::Done);
                }
                Err(error) => error,
            };
            let reasons = reasons(&error);
            let failed: Vec<usize> =
                (0..).zip(&reasons).filter(|(_, code)| *code == "ConditionalCheckFailed").map(|(at, _)| at).collect();
            if !failed.is_empty() {
                return Ok(Outcome::ConditionsFailed(failed));
            }
            let error = sort(error);
            // Only what the SDK did not retry itself; other errors it has retried already.
            let cancelled_for_now = !reasons.is_empty() && error.is_unavailable();
            if !cancelled_for_now || !backoff.wait().await {
                return Err(error);
            }
        }
    }
}

fn expect_revision(current: Revision, expected: Revision) -> Result<(), WriteError> {
    if current == expected { Ok(()) } else { Err(WriteError::RevisionMismatch { current }) }
}

fn refused(error: BuildError) -> StoreError {
    StoreError::refused(Store::Table, error.to_string())
}

fn gave_up() -> StoreError {
    StoreError::unavailable(
        Store::Table,
        format!("{PLANS_MAX} attempts lost against other writers of the same comment"),
    )
}
