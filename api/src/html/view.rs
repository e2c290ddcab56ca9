//! The texts that the template of a page of comments shows.

use askama::Template;
use model::{Comment, Filter, Order, PageNumber, Rating};
use page_index::Stats;

use super::{
    address::Address,
    filters::{FilterLink, Filters},
    fold::fold,
    head::{Head, Neighbours},
    language_name::{self, direction, english_name, text_direction},
    page_bar::{BarItem, page_bar},
    structured_data,
    words::{self, Average, counted, day, displayed, grouped, in_words, joined, minute},
};
use crate::{links, read::page::ListingPage, site::Site};

/// A page of comments.
#[derive(Template)]
#[template(path = "comments.html")]
pub(super) struct CommentsPage<'page> {
    pub(super) head: Head,
    address: &'page Address,
    /// The filter and the page number in words, such as "in English, rated 5, page 3"; empty for the first page of
    /// everything.
    which: String,
    /// The average of the whole product.
    average: Option<Average>,
    /// The average of the language that the filter selects, and the name of that language.
    average_of_language: Option<(String, Average)>,
    filters: Filters,
    /// "12,275 comments in English, page 3 of 614: 41 to 60, newest first".
    heading: String,
    /// The page of the same comments in the other order; `None` where that makes no difference.
    reversed: Option<FilterLink>,
    comments: Vec<CommentView<'page>>,
    /// Whether the page index was unavailable.
    is_degraded: bool,
    is_filtered: bool,
    comment_form: Option<String>,
    page_bar: Vec<BarItem>,
}

struct CommentView<'page> {
    comment: &'page Comment,
    language_name: String,
    direction: &'static str,
    stars: String,
    body_direction: &'static str,
    beginning: String,
    /// The part below the beginning of a long body, folded.
    rest: Option<String>,
    time: String,
}

impl<'page> CommentsPage<'page> {
    /// The page at an address. Without the page index it has neither totals nor stats.
    pub(super) fn new(
        site: &Site,
        address: &'page Address,
        listing: &'page ListingPage,
        stats: Option<&Stats>,
    ) -> Self {
        let Address { query, number } = address;
        let total_pages = listing.total.map(|total| pages_led_to(address, listing, total));
        let filter = in_words(&query.filter);
        let average = stats.and_then(|stats| Average::of(&stats.by_rating_in_any_language));
        let language = query.filter.language();
        let average_of_language =
            language.and_then(|language| Some((english_name(language), Average::of(&stats?.by_rating)?)));
        let pages = total_pages.filter(|total_pages| *total_pages > 1);
        let place = pages.map(|pages| format!("page {} of {}", grouped(number.get()), grouped(pages)));
        let order = format!("{} first", query.order);
        let subject = joined([Some(format!("Comments on {}", query.product)), filter.clone()]);
        let other_order = (query.order != Order::default()).then(|| order.clone());
        let title = joined([Some(subject.clone()), place.clone(), other_order]);
        // Pages without comments are not searched for, and any address at all is a page of some product without
        // comments.
        let may_index = site.indexable.admits_in(&query.filter, query.order) && !listing.comments.is_empty();
        let mut head = Head::new(site, &address.canonical(), title, may_index);
        head.description = Some(describe(address, listing, average.as_ref(), &subject));
        head.neighbours = total_pages.map(|total_pages| neighbours(address, total_pages)).unwrap_or_default();
        head.structured_data = structured_data::of_page(site, &query.product, average.as_ref(), &listing.comments);
        let counted = listing.total.map_or_else(|| format!("The {} comments", query.order), counted);
        let counted = if let Some(filter) = &filter { format!("{counted} {filter}") } else { counted };
        let mut heading = joined([Some(counted), place]);
        if let Some((from, to)) = shown(address, listing).filter(|(from, to)| from < to) {
            if pages.is_some() {
                heading.push_str(&format!(": {} to {}", grouped(from), grouped(to)));
            }
            heading = joined([Some(heading), Some(order)]);
        }
        let reversed = || FilterLink {
            href: address.reversed(),
            nofollow: !site.indexable.admits_in(&query.filter, query.order.reversed()),
        };
        let page = (*number > PageNumber::FIRST).then(|| format!("page {}", grouped(number.get())));
        Self {
            head,
            address,
            which: joined([filter, page]),
            average,
            average_of_language,
            filters: Filters::new(site, address, stats),
            heading,
            reversed: listing.total.is_none_or(|total| total > 1).then(reversed),
            comments: listing.comments.iter().map(CommentView::new).collect(),
            is_degraded: listing.total.is_none(),
            is_filtered: query.filter != Filter::ANY,
            comment_form: site.comment_form.then(|| links::comment_form(&query.product)),
            page_bar: total_pages.map(|total_pages| page_bar(address, total_pages)).unwrap_or_default(),
        }
    }
}

impl<'page> CommentView<'page> {
    fn new(comment: &'page Comment) -> Self {
        let direction = direction(&comment.language);
        let body = displayed(&comment.text.body);
        let (beginning, rest) = fold(body);
        Self {
            comment,
            language_name: english_name(&comment.language),
            direction,
            stars: stars(comment.rating),
            body_direction: text_direction(direction, body),
            beginning,
            rest,
            time: minute(comment.created_at),
        }
    }
}

/// How many pages are linked: those that the total reaches, and the next one when a full page is not the last. That
/// next page may not have its comments yet.
fn pages_led_to(address: &Address, listing: &ListingPage, total: u64) -> u64 {
    let total_pages = address.query.page_size.total_pages(total);
    let is_full = listing.comments.len() >= usize::from(address.query.page_size.get());
    if is_full && listing.next.is_some() { total_pages.max(address.number.get() + 1) } else { total_pages }
}

/// The neighbours of a page in a listing of `total_pages`.
fn neighbours(address: &Address, total_pages: u64) -> Neighbours {
    let current = address.number.get();
    let page = |number: u64| PageNumber::new(number).ok().map(|number| address.page(number));
    Neighbours {
        first: page(1),
        prev: current.checked_sub(1).and_then(page),
        next: (current < total_pages).then(|| current + 1).and_then(page),
        last: page(total_pages),
    }
}

/// The description for search engines, shown below the title: distinct for every page.
fn describe(address: &Address, listing: &ListingPage, average: Option<&Average>, subject: &str) -> String {
    let mut text = format!("{subject}.");
    if let Some(average) = average {
        text.push_str(&format!(" Rated {} out of 5 by {}.", average.text, average.counted()));
    }
    if let (Some(first), Some(last), Some((from, to))) =
        (listing.comments.first(), listing.comments.last(), shown(address, listing))
    {
        let of = listing.total.map(|total| format!(" of {}", grouped(total))).unwrap_or_default();
        let (order, from, to) = (address.query.order, grouped(from), grouped(to));
        text.push_str(&format!(" Comments {from} to {to}{of}, {order} first"));
        match (day(first.created_at), day(last.created_at)) {
            (first, last) if first == last => text.push_str(&format!(": {first}.")),
            (first, last) => text.push_str(&format!(": {first} to {last}.")),
        }
    }
    text
}

/// The places of the first and the last comment that the page shows, counted from 1; `None` when it shows none.
fn shown(address: &Address, listing: &ListingPage) -> Option<(u64, u64)> {
    let before = address.number.skip(address.query.page_size);
    let count = u64::try_from(listing.comments.len()).ok().filter(|count| *count > 0)?;
    Some((before + 1, before.saturating_add(count)))
}

fn stars(rating: Rating) -> String {
    let filled = usize::from(rating.get());
    "★".repeat(filled) + &"☆".repeat(Rating::ALL.len() - filled)
}
