//! The heading of a page of comments, and its description for search engines.

use model::Filter;

use super::{address::Address, words::Average};
use crate::{
    read::{page::ListingPage, place::Place},
    texts::Interface,
};

/// "12,275 comments in English, page 3 of 614: 41 to 60, newest first".
pub(super) fn heading(t: &Interface, address: &Address, place: Place, listing: &ListingPage) -> String {
    let order = address.query.order;
    if place == Place::Unknown {
        let what = of_filter(t, t.text("some-comments").into_owned(), &address.query.filter);
        return t.joined([Some(what), Some(t.order(order))]);
    }
    let counted = listing.total.map_or_else(|| t.end_of(order), |total| t.comments(total));
    let counted = of_filter(t, counted, &address.query.filter);
    let of_all = place.of_all(t);
    let is_divided = of_all.is_some();
    let heading = t.joined([Some(counted), of_all]);
    let Some((from, to)) = shown(address, place, listing).filter(|(from, to)| from < to) else { return heading };
    let range = |text: &str, id| t.with(id, [("text", text.into()), ("from", from.into()), ("to", to.into())]);
    let heading = match place {
        Place::Counted { .. } if is_divided => range(&heading, "range"),
        Place::Front { archived: Some(1..) } => range(&heading, "range-newest"),
        Place::Archive { .. } => range(&heading, "range-from-oldest"),
        Place::Counted { .. } | Place::Front { .. } | Place::Unknown => heading,
    };
    t.joined([Some(heading), Some(t.order(order))])
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
    let days = match (t.day(first.created_at), t.day(last.created_at)) {
        (first, last) if first == last => first,
        (first, last) => t.with("days", [("from", first.into()), ("to", last.into())]),
    };
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
