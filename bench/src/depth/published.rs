//! How deep published systems let readers page, according to their own documentation; looked up on 2026-11-20.
//!
//! An operator can raise a default, at a cost that the same source names. The source for Amazon describes an interface
//! of 2011; no newer source was found that covers reviews.

use crate::report::{Cell, Table, row};

/// The limits.
pub(super) fn table() -> Table {
    let rows = [
        row![
            "Elasticsearch, from and size",
            "10,000 results (default of index.max_result_window)",
            500_u64,
            "refused; search_after goes on from a known result, and cannot jump",
            "https://www.elastic.co/guide/en/elasticsearch/reference/current/search-request-from-size.html",
        ],
        row![
            "Algolia, page and hitsPerPage",
            "1,000 results (default of paginationLimitedTo, at most 10,000)",
            50_u64,
            "out of reach; raised, the order after the 1,000th is not guaranteed",
            "https://www.algolia.com/doc/api-reference/api-parameters/paginationLimitedTo",
        ],
        row![
            "GitHub, REST search",
            "1,000 results of a search",
            50_u64,
            "out of reach; the search has to be narrowed",
            "https://docs.github.com/rest/reference/search",
        ],
        row![
            "Reddit, listings, as the client PRAW documents them",
            "1,000 items of most listings",
            50_u64,
            "out of reach",
            "https://praw.readthedocs.io/en/v7.6.1/code_overview/other/listinggenerator.html",
        ],
        row![
            "Shopify, Storefront API and Liquid",
            "25,000 objects of a list; also a count says 25,001 at most",
            1_250_u64,
            "an error (API), the last page allowed (Liquid)",
            "https://shopify.dev/changelog/new-pagination-limits-for-liquid-storefront-graphql-api",
        ],
        row![
            "Amazon, Product Advertising API 2011-08-01, reviews of an item",
            "20 pages (ReviewPage of ItemLookup)",
            Cell::None,
            "out of reach",
            "http://docs.amazonwebservices.com/AWSECommerceService/latest/DG/MaximumNumberofPages.html",
        ],
    ];
    let about = "how deep published systems let anybody page, looked up on 2026-11-20";
    Table::new(
        "depth, published limits",
        about,
        &["system", "within reach", "last page of 20", "beyond", "source"],
        rows,
    )
}
