//! Changes of comments: each is one transaction of the primary item and its journal entry.
//!
//! **Invariant:** no primary item changes without a journal entry in its transaction, so `recent`
//! finds every change. An attempt is not sent later than 30 s after its entry's instant. So a
//! window of the journal is complete when it has the minimum age that the repair job waits for.

use model::{
    Comment, CommentId, Revision,
    item::{CommentItem, comment_of_primary, edited},
    planted::{self, Bug},
    size::item_bytes,
};
use process::{Remedy, StoreError, now, random};
use serde_dynamo::Item;

use crate::{
    Table,
    actions::DECIDING,
    change::{CommentPatch, Created, NewComment, WriteError},
    idempotency::Idempotency,
    item::{SdkItem, primary_key},
    transaction::{Transacted, wait_for_others},
};

/// Maximum size of an item, and the most that an edit sets in one: a text of 10,300 characters, 4
/// KB of attributes, and keys.
const ITEM_BYTES_MAX: usize = 400 * 1024;
const EDITED_BYTES_MAX: usize = 64 * 1024;

/// The indexes of a creation's actions.
const PRIMARY: usize = 0;
const IDEMPOTENCY: usize = 2;

impl Table {
    /// Creates a comment.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`], [`WriteError::IdempotencyMismatch`],
    /// [`WriteError::Contended`], the store's.
    pub async fn create_comment(
        &self,
        new: NewComment,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let revision = Revision::after(None, now(), random());
            let comment = new.clone().at(revision);
            let mut actions = vec![
                self.put_new(&CommentItem::primary(&comment, self.config.comment_blob))?,
                self.put_journal(&comment.id, None, revision, None, Some(comment.entry()))?,
            ];
            if let Some(idempotency) = &idempotency {
                actions.push(self.put_idempotency(idempotency, &comment)?);
            }
            if planted::has(Bug::KeyForgotten) {
                actions.truncate(IDEMPOTENCY);
            }
            match self.transact(actions, revision, &mut backoff).await? {
                Transacted::Done => return Ok(Created::New(comment)),
                Transacted::ConditionsFailed(failed) if failed.contains(&IDEMPOTENCY) => {
                    if let Some(idempotency) = &idempotency
                        && let Some(before) = self.created_before(idempotency, &new).await?
                    {
                        return Ok(Created::Before(before));
                    }
                }
                Transacted::ConditionsFailed(failed) if failed.contains(&PRIMARY) => {
                    return Err(WriteError::AlreadyExists);
                }
                // The journal key is taken: the next revision has a different one.
                Transacted::ConditionsFailed(_) => {}
            }
            wait_for_others(&mut backoff).await?;
        }
    }

    /// Changes a comment, if `allows` accepts it as it is. A patch that changes nothing writes
    /// nothing, even if the stored text has a different format than the configured one. Any other
    /// patch writes the text in the configured format, unless unknown keys in the map would be
    /// lost.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::Invalid`], [`WriteError::Contended`],
    /// [`WriteError::Full`]. [`WriteError::RevisionMismatch`] if `allows` refuses it. The store's,
    /// also if its primary item is invalid.
    pub async fn patch_comment(
        &self,
        id: &CommentId,
        allows: impl Fn(&Comment) -> bool,
        patch: &CommentPatch,
    ) -> Result<Comment, WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let (old, item) = self.read_for_change(id).await?;
            if !allows(&old) {
                return Err(WriteError::RevisionMismatch {
                    current: old.revision,
                });
            }
            let patched = patch.apply(&old)?;
            if patched == old {
                return Ok(old);
            }
            let revision = Revision::after(Some(old.revision), now(), random());
            let new = Comment {
                revision,
                ..patched
            };
            let item_bytes = item_bytes(&item);
            let edited =
                edited(item.clone(), &new, self.config.comment_blob).map_err(StoreError::from)?;
            let mut edited = SdkItem::from(edited);
            let changed = DECIDING.map(|name| (name, edited.remove(name)));
            let actions = vec![
                self.update_as_read((id, &new.product), &item, changed)?,
                self.put_journal(
                    id,
                    Some(old.revision),
                    revision,
                    Some(old.entry()),
                    Some(new.entry()),
                )?,
            ];
            let written = self.transact(actions, revision, &mut backoff).await;
            if let Err(WriteError::Store(StoreError::Call {
                remedy: Remedy::Quarantine,
                ..
            })) = &written
                && item_bytes + EDITED_BYTES_MAX > ITEM_BYTES_MAX
            {
                return Err(WriteError::Full { item_bytes });
            }
            match written? {
                Transacted::Done => return Ok(new),
                // Another writer was faster; the next round decides by what it wrote.
                Transacted::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    /// Deletes a comment, if `allows` accepts it as it is. An invalid primary item stays unchanged.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::RevisionMismatch`], [`WriteError::Contended`], the
    /// store's, that its primary item is invalid.
    pub async fn delete_comment(
        &self,
        id: &CommentId,
        allows: impl Fn(&Comment) -> bool,
    ) -> Result<(), WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let (old, _) = self.read_for_change(id).await?;
            if !allows(&old) {
                return Err(WriteError::RevisionMismatch {
                    current: old.revision,
                });
            }
            let revision = Revision::after(Some(old.revision), now(), random());
            let mut actions = vec![
                self.delete_at(primary_key(id, &old.product), old.revision)?,
                self.put_journal(id, Some(old.revision), revision, Some(old.entry()), None)?,
            ];
            if planted::has(Bug::DeletedWithoutJournal) {
                actions.truncate(1);
            }
            match self.transact(actions, revision, &mut backoff).await? {
                Transacted::Done => return Ok(()),
                Transacted::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    async fn read_for_change(&self, id: &CommentId) -> Result<(Comment, Item), WriteError> {
        let item = self.primary_item(id).await?.ok_or(WriteError::NotFound)?;
        let comment = comment_of_primary(&item).map_err(StoreError::from)?;
        Ok((comment, item))
    }
}
