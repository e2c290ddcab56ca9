//! The products of an index partition, and the distribution of their pages over the files of the
//! sitemap: listing by listing, page by page, as many as a file may hold. A product has its
//! unfiltered listing, and one for each language whose pages search engines may index.
//!
//! **Invariant:** every page of every listing is in exactly one part, and each part respects the
//! limits (`every_page_is_in_one_part_within_the_limits`).

use std::{
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
};

use model::{
    Filter, ListingOrder, Order, PageNumber, PageSize, ProductId, RatingCounts, StablePages,
    Timestamp,
};
use page_index::{RankedQuery, Stats};

use crate::{
    links,
    site::{FilterTotals, Indexing, Site},
};

/// Maximum number of URLs in a file (sitemaps.org).
const URLS_MAX: u64 = 50_000;

/// Maximum length of a file in bytes. The protocol allows 50 MB, but each request builds a file in
/// memory. So the limit equals that of a page of comments. With URLs of usual length, a file then
/// holds fewer than [`URLS_MAX`].
const BYTES_MAX: u64 = 1_000_000;

/// Text before each URL, between it and its date, and after the date.
pub(crate) const BEFORE_URL: &str = "<url><loc>";
pub(crate) const BEFORE_DATE: &str = "</loc><lastmod>";
pub(crate) const AFTER_DATE: &str = "</lastmod></url>";
/// Text after a URL without a date.
pub(crate) const AFTER_URL: &str = "</loc></url>";

const DATE_BYTES: usize = "2024-02-29T23:59:59.999Z".len();

/// Maximum length of a file's head and foot together, in bytes.
const AROUND_BYTES: u64 = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommentedProduct {
    pub(crate) id: ProductId,
    pub(crate) by_rating: RatingCounts,
    /// Creation time of the newest comment.
    pub(crate) last_commented_at: Timestamp,
    /// Number of settled comments: those that archive pages are made of.
    settled: u64,
    /// The filters of the languages whose pages search engines may index, each with the least
    /// number of settled comments that it has. So no page is listed that is not an archive page
    /// yet.
    indexed: Box<[(Filter, u64)]>,
}

impl CommentedProduct {
    /// `None` without comments.
    pub(super) fn new(site: &Site, id: &ProductId, stats: Stats, settled: u64) -> Option<Self> {
        let Stats {
            by_rating,
            last_commented_at,
            by_language,
            ..
        } = stats;
        let last_commented_at = last_commented_at?;
        let unsettled = by_rating.total().saturating_sub(settled);
        let mut indexed = Vec::new();
        for (language, total) in by_language {
            let totals = FilterTotals {
                filter: total,
                product: by_rating.total(),
            };
            let of_language = Filter::new(Some(language), None);
            if site.indexing(&of_language, ListingOrder::Newest, Some(totals)) == Indexing::Own {
                // The comments that are not settled may all be of this language.
                indexed.push((of_language, total.saturating_sub(unsettled)));
            }
        }
        Some(Self {
            id: id.clone(),
            by_rating,
            last_commented_at,
            settled,
            indexed: indexed.into_boxed_slice(),
        })
    }

    /// How many listings of the product have pages in the sitemap.
    pub(super) fn listings(&self) -> usize {
        1 + self.indexed.len()
    }
}

/// A listing whose pages are in the sitemap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listing<'walk> {
    product: &'walk ProductId,
    filter: &'walk Filter,
    settled: u64,
}

impl<'walk> Listing<'walk> {
    pub(crate) fn page(&self, number: Option<PageNumber>) -> String {
        links::page(self.product, self.filter, number)
    }

    fn pages(&self) -> u64 {
        StablePages::new(self.settled, PageSize::default()).count()
    }

    /// The `page`-th page, counted from 1 for the oldest. The front page is the last one.
    fn listed_page(&self, page: u64) -> ListedPage<'walk> {
        let newest = RankedQuery {
            count: 1,
            ..RankedQuery::new(self.product, self.filter)
        };
        if page == self.pages() {
            return ListedPage {
                path: self.page(None),
                newest,
            };
        }
        let skip = page * u64::from(PageSize::default().get()) - 1;
        let newest = RankedQuery {
            order: Order::Oldest,
            skip,
            ..newest
        };
        ListedPage {
            path: self.page(PageNumber::new(page).ok()),
            newest,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedPage<'walk> {
    /// The page's path and query.
    pub(crate) path: String,
    /// A question about the newest comment on the page.
    pub(super) newest: RankedQuery<'walk>,
}

/// The creation times of the newest comments on the pages of a part, in the order of the pages.
/// `None` where a page had no comment.
pub(crate) type Dates = Vec<Option<Timestamp>>;

#[derive(Debug)]
pub(crate) struct PartitionSitemap {
    products: Vec<CommentedProduct>,
    /// The number of the first listing of each part, from 0, and its first page.
    parts: Vec<(usize, u64)>,
    /// The dates of each part, once they are known. Walks that find the same share them.
    dates: Arc<[OnceLock<Arc<Dates>>]>,
}

impl PartitionSitemap {
    pub(super) fn new(products: Vec<CommentedProduct>, site_bytes: usize) -> Self {
        Self::within(products, site_bytes, URLS_MAX, BYTES_MAX)
    }

