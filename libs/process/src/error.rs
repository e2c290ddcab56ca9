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

pub type Source = Box<dyn Error + Send + Sync>;

/// In the order of urgency. What affects every call comes first, then what passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// The data of this call is not at fault, and an immediate retry does not help: a person must change permissions or
    /// settings. A stream handler reports its records for retry, so nothing is lost meanwhile.
    CallOperator,
    /// Repeat the same call: now, while time is left, or with the next delivery.
    TryAgain,
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
        store: Store,
        detail: String,
        #[source]
        source: Option<Source>,
    },
    /// The store refuses every call of this kind until a person changes something: a missing permission, a missing
    /// table, an unsuitable server, or a bug in Pagemark.
    #[error("{store} refuses: {detail}")]
    Refused {
        store: Store,
        detail: String,
        #[source]
        source: Option<Source>,
    },
    /// The store refuses the data of this call, and always will: an item that is too large, or a key with a value of
    /// the wrong type. Other calls are not affected.
    #[error("{store} rejects the data: {detail}")]
    Rejected {
        store: Store,
        detail: String,
        #[source]
        source: Option<Source>,
    },
    /// Stored data has the wrong shape. A person must look.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl StoreError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unavailable { .. } => Remedy::TryAgain,
            Self::Refused { .. } => Remedy::CallOperator,
            Self::Rejected { .. } | Self::Malformed(_) => Remedy::Quarantine,
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
        Self::Unavailable { store, detail: detail.into(), source: None }
    }

    pub fn refused(store: Store, detail: impl Into<String>) -> Self {
        Self::Refused { store, detail: detail.into(), source: None }
    }

    pub fn of(remedy: Remedy, store: Store, detail: String, source: Option<Source>) -> Self {
        match remedy {
            Remedy::TryAgain => Self::Unavailable { store, detail, source },
            Remedy::CallOperator => Self::Refused { store, detail, source },
            Remedy::Quarantine => Self::Rejected { store, detail, source },
        }
    }
}
