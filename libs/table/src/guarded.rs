//! The repair job's writes of comments, each under a condition.
//!
//! **Invariant:** a guarded write never undoes a later change of its comment, however late it
//! arrives: the transaction that writes also checks the condition (`tests/simulator`).

use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, TransactWriteItem, builders::ConditionCheckBuilder,
};
use model::{
    CommentId, Revision,
    item::{PlacedComment, attribute, text},
    plan::{
        DuplicateWrite,
        reconcile::{Expected, Guard},
    },
    planted::{self, Bug},
    primaries::PrimariesKey,
};
use process::{Remedy, StoreError, now, random};
use serde_dynamo::Item;
use tokio::time::Instant;

use crate::{
    Table,
    actions::{Condition, DECIDING},
    duplicates::to_action,
    error::refused,
    item::primary_key,
    transaction::Transacted,
};

impl Table {
    /// Writes duplicates of a comment in transactions, each of which checks every guard. No call
    /// starts after `deadline`.
    ///
    /// DynamoDB rejects a transaction whose items together are too large (4 MB). Such a transaction
    /// is halved until the rejected write is alone.
    ///
    /// # Errors
    /// The store's; some of the writes may have happened by then.
    pub async fn write_guarded(
        &self,
        id: &CommentId,
        guards: &[Guard],
        mut writes: Vec<DuplicateWrite>,
        deadline: Instant,
    ) -> Result<Transacted, StoreError> {
        let mut checks: Vec<TransactWriteItem> = Vec::with_capacity(guards.len());
        for guard in guards {
            checks.push(self.check(id, guard)?);
        }
        let room = Self::TRANSACTION_MAX.saturating_sub(checks.len()).max(1);
        let mut parts: Vec<Vec<DuplicateWrite>> = Vec::new();
        while !writes.is_empty() {
            parts.push(writes.split_off(writes.len().saturating_sub(room)));
        }
        // A rejected write does not prevent the others.
        let mut rejected = None;
        while let Some(mut part) = parts.pop() {
            let mut actions = checks.clone();
            for write in &part {
                actions.push(to_action(write.clone(), self.name())?);
            }
            match self.transact_until(deadline, actions).await {
                Ok(Transacted::Done) => {}
                // The writes that had already happened are right for the earlier state of the
                // comment.
                Ok(failed @ Transacted::ConditionsFailed(_)) => return Ok(failed),
                Err(error) if error.remedy() == Remedy::Quarantine && part.len() > 1 => {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                Err(error) if error.remedy() == Remedy::Quarantine => rejected = Some(error),
                Err(error) => return Err(error),
            }
        }
        match rejected {
            Some(error) => Err(error),
            None => Ok(Transacted::Done),
        }
    }

    fn check(&self, id: &CommentId, guard: &Guard) -> Result<TransactWriteItem, StoreError> {
        let key = primary_key(id, &guard.product);
        let check = ConditionCheck::builder()
            .table_name(self.name())
            .set_key(Some(key));
        let check = match &guard.expected {
            Expected::Absent => check.condition_expression("attribute_not_exists(pk)"),
            Expected::Revision(revision) => check_revision(check, *revision),
            Expected::Invalid(item) => {
                let Condition {
                    expression,
                    names,
                    values,
                } = Condition::as_read(item, DECIDING);
                let values = Some(values).filter(|values| !values.is_empty());
                check
                    .condition_expression(expression)
                    .set_expression_attribute_names(Some(names))
                    .set_expression_attribute_values(values)
            }
        };
        Ok(TransactWriteItem::builder()
            .condition_check(check.build().map_err(refused)?)
            .build())
    }

    /// Takes over a comment whose primary item is only incomplete. It gives the item a new
    /// revision, and the keys of the index `primaries` if the comment is published. The condition
    /// is that the item is as it was read. The transaction has an entry of the journal. No call
    /// starts after `deadline`.
    ///
    /// # Errors
    /// The store's; the write may have happened by then.
    pub async fn take_over(
        &self,
        comment: &PlacedComment,
        item: &Item,
        deadline: Instant,
    ) -> Result<Transacted, StoreError> {
        let before =
            text(item, attribute::REVISION).and_then(|revision| Revision::parse(revision).ok());
        let revision = Revision::after(before, now(), random());
        let mut supplied = vec![(attribute::REVISION, revision.to_string())];
        if comment.status.is_published() {
            let PrimariesKey { shard, pcd } = comment.primaries_key();
            supplied.extend([(attribute::SHARD, shard), (attribute::PCD, pcd)]);
        }
        let supplied = supplied
            .into_iter()
            .map(|(name, text)| (name, Some(AttributeValue::S(text))));
        let actions = vec![
            self.update_as_read((&comment.id, &comment.placement.product), item, supplied)?,
            self.put_journal(&comment.id, before, revision, None, Some(comment.entry()))?,
        ];
        // The journal relies on this bound: see `comment_changes`.
        let deadline = deadline.min(Instant::now() + self.config.started_within);
        self.transact_until(deadline, actions).await
    }
}

/// The item still has the revision that was read.
fn check_revision(check: ConditionCheckBuilder, revision: Revision) -> ConditionCheckBuilder {
    if planted::has(Bug::NoGuard) {
        return check.condition_expression("attribute_exists(pk)");
    }
    check
        .condition_expression("#revision = :revision")
        .expression_attribute_names("#revision", attribute::REVISION)
        .expression_attribute_values(":revision", AttributeValue::S(revision.to_string()))
}
