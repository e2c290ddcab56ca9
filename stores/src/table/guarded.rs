//! Writes of duplicates that happen only if the primary item is still as it was read.
//!
//! **Invariant:** a guarded write never undoes a later change of its comment, however late it arrives: the condition is
//! checked by the transaction that writes (`tests/repair/concurrent.rs`).

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
use model::{
    CommentId, FilterKey,
    item::{attribute, comment_pk},
    plan::{DuplicateWrite, reconcile::Guard},
};
use tokio::time::Instant;

use super::{
    SdkItem, Table,
    duplicates::{refused, to_action},
    transaction::{reasons, sort},
};
use crate::{
    error::{Remedy, Store, StoreError},
    retry::Backoff,
};

/// What became of guarded writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// All of them have happened.
    Done,
    /// The primary item has changed since; those that had happened before are right for what it was then.
    Changed,
}

impl Table {
    /// Writes duplicates of a comment, in transactions each of which checks every guard; no call is started after
    /// `deadline`.
    ///
    /// A transaction that DynamoDB rejects (all its items together are too large, 4 MB) is halved, until what is
    /// rejected stands alone.
    ///
    /// # Errors
    /// The store's; some of the writes may have happened then.
    pub async fn write_guarded(
        &self,
        id: &CommentId,
        guards: &[Guard],
        mut writes: Vec<DuplicateWrite>,
        deadline: Instant,
    ) -> Result<Guarded, StoreError> {
        let checks: Vec<TransactWriteItem> =
            guards.iter().map(|guard| self.check(id, guard)).collect::<Result<_, _>>()?;
        let room = Self::TRANSACTION_MAX.saturating_sub(checks.len()).max(1);
        let mut parts: Vec<Vec<DuplicateWrite>> = Vec::new();
        while !writes.is_empty() {
            parts.push(writes.split_off(writes.len().saturating_sub(room)));
        }
        // What cannot be written does not keep the rest from being right.
        let mut rejected = None;
        while let Some(mut part) = parts.pop() {
            match self.transact_guarded(&checks, &part, deadline).await {
                Ok(Guarded::Done) => {}
                Ok(Guarded::Changed) => return Ok(Guarded::Changed),
                Err(error) if error.remedy() == Remedy::Quarantine && part.len() > 1 => {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                Err(error) if error.remedy() == Remedy::Quarantine => rejected = Some(error),
                Err(error) => return Err(error),
            }
        }
        rejected.map_or(Ok(Guarded::Done), Err)
    }

    fn check(&self, id: &CommentId, guard: &Guard) -> Result<TransactWriteItem, StoreError> {
        let check = ConditionCheck::builder().table_name(&self.name).set_key(Some(primary_key(id, guard)));
        let check = match guard.revision {
            None => check.condition_expression("attribute_not_exists(pk)"),
            Some(revision) => check
                .condition_expression("#revision = :revision")
                .expression_attribute_names("#revision", attribute::REVISION)
                .expression_attribute_values(":revision", AttributeValue::S(revision.to_string())),
        };
        Ok(TransactWriteItem::builder().condition_check(check.build().map_err(refused)?).build())
    }

    async fn transact_guarded(
        &self,
        checks: &[TransactWriteItem],
        writes: &[DuplicateWrite],
        deadline: Instant,
    ) -> Result<Guarded, StoreError> {
        let mut actions = checks.to_vec();
        for write in writes {
            actions.push(to_action(write.clone(), &self.name)?);
        }
        let mut backoff = Backoff::until(deadline);
        loop {
            self.admit_write().await;
            if Instant::now() >= deadline {
                return Err(StoreError::past_deadline(Store::Table));
            }
            let sent = self
                .client
                .transact_write_items()
                .set_transact_items(Some(actions.clone()))
                .set_return_consumed_capacity(self.wants_capacity())
                .send();
            let error = match tokio::time::timeout_at(deadline, sent).await {
                Ok(Ok(answer)) => {
                    self.charge_write(answer.consumed_capacity());
                    return Ok(Guarded::Done);
                }
                Ok(Err(error)) if reasons(&error).iter().any(|code| code == "ConditionalCheckFailed") => {
                    return Ok(Guarded::Changed);
                }
                Ok(Err(error)) => sort(error),
                Err(_) => StoreError::past_deadline(Store::Table),
            };
            if !error.is_unavailable() || !backoff.wait().await {
                return Err(error);
            }
        }
    }
}

fn primary_key(id: &CommentId, guard: &Guard) -> SdkItem {
    let sk = FilterKey::primary(guard.product.clone()).to_string();
    [(attribute::PK.to_owned(), AttributeValue::S(comment_pk(id))), (attribute::SK.to_owned(), AttributeValue::S(sk))]
        .into()
}
