//! Transactions: sending them, and the meaning of the answers.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::SdkError, operation::transact_write_items::TransactWriteItemsError,
    types::TransactWriteItem,
};
use model::Revision;
use process::{Backoff, Store, StoreError};
use tokio::time::Instant;

use crate::{
    Table,
    change::WriteError,
    error::{cancelled_transaction, store_error},
};

/// Default time for which a change is repeated: planned anew after other writers were faster, and
/// sent again after conflicts. No transaction starts later than this after its revision's instant.
/// With the SDK's attempts, 8 s at most, that stays below the 30 s that the repair job relies on.
pub(super) const STARTED_WITHIN: Duration = Duration::from_secs(20);

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

impl Table {
    pub(crate) fn change_backoff(&self) -> Backoff {
        Backoff::until(Instant::now() + self.config.started_within)
    }

    /// Sends a transaction, and repeats it while others conflict with it.
    pub(crate) async fn transact(
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
        let mut failed = Vec::new();
        for (index, code) in reasons(&error).iter().enumerate() {
            if code == "ConditionalCheckFailed" {
                failed.push(index);
            }
        }
        if failed.is_empty() {
            Err(Box::new(error))
        } else {
            Ok(Transacted::ConditionsFailed(failed))
        }
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

/// Gives other writers of the comment time before the change is planned anew.
pub(crate) async fn wait_for_others(backoff: &mut Backoff) -> Result<(), WriteError> {
    if backoff.wait().await {
        Ok(())
    } else {
        Err(WriteError::Contended)
    }
}
