//! The most recent positive comment of a product beside its most recent critical one: two queries
//! of one item each.

use model::{Comment, Filter, FilterKey, Order, ProductId, RatingSet};
use table::PageQuery;

use crate::store::StoreClients;

/// The ratings of a positive comment, and of a critical one. Large shops draw the line here too.
const POSITIVE: &str = "4.5";
const CRITICAL: &str = "1.2.3";

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

    /// Reads both comments; `None` unless both exist. The rest of a page does not need them, so an
    /// error is logged and leaves them out.
    pub(crate) async fn read(stores: &StoreClients, product: &ProductId) -> Option<Self> {
        let (positive, critical) = tokio::join!(
            newest(stores, product, POSITIVE),
            newest(stores, product, CRITICAL)
        );
        Some(Self {
            positive: positive?,
            critical: critical?,
        })
    }
}

async fn newest(stores: &StoreClients, product: &ProductId, ratings: &str) -> Option<Side> {
    let filter = Filter::new(None, Some(RatingSet::parse(ratings).ok()?));
    let key = FilterKey {
        product: product.clone(),
        filter: filter.clone(),
    };
    let query = PageQuery {
        key,
        order: Order::Newest,
        limit: 1,
        start: None,
    };
    match stores.page(&query).await {
        Ok(mut page) => page.comments.pop().map(|comment| Side { comment, filter }),
        Err(error) => {
            tracing::warn!(%error, "a front page lacks its positive and its critical comment");
            None
        }
    }
}
