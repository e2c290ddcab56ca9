//! What an error of DynamoDB means for the caller.

use std::error::Error;

use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use process::{ErrorSource, Remedy, Store, StoreError, aws::describe};

pub fn store_error<E>(error: SdkError<E>) -> StoreError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let detail = describe(&error);
    let remedy = if let SdkError::ServiceError(answer) = &error
        && answer.raw().status().is_client_error()
    {
        match answer.err().code() {
            Some(code) => remedy_of_code(code),
            None => Remedy::CallOperator,
        }
    } else if matches!(error, SdkError::ConstructionFailure(_)) {
        Remedy::CallOperator
    } else {
        // The service fails, or its answer arrived incomplete; time-outs, connections, unreadable
        // answers.
        Remedy::TryAgain
    };
    // The detail says everything that its causes say.
    StoreError::of(remedy, Store::Table, detail, None)
}

pub(crate) fn refused(error: BuildError) -> StoreError {
    StoreError::refused(Store::Table, error.to_string())
}

/// Classifies a cancelled transaction by its reason codes. DynamoDB gives one code per action;
/// `None` marks an action that is not at fault.
pub(crate) fn cancelled_transaction(
    reasons: &[String],
    source: impl Into<ErrorSource>,
) -> StoreError {
    let remedies: Vec<Remedy> = reasons
        .iter()
        .filter(|code| *code != "None")
        .map(|code| remedy_of_code(code))
        .collect();
    // Wait for temporary errors first. The retry then classifies what remains.
    let worst = [Remedy::TryAgain, Remedy::CallOperator, Remedy::Quarantine];
    let remedy = worst
        .into_iter()
        .find(|remedy| remedies.contains(remedy))
        .unwrap_or(Remedy::TryAgain);
    let detail = format!("transaction cancelled: {}", reasons.join(", "));
    StoreError::of(remedy, Store::Table, detail, Some(source.into()))
}

/// The remedy for a DynamoDB error code, or for a reason of a cancelled transaction (AWS: "Error
/// handling with DynamoDB", "Error messages and codes"; API reference, `CancellationReason`).
pub(crate) fn remedy_of_code(code: &str) -> Remedy {
    match code {
        // An item or a key that breaks a limit. A transaction reports the first code, a single call
        // the second.
        "ValidationError" | "ValidationException" | "ItemCollectionSizeLimitExceeded" => {
            Remedy::Quarantine
        }
        "InternalServerError"
        | "ItemCollectionSizeLimitExceededException"
        | "LimitExceededException"
        | "ProvisionedThroughputExceeded"
        | "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "ServiceUnavailable"
        | "ThrottlingError"
        | "ThrottlingException"
        | "TransactionConflict"
        | "TransactionConflictException"
        | "TransactionInProgressException" => Remedy::TryAgain,
        _ => Remedy::CallOperator,
    }
}

/// The error of a query of a sparse index. Such a query has no data that could be at fault: only
/// its index can be missing.
pub(crate) fn without_index(index: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Call {
            remedy: Remedy::Quarantine,
            detail,
            ..
        } => StoreError::refused(
            Store::Table,
            format!("the table has no index `{index}`, or DynamoDB is still filling it ({detail})"),
        ),
        error @ (StoreError::Call { .. } | StoreError::Malformed(_)) => error,
    }
}
