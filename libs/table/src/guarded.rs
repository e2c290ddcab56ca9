//! Guarded writes: they happen only if the primary item is still as it was read. They write duplicates, or complete the
//! primary item.
//!
//! **Invariant:** a guarded write never undoes a later change of its comment, however late it arrives: the transaction
//! that writes also checks the condition (`tests/repair/concurrent.rs`).

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem, Update};
use model::{
    CommentId, Revision,
    item::{PlacedComment, attribute, text},
    plan::{
        DuplicateWrite,
        reconcile::{Expected, Guard},
    },
    primaries::PrimariesKey,
};
use process::{Remedy, StoreError, now};
use serde_dynamo::Item;
use tokio::time::Instant;

use super::{SdkItem, Table, duplicates::to_action, error::refused, item_key::primary_key, transaction::Guarded};

/// The attributes that decide whether a primary item is valid, besides its keys. They are also those that a change
/// replaces.
const DECIDING: [&str; 12] = [
    attribute::CD,
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
    attribute::COMMENT_BLOB,
    attribute::AUTO,
    attribute::SHARD,
    attribute::PCD,
    attribute::ATTRIBUTES,
    attribute::AUTHOR_ID,
    attribute::UNPUBLISHED,
    attribute::UNPUBLISHED_CD,
];

impl Table {
    /// Writes duplicates of a comment in transactions, each of which checks every guard. No call starts after
    /// `deadline`.
    ///
    /// DynamoDB rejects a transaction whose items together are too large (4 MB). Such a transaction is halved until the
    /// rejected write is alone.
    ///
    /// # Errors
    /// The store's; some of the writes may have happened by then.
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
        // A rejected write does not prevent the others.
        let mut rejected = None;
        while let Some(mut part) = parts.pop() {
            let writes = part.iter().map(|write| to_action(write.clone(), &self.name));
            let actions = checks.iter().cloned().map(Ok).chain(writes).collect::<Result<_, _>>()?;
            match self.transact_until((deadline, deadline), actions, &mut 0).await {
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

    /// Takes over a comment whose primary item is only incomplete. It gives the item a new revision, and the keys of the
    /// index `primaries` if the comment is published. The condition is that the item is as it was read. The transaction
    /// has an entry of the journal. No call starts after `deadline`.
    ///
    /// # Errors
    /// The store's; the write may have happened by then.
    pub async fn take_over(
        &self,
        comment: &PlacedComment,
        item: &Item,
        deadline: Instant,
    ) -> Result<Guarded, StoreError> {
        let before = text(item, attribute::REVISION).and_then(|revision| Revision::parse(revision).ok());
        let revision = Revision::after(before, now(), rand::random());
        let PrimariesKey { shard, pcd } = comment.primaries_key();
        let Condition { expression, names, values } = Condition::as_read(item);
        let mut update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(primary_key(&comment.id, &comment.placement.product)))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .expression_attribute_values(":given", AttributeValue::S(revision.to_string()));
        update = if comment.status.is_published() {
            update
                .update_expression("SET #revision = :given, #shard = :given_shard, #pcd = :given_pcd")
                .expression_attribute_values(":given_shard", AttributeValue::S(shard))
                .expression_attribute_values(":given_pcd", AttributeValue::S(pcd))
        } else {
            update.update_expression("SET #revision = :given")
        };
        let actions = vec![
            TransactWriteItem::builder().update(update.build().map_err(refused)?).build(),
            self.put_journal(&comment.id, revision, None, Some(comment.placement.clone()))?,
        ];
        // The journal relies on this bound: see `writer`.
        let deadline = deadline.min(Instant::now() + self.started_within);
        self.transact_until((deadline, deadline), actions, &mut 0).await
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
}

/// The placeholders for the attributes that decide whether a primary item is valid. Some of the names are reserved
/// words.
pub(super) fn deciding_names() -> HashMap<String, String> {
    DECIDING.map(|name| (format!("#{name}"), name.to_owned())).into()
}

pub(super) struct Condition {
    pub(super) expression: String,
    pub(super) names: HashMap<String, String>,
    pub(super) values: SdkItem,
}

impl Condition {
    pub(super) fn as_read(item: &Item) -> Self {
        let mut expression = "attribute_exists(pk)".to_owned();
        let mut values = SdkItem::new();
        for name in DECIDING {
            match item.get(name) {
                None => expression.push_str(&format!(" AND attribute_not_exists(#{name})")),
                Some(value) => {
                    expression.push_str(&format!(" AND #{name} = :{name}"));
                    values.insert(format!(":{name}"), value.clone().into());
                }
            }
        }
        Self { expression, names: deciding_names(), values }
    }
}
