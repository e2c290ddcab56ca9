//! Quantities that several designs have. In each of them, less is better.

use serde::{Deserialize, Serialize};

/// The designs' names in `report.json` and on pages.
pub(crate) const PAGEMARK: &str = "Pagemark";
pub(crate) const FOUR_INDEXES: &str = "four indexes";
/// The same with transactional counters, so its pages show totals like Pagemark's.
pub(crate) const FOUR_INDEXES_COUNTERS: &str = "four indexes with counters";
/// An assumption: how many of ten page views a cache of pages answers.
pub(crate) const HITS_OF_TEN: [u32; 3] = [0, 5, 9];
/// The design with counters behind such a cache, in a Redis that costs the same as Pagemark's: one for each of
/// [`HITS_OF_TEN`].
pub(crate) const FOUR_INDEXES_CACHED: [&str; 3] = [
    "four indexes with counters and a cache, 0 % hits",
    "four indexes with counters and a cache, 50 % hits",
    "four indexes with counters and a cache, 90 % hits",
];
/// The page index as one sorted set for each of a comment's 32 filter keys.
pub(crate) const ONE_SET_A_FILTER: &str = "Pagemark with one set a filter key";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    /// Write units of an insert, with all that follows from it.
    InsertWriteUnits,
    /// Calls to DynamoDB, one after the other, until an insert is acknowledged.
    InsertRoundTrips,
    /// US dollars for a million writes of the month's kinds, functions included.
    WritesUsd,
    /// US dollars of the month for everything but page views, divided by the month's millions of writes.
    FixedUsd,
    /// US dollars for a million page views of the month's mix.
    MixedViewsUsd,
    /// US dollars for a million page views with three ratings.
    ThreeRatingsViewsUsd,
    /// US dollars for the whole month.
    MonthUsd,
    /// Bytes of a comment in the table and all indexes, as they are billed.
    StoredBytes,
    /// Median latency of the middle page under one rating, in microseconds. The table answers in parallel with varying
    /// delays.
    OneRatingPageDelayedUs,
    /// The same under two ratings.
    TwoRatingsPageDelayedUs,
    /// The same under three ratings.
    ThreeRatingsPageDelayedUs,
    /// The same under four ratings.
    FourRatingsPageDelayedUs,
    /// The same without a filter by rating.
    AnyRatingPageDelayedUs,
    /// Median latency of the middle page under two ratings, in microseconds. The table answers in parallel with equal
    /// delays.
    TwoRatingsPageEqualDelaysUs,
    /// The same under three ratings.
    ThreeRatingsPageEqualDelaysUs,
    /// The same under four ratings.
    FourRatingsPageEqualDelaysUs,
    /// Mean latency of the middle page under one rating with varying delays, in microseconds. With a cache the median says
    /// whether most reads hit.
    OneRatingPageDelayedMeanUs,
    /// The same without a filter by rating.
    AnyRatingPageDelayedMeanUs,
    /// Microseconds between two answers of a web site to 20 clients: a second divided by its rate. First pages without a
    /// filter.
    SiteAnyRatingUs,
    /// The same under three ratings.
    SiteThreeRatingsUs,
    /// The same without a filter, with totals.
    SiteAnyRatingTotalsUs,
    /// The same under three ratings, with totals.
    SiteThreeRatingsTotalsUs,
    /// Median of the server's time to find where a page under three ratings starts, in microseconds.
    PageStartServerUs,
}
