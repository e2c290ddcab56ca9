//! What an error of Redis means for the caller.

use std::{error::Error, fmt::Display, sync::Arc};

use process::{Remedy, Store, StoreError};

/// The code with which `scripts/blocks.lua` refuses a product whose keys contradict each other.
pub(crate) const DAMAGED: &str = "DAMAGED";

pub(crate) fn store_error(error: redis::RedisError) -> StoreError {
    use redis::ErrorKind;
    // A failed pipeline reports one error for each failed command.
    let answers = error.clone().into_server_errors();
    let remedy = match &answers {
        Some(answers) => {
            // The retry classifies what is left.
            answers
                .iter()
                .map(|(_, answer)| remedy_of_answer(answer))
                .min()
                .unwrap_or(Remedy::TryAgain)
        }
        None if is_untrusted(&error) => Remedy::CallOperator,
        None if matches!(
            error.kind(),
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound
        ) =>
        {
            Remedy::TryAgain
        }
        None => Remedy::CallOperator,
    };
    let has_code = |codes: &[&str]| {
        answers
            .iter()
            .flat_map(|all| all.iter())
            .any(|(_, at)| codes.contains(&at.code()))
    };
    let hint = if is_untrusted(&error) {
        " (the authorities that are trusted are the system's, or those of PAGEMARK_REDIS_CA)"
    } else if has_code(&["NOPERM"]) {
        " (docs/operate.md lists what the user of PAGEMARK_REDIS_URL must be permitted)"
    } else if error.kind() == ErrorKind::AuthenticationFailed || has_code(&["NOAUTH", "WRONGPASS"])
    {
        " (user and password are those in PAGEMARK_REDIS_URL, or a token by PAGEMARK_REDIS_IAM; a server at its \
         maxclients refuses them, too)"
    } else {
        ""
    };
    // The detail says everything that its causes say.
    StoreError::of(remedy, Store::PageIndex, format!("{error}{hint}"), None)
}

/// Like [`store_error`]. An error without an answer, such as a refused connection, gets the
/// address of the server. In a cluster this is the first configured node's.
pub(crate) fn store_error_at(server: &dyn Display, error: redis::RedisError) -> StoreError {
    let is_unanswered = error.kind() == redis::ErrorKind::Io;
    match store_error(error) {
        StoreError::Call {
            remedy,
            store,
            detail,
            source,
        } if is_unanswered => StoreError::of(remedy, store, format!("{server}: {detail}"), source),
        answered @ (StoreError::Call { .. } | StoreError::Malformed(_)) => answered,
    }
}

fn remedy_of_answer(error: &redis::ServerError) -> Remedy {
    if error.code() == "WRONGTYPE" || error.code() == DAMAGED {
        // A key holds a value of the wrong type, or a product's counts are wrong. The repair job
        // finds it.
        Remedy::Quarantine
    } else if passes(error) {
        Remedy::TryAgain
    } else {
        Remedy::CallOperator
    }
}

/// Whether the TLS handshake failed: the certificate is untrusted or belongs to another server, or
/// the port does not speak TLS.
fn is_untrusted(error: &redis::RedisError) -> bool {
    // The client wraps the system's error in an `Arc` and returns that as the source.
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData)
}

/// Whether a Redis error is temporary.
///
/// Errors that Redis gives while it starts, fails over, moves slots or is short of memory are
/// temporary. Errors about Pagemark's commands or its user are not. OOM needs an operator, but then
/// ends too.
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
        // Codes without a name in the client. Other codes, such as WRONGTYPE, are about the
        // commands or the data.
        None => matches!(error.code(), "OOM" | "BUSY" | "MISCONF" | "NOREPLICAS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> StoreError {
        let answer = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        store_error(answer.extract_error().unwrap_err())
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
            assert_eq!(
                answered(refused).remedy(),
                Remedy::CallOperator,
                "{refused}"
            );
        }
        for rejected in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "DAMAGED p:{1}:PRODUCT#x/open is not as the keys of its product imply",
        ] {
            assert_eq!(
                answered(rejected).remedy(),
                Remedy::Quarantine,
                "{rejected}"
            );
        }
    }

    #[test]
    fn the_error_for_a_refused_user_says_what_is_missing_and_where_it_is_set() {
        for (answer, says) in [
            (
                "NOAUTH Authentication required.",
                ["Authentication required", "PAGEMARK_REDIS_URL"],
            ),
            (
                "WRONGPASS invalid username-password pair.",
                ["invalid username-password pair", "PAGEMARK_REDIS_URL"],
            ),
            (
                "NOPERM no permissions to run the 'evalsha' command",
                ["'evalsha'", "docs/operate.md"],
            ),
        ] {
            let error = answered(answer).to_string();
            assert!(says.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
