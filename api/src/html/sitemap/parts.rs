//! Distributes the pages of a partition over files: product by product, page by page, as many as a file may hold.
//!
//! **Invariant:** every page of every product is in exactly one part, and each part respects the limits
//! (`every_page_is_in_one_part_within_the_limits`).

use std::ops::RangeInclusive;

use model::{Filter, PageNumber, PageSize, ProductId};
use page_index::ProductTotal;

use crate::links;

/// Maximum number of URLs in a file (sitemaps.org).
const URLS_MAX: u64 = 50_000;

/// Maximum length of a file in bytes. The protocol allows 50 MB, but each request builds a file in memory. So the limit
/// equals that of a page of comments. With URLs of usual length, a file then holds fewer than [`URLS_MAX`].
const BYTES_MAX: u64 = 1_000_000;

/// Text before each URL.
pub(super) const BEFORE_URL: &str = "<url><loc>";
pub(super) const AFTER_URL: &str = "</loc></url>";

/// Maximum length of a file's head and foot together, in bytes.
const AROUND_BYTES: u64 = 200;

/// The products of a partition, and the start of each part.
#[derive(Debug)]
pub(crate) struct PartitionSitemap {
    products: Vec<ProductTotal>,
    /// The index of the first product of each part, and its first page.
    parts: Vec<(usize, u64)>,
}

impl PartitionSitemap {
    /// `site_bytes` is the length of the site's URL.
    pub(super) fn new(products: Vec<ProductTotal>, site_bytes: usize) -> Self {
        Self::within(products, site_bytes, URLS_MAX, BYTES_MAX)
    }

    fn within(products: Vec<ProductTotal>, site_bytes: usize, urls_max: u64, bytes_max: u64) -> Self {
        let (mut parts, mut urls_left, mut bytes_left) = (Vec::new(), 0, 0);
        for (at, product) in products.iter().enumerate() {
            let last = pages(product);
            // The last page has the longest URL.
            let path = PageNumber::new(last).map(|last| links::page(&product.product, &Filter::ANY, last).len());
            let around = BEFORE_URL.len() + AFTER_URL.len() + "\n".len();
            let url_bytes = u64::try_from(site_bytes + path.unwrap_or(0) + around).unwrap_or(u64::MAX);
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
        Self { products, parts }
    }

    /// Number of parts.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.products.iter().map(|product| product.product.as_str().len()).sum();
        texts + size_of_val(self.products.as_slice()) + size_of_val(self.parts.as_slice())
    }

    /// The products of a part, counted from 0, each with its pages in that part.
    pub(super) fn part(&self, number: usize) -> Option<Vec<(&ProductId, RangeInclusive<u64>)>> {
        let (from, first_page) = *self.parts.get(number)?;
        let (to, end_page) = self.parts.get(number + 1).copied().unwrap_or((self.products.len(), 1));
        // This part also contains the next part's first product, unless that product's first page is in the next part.
        let end = if end_page > 1 { to + 1 } else { to };
        let products = self.products.get(from..end)?.iter().zip(from..);
        let pages = products.map(|(product, at)| {
            let first = if at == from { first_page } else { 1 };
            let last = if at == to { end_page - 1 } else { pages(product) };
            (&product.product, first..=last)
        });
        Some(pages.collect())
    }
}

/// Number of a product's pages for people.
fn pages(product: &ProductTotal) -> u64 {
    PageSize::default().total_pages(product.total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SITE: &str = "https://example.com";

    fn products(totals: &[(String, u64)]) -> Vec<ProductTotal> {
        let product =
            |(id, total): &(String, u64)| ProductTotal { product: ProductId::parse(id).unwrap(), total: *total };
        totals.iter().map(product).collect()
    }

    #[test]
    fn a_part_is_full_before_the_next_begins() {
        let totals = [("a".to_owned(), 20), ("b".to_owned(), 20 * 120_000), ("c".to_owned(), 1)];
        let sitemap = PartitionSitemap::within(products(&totals), SITE.len(), URLS_MAX, 10_000_000);
        let pages: Vec<Vec<(&str, RangeInclusive<u64>)>> = (0..sitemap.parts())
            .map(|part| sitemap.part(part).unwrap().into_iter().map(|(id, pages)| (id.as_str(), pages)).collect())
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

    proptest! {
        #[test]
        fn every_page_is_in_one_part_within_the_limits(
            totals in prop::collection::vec(("[a-z☕ ]{1,12}", 1..4_000_u64), 0..30),
            urls_max in 1..60_u64,
            bytes_max in 400..6_000_u64,
        ) {
            let products = products(&totals);
            let expected: Vec<(ProductId, u64)> = products
                .iter()
                .flat_map(|product| (1..=pages(product)).map(|page| (product.product.clone(), page)))
                .collect();
            let sitemap = PartitionSitemap::within(products, SITE.len(), urls_max, bytes_max);
            let mut listed = Vec::new();
            for part in 0..sitemap.parts() {
                let of_part: Vec<(ProductId, u64)> = sitemap.part(part).unwrap().into_iter()
                    .flat_map(|(product, pages)| pages.map(|page| (product.clone(), page)))
                    .collect();
                let bytes: usize = of_part.iter().map(|(product, page)| {
                    let path = links::page(product, &Filter::ANY, PageNumber::new(*page).unwrap());
                    BEFORE_URL.len() + SITE.len() + path.len() + AFTER_URL.len() + 1
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
