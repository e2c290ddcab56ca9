//! Where the comments of a month or a day are, by two ranks: nothing is scanned.

use model::{CommentId, Order, Period};

use super::ListingQuery;
use crate::{error::ApiError, store::StoreClients};

/// The place of the newest comment of a period, or before it.
#[derive(Debug)]
pub(crate) struct DatedPlace {
    pub(crate) total: u64,
    /// Number of older ones: the comment's rank, counted from the oldest. 0 when every comment is later.
    pub(crate) rank: u64,
    /// The comment, where its id is known at no further cost.
    pub(crate) id: Option<CommentId>,
}

/// Finds the newest comment of a period, or else the newest before it, or else the oldest of all.
///
/// # Errors
/// The page index is unavailable.
pub(crate) async fn place(stores: &StoreClients, query: &ListingQuery, period: Period) -> Result<DatedPlace, ApiError> {
    let newest_first = ListingQuery { order: Order::Newest, ..query.clone() };
    // The start key of the second place is the comment in the first.
    let (all, until) = (newest_first.page_start(0, None), newest_first.page_start(1, Some(period.end())));
    let (all, until) = tokio::join!(stores.page_start(&all), stores.page_start(&until));
    let (all, until) = all.zip(until).ok_or(ApiError::IndexUnavailable)?;
    Ok(DatedPlace {
        total: all.total.max(until.total),
        rank: until.total.saturating_sub(1),
        id: until.before.map(|newest| newest.id),
    })
}
