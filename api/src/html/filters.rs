//! The filters of a page: the histogram of ratings, the choice of a language, and the links that remove a filter.
//!
//! The count beside a language is that of the page it leads to, with the chosen ratings. Several ratings can be chosen.
//! So the count beside a rating is for that rating only, in the chosen language. A choice without comments is no link.

use model::{Filter, Language, Rating, RatingSet};
use page_index::Stats;

use super::{
    counts::Counts,
    language_name::{direction, native_name},
    words::Count,
};
use crate::{
    site::{Indexing, Site},
    texts::Interface,
};

/// How many languages are shown before a reader opens the others.
const LANGUAGES_SHOWN: usize = 8;

/// A link to a filter, in the order of the page.
pub(super) struct FilterLink {
    pub(super) href: String,
    /// Pages that are not indexed under their own address are many; crawlers need not follow every link to them.
    pub(super) nofollow: bool,
}

pub(super) struct RatingChoice {
    pub(super) rating: Rating,
    pub(super) count: Option<Count>,
    /// The share of all comments, 0 to 100; and as people read it.
    pub(super) percent: u64,
    pub(super) share: String,
    /// `None` where the link would add nothing, or lead to no comment.
    pub(super) link: Option<FilterLink>,
    pub(super) selected: bool,
}

pub(super) struct LanguageChoice {
    pub(super) tag: String,
    pub(super) direction: &'static str,
    /// The name in the language itself, where that name exists and differs from the other one.
    pub(super) native: Option<String>,
    pub(super) name: String,
    pub(super) count: Option<Count>,
    /// `None` where the link would lead to no comment.
    pub(super) link: Option<FilterLink>,
    pub(super) current: bool,
}

pub(super) struct Filters {
    pub(super) ratings: Vec<RatingChoice>,
    /// The choice of all languages, with the number of comments.
    pub(super) any_language: LanguageChoice,
    pub(super) languages: Vec<LanguageChoice>,
    pub(super) more_languages: Vec<LanguageChoice>,
    /// "5 more languages".
    pub(super) more_summary: String,
}

pub(super) struct Chips {
    /// The parts of the filter, such as "Language: English", each with the link that removes it, if that leads to
    /// comments.
    pub(super) parts: Vec<(String, Option<FilterLink>)>,
    /// The link that removes the whole filter, if it has more than one part.
    pub(super) clear: Option<FilterLink>,
}

impl Chips {
    pub(super) fn new(site: &Site, t: &Interface, counts: Counts<'_>) -> Self {
        let to = |language, ratings| FilterLink::new(site, counts, language, ratings);
        let filter = &counts.address.query.filter;
        let (language, set) = (filter.language(), filter.ratings());
        let parts = [
            language.map(|language| {
                let language = t.language_name(language);
                (t.with("chosen-language", [("language", language.into())]), to(None, set))
            }),
            set.map(|set| {
                let ratings = t.ratings(set.iter());
                (t.with("chosen-ratings", [("ratings", ratings.into())]), to(language.cloned(), None))
            }),
        ];
        let parts: Vec<(String, Option<FilterLink>)> = parts.into_iter().flatten().collect();
        let clear = if parts.len() > 1 { to(None, None) } else { None };
        Self { parts, clear }
    }
}

impl FilterLink {
    /// The link to a filter; `None` if it has no comment.
    fn new(site: &Site, counts: Counts<'_>, language: Option<Language>, ratings: Option<RatingSet>) -> Option<Self> {
        let filter = Filter::new(language, ratings);
        (counts.of(&filter) != Some(0)).then(|| Self::to(site, counts, &filter))
    }

    /// The link to the first page of a filter, in the order of the page.
    pub(super) fn to(site: &Site, counts: Counts<'_>, filter: &Filter) -> Self {
        let nofollow = counts.indexing(site, filter, counts.address.query.order) != Indexing::Own;
        Self { href: counts.address.filtered(filter), nofollow }
    }
}

