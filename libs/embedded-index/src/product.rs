//! The comments of one product.
//!
//! **Invariant:** every comment has one entry in the tree, so one creation time, language and
//! rating.

use std::collections::BTreeMap;

use model::{
    Cd, CommentId, Filter, Invariant, Language, Order, RatingCounts, Timestamp, plan::IndexEdit,
};
use page_index::{CommentPosition, PositionQuery, RankedQuery, RawRanked, Stats, StatsWanted};

use crate::{
    codes::{Codes, Languages},
    counted_tree::{Code, CountedTree},
    times::Times,
};

#[derive(Debug, Clone, Default)]
pub(crate) struct ProductComments {
    tree: CountedTree,
    times: Times,
}

impl ProductComments {
    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Makes one comment's entry match an edit.
    pub(crate) fn apply(&mut self, edit: &IndexEdit, languages: &mut Languages) {
        let present = self.entry(&edit.id);
        // Two sets hold a comment. The one of its language says everything.
        let placement = edit
            .add
            .iter()
            .find_map(|set| Some((set.language.as_ref()?, set.rating)));
        match (placement, edit.created_at) {
            (Some((language, rating)), Some(created_at)) => {
                let cd = Cd {
                    created_at,
                    id: edit.id.clone(),
                };
                if let Some((elsewhere, _)) = present.filter(|(present, _)| *present != cd) {
                    self.remove(&elsewhere);
                }
                self.insert(&cd, languages.code(language, rating));
            }
            (None, _) | (_, None) => {
                let Some((cd, code)) = present else { return };
                let mut removed = edit.remove.iter();
                if removed.any(|set| languages.codes_in(set).contains(code)) {
                    self.remove(&cd);
                }
            }
        }
    }

    pub(crate) fn insert(&mut self, cd: &Cd, code: Code) {
        if self.tree.insert(cd, code).is_none() {
            self.times.insert(cd);
        }
    }

    fn remove(&mut self, cd: &Cd) {
        self.tree.remove(cd);
        self.times.remove(cd);
    }

    /// The key and the code of the comment with this id.
    pub(crate) fn entry(&self, id: &CommentId) -> Option<(Cd, Code)> {
        self.times
            .candidates(id)
            .find_map(|cd| self.tree.get(&cd).map(|code| (cd, code)))
    }

    /// Number of comments with these codes.
    pub(crate) fn count(&self, codes: Codes) -> u64 {
        self.tree.count(|code| codes.contains(code))
    }

    /// Number of comments with these codes that are dated up to an instant, or of all.
    fn count_up_to(&self, instant: Option<Timestamp>, codes: Codes) -> u64 {
        match instant.and_then(end_of) {
            Some(end) => self.count_before(&end, codes),
            None => self.count(codes),
        }
    }

    /// Number of comments with these codes before a position, in ascending order.
    fn count_before(&self, end: &Cd, codes: Codes) -> u64 {
        self.tree.count_before(end, |code| codes.contains(code))
    }

    /// Number of comments with these codes up to a position, in ascending order, and at it.
    fn count_through(&self, last: &Cd, codes: Codes) -> u64 {
        match last.just_after() {
            Some(end) => self.count_before(&end, codes),
            None => self.count(codes),
        }
    }

    pub(crate) fn ranked(&self, query: &RankedQuery<'_>, languages: &Languages) -> RawRanked {
        let RankedQuery {
            filter,
            order,
            after,
            skip,
            count,
            as_of,
            settled_at,
            stats,
            ..
        } = *query;
        let codes = languages.codes_of(filter);
        let all = self.count(codes);
        let total = self.count_up_to(as_of, codes);
        // The tree's order is ascending. The comments asked for are within these ranks.
        let mut ranks = 0..total;
        if let Some(after) = after {
            match order {
                Order::Newest => ranks.end = total.min(self.count_before(after, codes)),
                Order::Oldest => ranks.start = self.count_through(after, codes),
            }
        }
        let behind = ranks.end.saturating_sub(ranks.start).saturating_sub(skip);
        let number = behind.min(count.into());
        let first = match order {
            Order::Oldest => ranks.start + skip,
            Order::Newest => ranks.start + behind - number,
        };
        let mut comments = self
            .tree
            .select(first, usize::try_from(number).unwrap_or(0), |code| {
                codes.contains(code)
            });
        debug_assert_eq!(
            comments.len() as u64,
            number,
            "{}: counts and members differ",
            Invariant::PageIndexIsExact
        );
        if order == Order::Newest {
            comments.reverse();
        }
        let stats = match stats {
            StatsWanted::No => None,
            StatsWanted::ByRating => Some(Stats {
                by_language: Vec::new(),
                languages: 0,
                ..self.stats(filter, languages)
            }),
            StatsWanted::WithLanguages => Some(self.stats(filter, languages)),
        };
        RawRanked {
            comments,
            total,
            settled: if settled_at == as_of {
                total
            } else {
                self.count_up_to(settled_at, codes)
            },
            all,
            newest: if as_of.is_none() {
                self.newest(all, codes)
            } else {
                None
            },
            stats,
        }
    }

