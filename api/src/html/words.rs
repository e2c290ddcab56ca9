//! Formats numbers, times and filters for people.

use model::{Filter, Period, Rating, Timestamp};

use super::language_name::english_name;
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

    /// "12,275 comments".
    pub(super) fn counted(&self) -> String {
        counted(self.total)
    }
}

/// A text without the spaces and empty lines around it.
pub(super) fn displayed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// A filter in words, such as "in English, rated 1, 2 or 5"; `None` for a filter that matches everything.
pub(super) fn in_words(filter: &Filter) -> Option<String> {
    let language = filter.language().map(|language| format!("in {}", english_name(language)));
    let ratings = filter.ratings().map(|ratings| format!("rated {}", listed(ratings.iter())));
    Some(joined([language, ratings])).filter(|words| !words.is_empty())
}

/// Joins the texts that exist with commas.
pub(super) fn joined<const N: usize>(texts: [Option<String>; N]) -> String {
    texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
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

/// "8,500 more characters": the length of a text.
pub(super) fn more_characters(text: &str) -> String {
    format!("{} more characters", grouped(u64::try_from(text.chars().count()).unwrap_or(u64::MAX)))
}

/// The number with its thousands separated, `392,716`.
pub(super) fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// The day of an instant, `29 Feb 2024`, in UTC.
pub(super) fn day(instant: Timestamp) -> String {
    let text = instant.to_string();
    let day = text.get(8..10).unwrap_or_default().trim_start_matches('0');
    format!("{day} {}", month_and_year(&text))
}

/// A month, `Feb 2024`.
pub(super) fn month(period: Period) -> String {
    month_and_year(&period.to_string())
}

/// The month and the year of a text that begins with `YYYY-MM`.
fn month_and_year(text: &str) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let part = |from, to| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{} {}", month.copied().unwrap_or_default(), part(0, 4))
}

/// The day and the minute, `29 Feb 2024, 23:59 UTC`.
pub(super) fn minute(instant: Timestamp) -> String {
    format!("{}, {} UTC", day(instant), instant.to_string().get(11..16).unwrap_or_default())
}

/// Five stars, as many of them filled as the rating says.
pub(super) fn stars(rating: Rating) -> String {
    let filled = usize::from(rating.get());
    "★".repeat(filled) + &"☆".repeat(Rating::ALL.len() - filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Language, RatingSet};

    #[test]
    fn a_filter_is_described_in_words() {
        for (language, ratings, words) in [
            ("~", "~", None),
            ("en", "~", Some("in English")),
            ("pt-BR", "5", Some("in Portuguese (pt-BR), rated 5")),
            ("~", "1.2.5", Some("rated 1, 2 or 5")),
        ] {
            let filter = Filter::new(Language::parse(language).ok(), RatingSet::parse(ratings).ok());
            assert_eq!(in_words(&filter).as_deref(), words);
        }
    }

    #[test]
    fn numbers_and_times_are_written_for_people() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        assert_eq!([0, 999, 1_000, 392_716].map(grouped), ["0", "999", "1,000", "392,716"]);
        assert_eq!(day(at("2024-02-29T23:59:59Z")), "29 Feb 2024");
        assert_eq!(month(Period::month(2024, 2)), "Feb 2024");
        assert_eq!(minute(at("2016-12-05T00:07:59.999Z")), "5 Dec 2016, 00:07 UTC");
        assert_eq!([1, 12_275].map(counted), ["1 comment", "12,275 comments"]);
    }
}
