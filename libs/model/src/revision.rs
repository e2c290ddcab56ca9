//! Revisions: the version of a primary item.

use derive_more::Display;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    error::{InvalidInput, quoted},
    timestamp::Timestamp,
};

/// A ULID. Each write of a primary item gets a new one, greater than the one it replaces.
///
/// It is the ETag, the guard of every conditional write, and the client request token of the
/// write's transaction. Its time is the instant of the write's journal entry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[serde(try_from = "String", into = "String")]
pub struct Revision(Ulid);

impl Revision {
    /// A revision for a write at `now` that replaces `replaced`.
    ///
    /// Its millisecond is later than that of `replaced`, even when the clock stands still or was
    /// set back. So two writes of one comment never share the instant, and thereby the key, of a
    /// journal entry. `random` is 80 bits of randomness; higher bits are ignored.
    pub fn after(replaced: Option<Self>, now: Timestamp, random: u128) -> Self {
        let now_ms = u64::try_from(now.epoch_ms()).unwrap_or(0);
        let earliest_ms = match replaced {
            Some(replaced) => replaced.0.timestamp_ms() + 1,
            None => 0,
        };
        Self(Ulid::from_parts(now_ms.max(earliest_ms), random))
    }

    /// Refuses lower case: a revision has exactly one spelling.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        match Ulid::from_string(text) {
            Ok(ulid) if ulid.to_string() == text => Ok(Self(ulid)),
            Ok(_) | Err(_) => Err(InvalidInput::new(
                "revision",
                format!("{} is not a revision (a ULID)", quoted(text)),
            )),
        }
    }

    pub fn instant(self) -> Timestamp {
        let epoch_ms = i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX);
        Timestamp::from_epoch_ms(epoch_ms).unwrap_or(Timestamp::MAX)
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_revision_is_later_than_the_one_it_replaces(
            first_ms in 0..4_000_000_000_000_i64,
            then_ms in 0..4_000_000_000_000_i64,
            randoms in any::<(u128, u128)>(),
        ) {
            let [first_at, then_at] =
                [first_ms, then_ms].map(|ms| Timestamp::from_epoch_ms(ms).unwrap());
            let first = Revision::after(None, first_at, randoms.0);
            let then = Revision::after(Some(first), then_at, randoms.1);
            prop_assert!(then > first && then.to_string() > first.to_string());
            prop_assert!(then.instant() > first.instant());
            prop_assert_eq!(Revision::parse(&then.to_string()).unwrap(), then);
        }
    }
}
