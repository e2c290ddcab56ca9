//! Bugs that tests must find, the simulator or another one. They exist only with the feature
//! `planted-bugs`, and only in a thread that plants one.

#[cfg(feature = "planted-bugs")]
use std::cell::Cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumIter, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Bug {
    /// The batch rule deletes what the first record of a comment implies, and forgets the others.
    ForgottenImage,
    /// The first record of a comment in a batch decides, not the last.
    FirstImageWins,
    /// A comment that was deleted or hidden keeps its duplicates.
    DeletedStays,
    /// A comment that was deleted or hidden keeps its rank.
    DeletedIsRanked,
    /// The unprocessed writes of a batch are taken for done.
    UnprocessedIsDone,
    /// The unprocessed keys of a batch of reads are taken for absent.
    UnreadIsAbsent,
    /// The functions report nothing for retry.
    NothingIsRetried,
    /// A repair of duplicates does not check the revision.
    NoGuard,
    /// A repair of ranks does not read the comment once more.
    NoSecondLook,
    /// A repair gives up when the page index fails, although its own edit may be outdated.
    EditIsLeft,
    /// A restored or replaced server counts as the one that was confirmed.
    SnapshotBelieved,
    /// Readers believe the page index before its possible losses were checked.
    ConfirmedTooEarly,
    /// An audit records that it has ended before it has repaired anything.
    PositionPassesRepairs,
    /// A walk over the products passes over the first one.
    ProductIsPassedOver,
    /// A rebuild marks partitions before it has read the journal.
    MarkedBeforeJournal,
    /// A rebuild marks a partition although another server may hold it by now.
    MarkedRestored,
    /// A numbered page begins one rank too early.
    SkipOffByOne,
    /// A repair leaves wrong counts of the page index as they are.
    WrongCountsStay,
    /// A page leaves out the ranks that have no duplicate.
    TrustsDuplicates,
    /// A numbered page shows the rows that have no rank.
    ShowsUnranked,
    /// Archive pages count comments at once.
    NotSettled,
    /// A page past the ranks is always 404.
    PastIsNotFound,
    /// A cursor leads back to the comment that it comes from.
    CursorRepeats,
    /// A page by cursor lacks the comments whose duplicates are late or lost.
    WalkPassesOverLostDuplicates,
    /// A page by cursor lacks the comments whose ranks are late or lost.
    WalkPassesOverLostRanks,
    /// A repeated post creates a second comment.
    KeyForgotten,
    /// An erasure passes over hidden comments.
    HiddenIsNotErased,
    /// A deletion has no entry in the journal.
    DeletedWithoutJournal,
    /// A direct Query that failed counts as an empty answer, and the SDK is not asked.
    FailedQueryIsEmpty,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in this thread, or takes it away.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub fn has(bug: Bug) -> bool {
    #[cfg(feature = "planted-bugs")]
    return PLANTED.get() == Some(bug);
    #[cfg(not(feature = "planted-bugs"))]
    {
        let _never = bug;
        false
    }
}
