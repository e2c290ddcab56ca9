//! Distributes the pages of a partition over files: listing by listing, page by page, as many as a file may hold. A
//! product has its unfiltered listing, and one for each language whose pages search engines may index.
//!
//! **Invariant:** every page of every listing is in exactly one part, and each part respects the limits
//! (`every_page_is_in_one_part_within_the_limits`).

use std::{
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
};

use model::{Filter, Language, Order, PageNumber, PageSize, ProductId, StablePages, Timestamp};
use page_index::{ProductLanguages, ProductRank};

use crate::{
    links,
    site::{Indexing, PageNumbers, Site, Totals},
};

/// Maximum number of URLs in a file (sitemaps.org).
const URLS_MAX: u64 = 50_000;

/// Maximum length of a file in bytes. The protocol allows 50 MB, but each request builds a file in memory. So the limit
/// equals that of a page of comments. With URLs of usual length, a file then holds fewer than [`URLS_MAX`].
const BYTES_MAX: u64 = 1_000_000;

/// Text before each URL, between it and its date, and after the date.
pub(super) const BEFORE_URL: &str = "<url><loc>";
pub(super) const BEFORE_DATE: &str = "</loc><lastmod>";
pub(super) const AFTER_DATE: &str = "</lastmod></url>";
/// Text after a URL without a date.
pub(super) const AFTER_URL: &str = "</loc></url>";

/// Length of a date.
const DATE_BYTES: usize = "2024-02-29T23:59:59.999Z".len();

/// Maximum length of a file's head and foot together, in bytes.
const AROUND_BYTES: u64 = 200;

/// A listing whose pages are in the sitemap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    product: ProductId,
    filter: Filter,
    /// Number of comments.
    total: u64,
}

impl Listing {
    /// The listings of a product whose pages search engines may index.
    pub(super) fn of_product(site: &Site, of: ProductLanguages) -> Vec<Self> {
        let ProductLanguages { product, total, by_language } = of;
        let listed = |(language, filter): (Language, u64)| {
            let totals = Totals { filter, product: total };
            let of_language = Filter::new(Some(language), None);
            let indexing = site.indexing(&of_language, Order::Newest, Some(totals));
            (indexing == Indexing::Own).then(|| Self { product: product.clone(), filter: of_language, total: filter })
        };
        let mut listings = vec![Self { product: product.clone(), filter: Filter::ANY, total }];
        listings.extend(by_language.into_iter().filter_map(listed));
        listings
    }

    /// The path and query of the page with this number.
    pub(super) fn page(&self, number: Option<PageNumber>) -> String {
        links::page(&self.product, &self.filter, number)
    }

    /// The rank of a comment of the listing.
    fn rank(&self, order: Order, rank: u64) -> ProductRank<'_> {
        ProductRank { product: &self.product, language: self.filter.language(), order, rank }
    }
}

/// A page in the sitemap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedPage<'sitemap> {
    pub(super) listing: &'sitemap Listing,
    /// `None` for the page without a number.
    pub(super) number: Option<PageNumber>,
    /// The newest comment on the page.
    pub(super) newest: ProductRank<'sitemap>,
}

/// The creation times of the newest comments on the pages of a part, in the order of the pages. `None` where a page had
/// no comment.
pub(super) type Dates = Vec<Option<Timestamp>>;

/// The listings of a partition, and the start of each part.
#[derive(Debug)]
pub(crate) struct PartitionSitemap {
    listings: Vec<Listing>,
    page_numbers: PageNumbers,
    /// The index of the first listing of each part, and its first page.
    parts: Vec<(usize, u64)>,
    /// The dates of each part, once they are known.
    dates: Vec<OnceLock<Arc<Dates>>>,
}

impl PartitionSitemap {
    /// `site_bytes` is the length of the site's URL.
    pub(super) fn new(listings: Vec<Listing>, page_numbers: PageNumbers, site_bytes: usize) -> Self {
        Self::within(listings, page_numbers, site_bytes, URLS_MAX, BYTES_MAX)
    }

    fn within(
        listings: Vec<Listing>,
        page_numbers: PageNumbers,
        site_bytes: usize,
        urls_max: u64,
        bytes_max: u64,
    ) -> Self {
        let (mut parts, mut urls_left, mut bytes_left) = (Vec::new(), 0, 0);
        for (at, listing) in listings.iter().enumerate() {
            let last = pages(listing.total, page_numbers);
            // No URL is longer than that of the greatest number.
            let path = listing.page(PageNumber::new(last).ok()).len();
            let around = BEFORE_URL.len() + BEFORE_DATE.len() + DATE_BYTES + AFTER_DATE.len() + "\n".len();
            let url_bytes = u64::try_from(site_bytes + path + around).unwrap_or(u64::MAX);
            let mut next = 1;
            while next <= last {
                let room = urls_left.min(bytes_left / url_bytes);
                if room == 0 {
                    parts.push((at, next));
                    urls_left = urls_max;
                    // At least one URL always fits, so the loop ends.
                    bytes_left = (bytes_max - AROUND_BYTES).max(url_bytes);
                    continue;
                }
                let taken = room.min(last - next + 1);
                next += taken;
                urls_left -= taken;
                bytes_left -= taken * url_bytes;
            }
        }
        let dates = parts.iter().map(|_| OnceLock::new()).collect();
        Self { listings, page_numbers, parts, dates }
    }

