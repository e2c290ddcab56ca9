//! Transactions: the meaning of the answers to them, and the condition that an item is as it was read.

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

/// The codes of a cancelled transaction's reasons, one an action, `None` for actions that are not at fault (AWS API
/// reference: `CancellationReason`). Empty when the transaction failed in another way.
pub fn reasons(error: &TransactionError) -> Vec<String> {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or("None").to_owned()).collect()
        }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    Done,
    /// The primary item has changed since. The writes that had already happened are right for its earlier state.
    Changed,
}

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

/// The placeholders for the attributes that decide whether a primary item is valid. Some of the names are reserved
/// words.
pub(crate) fn deciding_names() -> HashMap<String, String> {
    DECIDING.map(|name| (format!("#{name}"), name.to_owned())).into()
}

pub(crate) struct Condition {
    pub(crate) expression: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: SdkItem,
}

impl Condition {
    pub(crate) fn as_read(item: &Item) -> Self {
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
