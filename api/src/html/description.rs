//! The heading of a page of comments, and its description for search engines.

use model::ListingOrder;

use super::{address::PageAddress, words::Average};
use crate::{
    read::{page::ListingPage, page_position::PagePosition},
    texts::Interface,
};

/// "12,275 comments in English, page 3 of 614: 1 May 2024 to 3 May 2024". The days are in their own
/// order on every page.
pub(super) fn heading(
    t: &Interface,
    address: &PageAddress,
    position: PagePosition,
    listing: &ListingPage,
) -> String {
    let order = address.query.order;
    let counted = match listing.total {
        _ if position == PagePosition::Unknown => t.text("some-comments").into_owned(),
        Some(total) => t.counted("comments", total),
        None => match order {
            ListingOrder::Newest => t.text("the-newest-comments"),
            ListingOrder::Oldest => t.text("the-oldest-comments"),
            ListingOrder::Highest | ListingOrder::Lowest => t.text("some-comments"),
        }
        .into_owned(),
    };
    let counted = match t.filter(&address.query.filter) {
        Some(filter) => t.with(
            "comments-of-filter",
            [("comments", counted.into()), ("filter", filter.into())],
        ),
        None => counted,
    };
    let heading = t.joined([Some(counted), position.of_all(t)]);
    let dates = listing.comments.iter().map(|comment| comment.created_at);
    let Some((from, to)) = dates.clone().min().zip(dates.max()) else {
        return heading;
    };
    let id = if matches!(
        position,
        PagePosition::Front {
            archived: Some(1..)
        }
    ) {
        "range-newest"
    } else {
        "range"
    };
    let heading = t.with(
        id,
        [("text", heading.into()), ("days", t.days(from, to).into())],
    );
    let other_order = if order == ListingOrder::default() {
        None
    } else {
        Some(t.order(order))
    };
    t.joined([Some(heading), other_order])
}

/// The description for search engines, shown below the title: distinct for every page.
pub(super) fn describe(
    t: &Interface,
    address: &PageAddress,
    position: PagePosition,
    listing: &ListingPage,
    average: Option<&Average>,
    subject: String,
) -> String {
    let rated = average.map(|average| {
        let text = t.average(average);
        t.with(
            "description-rated",
            [("average", text.into()), ("count", average.total.into())],
        )
    });
    let sentences = [
        Some(t.with("description-subject", [("subject", subject.into())])),
        rated,
        describe_range(t, address, position, listing),
    ];
    sentences
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(&t.text("sentence-separator"))
}

/// "Comments 41 to 60 of 12,275, newest first: 3 May 2024 to 1 Jan 2025." They are counted from 1
/// for the first comment that is counted.
fn describe_range(
    t: &Interface,
    address: &PageAddress,
    position: PagePosition,
    listing: &ListingPage,
) -> Option<String> {
    let (first, last) = listing.comments.first().zip(listing.comments.last())?;
    if address.query.order.is_by_rating() {
        // Its days are in no order.
        return None;
    }
    let before = position.before(address)?;
    let to = before.saturating_add(u64::try_from(listing.comments.len()).unwrap_or(u64::MAX));
    let id = match listing.total {
        _ if is_archive(position) => "description-range-from-oldest",
        Some(_) => "description-range-of",
        None => "description-range",
    };
    let range = [
        ("from", (before + 1).into()),
        ("to", to.into()),
        ("total", listing.total.unwrap_or(0).into()),
        ("order", t.order(address.query.order).into()),
        ("days", t.days(first.created_at, last.created_at).into()),
    ];
    Some(t.with(id, range))
}

/// Whether search engines may keep the page as it is.
pub(super) fn is_archive(position: PagePosition) -> bool {
    matches!(position, PagePosition::Archive { .. })
}
