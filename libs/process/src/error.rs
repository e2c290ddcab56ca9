//! Store errors, split by what the caller does about them.

use std::error::Error;

use model::Malformed;
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Store {
    #[strum(to_string = "the table (DynamoDB)")]
    Table,
    // In Redis, or inside the process.
    #[strum(to_string = "the page index")]
    PageIndex,
    #[strum(to_string = "the quarantine")]
    Quarantine,
}

pub type ErrorSource = Box<dyn Error + Send + Sync>;

/// What a caller does about an error. It prints as what the store does. In the order of urgency:
/// what affects every call comes first, then what passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum Remedy {
    /// A person must change something: a permission, a setting, a table, a server, or a bug in
    /// Pagemark. The store refuses every call of this kind until then. A stream handler reports its
    /// records for retry, so nothing is lost meanwhile.
    #[strum(to_string = "refuses")]
    CallOperator,
    /// Repeat the same call: now, while time remains, or with the next delivery. The store is
    /// throttled, unreachable, timed out, loading or failing over. A write may or may not have
    /// happened.
    #[strum(to_string = "is unavailable")]
    TryAgain,
    /// The data of this call is at fault and stays so: an item is too large, or a key has a value
    /// of the wrong type. Other calls are not affected. A stream handler puts the record into
    /// quarantine with the reason, and continues.
    #[strum(to_string = "rejects the data")]
    Quarantine,
}

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("{store} {remedy}: {detail}")]
    Call {
        remedy: Remedy,
        store: Store,
        detail: String,
        #[source]
        source: Option<ErrorSource>,
    },
    /// Stored data has the wrong shape. A person must look.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl StoreError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Call { remedy, .. } => *remedy,
            Self::Malformed(_) => Remedy::Quarantine,
        }
    }

    pub fn is_unavailable(&self) -> bool {
        self.remedy() == Remedy::TryAgain
    }

    /// The caller's deadline passed before the store answered, or before the call could start.
    pub fn past_deadline(store: Store) -> Self {
        Self::unavailable(store, "no answer before the deadline")
    }

    pub fn unavailable(store: Store, detail: impl Into<String>) -> Self {
        Self::of(Remedy::TryAgain, store, detail, None)
    }

    pub fn refused(store: Store, detail: impl Into<String>) -> Self {
        Self::of(Remedy::CallOperator, store, detail, None)
    }

    pub fn of(
        remedy: Remedy,
        store: Store,
        detail: impl Into<String>,
        source: Option<ErrorSource>,
    ) -> Self {
        Self::Call {
            remedy,
            store,
            detail: detail.into(),
            source,
        }
    }
}
