//! What the template of a page of comments shows, as texts.

use askama::Template;
use model::{Comment, Filter, Instant, Language, PageNumber, Rating, RatingSet};
use stores::page_index::Stats;

use super::page_bar::PageBar;
use crate::{
    links,
    listing::{Listing, ListingQuery},
    routes::stats::{average_hundredths, total},
};

/// A page of comments.
#[derive(Template)]
#[template(path = "comments.html")]
pub(super) struct CommentsPage {
    style_sheet: &'static str,
    product: String,
    /// The language that the filter wants.
    language: Option<String>,
    /// What the filter wants, in words; empty when it wants everything.
    filter: String,
    /// "page 3 of 392,716"; empty when there is one page only.
    place: String,
    /// "12,275 comments"; `None` when the page index is unavailable.
    total: Option<String>,
    /// The average of all comments of the language.
    average: Option<Average>,
    comments: Vec<CommentView>,
    languages: Vec<Choice>,
    ratings: Vec<RatingChoice>,
    /// Where the filter by rating is taken off; `None` when there is none.
    any_rating: Option<String>,
    page_bar: Option<PageBar>,
}

struct Average {
    /// "4.27".
    text: String,
    /// Of how many comments.
    total: String,
}

struct Choice {
    label: String,
    count: Option<String>,
    href: String,
    current: bool,
}

struct RatingChoice {
    rating: Rating,
    count: Option<String>,
    /// The share of all comments, 0 to 100.
    percent: u64,
    href: String,
    selected: bool,
}

struct CommentView {
    element_id: String,
    permalink: String,
    language: String,
    rating: Rating,
    stars: String,
    title: Option<String>,
    body: String,
    author: String,
    instant: String,
    date: String,
}

impl CommentsPage {
    pub(super) fn new(query: &ListingQuery, number: PageNumber, listing: &Listing, stats: Option<&Stats>) -> Self {
        let total_pages = listing.total.map(|total| query.page_size.total_pages(total));
        let place = match total_pages {
            Some(1) => String::new(),
            Some(total_pages) => format!("page {} of {}", grouped(number.get()), grouped(total_pages)),
            None => format!("page {}", grouped(number.get())),
        };
        Self {
            style_sheet: links::STYLE_SHEET,
            product: query.product.to_string(),
            language: query.filter.language().map(Language::to_string),
            filter: in_words(&query.filter),
            place,
            total: listing.total.map(counted),
            average: stats.and_then(|stats| {
                let hundredths = average_hundredths(stats)?;
                let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
                Some(Average { text, total: counted(total(stats)) })
            }),
            comments: listing.comments.iter().map(CommentView::new).collect(),
            languages: languages(query, stats),
            ratings: ratings(query, stats),
            any_rating: query.filter.ratings().map(|_| first_page(query, query.filter.language().cloned(), None)),
            page_bar: total_pages
                .and_then(|total_pages| PageBar::new(&query.product, &query.filter, number.get(), total_pages)),
        }
    }
}

impl CommentView {
    fn new(comment: &Comment) -> Self {
        Self {
            element_id: links::element_id(&comment.id),
            permalink: links::permalink(&comment.id),
            language: comment.language.to_string(),
            rating: comment.rating,
            stars: stars(comment.rating),
            title: comment.text.title.clone(),
            body: comment.text.body.clone(),
            author: comment.text.author.clone().unwrap_or_else(|| "Anonymous".to_owned()),
            instant: comment.created_at.to_string(),
            date: date(comment.created_at),
        }
    }
}

/// Any language, then each that the product has. Without stats only the one in use is known.
fn languages(query: &ListingQuery, stats: Option<&Stats>) -> Vec<Choice> {
    let current = query.filter.language();
    let ratings = query.filter.ratings();
    let any = Choice {
        label: "All languages".to_owned(),
        count: stats.map(|stats| grouped(stats.by_language.iter().map(|(_, total)| total).sum())),
        href: first_page(query, None, ratings),
        current: current.is_none(),
    };
    let mut known: Vec<(&Language, Option<u64>)> = match stats {
        Some(stats) => stats.by_language.iter().map(|(language, total)| (language, Some(*total))).collect(),
        None => Vec::new(),
    };
    known.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
    if let Some(current) = current
        && !known.iter().any(|(language, _)| *language == current)
    {
        known.push((current, stats.map(|_| 0)));
    }
    let choices = known.into_iter().map(|(language, total)| Choice {
        label: language.to_string(),
        count: total.map(grouped),
        href: first_page(query, Some(language.clone()), ratings),
        current: Some(language) == current,
    });
    std::iter::once(any).chain(choices).collect()
}

