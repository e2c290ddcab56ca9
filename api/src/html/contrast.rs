//! The box with the most recent positive comment and the most recent critical one, on the front
//! page of all comments.

use model::{Filter, ListingOrder};

use super::address::PageAddress;
use crate::read::contrast::{Contrast, Side};

/// Fewer comments than these are shown without the box, which would only repeat them.
pub(super) const COMMENTS_MIN: usize = 3;

/// Whether a page has the box: the first page of all comments, newest first.
pub(super) fn belongs_to(address: &PageAddress) -> bool {
    let query = &address.query;
    address.number.is_none()
        && address.cursor.is_none()
        && query.filter == Filter::ANY
        && query.order == ListingOrder::Newest
}

/// Both comments, each with the message above it, and that of the link to all such comments.
pub(super) fn sides(
    Contrast { positive, critical }: Contrast,
) -> [(Side, &'static str, &'static str); 2] {
    [
        (positive, "most-recent-positive", "all-positive"),
        (critical, "most-recent-critical", "all-critical"),
    ]
}