    /// Number of parts.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let text = |listing: &Listing| {
            listing.product.as_str().len() + listing.filter.language().map_or(0, |language| language.as_str().len())
        };
        let texts: usize = self.listings.iter().map(text).sum();
        let dates: usize = self.dates.iter().filter_map(OnceLock::get).map(|dates| size_of_val(dates.as_slice())).sum();
        let parts = size_of_val(self.parts.as_slice()) + size_of_val(self.dates.as_slice());
        texts + size_of_val(self.listings.as_slice()) + parts + dates
    }

    /// The dates of a part, counted from 0, if they are known.
    pub(super) fn dates(&self, number: usize) -> Option<Arc<Dates>> {
        self.dates.get(number)?.get().cloned()
    }

    /// Keeps the dates of a part, counted from 0. Dates that are known already stay.
    pub(super) fn keep_dates(&self, number: usize, dates: Dates) -> Option<Arc<Dates>> {
        Some(Arc::clone(self.dates.get(number)?.get_or_init(|| Arc::new(dates))))
    }

    /// The listings of a part, counted from 0, each with its pages in that part.
    fn part(&self, number: usize) -> Option<Vec<(&Listing, RangeInclusive<u64>)>> {
        let (from, first_page) = *self.parts.get(number)?;
        let (to, end_page) = self.parts.get(number + 1).copied().unwrap_or((self.listings.len(), 1));
        // This part also contains the next part's first listing, unless that listing's first page is in the next part.
        let end = if end_page > 1 { to + 1 } else { to };
        let listings = self.listings.get(from..end)?.iter().zip(from..);
        let pages = listings.map(|(listing, at)| {
            let first = if at == from { first_page } else { 1 };
            let last = if at == to { end_page - 1 } else { pages(listing.total, self.page_numbers) };
            (listing, first..=last)
        });
        Some(pages.collect())
    }

    /// The pages of a part, counted from 0.
    pub(super) fn pages(&self, number: usize) -> Option<Vec<ListedPage<'_>>> {
        let parts = self.part(number)?.into_iter();
        Some(parts.flat_map(|(listing, pages)| pages.map(|page| self.page(listing, page))).collect())
    }

    /// The `page`-th page of a listing, counted from 1. In stable numbering the front page is the last one.
    fn page<'sitemap>(&self, listing: &'sitemap Listing, page: u64) -> ListedPage<'sitemap> {
        let size = u64::from(PageSize::default().get());
        let (number, order, rank) = match self.page_numbers {
            PageNumbers::NewestFirst => (Some(page).filter(|page| *page > 1), Order::Newest, (page - 1) * size),
            PageNumbers::Stable if page == pages(listing.total, self.page_numbers) => (None, Order::Newest, 0),
            PageNumbers::Stable => (Some(page), Order::Oldest, page * size - 1),
        };
        let number = number.and_then(|number| PageNumber::new(number).ok());
        ListedPage { listing, number, newest: listing.rank(order, rank) }
    }
}

