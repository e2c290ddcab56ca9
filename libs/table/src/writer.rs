//! Writes comments: each change is one transaction of the primary item and its journal entry.
//!
//! **Invariant:** no primary item changes without a journal entry in its transaction, so `recent`
//! finds every change. An attempt is not sent later than 30 s after its entry's instant. So a
//! window of the journal that is older than the repair job's settle delay is complete.
//!
//! A report is an entry alone. It names a comment to `recent` because a reader missed something of
//! it.
//!
//! A product's record has no journal entry, because nothing is derived from it. Its writes use the
//! transactions of comments: a repeated attempt finds out that an earlier one has happened.
//!
//! Duplicates are written by `BatchWriteItem`: up to 25 writes of any comments, one by one.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, TransactWriteItem, Update, WriteRequest,
};
use model::{
    Comment, CommentId, Placement, ProductDetails, ProductId, ProductRecord, Revision,
    item::{CommentItem, comment_of_primary, edited},
    journal::JournalEntry,
    plan::{DuplicateKey, DuplicateWrite},
    planted::{self, Bug},
    product::ProductItem,
    size::item_bytes,
};
use process::{Backoff, Remedy, Store, StoreError, aws::Calls, now, random};
use serde::Serialize;
use serde_dynamo::Item;
use tokio::time::Instant;

use crate::{
    Table,
    change::{CommentPatch, Created, NewComment, ProductChange, ProductPut, WriteError},
    duplicates::{DuplicatesWritten, FailedWrites, key_of_request, to_request},
    error::{refused, store_error},
    idempotency::{self, Idempotency, Record},
    item::{SdkItem, from_sdk_item, item_key, primary_key, record_key_of, to_sdk_item},
    transaction::{Condition, DECIDING, Transacted, TransactionError, is_conflict, reasons, sort},
};

/// Default time for which a change is repeated: planned anew after other writers were faster, and
/// sent again after conflicts. No transaction starts later than this after its revision's instant.
/// With the SDK's attempts, 8 s at most, that stays below the 30 s that the repair job relies on.
pub(super) const STARTED_WITHIN: Duration = Duration::from_secs(20);

/// Maximum size of an item, and the most that an edit sets in one: a text of 10,300 characters, 4
/// KB of attributes, and keys.
const ITEM_BYTES_MAX: usize = 400 * 1024;
const EDITED_BYTES_MAX: usize = 64 * 1024;

