//! Writes that happen only if the primary item is still as it was read: of duplicates, and of a revision that it lacks.
//!
//! **Invariant:** a guarded write never undoes a later change of its comment, however late it arrives: the condition is
//! checked by the transaction that writes (`tests/repair/concurrent.rs`).

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem, Update};
use model::{
    CommentId, FilterKey, ProductId, Revision,
    item::{PlacedComment, attribute, comment_pk},
    plan::{
        DuplicateWrite,
        reconcile::{Expected, Guard},
    },
};
use serde_dynamo::Item;
use tokio::time::Instant;

use super::{
    SdkItem, Table,
    duplicates::{refused, to_action},
    transaction::{reasons, sort},
};
use crate::{
    error::{Remedy, Store, StoreError},
    now,
    retry::Backoff,
};

/// The attributes that decide whether a primary item is valid, and its keys.
const DECIDING: [&str; 6] = [
    attribute::CD,
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
    attribute::COMMENT_BLOB,
    attribute::AUTO,
];

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

    /// Takes a comment over whose primary item lacks a revision and nothing else: gives it one, on condition that the item is
    /// as it was read, with an entry of the journal. No call is started after `deadline`.
    ///
    /// # Errors
    /// The store's; it may have happened then.
    pub async fn take_over(
        &self,
        comment: &PlacedComment,
        item: &Item,
        deadline: Instant,
    ) -> Result<Guarded, StoreError> {
        let revision = Revision::after(None, now(), rand::random());
        let Condition { expression, names, values } = Condition::as_read(item);
        let update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(primary_key(&comment.id, &comment.placement.product)))
            .update_expression("SET #revision = :given")
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .expression_attribute_values(":given", AttributeValue::S(revision.to_string()));
        let actions = vec![
            TransactWriteItem::builder().update(update.build().map_err(refused)?).build(),
            self.put_journal(&comment.id, revision, None, Some(comment.placement.clone()))?,
        ];
        // Of the journal's promise: see `writer`.
        self.send_guarded(actions, deadline.min(Instant::now() + self.started_within)).await
    }

    fn check(&self, id: &CommentId, guard: &Guard) -> Result<TransactWriteItem, StoreError> {
        let key = primary_key(id, &guard.product);
        let check = ConditionCheck::builder().table_name(&self.name).set_key(Some(key));
        let check = match &guard.expected {
            Expected::Absent => check.condition_expression("attribute_not_exists(pk)"),
            Expected::Revision(revision) => check
                .condition_expression("#revision = :revision")
                .expression_attribute_names("#revision", attribute::REVISION)
                .expression_attribute_values(":revision", AttributeValue::S(revision.to_string())),
            Expected::Invalid(item) => {
                let Condition { expression, names, values } = Condition::as_read(item);
                let values = Some(values).filter(|values| !values.is_empty());
                check
                    .condition_expression(expression)
                    .set_expression_attribute_names(Some(names))
                    .set_expression_attribute_values(values)
            }
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
        self.send_guarded(actions, deadline).await
    }

    async fn send_guarded(&self, actions: Vec<TransactWriteItem>, deadline: Instant) -> Result<Guarded, StoreError> {
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

/// A condition on an item.
pub(super) struct Condition {
    pub(super) expression: String,
    pub(super) names: HashMap<String, String>,
    pub(super) values: SdkItem,
}

impl Condition {
    /// The item exists, and all attributes that decide whether it is valid are as they were read.
    pub(super) fn as_read(item: &Item) -> Self {
        let mut expression = "attribute_exists(pk)".to_owned();
        let (mut names, mut values) = (HashMap::new(), SdkItem::new());
        for name in DECIDING {
            names.insert(format!("#{name}"), name.to_owned());
            match item.get(name) {
                None => expression.push_str(&format!(" AND attribute_not_exists(#{name})")),
                Some(value) => {
                    expression.push_str(&format!(" AND #{name} = :{name}"));
                    values.insert(format!(":{name}"), value.clone().into());
                }
            }
        }
        Self { expression, names, values }
    }
}

pub(super) fn primary_key(id: &CommentId, product: &ProductId) -> SdkItem {
    let sk = FilterKey::primary(product.clone()).to_string();
    [(attribute::PK.to_owned(), AttributeValue::S(comment_pk(id))), (attribute::SK.to_owned(), AttributeValue::S(sk))]
        .into()
}
