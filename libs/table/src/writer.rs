//! Writes comments: each change is one transaction of the primary item and its journal entry.
//!
//! **Invariant:** no primary item changes without a journal entry in its transaction, so `recent` finds every change.
//! An attempt is not sent later than 30 s after its entry's instant. So a window of the journal that is older than the
//! repair job's settle delay is complete.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use model::{
    Comment, CommentId, Placement, Revision,
    item::{CommentItem, attribute, comment_of_primary, edited},
    journal::JournalEntry,
};
use process::{Backoff, StoreError, now};
use serde::Serialize;
use serde_dynamo::Item;

use super::{
    Table,
    change::{CommentPatch, Created, NewComment, WriteError},
    error::refused,
    guarded::Condition,
    idempotency::Idempotency,
    item_key::primary_key,
    to_sdk_item,
    transaction::{is_conflict, reasons, sort},
};

/// Default time for which a change is repeated: planned anew after other writers were faster, and sent again after
/// conflicts. No transaction starts later than this after its revision's instant. With the SDK's attempts, 8 s at most,
/// that stays below the 30 s that the repair job relies on.
pub(super) const STARTED_WITHIN: Duration = Duration::from_secs(20);

/// The attributes of a primary item that an edit sets, or removes where the comment has none.
const EDITED: [&str; 11] = [
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
    attribute::COMMENT_BLOB,
    attribute::ATTRIBUTES,
    attribute::AUTHOR_ID,
    attribute::CD,
    attribute::SHARD,
    attribute::PCD,
    attribute::UNPUBLISHED,
    attribute::UNPUBLISHED_CD,
];

