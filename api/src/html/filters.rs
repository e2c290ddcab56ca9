//! The filters of a page: the histogram of ratings, the choice of a language, and the links that
//! remove a filter.
//!
//! The count beside a language is that of the page it leads to, with the chosen ratings. Several
//! ratings can be chosen. So the count beside a rating is for that rating only, in the chosen
//! language. A choice without comments is no link.

use model::{Filter, Language, Rating, RatingSet};
use page_index::Stats;

use super::context::{Context, FilterLink};

/// How many languages are shown before a reader opens the others.
const LANGUAGES_SHOWN: usize = 8;

pub(super) struct RatingChoice {
    pub(super) rating: Rating,
    pub(super) count: Option<u64>,
    /// The share of all comments, 0 to 100.
    pub(super) percent: u64,
    /// `None` where the link would add nothing, or lead to no comment.
    pub(super) link: Option<FilterLink>,
    pub(super) selected: bool,
}

pub(super) struct LanguageChoice<'page> {
    /// `None` for all languages.
    pub(super) language: Option<&'page Language>,
    pub(super) count: Option<u64>,
    /// `None` where the link would lead to no comment.
    pub(super) link: Option<FilterLink>,
    pub(super) current: bool,
}

pub(super) struct Filters<'page> {
    pub(super) ratings: Vec<RatingChoice>,
    /// The first one is the choice of all languages.
    pub(super) languages: Vec<LanguageChoice<'page>>,
    pub(super) more_languages: Vec<LanguageChoice<'page>>,
}

/// The parts of the filter, such as "Language: English", each with the link that removes it, if
/// that leads to comments.
pub(super) fn chips(context: Context<'_>) -> Vec<(String, Option<FilterLink>)> {
    let (t, filter) = (context.t, &context.address.query.filter);
    let (language, set) = (filter.language(), filter.ratings());
    let of_language = language.map(|language| {
        let label = t.with_one("chosen-language", "language", t.language_name(language));
        (label, context.link_to(None, set))
    });
    let of_ratings = set.map(|set| {
        let label = t.with_one("chosen-ratings", "ratings", t.ratings(set));
        (label, context.link_to(language.cloned(), None))
    });
    of_language.into_iter().chain(of_ratings).collect()
}

impl<'page> Filters<'page> {
    pub(super) fn new(context: Context<'page>) -> Self {
        let (stats, filter) = (context.stats, &context.address.query.filter);
        let (language, set) = (filter.language(), filter.ratings());
        let all = stats.map_or(0, |stats| stats.by_rating.total());
        let ratings = Rating::ALL.into_iter().rev().map(|rating| {
            let count = stats.map(|stats| stats.by_rating.of_set(RatingSet::of([rating])));
            let selected = set.is_some_and(|set| set.contains(rating));
            let link = context.link_to(language.cloned(), toggled(set, rating));
            RatingChoice {
                rating,
                count,
                // Rounded to the nearest.
                percent: (count.unwrap_or(0) * 100 + all / 2)
                    .checked_div(all)
                    .unwrap_or(0),
                link: link.filter(|_| selected || count != Some(0)),
                selected,
            }
        });
        let choice = |(of, count): (Option<&'page Language>, Option<u64>)| {
            let link = context.link_to(of.cloned(), set);
            LanguageChoice {
                language: of,
                count,
                link,
                current: of == language,
            }
        };
        let any = (None, context.count(&Filter::new(None, set)));
        let known = known_languages(language, set, stats)
            .into_iter()
            .map(|(known, count)| (Some(known), count));
        let mut languages: Vec<LanguageChoice<'_>> =
            [any].into_iter().chain(known).map(choice).collect();
        // One more language takes no more room than the line that says how many are hidden.
        let more_languages = match languages.len() > LANGUAGES_SHOWN + 2 {
            true => languages.split_off(LANGUAGES_SHOWN + 1),
            false => Vec::new(),
        };
        Self {
            ratings: ratings.collect(),
            languages,
            more_languages,
        }
    }

    /// Whether the language in use is among those that are shown on demand.
    pub(super) fn more_is_open(&self) -> bool {
        self.more_languages.iter().any(|choice| choice.current)
    }
}

/// The languages of the product, the most frequent first, and the chosen one. Without stats, only
/// the chosen one is known.
fn known_languages<'query>(
    current: Option<&'query Language>,
    set: Option<RatingSet>,
    stats: Option<&'query Stats>,
) -> Vec<(&'query Language, Option<u64>)> {
    let mut known: Vec<(&Language, Option<u64>)> = match stats {
        Some(stats) => stats
            .by_language
            .iter()
            .map(|(language, total)| (language, Some(*total)))
            .collect(),
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

/// The set with the rating added or removed. Removing the last rating, or adding the last one, ends
/// the filter.
fn toggled(set: Option<RatingSet>, rating: Rating) -> Option<RatingSet> {
    let has = |of: Rating| set.is_some_and(|set| set.contains(of));
    RatingSet::of(
        Rating::ALL
            .into_iter()
            .filter(|of| has(*of) != (*of == rating)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_link_toggles_its_rating() {
        for (set, rating, wanted) in [
            ("~", 4, "4"),
            ("4", 5, "4.5"),
            ("4.5", 4, "5"),
            ("5", 5, "~"),
        ] {
            let toggled = toggled(RatingSet::parse(set).ok(), Rating::new(rating).unwrap());
            assert_eq!(
                toggled,
                RatingSet::parse(wanted).ok(),
                "{set} with {rating}"
            );
        }
    }
}
