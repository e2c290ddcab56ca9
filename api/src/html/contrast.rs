//! The box with the most recent positive comment and the most recent critical one, on the front page of all comments.

use model::{Comment, Filter, Order};

use super::{
    address::Address,
    counts::Counts,
    filters::FilterLink,
    fold::excerpt,
    language_name::{direction, text_direction},
    words::{day, displayed, stars},
};
use crate::{
    read::contrast::{Contrast, Side},
    site::Site,
};

/// Fewer comments than these are shown without the box, which would only repeat them.
pub(super) const COMMENTS_MIN: usize = 3;

/// Whether a page has the box: the first page of all comments, newest first.
pub(super) fn belongs_to(address: &Address) -> bool {
    let query = &address.query;
    address.number.is_none() && address.cursor.is_none() && query.filter == Filter::ANY && query.order == Order::Newest
}

/// Both comments as the page shows them.
pub(super) struct ContrastView {
    positive: SideView,
    critical: SideView,
}

/// One of them.
pub(super) struct SideView {
    pub(super) heading: &'static str,
    pub(super) comment: Comment,
    pub(super) stars: String,
    pub(super) direction: &'static str,
    pub(super) excerpt: String,
    pub(super) day: String,
    /// All comments of that kind.
    pub(super) all: FilterLink,
    pub(super) all_label: &'static str,
}

impl ContrastView {
    pub(super) fn new(site: &Site, counts: Counts<'_>, contrast: Contrast) -> Self {
        let view = |side, heading, all_label| SideView::new(site, counts, side, heading, all_label);
        Self {
            positive: view(contrast.positive, "Most recent positive", "All positive comments"),
            critical: view(contrast.critical, "Most recent critical", "All critical comments"),
        }
    }

    pub(super) fn sides(&self) -> [&SideView; 2] {
        [&self.positive, &self.critical]
    }
}

impl SideView {
    fn new(
        site: &Site,
        counts: Counts<'_>,
        Side { comment, filter }: Side,
        heading: &'static str,
        all_label: &'static str,
    ) -> Self {
        let body = displayed(&comment.text.body);
        Self {
            heading,
            stars: stars(comment.rating),
            direction: text_direction(direction(&comment.language), body),
            excerpt: excerpt(body),
            day: day(comment.created_at),
            all: FilterLink::to(site, counts, &filter),
            all_label,
            comment,
        }
    }
}
