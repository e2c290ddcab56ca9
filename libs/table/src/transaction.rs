//! Sends transactions, and interprets the answers to them.

use aws_sdk_dynamodb::{
    error::SdkError, operation::transact_write_items::TransactWriteItemsError, types::TransactWriteItem,
};
use process::{Backoff, Store, StoreError};
use tokio::time::Instant;

use crate::{
    Table,
    error::{cancelled_transaction, store_error},
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

impl Table {
    /// Maximum number of actions in one transaction (AWS: `TransactWriteItems`).
    pub const TRANSACTION_MAX: usize = 100;

    /// Sends a transaction until it happens or one of its conditions fails. Counts the repeated calls in `retries`. No
    /// call starts after `last_start`, and none outlasts `deadline`.
    ///
    /// No client request token: sending the writes of the callers twice is harmless.
    pub(crate) async fn transact_until(
        &self,
        (last_start, deadline): (Instant, Instant),
        actions: Vec<TransactWriteItem>,
        retries: &mut u64,
    ) -> Result<Guarded, StoreError> {
        let mut backoff = Backoff::until(last_start);
        loop {
            self.admit_write().await;
            if Instant::now() >= last_start {
                return Err(StoreError::past_deadline(Store::Table));
            }
            let call = self.client.transact_write_items().set_transact_items(Some(actions.clone()));
            let sent = call.set_return_consumed_capacity(self.wants_capacity()).send();
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
            *retries += 1;
        }
    }
}
