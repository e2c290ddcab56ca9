//! How deep published systems let readers page, according to their own documentation; looked up on 2026-11-20.
//!
//! An operator can raise a default, at a cost that the same source names. The source for Amazon describes an interface
//! of 2011; no newer source was found that covers reviews.

use crate::report::{Cell, Table};

/// A published limit.
struct Limit {
    system: &'static str,
    /// What a reader can reach by page or offset.
    reach: &'static str,
    /// The last page of 20, if the limit is a number of results.
    last_page_of_20: Option<u32>,
    beyond: &'static str,
    source: &'static str,
}

const LIMITS: [Limit; 6] = [
    Limit {
        system: "Elasticsearch, from and size",
        reach: "10,000 results (default of index.max_result_window)",
        last_page_of_20: Some(500),
        beyond: "refused; search_after goes on from a known result, and cannot jump",
        source: "https://www.elastic.co/guide/en/elasticsearch/reference/current/search-request-from-size.html",
    },
    Limit {
        system: "Algolia, page and hitsPerPage",
        reach: "1,000 results (default of paginationLimitedTo, at most 10,000)",
        last_page_of_20: Some(50),
        beyond: "out of reach; raised, the order after the 1,000th is not guaranteed",
        source: "https://www.algolia.com/doc/api-reference/api-parameters/paginationLimitedTo",
    },
    Limit {
        system: "GitHub, REST search",
        reach: "1,000 results of a search",
        last_page_of_20: Some(50),
        beyond: "out of reach; the search has to be narrowed",
        source: "https://docs.github.com/rest/reference/search",
    },
    Limit {
        system: "Reddit, listings, as the client PRAW documents them",
        reach: "1,000 items of most listings",
        last_page_of_20: Some(50),
        beyond: "out of reach",
        source: "https://praw.readthedocs.io/en/v7.6.1/code_overview/other/listinggenerator.html",
    },
    Limit {
        system: "Shopify, Storefront API and Liquid",
        reach: "25,000 objects of a list; also a count says 25,001 at most",
        last_page_of_20: Some(1_250),
        beyond: "an error (API), the last page allowed (Liquid)",
        source: "https://shopify.dev/changelog/new-pagination-limits-for-liquid-storefront-graphql-api",
    },
    Limit {
        system: "Amazon, Product Advertising API 2011-08-01, reviews of an item",
        reach: "20 pages (ReviewPage of ItemLookup)",
        last_page_of_20: None,
        beyond: "out of reach",
        source: "http://docs.amazonwebservices.com/AWSECommerceService/latest/DG/MaximumNumberofPages.html",
    },
];

/// The limits.
pub(super) fn table() -> Table {
    let rows = LIMITS.iter().map(|limit| {
        let last_page = limit.last_page_of_20.map_or(Cell::None, |page| Cell::Figure(f64::from(page)));
        vec![limit.system.into(), limit.reach.into(), last_page, limit.beyond.into(), limit.source.into()]
    });
    Table {
        name: "depth, published limits".to_owned(),
        about: "how deep published systems let anybody page, looked up on 2026-11-20".to_owned(),
        columns: ["system", "within reach", "last page of 20", "beyond", "source"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
