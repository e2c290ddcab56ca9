//! The heading of a page of comments, and its description for search engines.

use model::{Filter, Order};

use super::{address::Address, words::Average};
use crate::{
    read::{page::ListingPage, place::Place},
    texts::Interface,
};

/// "12,275 comments in English, page 3 of 614: 1 May 2024 to 3 May 2024". The days are in their own order on every page.
pub(super) fn heading(t: &Interface, address: &Address, place: Place, listing: &ListingPage) -> String {
    let order = address.query.order;
    let counted = match listing.total {
        _ if place == Place::Unknown => t.text("some-comments").into_owned(),
        Some(total) => t.comments(total),
        None => t.end_of(order),
    };
    let counted = of_filter(t, counted, &address.query.filter);
    let heading = t.joined([Some(counted), place.of_all(t)]);
    let dates = listing.comments.iter().map(|comment| comment.created_at);
    let Some((from, to)) = dates.clone().min().zip(dates.max()) else { return heading };
    let id = if matches!(place, Place::Front { archived: Some(1..) }) { "range-newest" } else { "range" };
    let heading = t.with(id, [("text", heading.into()), ("days", t.days(from, to).into())]);
    t.joined([Some(heading), (order != Order::default()).then(|| t.order(order))])
}

/// "12,275 comments in English".
fn of_filter(t: &Interface, comments: String, filter: &Filter) -> String {
    let Some(filter) = t.filter(filter) else { return comments };
    t.with("comments-of-filter", [("comments", comments.into()), ("filter", filter.into())])
}

/// The description for search engines, shown below the title: distinct for every page.
pub(super) fn describe(
    t: &Interface,
    address: &Address,
    place: Place,
    listing: &ListingPage,
    average: Option<&Average>,
    subject: String,
) -> String {
    let rated = average.map(|average| {
        let text = t.average(average);
        t.with("description-rated", [("average", text.into()), ("count", average.total.into())])
    });
    let sentences = [
        Some(t.with("description-subject", [("subject", subject.into())])),
        rated,
        describe_range(t, address, place, listing),
    ];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(&t.text("sentence-separator"))
}

/// "Comments 41 to 60 of 12,275, newest first: 3 May 2024 to 1 Jan 2025."
fn describe_range(t: &Interface, address: &Address, place: Place, listing: &ListingPage) -> Option<String> {
    let (first, last) = listing.comments.first().zip(listing.comments.last())?;
    let (from, to) = shown(address, place, listing)?;
    let days = t.days(first.created_at, last.created_at);
    let order = t.order(address.query.order);
    let range = [("from", from.into()), ("to", to.into()), ("order", order.into()), ("days", days.into())];
    Some(match listing.total {
        _ if is_archive(place) => t.with("description-range-from-oldest", range),
        Some(total) => {
            let [from, to, order, days] = range;
            t.with("description-range-of", [from, to, order, days, ("total", total.into())])
        }
        None => t.with("description-range", range),
    })
}

/// The places of the comments that the page shows, counted from 1 for the first comment that is counted; `None` when it
/// shows none.
fn shown(address: &Address, place: Place, listing: &ListingPage) -> Option<(u64, u64)> {
    let before = place.before(address)?;
    let count = u64::try_from(listing.comments.len()).ok().filter(|count| *count > 0)?;
    Some((before + 1, before.saturating_add(count)))
}

/// Whether search engines may keep the page as it is.
pub(super) fn is_archive(place: Place) -> bool {
    matches!(place, Place::Archive { .. })
}
