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

impl RatingChoice {
    fn new(context: Context<'_>, rating: Rating) -> Self {
        let filter = &context.address.query.filter;
        let set = filter.ratings();
        let of_rating = RatingSet::of([rating]);
        let (count, all) = match context.stats {
            Some(stats) => {
                let count = stats.by_rating.of_set(of_rating);
                (Some(count), stats.by_rating.total())
            }
            None => (None, 0),
        };
        // Rounded to the nearest.
        let percent = (count.unwrap_or(0) * 100 + all / 2).checked_div(all);
        let selected = set.is_some_and(|set| set.contains(rating));
        let adds_something = selected || count != Some(0);
        let link = if adds_something {
            context.link_to(filter.language().cloned(), toggled(set, rating))
        } else {
            None
        };
        Self {
            rating,
            count,
            percent: percent.unwrap_or(0),
            link,
            selected,
        }
    }
}

pub(super) struct LanguageChoice<'page> {
    /// `None` for all languages.
    pub(super) language: Option<&'page Language>,
    pub(super) count: Option<u64>,
    /// `None` where the link would lead to no comment.
    pub(super) link: Option<FilterLink>,
    pub(super) current: bool,
}

impl<'page> LanguageChoice<'page> {
    fn new(context: Context<'page>, language: Option<&'page Language>, count: Option<u64>) -> Self {
        let filter = &context.address.query.filter;
        Self {
            language,
            count,
            link: context.link_to(language.cloned(), filter.ratings()),
            current: language == filter.language(),
        }
    }
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
    let t = context.t;
    let filter = &context.address.query.filter;
    let mut chips = Vec::new();
    if let Some(language) = filter.language() {
        let label = t.with_one("chosen-language", "language", t.language_name(language));
        chips.push((label, context.link_to(None, filter.ratings())));
    }
    if let Some(set) = filter.ratings() {
        let label = t.with_one("chosen-ratings", "ratings", t.ratings(set));
        chips.push((label, context.link_to(filter.language().cloned(), None)));
    }
    chips
}

impl<'page> Filters<'page> {
    pub(super) fn new(context: Context<'page>) -> Self {
        let stats = context.stats;
        let filter = &context.address.query.filter;
        let language = filter.language();
        let set = filter.ratings();
        let ratings = Rating::ALL.into_iter().rev();
        let any = LanguageChoice::new(context, None, context.count(&Filter::new(None, set)));
        let mut languages = vec![any];
        for (known, count) in known_languages(language, set, stats) {
            languages.push(LanguageChoice::new(context, Some(known), count));
        }
        // One more language takes no more room than the line that says how many are hidden.
        let more_languages = if languages.len() > LANGUAGES_SHOWN + 2 {
            languages.split_off(LANGUAGES_SHOWN + 1)
        } else {
            Vec::new()
        };
        Self {
            ratings: ratings
                .map(|rating| RatingChoice::new(context, rating))
                .collect(),
            languages,
            more_languages,
        }
    }

    /// Whether a choice of a language changes anything: the product has several, or one is chosen.
    pub(super) fn offers_languages(&self) -> bool {
        self.languages.len() > 2 || self.languages.iter().skip(1).any(|choice| choice.current)
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
    let mut known = Vec::new();
    if let Some(stats) = stats {
        for (language, total) in &stats.by_language {
            known.push((language, Some(*total)));
        }
    }
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
    let kept_or_added = Rating::ALL.into_iter().filter(|of| {
        let is_in_set = set.is_some_and(|set| set.contains(*of));
        is_in_set != (*of == rating)
    });
    RatingSet::of(kept_or_added)
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
