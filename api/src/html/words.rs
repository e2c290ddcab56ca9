//! Formats numbers, times and filters for people, in the language of the interface.

use std::borrow::Borrow;

use fluent_bundle::FluentValue;
use model::{Filter, Language, ListingOrder, Rating, RatingCounts, RatingSet, Timestamp};

use super::language_name::{english_name, named};
use crate::texts::Interface;

/// An average rating, and the number of comments behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Average {
    hundredths: u16,
    pub(super) total: u64,
}

impl Average {
    /// The average of comment counts by rating; `None` without comments.
    pub(super) fn of(by_rating: RatingCounts) -> Option<Self> {
        Some(Self {
            hundredths: by_rating.average_hundredths()?,
            total: by_rating.total(),
        })
    }

    /// The nearest rating.
    pub(super) fn rating(&self) -> Rating {
        let rounded = u64::from(self.hundredths + 50) / 100;
        Rating::new(rounded).unwrap_or(Rating::ALL[0])
    }

    /// With two decimals, for programs: "4.27".
    pub(super) fn decimal(&self) -> String {
        format!("{}.{:02}", self.hundredths / 100, self.hundredths % 100)
    }
}

/// A text without the spaces and empty lines around it.
pub(super) fn displayed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// Five stars, as many of them filled as the rating says.
pub(super) fn stars(rating: Rating) -> String {
    let filled = usize::from(rating.get());
    "★".repeat(filled) + &"☆".repeat(Rating::ALL.len() - filled)
}

impl Interface {
    /// A filter in words, such as "in English, rated 1, 2 or 5"; `None` for a filter that matches
    /// everything.
    pub(super) fn filter(&self, filter: &Filter) -> Option<String> {
        let language = filter
            .language()
            .map(|language| self.language_name(language));
        let language = language.map(|language| self.with_one("in-language", "language", language));
        let ratings = filter
            .ratings()
            .map(|ratings| self.with_one("rated", "ratings", self.ratings(ratings)));
        Some(self.joined([language, ratings])).filter(|words| !words.is_empty())
    }

    pub(super) fn joined<const N: usize>(&self, texts: [Option<String>; N]) -> String {
        texts
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(&self.text("separator"))
    }

    /// "1, 2 or 5".
    pub(super) fn ratings(&self, ratings: RatingSet) -> String {
        let numbers: Vec<&str> = ratings.iter().map(Rating::as_str).collect();
        let Some((last, others)) = numbers.split_last() else {
            return String::new();
        };
        if others.is_empty() {
            return (*last).to_owned();
        }
        let others = others.join(&self.text("separator"));
        self.with("or", [("first", others.into()), ("last", (*last).into())])
    }

    /// "4 out of 5".
    pub(super) fn out_of_5(&self, rating: impl Borrow<Rating>) -> String {
        self.with("out-of-5", [("rating", rating.borrow().as_str().into())])
    }

    /// "4.27".
    pub(super) fn average(&self, average: &Average) -> String {
        self.with_one(
            "average",
            "average",
            FluentValue::try_number(&average.decimal()),
        )
    }

    /// "1 comment", "12,275 comments".
    pub(super) fn counted(
        &self,
        id: &'static str,
        count: impl Into<FluentValue<'static>>,
    ) -> String {
        self.with_one(id, "count", count)
    }