    fn within(
        products: Vec<CommentedProduct>,
        site_bytes: usize,
        urls_max: u64,
        bytes_max: u64,
    ) -> Self {
        let mut parts = Vec::new();
        let mut urls_remaining = 0;
        let mut bytes_remaining = 0;
        for (at, listing) in listings(&products).enumerate() {
            let last = listing.pages();
            // No URL is longer than that of the greatest number.
            let path = listing.page(PageNumber::new(last).ok()).len();
            let around =
                BEFORE_URL.len() + BEFORE_DATE.len() + DATE_BYTES + AFTER_DATE.len() + "\n".len();
            let url_bytes = u64::try_from(site_bytes + path + around).unwrap_or(u64::MAX);
            let mut next = 1;
            while next <= last {
                let room = urls_remaining.min(bytes_remaining / url_bytes);
                if room == 0 {
                    parts.push((at, next));
                    urls_remaining = urls_max;
                    // At least one URL always fits, so the loop ends.
                    bytes_remaining = (bytes_max - AROUND_BYTES).max(url_bytes);
                    continue;
                }
                let taken = room.min(last - next + 1);
                next += taken;
                urls_remaining -= taken;
                bytes_remaining -= taken * url_bytes;
            }
        }
        let dates = parts.iter().map(|_| OnceLock::new()).collect();
        Self {
            products,
            parts,
            dates,
        }
    }