pub(super) enum Outcome {
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
    /// [`WriteError::AlreadyExists`], [`WriteError::IdempotencyMismatch`], [`WriteError::DeletedSince`],
    /// [`WriteError::Contended`], the store's.
    pub async fn create_comment(
        &self,
        new: NewComment,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, WriteError> {
        if let Some(idempotency) = &idempotency
            && let Some(before) = self.created_by_earlier_version(idempotency, &new).await?
        {
            return Ok(Created::Before(before));
        }
        let mut backoff = self.change_backoff();
        loop {
            let revision = Revision::after(None, now(), rand::random());
            let comment = new.clone().at(revision);
            let mut actions = vec![
                self.put_new(&CommentItem::primary(&comment, self.comment_blob))?,
                self.put_journal(&comment.id, revision, None, Some(comment.placement()))?,
            ];
            if let Some(idempotency) = &idempotency {
                actions.push(self.put_idempotency(idempotency, &comment)?);
            }
            match self.transact(actions, revision, &mut backoff).await? {
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
                // The journal key is taken: the next revision has a different one.
                Outcome::ConditionsFailed(_) => {}
            }
            wait_for_others(&mut backoff).await?;
        }
    }

    /// Changes a comment. A patch that changes nothing writes nothing, even if the stored text has a different format
    /// than the configured one. Any other patch writes the text in the configured format, unless unknown keys in the
    /// map would be lost.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::RevisionMismatch`] when it is not at `expected`,
    /// [`WriteError::Invalid`], [`WriteError::Contended`], the store's, that its primary item is invalid.
    pub async fn patch_comment(
        &self,
        id: &CommentId,
        expected: Option<Revision>,
        patch: &CommentPatch,
    ) -> Result<Comment, WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let (old, item) = self.read_for_change(id, expected).await?;
            let patched = patch.apply(&old)?;
            if patched == old {
                return Ok(old);
            }
            let revision = Revision::after(Some(old.revision), now(), rand::random());
            let new = Comment { revision, ..patched };
            let primary = self.update_edited(item, &new)?;
            let actions = vec![
                TransactWriteItem::builder().update(primary).build(),
                self.put_journal(id, revision, Some(old.placement()), Some(new.placement()))?,
            ];
            match self.transact(actions, revision, &mut backoff).await? {
                Outcome::Done => return Ok(new),
                // Another writer was faster; the next round decides by what it wrote.
                Outcome::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    /// The update that makes the item that was read the edited comment's. It sets only what an edit changes, so an attribute
    /// that another tool adds or changes meanwhile stays. Another tool may leave the revision as it is; so the condition
    /// is on all that was read of the attributes that it sets.
    fn update_edited(&self, item: Item, new: &Comment) -> Result<Update, StoreError> {
        let Condition { expression, names, values } = Condition::as_read(&item);
        let mut edited = edited(item, new, self.comment_blob)?.into_inner();
        let (set, removed): (Vec<_>, Vec<_>) = EDITED.into_iter().partition(|name| edited.contains_key(*name));
        let set: Vec<String> = set.into_iter().map(|name| format!("#{name} = :new_{name}")).collect();
        let removed: Vec<String> = removed.into_iter().map(|name| format!("#{name}")).collect();
        let mut update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(primary_key(&new.id, &new.product)))
            .update_expression(format!("SET {} REMOVE {}", set.join(", "), removed.join(", ")))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values));
        for name in EDITED {
            if let Some(value) = edited.remove(name) {
                update = update.expression_attribute_values(format!(":new_{name}"), value.into());
            }
        }
        update.build().map_err(refused)
    }

    /// Deletes a comment. An invalid primary item counts as absent, and stays unchanged.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::RevisionMismatch`] when it is not at `expected`, [`WriteError::Contended`],
    /// the store's, that its primary item is invalid.
    pub async fn delete_comment(&self, id: &CommentId, expected: Option<Revision>) -> Result<(), WriteError> {
        self.delete_if(id, expected, |_| true).await
    }

    /// Like [`Table::delete_comment`], if the comment is one of the `wanted`; otherwise it counts as absent.
    pub(super) async fn delete_if(
        &self,
        id: &CommentId,
        expected: Option<Revision>,
        wanted: impl Fn(&Comment) -> bool,
    ) -> Result<(), WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let (old, _) = self.read_for_change(id, expected).await?;
            if !wanted(&old) {
                return Err(WriteError::NotFound);
            }
            let revision = Revision::after(Some(old.revision), now(), rand::random());
            let primary = Delete::builder()
                .table_name(&self.name)
                .set_key(Some(primary_key(id, &old.product)))
                .condition_expression("revision = :replaced")
                .expression_attribute_values(":replaced", AttributeValue::S(old.revision.to_string()))
                .build()
                .map_err(refused)?;
            let actions = vec![
                TransactWriteItem::builder().delete(primary).build(),
                self.put_journal(id, revision, Some(old.placement()), None)?,
            ];
            match self.transact(actions, revision, &mut backoff).await? {
                Outcome::Done => return Ok(()),
                Outcome::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    async fn read_for_change(&self, id: &CommentId, expected: Option<Revision>) -> Result<(Comment, Item), WriteError> {
        let item = self.primary_item(id).await?.ok_or(WriteError::NotFound)?;
        let comment = comment_of_primary(&item).map_err(StoreError::from)?;
        let current = comment.revision;
        if expected.is_some_and(|expected| expected != current) {
            return Err(WriteError::RevisionMismatch { current });
        }
        Ok((comment, item))
    }

    pub(super) fn put_journal(
        &self,
        id: &CommentId,
        revision: Revision,
        before: Option<Placement>,
        after: Option<Placement>,
    ) -> Result<TransactWriteItem, StoreError> {
        // An entry is never replaced, because a placement that it names could be lost.
        self.put_new(&JournalEntry { id: id.clone(), revision, before, after }.to_item())
    }

    pub(super) fn put_new<T: Serialize>(&self, item: &T) -> Result<TransactWriteItem, StoreError> {
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(to_sdk_item(item)?))
            .condition_expression("attribute_not_exists(pk)")
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// The back-off for a change, from now on.
    pub(super) fn change_backoff(&self) -> Backoff {
        Backoff::until(tokio::time::Instant::now() + self.started_within)
    }

    /// Sends a transaction, and repeats it while others conflict with it.
    pub(super) async fn transact(
        &self,
        actions: Vec<TransactWriteItem>,
        revision: Revision,
        backoff: &mut Backoff,
    ) -> Result<Outcome, WriteError> {
        loop {
            let sent = self
                .client
                .transact_write_items()
                .set_transact_items(Some(actions.clone()))
                // The token prevents a conflict between an attempt after a lost answer and the first attempt.
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
            // Only for errors that the SDK did not retry; it has already retried the others.
            let cancelled_for_now = !reasons.is_empty() && error.is_unavailable();
            if !cancelled_for_now {
                return Err(error.into());
            }
            if !backoff.wait().await {
                return Err(if is_conflict(&reasons) { WriteError::Contended } else { error.into() });
            }
        }
    }
}

/// Gives other writers of the comment time before the change is planned anew.
pub(super) async fn wait_for_others(backoff: &mut Backoff) -> Result<(), WriteError> {
    if backoff.wait().await { Ok(()) } else { Err(WriteError::Contended) }
}
