//! Quantities that several designs have. In each of them, less is better.

use serde::{Deserialize, Serialize};

/// The designs' names in `report.json` and on pages.
pub(crate) const PAGEMARK: &str = "Pagemark";
pub(crate) const FOUR_INDEXES: &str = "four indexes";
/// The same with transactional counters, so its pages show totals like Pagemark's.
pub(crate) const FOUR_INDEXES_COUNTERS: &str = "four indexes with counters";

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
    /// Median latency of the middle page under one rating, in microseconds.
    OneRatingPageUs,
    /// The same without a filter by rating.
    AnyRatingPageUs,
    /// Median latency of the middle page under one rating over connections with a delay, in microseconds.
    OneRatingPageDelayedUs,
    /// The same without a filter by rating.
    AnyRatingPageDelayedUs,
}
