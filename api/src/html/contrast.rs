//! The box with the most recent positive comment and the most recent critical one, on the front page of all comments.

use model::{Comment, Filter, Order};

use super::{
    address::Address,
    counts::Counts,
    filters::FilterLink,
    fold::excerpt,
    language_name::{direction, text_direction},
    words::{displayed, stars},
};
use crate::{
    read::contrast::{Contrast, Side},
    site::Site,
    texts::Interface,
};

/// Fewer comments than these are shown without the box, which would only repeat them.
pub(super) const COMMENTS_MIN: usize = 3;

/// Whether a page has the box: the first page of all comments, newest first.
pub(super) fn belongs_to(address: &Address) -> bool {
    let query = &address.query;
    address.number.is_none() && address.cursor.is_none() && query.filter == Filter::ANY && query.order == Order::Newest
}

pub(super) struct ContrastView {
    positive: SideView,
    critical: SideView,
}

pub(super) struct SideView {
    pub(super) heading: String,
    pub(super) comment: Comment,
    pub(super) stars: String,
    pub(super) out_of_5: String,
    pub(super) direction: &'static str,
    pub(super) excerpt: String,
    pub(super) day: String,
    pub(super) all: FilterLink,
    pub(super) all_label: String,
}

impl ContrastView {
    pub(super) fn new(site: &Site, t: &Interface, counts: Counts<'_>, contrast: Contrast) -> Self {
        let view = |side, heading, all| SideView::new(site, t, counts, side, [heading, all]);
        Self {
            positive: view(contrast.positive, "most-recent-positive", "all-positive"),
            critical: view(contrast.critical, "most-recent-critical", "all-critical"),
        }
    }

    pub(super) fn sides(&self) -> [&SideView; 2] {
        [&self.positive, &self.critical]
    }
}

impl SideView {
    fn new(
        site: &Site,
        t: &Interface,
        counts: Counts<'_>,
        Side { comment, filter }: Side,
        texts: [&'static str; 2],
    ) -> Self {
        let [heading, all_label] = texts.map(|id| t.text(id).into_owned());
        let body = displayed(&comment.text.body);
        Self {
            heading,
            stars: stars(comment.rating),
            out_of_5: t.out_of_5(comment.rating),
            direction: text_direction(direction(&comment.language), body),
            excerpt: excerpt(body),
            day: t.day(comment.created_at),
            all: FilterLink::to(site, counts, &filter),
            all_label,
            comment,
        }
    }
}
