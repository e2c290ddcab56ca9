//! The numbers of comments of the filters that a page links to.

use model::{Filter, Order};
use page_index::Stats;

use super::address::Address;
use crate::site::{Indexing, Site, Totals};

/// What the page index counted for the page at an address; without counts if it is unavailable.
#[derive(Clone, Copy)]
pub(super) struct Counts<'page> {
    pub(super) address: &'page Address,
    pub(super) stats: Option<&'page Stats>,
}

impl<'page> Counts<'page> {
    pub(super) fn new(address: &'page Address, stats: Option<&'page Stats>) -> Self {
        Self { address, stats }
    }

    /// The number of comments of a filter. `None` if it was not counted: the page index is unavailable, or the filter
    /// differs from the page's in language and in ratings.
    pub(super) fn of(self, filter: &Filter) -> Option<u64> {
        let (stats, own) = (self.stats?, &self.address.query.filter);
        match filter.language() {
            None => Some(stats.by_rating_in_any_language.of_set(filter.ratings())),
            language if language == own.language() => Some(stats.by_rating.of_set(filter.ratings())),
            Some(language) if filter.ratings() == own.ratings() => {
                stats.by_language.iter().find(|(counted, _)| counted == language).map(|(_, total)| *total)
            }
            Some(_) => None,
        }
    }

    pub(super) fn of_product(self) -> Option<u64> {
        Some(self.stats?.by_rating_in_any_language.total())
    }

    pub(super) fn indexing(self, site: &Site, filter: &Filter, order: Order) -> Indexing {
        let totals = self.of(filter).zip(self.of_product());
        let totals = totals.map(|(filter, product)| Totals { filter, product });
        site.indexing(filter, order, totals)
    }
}