/// The condition that an item is at the revision that was read.
const IS_REPLACED: &str = "revision = :replaced";

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
                self.put_journal(&comment.id, revision, None, Some(comment.placement()))?,
            ];
            if let Some(idempotency) = &idempotency
                && !planted::has(Bug::KeyForgotten)
            {
                actions.push(self.put_idempotency(idempotency, &comment)?);
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
                self.put_journal(id, revision, Some(old.placement()), Some(new.placement()))?,
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

    /// The update of a primary item that was read. It sets only what changes, or removes it
    /// (`None`). So an attribute that another tool adds or changes meanwhile stays. The condition
    /// covers every attribute that a change may set. The revision alone is not enough: another tool
    /// may have kept it.
    pub(crate) fn update_as_read(
        &self,
        (id, product): (&CommentId, &ProductId),
        item: &Item,
        changed: impl IntoIterator<Item = (&'static str, Option<AttributeValue>)>,
    ) -> Result<TransactWriteItem, StoreError> {
        let Condition {
            expression,
            names,
            mut values,
        } = Condition::as_read(item, DECIDING);
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (name, value) in changed {
            match value {
                Some(value) => {
                    set.push(format!("#{name} = :new_{name}"));
                    values.insert(format!(":new_{name}"), value);
                }
                None => removed.push(format!("#{name}")),
            }
        }
        let removed = if removed.is_empty() {
            String::new()
        } else {
            format!(" REMOVE {}", removed.join(", "))
        };
        let update = Update::builder()
            .table_name(self.name())
            .set_key(Some(primary_key(id, product)))
            .update_expression(format!("SET {}{removed}", set.join(", ")))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().update(update).build())
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
                self.put_journal(id, revision, Some(old.placement()), None)?,
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

    pub(crate) fn put_journal(
        &self,
        id: &CommentId,
        revision: Revision,
        before: Option<Placement>,
        after: Option<Placement>,
    ) -> Result<TransactWriteItem, StoreError> {
        // An entry is never replaced, because a placement that it names could be lost.
        self.put_new(
            &JournalEntry {
                id: id.clone(),
                revision,
                before,
                after,
                is_report: false,
            }
            .to_item(),
        )
    }

    /// Names a comment to the next `recent`, which compares all that is derived from it.
    /// `looked_for` is where a reader missed something. Of its product, the ranks in every language
    /// are compared.
    pub async fn report(&self, id: &CommentId, looked_for: &Placement) -> Result<(), StoreError> {
        let entry = JournalEntry::report(id.clone(), looked_for.clone(), now(), random());
        let deadline = Instant::now() + self.config.started_within;
        // If the key is taken, a change or another report of this millisecond names the comment
        // already.
        self.transact_until(deadline, vec![self.put_new(&entry.to_item())?])
            .await
            .map(drop)
    }

    fn put_new<T: Serialize>(&self, item: &T) -> Result<TransactWriteItem, StoreError> {
        self.put_if(item, "attribute_not_exists(pk)", SdkItem::new())
    }

    fn put_if<T: Serialize>(
        &self,
        item: &T,
        condition: &str,
        values: impl Into<SdkItem>,
    ) -> Result<TransactWriteItem, StoreError> {
        let put = Put::builder()
            .table_name(self.name())
            .set_item(Some(to_sdk_item(item)?))
            .condition_expression(condition)
            .set_expression_attribute_values(
                Some(values.into()).filter(|values| !values.is_empty()),
            )
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn delete_at(&self, key: SdkItem, revision: Revision) -> Result<TransactWriteItem, StoreError> {
        let delete = Delete::builder()
            .table_name(self.name())
            .set_key(Some(key))
            .condition_expression(IS_REPLACED)
            .set_expression_attribute_values(Some(replaced(revision)))
            .build()
            .map_err(refused)?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }

    fn change_backoff(&self) -> Backoff {
        Backoff::until(Instant::now() + self.config.started_within)
    }

    /// Sends a transaction, and repeats it while others conflict with it.
    async fn transact(
        &self,
        actions: Vec<TransactWriteItem>,
        revision: Revision,
        backoff: &mut Backoff,
    ) -> Result<Transacted, WriteError> {
        loop {
            // The token prevents a conflict between an attempt after a lost answer and the first
            // attempt.
            let error = match self
                .transact_once(actions.clone(), Some(revision.to_string()))
                .await
            {
                Ok(transacted) => return Ok(transacted),
                Err(error) => error,
            };
            let reasons = reasons(&error);
            let error = sort(*error);
            // Only for errors that the SDK did not retry; it has already retried the others.
            let cancelled_for_now = !reasons.is_empty() && error.is_unavailable();
            if !cancelled_for_now {
                return Err(error.into());
            }
            if !backoff.wait().await {
                return Err(if is_conflict(&reasons) {
                    WriteError::Contended
                } else {
                    error.into()
                });
            }
        }
    }

    async fn transact_once(
        &self,
        actions: Vec<TransactWriteItem>,
        token: Option<String>,
    ) -> Result<Transacted, Box<TransactionError>> {
        let call = self
            .client
            .transact_write_items()
            .set_transact_items(Some(actions))
            .set_client_request_token(token);
        let error = match call
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
        {
            Ok(answer) => {
                self.meter.write.charge(answer.consumed_capacity());
                return Ok(Transacted::Done);
            }
            Err(error) => error,
        };
        let reasons = reasons(&error);
        let failed = (0..)
            .zip(&reasons)
            .filter(|(_, code)| *code == "ConditionalCheckFailed");
        let failed: Vec<usize> = failed.map(|(place, _)| place).collect();
        if failed.is_empty() {
            Err(Box::new(error))
        } else {
            Ok(Transacted::ConditionsFailed(failed))
        }
    }

    /// The action that writes the record, on condition that it does not exist.
    fn put_idempotency(
        &self,
        idempotency: &Idempotency,
        made: &Comment,
    ) -> Result<TransactWriteItem, StoreError> {
        let now_seconds = now().epoch_seconds();
        let record = Record {
            pk: idempotency.pk(&made.product),
            sk: idempotency::SK.to_owned(),
            body_hash: idempotency.body_hash.clone(),
            comment_id: made.id.clone(),
            created_at: made.created_at,
            revision: made.revision,
            status: made.status,
            expires_at: now_seconds + idempotency::HOURS * 3600,
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
    async fn created_before(
        &self,
        idempotency: &Idempotency,
        again: &NewComment,
    ) -> Result<Option<Comment>, WriteError> {
        let key = item_key(idempotency.pk(&again.product), idempotency::SK.to_owned());
        let record: Option<Record> = self.item(key).await?.map(from_sdk_item).transpose()?;
        let Some(record) = record else {
            return Ok(None);
        };
        if record.body_hash != idempotency.body_hash {
            return Err(WriteError::IdempotencyMismatch);
        }
        let Record {
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

    /// Puts a record, if `allows` accepts the revision of the record that is there (`None`: there
    /// is none). A record that says the same already stays.
    ///
    /// # Errors
    /// [`WriteError::PreconditionFailed`], [`WriteError::Contended`], the store's. Also that the
    /// stored item is no record.
    pub async fn put_product(
        &self,
        product: &ProductId,
        details: &ProductDetails,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<ProductPut, WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let old = self.product(product).await?;
            let current = old.as_ref().map(|old| old.revision);
            if !allows(current) {
                return Err(WriteError::PreconditionFailed { current });
            }
            let change = match old {
                Some(record) if record.details == *details => {
                    return Ok(ProductPut {
                        record,
                        change: ProductChange::Nothing,
                    });
                }
                Some(_) => ProductChange::Replaced,
                None => ProductChange::Created,
            };
            let revision = Revision::after(current, now(), random());
            let record = ProductRecord {
                product: product.clone(),
                revision,
                details: details.clone(),
            };
            let item = ProductItem::from(record.clone());
            let action = match current {
                None => self.put_new(&item)?,
                Some(current) => self.put_if(&item, IS_REPLACED, replaced(current))?,
            };
            match self.transact(vec![action], revision, &mut backoff).await? {
                Transacted::Done => return Ok(ProductPut { record, change }),
                // Another writer was faster; the next round decides by what it wrote.
                Transacted::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    /// Deletes a record, if `allows` accepts its revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`], [`WriteError::PreconditionFailed`], [`WriteError::Contended`], the
    /// store's. Also that the stored item is no record.
    pub async fn delete_product(
        &self,
        product: &ProductId,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<(), WriteError> {
        let mut backoff = self.change_backoff();
        loop {
            let current = self
                .product(product)
                .await?
                .ok_or(WriteError::NotFound)?
                .revision;
            if !allows(Some(current)) {
                return Err(WriteError::PreconditionFailed {
                    current: Some(current),
                });
            }
            let actions = vec![self.delete_at(record_key_of(product), current)?];
            let token = Revision::after(Some(current), now(), random());
            match self.transact(actions, token, &mut backoff).await? {
                Transacted::Done => return Ok(()),
                Transacted::ConditionsFailed(_) => wait_for_others(&mut backoff).await?,
            }
        }
    }

    /// Maximum number of writes in one batch (AWS: `BatchWriteItem`).
    pub const BATCH_MAX: usize = 25;

    /// Writes a batch of at most [`Table::BATCH_MAX`] duplicates with different keys. No call
    /// outlasts `deadline`, and none starts when less than the time of one attempt is left.
    ///
    /// Unprocessed writes are sent again with jittered back-off. DynamoDB rejects a whole batch
    /// when it rejects one write. Such a batch is halved until the rejected write is alone, which
    /// takes at most twice as many calls as there are writes.
    pub async fn write_duplicates(
        &self,
        batch: Vec<DuplicateWrite>,
        deadline: Instant,
    ) -> DuplicatesWritten {
        let mut written = DuplicatesWritten::default();
        let mut pending = Vec::with_capacity(batch.len());
        for write in batch {
            let key = write.key().clone();
            match to_request(write) {
                Ok(request) => pending.push((key, request)),
                Err(error) => written.failed.push(FailedWrites {
                    keys: vec![key],
                    error,
                }),
            }
        }
        let mut parts = vec![pending];
        while let Some(mut part) = parts.pop() {
            let Err(error) = self.write_part(&mut part, deadline, &mut written).await else {
                continue;
            };
            if error.remedy() == Remedy::Quarantine && part.len() > 1 {
                parts.push(part.split_off(part.len() / 2));
                parts.push(part);
                continue;
            }
            written.failed.push(FailedWrites {
                keys: part.into_iter().map(|(key, _)| key).collect(),
                error,
            });
        }
        written
    }

    async fn write_part(
        &self,
        pending: &mut Vec<(DuplicateKey, WriteRequest)>,
        deadline: Instant,
        written: &mut DuplicatesWritten,
    ) -> Result<(), StoreError> {
        let attempt_time = self
            .config
            .calls
            .attempt_timeout
            .min(Calls::PROMPT.attempt_timeout);
        let last_start = deadline.checked_sub(attempt_time).unwrap_or(deadline);
        let mut backoff = Backoff::until(last_start);
        while !pending.is_empty() {
            if Instant::now() >= last_start {
                return Err(StoreError::past_deadline(Store::Table));
            }
            let requests = pending.iter().map(|(_, request)| request.clone()).collect();
            let call = self
                .client
                .batch_write_item()
                .request_items(self.name(), requests);
            let sent = call
                .set_return_consumed_capacity(self.meter.report())
                .send();
            let answer = match tokio::time::timeout_at(deadline, sent).await {
                Ok(answer) => answer.map_err(store_error),
                Err(_) => Err(StoreError::past_deadline(Store::Table)),
            };
            let error = match answer {
                Ok(answer) => {
                    self.meter.write.charge(answer.consumed_capacity());
                    let left = answer
                        .unprocessed_items
                        .unwrap_or_default()
                        .remove(self.name())
                        .unwrap_or_default();
                    let left: Vec<_> = left.iter().filter_map(key_of_request).collect();
                    pending.retain(|(key, _)| {
                        left.contains(key) && !planted::has(Bug::UnprocessedIsDone)
                    });
                    if pending.is_empty() {
                        return Ok(());
                    }
                    written.unprocessed += u64::try_from(pending.len()).unwrap_or(u64::MAX);
                    StoreError::unavailable(Store::Table, "it left writes of a batch unprocessed")
                }
                Err(error) => error,
            };
            if !error.is_unavailable() || !backoff.wait().await {
                return Err(error);
            }
            written.retries += 1;
        }
        Ok(())
    }

    /// Maximum number of actions in one transaction (AWS: `TransactWriteItems`).
    pub const TRANSACTION_MAX: usize = 100;

    /// Sends a transaction until it happens or one of its conditions fails. No call starts after
    /// `deadline`, and none outlasts it.
    ///
    /// No client request token: sending the writes of the callers twice is harmless.
    pub(crate) async fn transact_until(
        &self,
        deadline: Instant,
        actions: Vec<TransactWriteItem>,
    ) -> Result<Transacted, StoreError> {
        let mut backoff = Backoff::until(deadline);
        loop {
            self.meter.write.admit().await;
            if Instant::now() >= deadline {
                return Err(StoreError::past_deadline(Store::Table));
            }
            let error =
                match tokio::time::timeout_at(deadline, self.transact_once(actions.clone(), None))
                    .await
                {
                    Ok(Ok(transacted)) => return Ok(transacted),
                    Ok(Err(error)) => sort(*error),
                    Err(_) => StoreError::past_deadline(Store::Table),
                };
            if !error.is_unavailable() || !backoff.wait().await {
                return Err(error);
            }
        }
    }
}

fn replaced(revision: Revision) -> SdkItem {
    [(
        ":replaced".to_owned(),
        AttributeValue::S(revision.to_string()),
    )]
    .into()
}

/// Gives other writers of the comment time before the change is planned anew.
async fn wait_for_others(backoff: &mut Backoff) -> Result<(), WriteError> {
    if backoff.wait().await {
        Ok(())
    } else {
        Err(WriteError::Contended)
    }
}
