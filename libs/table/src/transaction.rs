//! Transactions: the meaning of the answers to them, and the condition that an item is as it was
//! read.

use std::collections::HashMap;

use aws_sdk_dynamodb::{error::SdkError, operation::transact_write_items::TransactWriteItemsError};
use model::item::attribute;
use process::StoreError;
use serde_dynamo::Item;

use crate::{
    error::{cancelled_transaction, store_error},
    item::SdkItem,
};

/// The SDK's error for a transaction that did not happen, or whose answer did not arrive.
pub type TransactionError = SdkError<TransactWriteItemsError>;

/// The codes of a cancelled transaction's reasons, one an action, `None` for actions that are not
/// at fault (AWS API reference: `CancellationReason`). Empty when the transaction failed in another
/// way.
pub fn reasons(error: &TransactionError) -> Vec<String> {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled
            .cancellation_reasons()
            .iter()
            .map(|reason| reason.code().unwrap_or("None").to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether these reasons name only conflicts with other transactions.
pub(crate) fn is_conflict(reasons: &[String]) -> bool {
    let mut at_fault = reasons.iter().filter(|code| *code != "None").peekable();
    at_fault.peek().is_some() && at_fault.all(|code| code == "TransactionConflict")
}

pub fn sort(error: TransactionError) -> StoreError {
    match reasons(&error) {
        reasons if reasons.is_empty() => store_error(error),
        reasons => cancelled_transaction(&reasons, error),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transacted {
    Done,
    /// Nothing was written. The indexes of the actions whose conditions did not hold.
    ConditionsFailed(Vec<usize>),
}

/// The attributes that decide whether a primary item is valid, besides its keys. They are also
/// those that a change sets, or removes where the comment has none.
pub(crate) const DECIDING: [&str; 12] = [
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

pub(crate) struct Condition {
    pub(crate) expression: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: SdkItem,
}

impl Condition {
    /// The attributes with these names are as they were read. The placeholders are for reserved
    /// words.
    pub(crate) fn as_read<'name>(item: &Item, names: impl IntoIterator<Item = &'name str>) -> Self {
        let mut condition = Self {
            expression: "attribute_exists(pk)".to_owned(),
            names: HashMap::new(),
            values: SdkItem::new(),
        };
        for name in names {
            condition.names.insert(format!("#{name}"), name.to_owned());
            match item.get(name) {
                None => condition
                    .expression
                    .push_str(&format!(" AND attribute_not_exists(#{name})")),
                Some(value) => {
                    condition
                        .expression
                        .push_str(&format!(" AND #{name} = :{name}"));
                    condition
                        .values
                        .insert(format!(":{name}"), value.clone().into());
                }
            }
        }
        condition
    }
}
