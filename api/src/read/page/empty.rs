//! Listings without comments: whether they exist for people.
//!
//! The page has been read before: the page index is ready and counts no comment, and the table has none under the
//! filter's key.

use model::{Filter, PageNumber};

use super::NumberedPage;
use crate::{error::ApiError, ops::metrics::DriftSign, read::ListingQuery, store::StoreClients};

impl ListingQuery {
    /// Whether this listing exists although it has no comment: that of a product with a record does, a filter's does not.
    ///
    /// A comment is under the key of its product as soon as it is written, and under those of its filters a moment
    /// later. So a filter is empty only if no comment of its product still waits for its ranks. An edit that brings a
    /// comment into the filter is not noticed here until it is fanned out.
    ///
    /// # Errors
    /// [`ApiError::NotYetListed`] while a comment of the product waits; the page index is unavailable; the table's.
    pub(crate) async fn exists_without_comments(&self, stores: &StoreClients) -> Result<bool, ApiError> {
        if self.filter == Filter::ANY {
            return Ok(stores.has_record(&self.product).await);
        }
        let whole = Self { filter: Filter::ANY, ..self.clone() };
        whole.check_ranked(stores).await.map(|()| false)
    }

    /// The error of what is made of a listing, and has found no comment there.
    pub(crate) async fn missing(&self, stores: &StoreClients) -> ApiError {
        let whole = Self { filter: Filter::ANY, ..self.clone() };
        let checked = match self.check_ranked(stores).await {
            Ok(()) => whole.check_ranked(stores).await,
            behind => behind,
        };
        checked.err().unwrap_or(ApiError::NoRoute)
    }

    /// Refuses a listing of which a comment still waits for its rank.
    async fn check_ranked(&self, stores: &StoreClients) -> Result<(), ApiError> {
        let first = NumberedPage { query: self, number: PageNumber::FIRST, as_of: None };
        // Ranks that were added since the page was read do not matter: their comments are in the table.
        if first.has_unranked(stores, u64::MAX).await? {
            stores.count_drift_sign(DriftSign::Unranked);
            return Err(ApiError::NotYetListed);
        }
        Ok(())
    }
}