    pub(super) fn with_one<'value>(
        &self,
        id: &'static str,
        variable: &'static str,
        value: impl Into<FluentValue<'value>>,
    ) -> String {
        self.with(id, [(variable, value.into())])
    }

    pub(super) fn page(&self, id: &'static str, number: u64) -> String {
        self.with(id, [("page", number.into())])
    }

    /// The number with its thousands separated, `392,716`.
    pub(super) fn number(&self, number: u64) -> String {
        self.with("number", [("number", number.into())])
    }

    pub(super) fn order(&self, order: ListingOrder) -> String {
        let id = match order {
            ListingOrder::Newest => "newest-first",
            ListingOrder::Oldest => "oldest-first",
            ListingOrder::Highest => "highest-first",
            ListingOrder::Lowest => "lowest-first",
        };
        self.text(id).into_owned()
    }

    /// The day of an instant, `29 Feb 2024`, in UTC.
    pub(super) fn day(&self, instant: Timestamp) -> String {
        let text = instant.to_string();
        let [year, month, day] =
            [0..4, 5..7, 8..10].map(|digits| text.get(digits).unwrap_or_default());
        let [month, day] = [month, day].map(FluentValue::try_number);
        self.with(
            "day",
            [("day", day), ("month", month), ("year", year.into())],
        )
    }

    /// The days from one instant to another, `1 May 2024 to 3 May 2024`; one day is named once.
    pub(super) fn days(&self, from: Timestamp, to: Timestamp) -> String {
        match (self.day(from), self.day(to)) {
            (from, to) if from == to => from,
            (from, to) => self.with("days", [("from", from.into()), ("to", to.into())]),
        }
    }

    /// "English", "Portuguese (pt-BR)". A language without a name in the interface's language has
    /// its English one, or its tag.
    pub(super) fn language_name(&self, language: &Language) -> String {
        let primary = language.as_str().split('-').next().unwrap_or_default();
        match self.find(&format!("language-{primary}")) {
            Some(name) => named(language, &name),
            None => english_name(language),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::{InterfaceLanguage, InterfaceTexts};

    #[test]
    fn a_filter_is_described_in_words() {
        let texts = InterfaceTexts::built_in();
        for (language, ratings, english, japanese) in [
            ("~", "~", None, None),
            ("en", "~", Some("in English"), Some("英語")),
            (
                "pt-BR",
                "5",
                Some("in Portuguese (pt-BR), rated 5"),
                Some("ポルトガル語 (pt-BR)、評価5"),
            ),
            (
                "~",
                "1.2.5",
                Some("rated 1, 2 or 5"),
                Some("評価1、2または5"),
            ),
        ] {
            let filter = Filter::new(
                Language::parse(language).ok(),
                RatingSet::parse(ratings).ok(),
            );
            let in_english = texts.in_language(InterfaceLanguage::En).filter(&filter);
            let in_japanese = texts.in_language(InterfaceLanguage::Ja).filter(&filter);
            assert_eq!(in_english.as_deref(), english);
            assert_eq!(in_japanese.as_deref(), japanese);
        }
    }

    #[test]
    fn a_language_has_a_name_in_each_language_of_the_interface() {
        let texts = InterfaceTexts::built_in();
        for (tag, english, german) in [
            ("en", "English", "Englisch"),
            ("pt-BR", "Portuguese (pt-BR)", "Portugiesisch (pt-BR)"),
            ("fil", "Filipino", "Filipino"),
            ("haw", "Hawaiian", "Hawaiian"),
            ("x-pig", "x-pig", "x-pig"),
        ] {
            let language = Language::parse(tag).unwrap();
            for (interface, name) in [
                (InterfaceLanguage::En, english),
                (InterfaceLanguage::De, german),
            ] {
                let t = texts.in_language(interface);
                assert_eq!(t.language_name(&language), name);
            }
        }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn numbers_and_times_are_written_for_people() {
        let texts = InterfaceTexts::built_in();
        let t = texts.in_language(InterfaceLanguage::En);
        assert_eq!(
            [0, 999, 1_000, 392_716].map(|number| t.number(number)),
            ["0", "999", "1,000", "392,716"]
        );
        assert_eq!(t.number(1_000_000_000_000), "1,000,000,000,000");
        assert_eq!(t.day(at("2024-02-29T23:59:59Z")), "29 Feb 2024");
        for (from, to, days) in [
            (
                "2016-12-05T00:07:59Z",
                "2016-12-06T00:00:00Z",
                "5 Dec 2016 to 6 Dec 2016",
            ),
            ("2016-12-05T00:00:00Z", "2016-12-05T23:59:59Z", "5 Dec 2016"),
        ] {
            assert_eq!(t.days(at(from), at(to)), days);
        }
        assert_eq!(
            [1, 12_275].map(|total| t.counted("comments", total)),
            ["1 comment", "12,275 comments"]
        );
    }
}
