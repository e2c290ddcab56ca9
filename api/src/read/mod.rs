//! Reading pages of comments and of products.
//!
//! - `page`: a page by number or by cursor: filter → ranks of the page → one query of the table.
//! - `page_position`: a page among those of its listing, and its neighbours.
//! - `contrast`: the most recent positive comment and the most recent critical one.
//! - `dates`: the page for a month or a day.
//! - `products`: the walk over all products, for their list and the sitemap.
//! - `cursor`: the sealed positions that lead from page to page.

pub(crate) mod contrast;
pub(crate) mod cursor;
pub(crate) mod dates;
pub(crate) mod page;
pub(crate) mod page_position;
pub(crate) mod products;

pub(crate) use crate::listing::ListingQuery;
