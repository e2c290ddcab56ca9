//! Store errors, split by what the caller does about them.

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
    /// The place for records that can never be processed.
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
    /// Repeat the same call: now, while time is left, or with the next delivery.
    TryAgain,
    /// The data of this call is not at fault, and an immediate retry does not help: a person must change permissions or
    /// settings. A stream handler reports its records for retry, so nothing is lost meanwhile.
    CallOperator,
    /// The data of this call is at fault and stays so. A stream handler puts the record into quarantine with the
    /// reason, and continues.
    Quarantine,
}

/// A store error. Each variant implies what the caller does about it: see [`StoreError::remedy`].
#[derive(Debug, Error)]
pub enum StoreError {
    /// The store is throttled, unreachable, timed out, loading or failing over. The same call may succeed later. A
    /// write may or may not have happened.
    #[error("{store} is unavailable: {detail}")]
    Unavailable {
        /// The store.
        store: Store,
        /// The store's answer, or that none came.
        detail: String,
        /// The client's error.
        #[source]
        source: Option<Source>,
    },
    /// The store refuses every call of this kind until a person changes something: a missing permission, a missing
    /// table, an unsuitable server, or a bug in Pagemark.
    #[error("{store} refuses: {detail}")]
    Refused {
        /// The store.
        store: Store,
        /// The store's answer.
        detail: String,
        /// The client's error.
        #[source]
        source: Option<Source>,
    },
    /// The store refuses the data of this call, and always will: an item that is too large, or a key with a value of
    /// the wrong type. Other calls are not affected.
    #[error("{store} rejects the data: {detail}")]
    Rejected {
        /// The store.
        store: Store,
        /// The store's answer.
        detail: String,
        /// The client's error.
        #[source]
        source: Option<Source>,
    },
    /// Stored data has the wrong shape. A person must look.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl StoreError {
    /// What the caller does about this error.
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

    /// The caller's deadline passed before the store answered, or before the call could start.
    pub fn past_deadline(store: Store) -> Self {
        Self::unavailable(store, "no answer before the deadline")
    }

    /// An [`StoreError::Unavailable`] without a client error behind it.
    pub fn unavailable(store: Store, detail: impl Into<String>) -> Self {
        Self::Unavailable { store, detail: detail.into(), source: None }
    }

    /// Classifies any client error as [`StoreError::Unavailable`].
    pub(crate) fn unavailable_because<E>(store: Store, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        Self::Unavailable { store, detail: describe(&error), source: Some(Box::new(error)) }
    }

    /// A [`StoreError::Refused`] without a client error behind it.
    pub fn refused(store: Store, detail: impl Into<String>) -> Self {
        Self::Refused { store, detail: detail.into(), source: None }
    }

    /// Classifies an error of the SDK.
    pub fn of_sdk<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let detail = describe(&error);
        let remedy = if let SdkError::ServiceError(answer) = &error {
            match answer.raw().status().is_client_error() {
                true => answer.err().code().map_or(Remedy::CallOperator, remedy_of_code),
                // The service fails, or its answer arrived incomplete.
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

    /// Classifies a cancelled transaction by its reason codes. DynamoDB gives one code per action; `None` marks an
    /// action that is not at fault.
    pub(crate) fn of_cancelled_transaction(reasons: &[String], source: impl Into<Source>) -> Self {
        let remedies: Vec<Remedy> =
            reasons.iter().filter(|code| *code != "None").map(|code| remedy_of_code(code)).collect();
        // Wait for temporary errors first. The retry then classifies what is left.
        let worst = [Remedy::TryAgain, Remedy::CallOperator, Remedy::Quarantine];
        let remedy = worst.into_iter().find(|remedy| remedies.contains(remedy)).unwrap_or(Remedy::TryAgain);
        let detail = format!("transaction cancelled: {}", reasons.join(", "));
        Self::of(remedy, Store::Table, detail, Some(source.into()))
    }
}

/// The service's answer in one line. Without an answer: the innermost cause.
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

/// The remedy for a DynamoDB error code, or for a reason of a cancelled transaction (AWS: "Error handling with
/// DynamoDB", "Error messages and codes"; API reference, `CancellationReason`).
pub(crate) fn remedy_of_code(code: &str) -> Remedy {
    match code {
        // An item or a key that breaks a limit. A transaction reports the first code, a single call the second.
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
        // A failed pipeline reports one error for each failed command.
        let answers = error.clone().into_server_errors();
        let remedy = match &answers {
            Some(answers) => {
                let remedies: Vec<Remedy> = answers.iter().map(|(_, answer)| remedy_of_answer(answer)).collect();
                // Errors that affect every call come first, then temporary errors. The retry classifies what is left.
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

/// The remedy for one command's error answer from Redis.
fn remedy_of_answer(error: &redis::ServerError) -> Remedy {
    if error.code() == "WRONGTYPE" {
        // A key holds a value of the wrong type. The repair job finds it.
        Remedy::Quarantine
    } else if passes(error) {
        Remedy::TryAgain
    } else {
        Remedy::CallOperator
    }
}

/// Whether the TLS handshake failed: the certificate is untrusted or belongs to another server, or the port does not
/// speak TLS.
fn is_untrusted(error: &redis::RedisError) -> bool {
    // The client wraps the system's error in an `Arc` and returns that as the source.
    let source = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData)
}

/// Whether a Redis error is temporary.
///
/// Errors that Redis gives while it starts, fails over, moves slots or is short of memory are temporary. Errors about
/// Pagemark's commands or its user are not. OOM needs an operator, but then ends too.
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
        // Codes without a name in the client. Other codes, such as WRONGTYPE, are about the commands or the data.
        None => matches!(error.code(), "OOM" | "BUSY" | "MISCONF" | "NOREPLICAS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's error answer as a page index error.
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
