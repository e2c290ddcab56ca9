//! What can go wrong with a store, split by what the caller does about it.

use std::error::Error;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use model::Malformed;
use thiserror::Error;

/// Which store an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// DynamoDB.
    Table,
    /// Redis.
    PageIndex,
    /// Where records that can never be processed are put.
    Quarantine,
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Table => "the table (DynamoDB)",
            Self::PageIndex => "the page index (Redis)",
            Self::Quarantine => "the quarantine",
        })
    }
}

type Source = Box<dyn Error + Send + Sync>;

/// An error of a store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Throttled, unreachable, timed out, loading, failing over: the same call may succeed later.
    /// A write may have happened or not.
    #[error("{store} is unavailable: {detail}")]
    Unavailable {
        /// Which one.
        store: Store,
        /// What it answered, or that it did not.
        detail: String,
        /// The client's error.
        #[source]
        source: Option<Source>,
    },
    /// The store refuses the call, and always will: a missing permission, a missing table, a bug of ours.
    #[error("{store} refuses: {detail}")]
    Refused {
        /// Which one.
        store: Store,
        /// What it answered.
        detail: String,
        /// The client's error.
        #[source]
        source: Option<Source>,
    },
    /// What is stored does not have the shape it must have; a person has to look.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl StoreError {
    /// Whether the same call may succeed later.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Refused { .. } | Self::Malformed(_) => false,
        }
    }

    /// The page index did not answer before the caller's deadline.
    pub fn index_timed_out() -> Self {
        Self::unavailable(Store::PageIndex, "no answer before the deadline")
    }

    /// An error of this kind without a client's error behind it.
    pub(crate) fn unavailable(store: Store, detail: impl Into<String>) -> Self {
        Self::Unavailable { store, detail: detail.into(), source: None }
    }

    /// An error of this kind without a client's error behind it.
    pub(crate) fn refused(store: Store, detail: impl Into<String>) -> Self {
        Self::Refused { store, detail: detail.into(), source: None }
    }

    /// Sorts an error of the SDK.
    pub(crate) fn of_sdk<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let detail = describe(&error);
        let later = if let SdkError::ServiceError(answer) = &error {
            answer.raw().status().is_server_error() || answer.err().code().is_some_and(may_succeed_later)
        } else {
            // Time-outs, connections, unreadable answers; only a request that could not be built stays wrong.
            !matches!(error, SdkError::ConstructionFailure(_))
        };
        let (store, source) = (Store::Table, Some(Box::new(error) as Source));
        match later {
            true => Self::Unavailable { store, detail, source },
            false => Self::Refused { store, detail, source },
        }
    }
}

/// What a service answered, or the innermost reason why it did not, in one line.
fn describe<E: ProvideErrorMetadata + Error + 'static>(error: &SdkError<E>) -> String {
    if let SdkError::ServiceError(answer) = error {
        let code = answer.err().code().unwrap_or("an error without a code");
        return format!("{code}: {}", answer.err().message().unwrap_or("no message"));
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("{error}: {innermost}")
}

/// Whether a DynamoDB error code, or a reason of a cancelled transaction, may go away by itself
/// (AWS: "Error handling with DynamoDB", "Error messages and codes").
pub(crate) fn may_succeed_later(code: &str) -> bool {
    matches!(
        code,
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
            | "TransactionInProgressException"
    )
}

impl From<redis::RedisError> for StoreError {
    fn from(error: redis::RedisError) -> Self {
        use redis::ErrorKind;
        // A pipeline fails with an error for each of its commands that failed.
        let later = match error.clone().into_server_errors() {
            Some(errors) => errors.iter().all(|(_, error)| passes(error)),
            None => {
                matches!(error.kind(), ErrorKind::Io | ErrorKind::Server(_) | ErrorKind::ClusterConnectionNotFound)
            }
        };
        let (store, detail) = (Store::PageIndex, error.to_string());
        let source = Some(Box::new(error) as Source);
        match later {
            true => Self::Unavailable { store, detail, source },
            false => Self::Refused { store, detail, source },
        }
    }
}

/// Whether what a Redis server answers may go away by itself.
///
/// Everything that it says while it starts, fails over, or is short of memory passes; what it says of our own commands
/// does not. READONLY and MASTERDOWN are fail-overs; OOM needs an operator but then passes.
fn passes(error: &redis::ServerError) -> bool {
    use redis::ServerErrorKind;
    match error.kind() {
        Some(kind) => !matches!(
            kind,
            ServerErrorKind::ResponseError
                | ServerErrorKind::NoPerm
                | ServerErrorKind::CrossSlot
                | ServerErrorKind::NoSub
        ),
        // Codes that the client has no name for; others, such as WRONGTYPE, are of our commands or the data.
        None => matches!(error.code(), "OOM" | "BUSY" | "MISCONF" | "NOREPLICAS"),
    }
}