/// Number of pages for people that show this many comments.
fn pages(total: u64, page_numbers: PageNumbers) -> u64 {
    match page_numbers {
        PageNumbers::Stable => StablePages::new(total, PageSize::default()).count(),
        PageNumbers::NewestFirst => PageSize::default().total_pages(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Indexable, SiteSettings};
    use proptest::prelude::*;

    const SITE: &str = "https://example.com";

    fn unfiltered(totals: &[(String, u64)]) -> Vec<Listing> {
        let listing = |(id, total): &(String, u64)| Listing {
            product: ProductId::parse(id).unwrap(),
            filter: Filter::ANY,
            total: *total,
        };
        totals.iter().map(listing).collect()
    }

    #[test]
    fn a_language_is_listed_only_where_its_pages_may_be_indexed() {
        let listed = |indexable, total, by_language: &[(&str, u64)]| {
            let site = SiteSettings { indexable, ..SiteSettings::default() };
            let site = Site::new(site, ([127, 0, 0, 1], 80).into()).unwrap();
            let by_language = by_language.iter().map(|(tag, total)| (Language::parse(tag).unwrap(), *total)).collect();
            let of = ProductLanguages { product: ProductId::parse("p").unwrap(), total, by_language };
            let listings = Listing::of_product(&site, of).into_iter();
            listings.map(|listing| (listing.page(None), listing.total)).collect::<Vec<_>>()
        };
        let page = |filter: &str, total| (format!("/product/p/comments{filter}"), total);
        let several = [("de", 5), ("en", 20), ("fr", 4)];
        assert_eq!(listed(Indexable::Languages, 29, &several), [page("", 29), page("/de", 5), page("/en", 20)]);
        assert_eq!(listed(Indexable::Languages, 29, &[("en", 29)]), [page("", 29)]);
        assert_eq!(listed(Indexable::Unfiltered, 29, &several), [page("", 29)]);
    }

    #[test]
    fn a_part_is_full_before_the_next_begins() {
        let totals = [("a".to_owned(), 20), ("b".to_owned(), 20 * 120_000), ("c".to_owned(), 1)];
        let sitemap =
            PartitionSitemap::within(unfiltered(&totals), PageNumbers::Stable, SITE.len(), URLS_MAX, 20_000_000);
        let pages: Vec<Vec<(&str, RangeInclusive<u64>)>> = (0..sitemap.parts())
            .map(|part| {
                let of_part = sitemap.part(part).unwrap().into_iter();
                of_part.map(|(listing, pages)| (listing.product.as_str(), pages)).collect()
            })
            .collect();
        let expected = [
            vec![("a", 1..=1), ("b", 1..=49_999)],
            vec![("b", 50_000..=99_999)],
            vec![("b", 100_000..=120_000), ("c", 1..=1)],
        ];
        assert_eq!(pages, expected);
        assert!(sitemap.part(3).is_none());
        assert_eq!(PartitionSitemap::new(Vec::new(), PageNumbers::Stable, SITE.len()).parts(), 0);
    }

    /// The numbers of a product's pages, each with the rank of its newest comment.
    fn listed(total: u64, page_numbers: PageNumbers) -> Vec<(Option<u64>, Order, u64)> {
        let sitemap = PartitionSitemap::new(unfiltered(&[("p".to_owned(), total)]), page_numbers, SITE.len());
        let pages = sitemap.pages(0).unwrap().into_iter();
        pages.map(|page| (page.number.map(PageNumber::get), page.newest.order, page.newest.rank)).collect()
    }

    #[test]
    fn a_page_is_listed_with_the_rank_of_its_newest_comment() {
        use Order::{Newest, Oldest};
        assert_eq!(listed(39, PageNumbers::Stable), [(None, Newest, 0)]);
        assert_eq!(listed(60, PageNumbers::Stable), [(Some(1), Oldest, 19), (Some(2), Oldest, 39), (None, Newest, 0)]);
        let newest_first = [(None, Newest, 0), (Some(2), Newest, 20), (Some(3), Newest, 40)];
        assert_eq!(listed(45, PageNumbers::NewestFirst), newest_first);
    }

    #[test]
    fn the_dates_of_a_part_are_kept_and_their_size_counts() {
        let sitemap = PartitionSitemap::new(unfiltered(&[("p".to_owned(), 60)]), PageNumbers::Stable, SITE.len());
        let bytes = sitemap.bytes();
        assert_eq!(sitemap.dates(0), None);
        let dates = vec![Some(Timestamp::MIN), None, Some(Timestamp::MAX)];
        sitemap.keep_dates(0, dates.clone()).unwrap();
        assert_eq!(sitemap.dates(0).as_deref(), Some(&dates));
        assert_eq!(sitemap.bytes(), bytes + size_of_val(dates.as_slice()));
        assert_eq!(sitemap.keep_dates(1, dates), None);
    }

    proptest! {
        #[test]
        fn every_page_is_in_one_part_within_the_limits(
            totals in prop::collection::vec(("[a-z☕ ]{1,12}", 1..4_000_u64), 0..30),
            urls_max in 1..60_u64,
            bytes_max in 400..6_000_u64,
            is_stable: bool,
        ) {
            let page_numbers = if is_stable { PageNumbers::Stable } else { PageNumbers::NewestFirst };
            let listings = unfiltered(&totals);
            let expected: Vec<(ProductId, u64)> = listings
                .iter()
                .flat_map(|listing| (1..=pages(listing.total, page_numbers)).map(|page| (listing.product.clone(), page)))
                .collect();
            let sitemap = PartitionSitemap::within(listings, page_numbers, SITE.len(), urls_max, bytes_max);
            let mut listed = Vec::new();
            for part in 0..sitemap.parts() {
                let of_part: Vec<(ProductId, u64)> = sitemap.part(part).unwrap().into_iter()
                    .flat_map(|(listing, pages)| pages.map(|page| (listing.product.clone(), page)))
                    .collect();
                let bytes: usize = of_part.iter().map(|(product, page)| {
                    let path = links::page(product, &Filter::ANY, PageNumber::new(*page).ok());
                    BEFORE_URL.len() + SITE.len() + path.len() + BEFORE_DATE.len() + DATE_BYTES + AFTER_DATE.len() + 1
                }).sum();
                prop_assert!(!of_part.is_empty());
                prop_assert!(of_part.len() as u64 <= urls_max);
                prop_assert!(bytes as u64 <= bytes_max - AROUND_BYTES || of_part.len() == 1);
                listed.extend(of_part);
            }
            prop_assert_eq!(listed, expected);
        }
    }
}
