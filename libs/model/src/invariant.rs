//! The promises that the simulator and the fixtures of the tests check, by name. The page
//! `docs/guarantees.md` has each.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum Invariant {
    /// I1: in a quiet system every published comment has its 31 duplicates, and no others exist.
    DuplicatesAreExact,
    /// I1: each index of the table has exactly the entries that the primary items imply.
    TableIndexesAreExact,
    /// I2: in a quiet system the page index equals one that is built from the table.
    PageIndexIsExact,
    /// I3: in a quiet system pages, walks, lists, feeds and exports have exactly the matching
    /// comments, in order.
    PagesAreExact,
    /// I4: no acknowledged write is lost, and none has happened that nobody wanted.
    WritesAreKept,
    /// I4: in a calm world the functions and the repair job come to their end.
    WorkEnds,
    /// I5: 404 only if nothing can be there; what cannot be known is 503.
    AbsenceIsCertain,
    /// I7: a comment made by POST changes no archive page.
    PostsKeepArchivePages,
    /// I9: a numbered page has exactly the comments of its ranks, in their order.
    PagesShowTheirRanks,
    /// I9: a walk by cursor lacks no comment whose duplicate or rank exists, and shows none twice.
    WalksAreWhole,
    /// What a reader sees of a comment was true once, and matches the filter.
    ShownWasTrue,
    /// A repeated `Idempotency-Key` creates nothing.
    RepeatedPostsCreateNothing,
    /// An erasure leaves nothing of an author.
    ErasedIsGone,
    /// An audit that has ended had repaired what was wrong when it began.
    AuditsLeaveNothing,
}