    pub(crate) fn position(
        &self,
        query: &PositionQuery<'_>,
        languages: &Languages,
    ) -> CommentPosition {
        let PositionQuery {
            filter,
            cd,
            settled_at,
            ..
        } = *query;
        let codes = languages.codes_of(filter);
        // For a moment the comment may be indexed with another time.
        let own = self
            .entry(&cd.id)
            .filter(|(_, code)| codes.contains(*code))
            .map(|(own, _)| own);
        let own = own.as_ref();
        let total = self.count(codes) + u64::from(own.is_none());
        let settled = match settled_at.and_then(end_of) {
            Some(end) => self.others_before(&end, own, codes) + u64::from(*cd < end),
            None => total,
        };
        CommentPosition {
            older: self.others_before(cd, own, codes),
            total,
            settled,
        }
    }

    /// Number of comments with these codes before an end, without the comment that is asked about.
    fn others_before(&self, end: &Cd, own: Option<&Cd>, codes: Codes) -> u64 {
        let is_own_before = own.is_some_and(|own| own < end);
        self.tree.count_before(end, |code| codes.contains(code)) - u64::from(is_own_before)
    }

    /// The creation time of the newest of the comments with these codes, whose number is `all`.
    fn newest(&self, all: u64, codes: Codes) -> Option<Timestamp> {
        let newest = self
            .tree
            .select(all.checked_sub(1)?, 1, |code| codes.contains(code));
        Some(newest.first()?.created_at)
    }

    /// How many comments there are by rating and by language.
    fn stats(&self, filter: &Filter, languages: &Languages) -> Stats {
        let of_language = languages.codes(filter.language(), None);
        let with_ratings = languages.codes(None, filter.ratings());
        let mut by_rating = RatingCounts::default();
        let mut by_rating_in_any_language = RatingCounts::default();
        let mut by_language: BTreeMap<&Language, u64> = BTreeMap::new();
        for (code, comments) in self.tree.totals() {
            let Some((language, rating)) = languages.meaning(code) else {
                continue;
            };
            by_rating_in_any_language.add(rating, comments);
            if of_language.contains(code) {
                by_rating.add(rating, comments);
            }
            // A language without such comments is named too.
            let in_language = by_language.entry(language).or_default();
            if with_ratings.contains(code) {
                *in_language += comments;
            }
        }
        let languages = u64::try_from(by_language.len()).unwrap_or(u64::MAX);
        let by_language = by_language
            .into_iter()
            .map(|(language, comments)| (language.clone(), comments));
        Stats {
            by_rating,
            by_rating_in_any_language,
            by_language: by_language.take(Stats::LANGUAGES_MAX).collect(),
            languages,
            last_commented_at: self.newest(by_rating.total(), of_language),
        }
    }

    /// The languages of the comments. One comes once for each of its ratings.
    pub(crate) fn languages<'languages>(
        &self,
        languages: &'languages Languages,
    ) -> impl Iterator<Item = &'languages Language> {
        self.tree
            .totals()
            .filter_map(|(code, _)| Some(languages.meaning(code)?.0))
    }

    /// The comments in ascending order, from a key on.
    pub(crate) fn comments_from(&self, from: Option<&Cd>) -> impl Iterator<Item = (Cd, Code)> {
        self.tree.entries_from(from)
    }
}

/// Just after everything dated up to an instant; `None` at the end of time.
fn end_of(instant: Timestamp) -> Option<Cd> {
    Cd {
        created_at: instant,
        id: CommentId::greatest(),
    }
    .just_after()
}
