//! What can go wrong with a store, split by what the caller does about it.

use std::{error::Error, sync::Arc};

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

/// What the caller of a store does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Make the same call again: now, while there is time, or with the next delivery.
    TryAgain,
    /// Nothing that this call holds is at fault, and trying at once does not help: somebody has to change permissions
    /// or settings. A stream handler reports its records for retry, so that nothing is lost until that is done.
    CallOperator,
    /// What this call holds is at fault and stays so. A stream handler puts the record into quarantine, with the
    /// reason, and goes on.
    Quarantine,
}

/// An error of a store. Its variants say what the caller does about it: see [`StoreError::remedy`].
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
    /// The store refuses every call like this one until somebody changes something: a missing permission, a missing
    /// table, a server that does not suit, a bug of ours.
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
    /// The store refuses what this call holds, and always will: an item that is too large, a key that holds something
    /// else than it should. Other calls are not concerned.
    #[error("{store} rejects the data: {detail}")]
    Rejected {
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
    /// What the caller does about it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unavailable { .. } => Remedy::TryAgain,
            Self::Refused { .. } => Remedy::CallOperator,
            Self::Rejected { .. } | Self::Malformed(_) => Remedy::Quarantine,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_unavailable(&self) -> bool {
        self.remedy() == Remedy::TryAgain
    }

    /// The caller's deadline passed before the store answered, or before it could be asked.
    pub fn past_deadline(store: Store) -> Self {
        Self::unavailable(store, "no answer before the deadline")
    }

    /// An error of this kind without a client's error behind it.
    pub fn unavailable(store: Store, detail: impl Into<String>) -> Self {
        Self::Unavailable { store, detail: detail.into(), source: None }
    }

    /// A client's error that counts as passing, whatever it is.
    pub(crate) fn unavailable_because<E>(store: Store, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        Self::Unavailable { store, detail: describe(&error), source: Some(Box::new(error)) }
    }

    /// An error of this kind without a client's error behind it.
    pub fn refused(store: Store, detail: impl Into<String>) -> Self {
        Self::Refused { store, detail: detail.into(), source: None }
    }

    /// Sorts an error of the SDK.
    pub fn of_sdk<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let detail = describe(&error);
        let remedy = if let SdkError::ServiceError(answer) = &error {
            match answer.raw().status().is_client_error() {
                true => answer.err().code().map_or(Remedy::CallOperator, remedy_of_code),
                // It fails, or its answer did not arrive whole.
                false => Remedy::TryAgain,
            }
        } else if matches!(error, SdkError::ConstructionFailure(_)) {
            Remedy::CallOperator
        } else {
            // Time-outs, connections, unreadable answers.
            Remedy::TryAgain
        };
        Self::of(remedy, Store::Table, detail, Some(Box::new(error)))
    }

    fn of(remedy: Remedy, store: Store, detail: String, source: Option<Source>) -> Self {
        match remedy {
            Remedy::TryAgain => Self::Unavailable { store, detail, source },
            Remedy::CallOperator => Self::Refused { store, detail, source },
            Remedy::Quarantine => Self::Rejected { store, detail, source },
        }
    }

    /// Sorts a cancelled transaction by the codes of its reasons, one an action, `None` for those not at fault.
    pub(crate) fn of_cancelled_transaction(reasons: &[String], source: impl Into<Source>) -> Self {
        let remedies: Vec<Remedy> =
            reasons.iter().filter(|code| *code != "None").map(|code| remedy_of_code(code)).collect();
        // Whatever passes is waited for first; what is left then is sorted again.
        let worst = [Remedy::TryAgain, Remedy::CallOperator, Remedy::Quarantine];
        let remedy = worst.into_iter().find(|remedy| remedies.contains(remedy)).unwrap_or(Remedy::TryAgain);
        let detail = format!("transaction cancelled: {}", reasons.join(", "));
        Self::of(remedy, Store::Table, detail, Some(source.into()))
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

/// What to do about a DynamoDB error code, or a reason of a cancelled transaction
/// (AWS: "Error handling with DynamoDB", "Error messages and codes"; API reference, `CancellationReason`).
pub(crate) fn remedy_of_code(code: &str) -> Remedy {
    match code {
        // An item or a key that breaks a limit. A transaction names the first so, a single call the second.
        "ValidationError" | "ValidationException" | "ItemCollectionSizeLimitExceeded" => Remedy::Quarantine,
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

impl From<redis::RedisError> for StoreError {
    fn from(error: redis::RedisError) -> Self {
        use redis::ErrorKind;
        // A pipeline fails with an error for each of its commands that failed.
        let answers = error.clone().into_server_errors();
        let remedy = match &answers {
            Some(answers) => {
                let remedies: Vec<Remedy> = answers.iter().map(|(_, answer)| remedy_of_answer(answer)).collect();
                // Whatever concerns every call comes first, then what passes: what is left after that is sorted again.
                let worst = [Remedy::CallOperator, Remedy::TryAgain, Remedy::Quarantine];
                worst.into_iter().find(|remedy| remedies.contains(remedy)).unwrap_or(Remedy::TryAgain)
            }
            None if is_untrusted(&error) => Remedy::CallOperator,
            None if matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound) => Remedy::TryAgain,
            None => Remedy::CallOperator,
        };
        let has_code =
            |codes: &[&str]| answers.iter().flat_map(|all| all.iter()).any(|(_, at)| codes.contains(&at.code()));
        let hint = if is_untrusted(&error) {
            " (the authorities that are trusted are the system's, or those of PAGEMARK_REDIS_CA)"
        } else if has_code(&["NOPERM"]) {
            " (docs/redis.md lists what the user of PAGEMARK_REDIS_URL must be permitted)"
        } else if error.kind() == ErrorKind::AuthenticationFailed || has_code(&["NOAUTH", "WRONGPASS"]) {
            " (user and password are those in PAGEMARK_REDIS_URL; a server at its maxclients refuses them, too)"
        } else {
            ""
        };
        Self::of(remedy, Store::PageIndex, format!("{error}{hint}"), Some(Box::new(error)))
    }
}

/// What to do about the answer of a Redis server to one command.
fn remedy_of_answer(error: &redis::ServerError) -> Remedy {
    if error.code() == "WRONGTYPE" {
        // One key holds something else than the page index put there; the repair job finds it.
        Remedy::Quarantine
    } else if passes(error) {
        Remedy::TryAgain
    } else {
        Remedy::CallOperator
    }
}

/// Whether the TLS handshake failed: the certificate is not trusted or not that server's, or nobody speaks TLS there.
fn is_untrusted(error: &redis::RedisError) -> bool {
    // The client keeps the system's error in an `Arc`, which is what it calls the source.
    let source = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData)
}

/// Whether what a Redis server answers may go away by itself.
///
/// Everything that it says while it starts, fails over, moves slots, or is short of memory passes; what it says of our
/// own commands and of our user does not. OOM needs an operator but then passes.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server answers, as an error of the page index.
    fn answered(text: &str) -> StoreError {
        let answer = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        answer.extract_error().unwrap_err().into()
    }

    #[test]
    fn what_redis_answers_passes_or_needs_an_operator_or_is_of_the_data() {
        for passing in [
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOSCRIPT No matching script.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "BUSY Redis is busy running a script.",
            "MISCONF Errors writing to the AOF file: No space left on device",
            "NOREPLICAS Not enough good replicas to write.",
        ] {
            assert!(answered(passing).is_unavailable(), "{passing}");
        }
        for refused in [
            "CROSSSLOT Keys in request don't hash to the same slot",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "ERR unknown command",
        ] {
            assert_eq!(answered(refused).remedy(), Remedy::CallOperator, "{refused}");
        }
        let rejected = answered("WRONGTYPE Operation against a key holding the wrong kind of value");
        assert_eq!(rejected.remedy(), Remedy::Quarantine);
    }

    #[test]
    fn a_refused_user_is_told_what_is_missing_and_where_it_is_set() {
        for (answer, says) in [
            ("NOAUTH Authentication required.", ["Authentication required", "PAGEMARK_REDIS_URL"]),
            ("WRONGPASS invalid username-password pair.", ["invalid username-password pair", "PAGEMARK_REDIS_URL"]),
            ("NOPERM no permissions to run the 'evalsha' command", ["'evalsha'", "docs/redis.md"]),
        ] {
            let error = answered(answer).to_string();
            assert!(says.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
