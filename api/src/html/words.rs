//! Formats numbers, times and filters for people.

use model::{Filter, Rating, Timestamp};
use page_index::Stats;

use super::language_name::LanguageName;
use crate::json::stats;

/// An average rating, and the number of comments behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Average {
    /// With two decimals, "4.27".
    pub(super) text: String,
    pub(super) total: u64,
}

impl Average {
    /// The average of comment counts by rating; `None` without comments.
    pub(super) fn of(by_rating: &[(Rating, u64)]) -> Option<Self> {
        let hundredths = stats::average_hundredths(by_rating)?;
        let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        Some(Self { text, total: stats::total(by_rating) })
    }

    /// The average of the whole product.
    pub(super) fn of_product(stats: &Stats) -> Option<Self> {
        Self::of(&stats.by_rating_in_any_language)
    }

    /// "12,275 comments".
    pub(super) fn counted(&self) -> String {
        counted(self.total)
    }
}

/// A text without the spaces and empty lines around it.
pub(super) fn displayed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// A filter in words, such as "in English, rated 1, 2 or 5"; empty for a filter that matches everything.
pub(super) fn in_words(filter: &Filter) -> String {
    let language = filter.language().map(|language| format!("in {}", LanguageName::of(language).in_english()));
    let ratings = filter.ratings().map(|ratings| format!("rated {}", listed(ratings.iter())));
    language.into_iter().chain(ratings).collect::<Vec<_>>().join(", ")
}

/// "1, 2 or 5".
pub(super) fn listed(ratings: impl Iterator<Item = Rating>) -> String {
    let numbers: Vec<&str> = ratings.map(Rating::as_str).collect();
    match numbers.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// "1 comment", "12,275 comments".
pub(super) fn counted(total: u64) -> String {
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

/// The day of an instant, `29 Feb 2024`, in UTC.
pub(super) fn day(instant: Timestamp) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = instant.to_string();
    let part = |from, to| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{} {} {}", part(8, 10).trim_start_matches('0'), month.copied().unwrap_or_default(), part(0, 4))
}

/// The day and the minute, `29 Feb 2024, 23:59 UTC`.
pub(super) fn minute(instant: Timestamp) -> String {
    format!("{}, {} UTC", day(instant), instant.to_string().get(11..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Language, RatingSet};

    #[test]
    fn a_filter_is_described_in_words() {
        let words = |language: &str, ratings: &str| {
            in_words(&Filter::new(Language::parse(language).ok(), RatingSet::parse(ratings).ok()))
        };
        assert_eq!(words("~", "~"), "");
        assert_eq!(words("en", "~"), "in English");
        assert_eq!(words("pt-BR", "5"), "in Portuguese (pt-BR), rated 5");
        assert_eq!(words("~", "1.2.5"), "rated 1, 2 or 5");
    }

    #[test]
    fn numbers_and_times_are_written_for_people() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        assert_eq!(
            (grouped(0), grouped(999), grouped(1_000), grouped(392_716)),
            ("0".into(), "999".into(), "1,000".into(), "392,716".into())
        );
        assert_eq!(day(at("2024-02-29T23:59:59Z")), "29 Feb 2024");
        assert_eq!(minute(at("2016-12-05T00:07:59.999Z")), "5 Dec 2016, 00:07 UTC");
        assert_eq!((counted(1), counted(12_275)), ("1 comment".into(), "12,275 comments".into()));
    }
}