    pub(super) fn products(&self) -> &[CommentedProduct] {
        &self.products
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The dates of a part, counted from 0, once they are known.
    pub(super) fn dates(&self, number: usize) -> Option<&OnceLock<Arc<Dates>>> {
        self.dates.get(number)
    }

    /// Takes over the dates that are known of the same products. Returns how many.
    pub(super) fn take_dates(&mut self, before: &Self) -> usize {
        if self.products == before.products {
            self.dates = Arc::clone(&before.dates);
        }
        self.dates
            .iter()
            .filter_map(OnceLock::get)
            .map(|dates| dates.len())
            .sum()
    }

    /// The listings of a part, counted from 0, each with its pages in that part.
    fn part(&self, number: usize) -> Option<Vec<(Listing<'_>, RangeInclusive<u64>)>> {
        let (from, first_page) = *self.parts.get(number)?;
        let (to, end_page) = self
            .parts
            .get(number + 1)
            .copied()
            .unwrap_or((usize::MAX, 1));
        let mut pages = Vec::new();
        for (at, listing) in listings(&self.products).enumerate().skip(from) {
            // This part also contains the next part's first listing, unless that listing's first
            // page is in the next part.
            let is_inside = at < to || (at == to && end_page > 1);
            if !is_inside {
                break;
            }
            let first = if at == from { first_page } else { 1 };
            let last = if at == to {
                end_page - 1
            } else {
                listing.pages()
            };
            pages.push((listing, first..=last));
        }
        Some(pages)
    }

    pub(crate) fn pages(&self, number: usize) -> Option<Vec<ListedPage<'_>>> {
        let mut listed = Vec::new();
        for (listing, pages) in self.part(number)? {
            listed.extend(pages.map(|page| listing.listed_page(page)));
        }
        Some(listed)
    }
}

/// The listings of products: for each, all its comments, then those of the indexed languages.
fn listings(products: &[CommentedProduct]) -> impl Iterator<Item = Listing<'_>> {
    products.iter().flat_map(|product| {
        let all = Listing {
            product: &product.id,
            filter: &Filter::ANY,
            settled: product.settled,
        };
        let of_languages = product
            .indexed
            .iter()
            .map(move |(filter, settled)| Listing {
                filter,
                settled: *settled,
                ..all
            });
        [all].into_iter().chain(of_languages)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Indexable, SiteSettings};
    use model::Language;
    use proptest::prelude::*;

    const SITE: &str = "https://example.com";

    fn product(site: &Site, id: &str, total: u64, by_language: &[(&str, u64)]) -> CommentedProduct {
        let by_language = by_language
            .iter()
            .map(|(tag, total)| (Language::parse(tag).unwrap(), *total))
            .collect();
        let by_rating = RatingCounts::new([total, 0, 0, 0, 0]);
        let stats = Stats {
            by_rating,
            by_rating_in_any_language: by_rating,
            languages: 0,
            by_language,
            last_commented_at: Some(Timestamp::MIN),
        };
        CommentedProduct::new(site, &ProductId::parse(id).unwrap(), stats, total).unwrap()
    }

    fn site(indexable: Indexable) -> Site {
        Site::new(
            SiteSettings {
                indexable,
                ..process::defaults(&[])
            },
            ([127, 0, 0, 1], 80).into(),
        )
        .unwrap()
    }

    fn unfiltered(totals: &[(String, u64)]) -> Vec<CommentedProduct> {
        let site = site(Indexable::Unfiltered);
        totals
            .iter()
            .map(|(id, total)| product(&site, id, *total, &[]))
            .collect()
    }

    /// The listings of a product in the sitemap: the front page of each, and its settled comments.
    fn listed(indexable: Indexable, total: u64, by_language: &[(&str, u64)]) -> Vec<(String, u64)> {
        let products = [product(&site(indexable), "p", total, by_language)];
        listings(&products)
            .map(|listing| (listing.page(None), listing.settled))
            .collect()
    }

    fn page(filter: &str, total: u64) -> (String, u64) {
        (format!("/product/p/comments{filter}"), total)
    }

    /// The sitemap of one product with so many comments.
    fn sitemap_of(total: u64) -> PartitionSitemap {
        PartitionSitemap::new(unfiltered(&[("p".to_owned(), total)]), SITE.len())
    }

    /// The pages of that sitemap, each with the order and the rank of its newest comment.
    fn pages_of(total: u64) -> Vec<(String, Order, u64)> {
        let sitemap = sitemap_of(total);
        let pages = sitemap.pages(0).unwrap().into_iter();
        pages
            .map(|page| {
                let path = page.path.replace("/product/p/comments", "");
                (path, page.newest.order, page.newest.skip)
            })
            .collect()
    }

    #[test]
    fn a_language_is_listed_only_where_its_pages_may_be_indexed() {
        let several = [("de", 5), ("en", 20), ("fr", 4)];
        assert_eq!(
            listed(Indexable::Languages, 29, &several),
            [page("", 29), page("/de", 5), page("/en", 20)]
        );
        assert_eq!(
            listed(Indexable::Languages, 29, &[("en", 29)]),
            [page("", 29)]
        );
        assert_eq!(listed(Indexable::Unfiltered, 29, &several), [page("", 29)]);
    }

    #[test]
    fn a_part_is_full_before_the_next_begins() {
        let totals = [
            ("a".to_owned(), 20),
            ("b".to_owned(), 20 * 120_000),
            ("c".to_owned(), 1),
        ];
        let sitemap =
            PartitionSitemap::within(unfiltered(&totals), SITE.len(), URLS_MAX, 20_000_000);
        let pages: Vec<Vec<(&str, RangeInclusive<u64>)>> = (0..sitemap.parts())
            .map(|part| {
                let of_part = sitemap.part(part).unwrap().into_iter();
                of_part
                    .map(|(listing, pages)| (listing.product.as_str(), pages))
                    .collect()
            })
            .collect();
        let expected = [
            vec![("a", 1..=1), ("b", 1..=49_999)],
            vec![("b", 50_000..=99_999)],
            vec![("b", 100_000..=120_000), ("c", 1..=1)],
        ];
        assert_eq!(pages, expected);
        assert!(sitemap.part(3).is_none());
        assert_eq!(PartitionSitemap::new(Vec::new(), SITE.len()).parts(), 0);
    }

    #[test]
    fn a_page_is_listed_with_the_rank_of_its_newest_comment() {
        use Order::{Newest, Oldest};
        let front = (String::new(), Newest, 0);
        assert_eq!(pages_of(39), std::slice::from_ref(&front));
        assert_eq!(
            pages_of(60),
            [
                ("?page=1".to_owned(), Oldest, 19),
                ("?page=2".to_owned(), Oldest, 39),
                front
            ]
        );
    }

    #[test]
    fn dates_stay_known_until_the_products_change() {
        let sitemap = sitemap_of(60);
        assert_eq!(
            (sitemap.dates(0), sitemap.dates(1)),
            (Some(&OnceLock::new()), None)
        );
        let dates = Arc::new(vec![Some(Timestamp::MIN), None, Some(Timestamp::MAX)]);
        sitemap.dates(0).unwrap().set(dates.clone()).unwrap();
        let mut same = sitemap_of(60);
        let mut other = sitemap_of(61);
        assert_eq!(
            (same.take_dates(&sitemap), same.dates(0).unwrap().get()),
            (3, Some(&dates))
        );
        assert_eq!(
            (other.take_dates(&sitemap), other.dates(0).unwrap().get()),
            (0, None)
        );
    }

    proptest! {
        #[test]
        fn every_page_is_in_one_part_within_the_limits(
            totals in prop::collection::vec(("[a-z☕]([a-z☕ ]{0,10}[a-z☕])?", 1..4_000_u64), 0..30),
            urls_max in 1..60_u64,
            bytes_max in 400..6_000_u64,
        ) {
            let products = unfiltered(&totals);
            let expected: Vec<(ProductId, u64)> = listings(&products)
                .flat_map(|listing| (1..=listing.pages()).map(|page| (listing.product.clone(), page)))
                .collect();
            let sitemap = PartitionSitemap::within(products, SITE.len(), urls_max, bytes_max);
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
