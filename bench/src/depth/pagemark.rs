//! Pagemark: the two calls of a numbered page, identical to those of the API, without the API.

use futures_util::future::LocalBoxFuture;
use model::Comment;

use super::race::Contestant;
use crate::{dataset::Dataset, filled_stores::PageReader, listing::Listing};

/// A reader of pages.
pub(super) struct Pagemark<'listing> {
    reader: PageReader,
    listing: &'listing Listing,
}

impl<'listing> Pagemark<'listing> {
    pub(super) fn new(dataset: &Dataset, listing: &'listing Listing) -> Self {
        Self { reader: dataset.stores.reader().with_own_connections(), listing }
    }
}

impl Contestant for Pagemark<'_> {
    fn name(&self) -> &'static str {
        "Pagemark"
    }

    fn page(&mut self, page: u64) -> LocalBoxFuture<'_, anyhow::Result<Vec<Comment>>> {
        Box::pin(self.reader.page(self.listing, page))
    }
}