/// Five to one; each link puts its rating into the set, or takes it out.
fn ratings(query: &ListingQuery, stats: Option<&Stats>) -> Vec<RatingChoice> {
    let set = query.filter.ratings();
    let all = stats.map_or(0, total);
    let choices = Rating::ALL.into_iter().rev().map(|rating| {
        let count =
            stats.and_then(|stats| stats.by_rating.iter().find(|(of, _)| *of == rating)).map(|(_, total)| *total);
        RatingChoice {
            rating,
            count: count.map(grouped),
            percent: (count.unwrap_or(0) * 100).checked_div(all).unwrap_or(0),
            href: first_page(query, query.filter.language().cloned(), toggled(set, rating)),
            selected: set.is_some_and(|set| set.contains(rating)),
        }
    });
    choices.collect()
}

/// The set with the rating put in, or taken out. Taking the last one out, or putting the last one in, ends the filter.
fn toggled(set: Option<RatingSet>, rating: Rating) -> Option<RatingSet> {
    let has = |of: Rating| set.is_some_and(|set| set.contains(of));
    RatingSet::of(Rating::ALL.into_iter().filter(|of| has(*of) != (*of == rating)))
}

fn first_page(query: &ListingQuery, language: Option<Language>, ratings: Option<RatingSet>) -> String {
    links::page(&query.product, &Filter::new(language, ratings), PageNumber::FIRST)
}

fn in_words(filter: &Filter) -> String {
    let language = filter.language().map(|language| format!("in {language}"));
    let ratings = filter.ratings().map(|ratings| {
        let numbers: Vec<String> = ratings.iter().map(|rating| rating.to_string()).collect();
        match numbers.split_last() {
            Some((last, [])) => format!("rated {last}"),
            Some((last, others)) => format!("rated {} or {last}", others.join(", ")),
            None => String::new(),
        }
    });
    language.into_iter().chain(ratings).collect::<Vec<_>>().join(", ")
}

fn stars(rating: Rating) -> String {
    let filled = usize::from(rating.get());
    "★".repeat(filled) + &"☆".repeat(Rating::ALL.len() - filled)
}

fn counted(total: u64) -> String {
    match total {
        1 => "1 comment".to_owned(),
        _ => format!("{} comments", grouped(total)),
    }
}

/// The number with its thousands separated, `392,716`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The day of an instant, `29 Feb 2024`.
fn date(instant: Instant) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = instant.to_string();
    let part = |from, to| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{} {} {}", part(8, 10).trim_start_matches('0'), month.copied().unwrap_or_default(), part(0, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_link_toggles_its_rating() {
        let toggled = |set: &str, rating| {
            toggled(RatingSet::parse(set).ok(), Rating::new(rating).unwrap()).map(|set| set.to_string())
        };
        assert_eq!(toggled("~", 4).as_deref(), Some("4"));
        assert_eq!(toggled("4", 5).as_deref(), Some("4.5"));
        assert_eq!(toggled("4.5", 4).as_deref(), Some("5"));
        assert_eq!(toggled("5", 5), None);
    }

    #[test]
    fn a_filter_is_told_in_words() {
        let words = |language: &str, ratings: &str| {
            in_words(&Filter::new(Language::parse(language).ok(), RatingSet::parse(ratings).ok()))
        };
        assert_eq!(words("~", "~"), "");
        assert_eq!(words("en", "~"), "in en");
        assert_eq!(words("en", "5"), "in en, rated 5");
        assert_eq!(words("~", "1.2.5"), "rated 1, 2 or 5");
    }

    #[test]
    fn numbers_and_days_are_written_for_people() {
        let days = |text: &str| date(Instant::parse(text).unwrap());
        assert_eq!(
            (grouped(0), grouped(999), grouped(1_000), grouped(392_716)),
            ("0".into(), "999".into(), "1,000".into(), "392,716".into())
        );
        assert_eq!(days("2024-02-29T23:59:59Z"), "29 Feb 2024");
        assert_eq!(days("2016-12-05T00:00:00Z"), "5 Dec 2016");
        assert_eq!((counted(1), counted(12_275)), ("1 comment".into(), "12,275 comments".into()));
    }
}
