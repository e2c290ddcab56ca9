//! What all parts of a page of comments are made of, and the links to its filters.

use model::{Filter, Language, ListingOrder, RatingSet};
use page_index::Stats;

use super::{address::PageAddress, words::Average};
use crate::{
    site::{FilterTotals, Indexing, Site},
    texts::Interface,
};

#[derive(Clone, Copy)]
pub(super) struct Context<'page> {
    pub(super) site: &'page Site,
    /// The texts, in the language of the page.
    pub(super) t: &'page Interface,
    pub(super) address: &'page PageAddress,
    /// What the page index counted for the page; `None` if it is unavailable.
    pub(super) stats: Option<&'page Stats>,
}

/// A link to a filter, in the order of the page.
pub(super) struct FilterLink {
    pub(super) href: String,
    /// Pages that are not indexed under their own address are many; crawlers need not follow every
    /// link to them.
    pub(super) nofollow: bool,
}

impl<'page> Context<'page> {
    /// Of a page that has not been read.
    pub(super) fn new(site: &'page Site, address: &'page PageAddress) -> Self {
        Self {
            site,
            t: site.interface_of(&address.query.filter),
            address,
            stats: None,
        }
    }

    /// The same with what the page index counted.
    pub(super) fn counted(self, stats: Option<&'page Stats>) -> Self {
        Self { stats, ..self }
    }

    /// The number of comments of a filter. `None` if it was not counted: the page index is
    /// unavailable, or the filter differs from the page's in language and in ratings.
    pub(super) fn count(self, filter: &Filter) -> Option<u64> {
        let stats = self.stats?;
        let own = &self.address.query.filter;
        match filter.language() {
            None => Some(stats.by_rating_in_any_language.of_set(filter.ratings())),
            language if language == own.language() => {
                Some(stats.by_rating.of_set(filter.ratings()))
            }
            Some(language) if filter.ratings() == own.ratings() => stats
                .by_language
                .iter()
                .find(|(counted, _)| counted == language)
                .map(|(_, total)| *total),
            Some(_) => None,
        }
    }

    /// The average rating of the product; `None` without comments, or if it is unknown.
    pub(super) fn average(self) -> Option<Average> {
        Average::of(self.stats?.by_rating_in_any_language)
    }

    /// The language of the filter, and the average rating in it.
    pub(super) fn average_of_language(self) -> Option<(&'page Language, Average)> {
        self.address
            .query
            .filter
            .language()
            .zip(Average::of(self.stats?.by_rating))
    }

    pub(super) fn indexing(self, filter: &Filter, order: ListingOrder) -> Indexing {
        let totals = self.count(filter).zip(self.count(&Filter::ANY));
        let totals = totals.map(|(filter, product)| FilterTotals { filter, product });
        self.site.indexing(filter, order, totals)
    }

    /// The link to the first page of a filter.
    pub(super) fn link(self, filter: &Filter) -> FilterLink {
        let nofollow = self.indexing(filter, self.address.query.order) != Indexing::Own;
        FilterLink {
            href: self.address.filtered(filter),
            nofollow,
        }
    }

    /// The link to a filter; `None` if it has no comment.
    pub(super) fn link_to(
        self,
        language: Option<Language>,
        ratings: Option<RatingSet>,
    ) -> Option<FilterLink> {
        let filter = Filter::new(language, ratings);
        if self.count(&filter) == Some(0) {
            None
        } else {
            Some(self.link(&filter))
        }
    }
}