impl Filters {
    pub(super) fn new(site: &Site, t: &Interface, counts: Counts<'_>) -> Self {
        let Counts { address, stats } = counts;
        let query = &address.query;
        let to = |language, ratings| FilterLink::new(site, counts, language, ratings);
        let (language, set) = (query.filter.language(), query.filter.ratings());
        let all = stats.map_or(0, |stats| stats.by_rating.total());
        let ratings = Rating::ALL.into_iter().rev().map(|rating| {
            let count = stats.map(|stats| stats.by_rating.of_set(RatingSet::of([rating])));
            let selected = set.is_some_and(|set| set.contains(rating));
            let link = to(language.cloned(), toggled(set, rating));
            // Rounded to the nearest.
            let percent = (count.unwrap_or(0) * 100 + all / 2).checked_div(all).unwrap_or(0);
            RatingChoice {
                rating,
                count: count.map(|count| t.count(count)),
                percent,
                share: t.with("percent", [("percent", percent.into())]),
                link: link.filter(|_| selected || count != Some(0)),
                selected,
            }
        });
        let any_language = LanguageChoice {
            tag: t.tag().to_owned(),
            direction: t.direction(),
            native: None,
            name: t.text("all-languages").into_owned(),
            count: counts.of(&Filter::new(None, set)).map(|count| t.count(count)),
            link: to(None, set),
            current: language.is_none(),
        };
        let mut languages: Vec<LanguageChoice> = known_languages(language, set, stats)
            .into_iter()
            .map(|(known, count)| LanguageChoice::new(t, known, count, to(Some(known.clone()), set), language))
            .collect();
        // One more language takes no more room than the line that says how many are hidden.
        let more_languages = match languages.len() > LANGUAGES_SHOWN + 1 {
            true => languages.split_off(LANGUAGES_SHOWN),
            false => Vec::new(),
        };
        let more = u64::try_from(more_languages.len()).unwrap_or(u64::MAX);
        let more_summary = t.counted("more-languages", more);
        Self { ratings: ratings.collect(), any_language, languages, more_languages, more_summary }
    }

    /// Whether the language in use is among those that are shown on demand.
    pub(super) fn more_is_open(&self) -> bool {
        self.more_languages.iter().any(|choice| choice.current)
    }
}

impl LanguageChoice {
    fn new(
        t: &Interface,
        language: &Language,
        count: Option<u64>,
        link: Option<FilterLink>,
        current: Option<&Language>,
    ) -> Self {
        let name = t.language_name(language);
        Self {
            tag: language.to_string(),
            direction: direction(language),
            native: native_name(language).filter(|native| *native != name),
            name,
            count: count.map(|count| t.count(count)),
            link,
            current: Some(language) == current,
        }
    }
}

/// The languages of the product, the most frequent first, and the chosen one. Without stats, only the chosen one is
/// known.
fn known_languages<'query>(
    current: Option<&'query Language>,
    set: Option<RatingSet>,
    stats: Option<&'query Stats>,
) -> Vec<(&'query Language, Option<u64>)> {
    let mut known: Vec<(&Language, Option<u64>)> = match stats {
        Some(stats) => stats.by_language.iter().map(|(language, total)| (language, Some(*total))).collect(),
        None => Vec::new(),
    };
    known.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
    if let Some(current) = current
        && !known.iter().any(|(language, _)| *language == current)
    {
        // The chosen language has no comments, or the product has more languages than are counted.
        known.push((current, stats.map(|stats| stats.by_rating.of_set(set))));
    }
    known
}

/// The set with the rating added or removed. Removing the last rating, or adding the last one, ends the filter.
fn toggled(set: Option<RatingSet>, rating: Rating) -> Option<RatingSet> {
    let has = |of: Rating| set.is_some_and(|set| set.contains(of));
    RatingSet::of(Rating::ALL.into_iter().filter(|of| has(*of) != (*of == rating)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_link_toggles_its_rating() {
        for (set, rating, wanted) in [("~", 4, "4"), ("4", 5, "4.5"), ("4.5", 4, "5"), ("5", 5, "~")] {
            let toggled = toggled(RatingSet::parse(set).ok(), Rating::new(rating).unwrap());
            assert_eq!(toggled, RatingSet::parse(wanted).ok(), "{set} with {rating}");
        }
    }
}
