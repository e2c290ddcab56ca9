//! The most recent positive comment of a product beside its most recent critical one: two queries of one item each.

use model::{Comment, Filter, FilterKey, Order, ProductId, Rating, RatingSet};
use table::PageQuery;

use crate::store::StoreClients;

/// The lowest rating of a positive comment. Large shops draw the line here too.
const POSITIVE_FROM: u8 = 4;

#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) comment: Comment,
    pub(crate) filter: Filter,
}

#[derive(Debug)]
pub(crate) struct Contrast {
    pub(crate) positive: Side,
    pub(crate) critical: Side,
}

impl Contrast {
    pub(crate) const COMMENTS: u16 = 2;

    /// Reads both comments; `None` unless both exist. The rest of a page does not need them, so an error is logged and
    /// leaves them out.
    pub(crate) async fn read(stores: &StoreClients, product: &ProductId) -> Option<Self> {
        let (positive, critical) =
            tokio::join!(newest(stores, product, filter(true)), newest(stores, product, filter(false)));
        Some(Self { positive: positive?, critical: critical? })
    }
}

fn filter(is_positive: bool) -> Filter {
    let ratings = Rating::ALL.into_iter().filter(|rating| (rating.get() >= POSITIVE_FROM) == is_positive);
    Filter::new(None, RatingSet::of(ratings))
}

async fn newest(stores: &StoreClients, product: &ProductId, filter: Filter) -> Option<Side> {
    let key = FilterKey { product: product.clone(), filter: filter.clone() };
    let query = PageQuery { key, order: Order::Newest, limit: 1, start: None };
    match stores.page(&query).await {
        Ok(mut page) => page.comments.pop().map(|comment| Side { comment, filter }),
        Err(error) => {
            tracing::warn!(%error, "a front page lacks its positive and its critical comment");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rating_is_either_positive_or_critical() {
        assert_eq!([filter(true), filter(false)].map(|filter| filter.to_string()), ["~/4.5", "~/1.2.3"]);
    }
}
