//! Interprets the answers to transactions.

use aws_sdk_dynamodb::{error::SdkError, operation::transact_write_items::TransactWriteItemsError};
use process::StoreError;

use crate::error::{cancelled_transaction, store_error};

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

/// The error of a transaction.
pub fn sort(error: TransactionError) -> StoreError {
    match reasons(&error) {
        reasons if reasons.is_empty() => store_error(error),
        reasons => cancelled_transaction(&reasons, error),
    }
}
