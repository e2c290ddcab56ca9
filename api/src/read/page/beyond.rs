//! What the table has beyond the ranks: it decides what is past the end, and what is empty (ADR 8).

use futures_util::future::try_join_all;
use model::{Cd, Filter, FilterKey, Order, ProductId, Timestamp};
use page_index::RankedQuery;
use table::PageQuery;

use super::just_after;
use crate::{
    error::ApiError,
    read::ListingQuery,
    site::{Site, UnknownProducts},
    store::StoreClients,
    telemetry::metrics::DriftSign,
};

impl ListingQuery {
    /// Whether this listing exists although it has no comment: that of a product with a record
    /// does, a filter's does not.
    ///
    /// A comment is under the key of its product as soon as it is written, and under those of its
    /// filters a moment later. So a filter is empty only if no comment of its product still waits
    /// for its ranks. An edit that brings a comment into the filter is not noticed here until it is
    /// fanned out.
    ///
    /// # Errors
    /// [`ApiError::NotYetListed`] while a comment of the product waits; the page index is
    /// unavailable, or may have lost ranks; the table's.
    pub(crate) async fn exists_without_comments(
        &self,
        stores: &StoreClients,
    ) -> Result<bool, ApiError> {
        if self.filter == Filter::ANY {
            return Ok(stores.has_record(&self.product).await);
        }
        let check = self.check_product(stores, None);
        self.with_confirmed_servers(stores, check)
            .await
            .map(|()| false)
    }

    async fn check_product(
        &self,
        stores: &StoreClients,
        as_of: Option<Timestamp>,
    ) -> Result<(), ApiError> {
        let whole = Self {
            filter: Filter::ANY,
            ..self.clone()
        };
        whole.check_ends(stores, as_of, u64::MAX).await
    }

    /// Refuses a listing of which a comment may lack its rank:
    ///
    /// - The ranks have grown since `counted`.
    /// - The table has a comment beyond them, of the listing or of its product.
    /// - The page index may have lost some.
    ///
    /// Takes at most four queries of one item each, reads a state, and asks the servers
    /// of the page index. An unreadable item does not count, because no page shows it. A comment that
    /// still waits for its rank between two others is not noticed.
    pub(super) async fn check_ranked(
        &self,
        stores: &StoreClients,
        as_of: Option<Timestamp>,
        counted: u64,
    ) -> Result<(), ApiError> {
        let check = async {
            self.check_ends(stores, as_of, counted).await?;
            // Its duplicates may be late, too.
            if self.filter == Filter::ANY {
                Ok(())
            } else {
                self.check_product(stores, as_of).await
            }
        };
        self.with_confirmed_servers(stores, check).await
    }

    /// Makes a check of ranks, and refuses ranks that may be those of other servers than the repair job
    /// has confirmed. The confirmation is read before the check and the servers are asked after it, so
    /// the confirmed servers had these ranks.
    async fn with_confirmed_servers(
        &self,
        stores: &StoreClients,
        check: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<(), ApiError> {
        let last = stores.confirmation().await?;
        check.await?;
        let servers = stores.index_servers(&self.product).await;
        if let (Some(last), Some(servers)) = (last, servers)
            && last.has_confirmed(&servers)
        {
            return Ok(());
        }
        Err(ApiError::IndexUnavailable)
    }

    async fn check_ends(
        &self,
        stores: &StoreClients,
        as_of: Option<Timestamp>,
        counted: u64,
    ) -> Result<(), ApiError> {
        let newest = RankedQuery {
            order: Order::Newest,
            count: 1,
            as_of,
            ..self.ranked_query()
        };
        let oldest = RankedQuery {
            order: Order::Oldest,
            ..newest
        };
        let ends = stores
            .ranked("ranks", &[newest, oldest])
            .await
            .ok_or(ApiError::IndexUnavailable)?;
        if ends.iter().all(|end| end.total <= counted) {
            let one = |order, start| self.page_query(order, 1, start);
            let ends: Vec<Cd> = ends.into_iter().flat_map(|end| end.comments).collect();
            let beyond = match ends.as_slice() {
                [newest, oldest] => {
                    vec![
                        one(Order::Oldest, Some(newest.clone())),
                        one(Order::Newest, Some(oldest.clone())),
                    ]
                }
                _ => vec![one(Order::Newest, as_of.and_then(just_after))],
            };
            let pages = try_join_all(beyond.iter().map(|plan| stores.page(plan))).await?;
            let mut comments = pages.iter().flat_map(|page| &page.comments);
            if !comments.any(|comment| as_of.is_none_or(|as_of| comment.created_at <= as_of)) {
                return Ok(());
            }
        }
        stores.metrics.count_drift_sign(DriftSign::RowWithoutRank);
        Err(ApiError::NotYetListed)
    }
}

/// Refuses an unknown product, if the site does not serve such products. Only a listing
/// that has turned out empty needs this: it costs up to one query of one item.
///
/// # Errors
/// [`ApiError::NoSuchProduct`]; the table's. A record that cannot be read is not taken for a
/// missing one.
pub(crate) async fn check_known(
    stores: &StoreClients,
    site: &Site,
    product: &ProductId,
) -> Result<(), ApiError> {
    if site.settings.unknown_products == UnknownProducts::Serve || stores.has_record(product).await
    {
        return Ok(());
    }
    let key = FilterKey {
        product: product.clone(),
        filter: Filter::ANY,
    };
    let any = stores
        .page(&PageQuery {
            key,
            order: Order::Newest,
            limit: 1,
            start: None,
        })
        .await?;
    if any.comments.is_empty() && !any.cut_short {
        Err(ApiError::NoSuchProduct)
    } else {
        Ok(())
    }
}
