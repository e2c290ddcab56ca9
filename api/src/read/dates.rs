//! Where the comments of a month or a day are, by one rank: nothing is scanned.

use model::{CommentId, Order, Period};
use page_index::{CommentPosition, Ranked, RankedQuery};

use super::ListingQuery;
use crate::{error::ApiError, store::StoreClients};

/// Finds the newest comment of a period, or else the newest before it: its position and its id.
/// When every comment is later, it is the position of the oldest one, without an id.
///
/// # Errors
/// The page index is unavailable.
pub(crate) async fn newest_of_period(
    stores: &StoreClients,
    query: &ListingQuery,
    period: Period,
) -> Result<(CommentPosition, Option<CommentId>), ApiError> {
    let newest = RankedQuery {
        order: Order::Newest,
        count: 1,
        as_of: Some(period.end()),
        settled_at: Some(stores.settled_at()),
        ..query.ranked_query()
    };
    let ranked = stores
        .ranked("ranks", &[newest])
        .await
        .and_then(|mut ranked| ranked.pop());
    let Ranked {
        comments,
        total,
        settled,
        all,
        ..
    } = ranked.ok_or(ApiError::IndexUnavailable)?;
    let position = CommentPosition {
        older: total.saturating_sub(1),
        total: all,
        settled,
    };
    Ok((position, comments.into_iter().next().map(|cd| cd.id)))
}
