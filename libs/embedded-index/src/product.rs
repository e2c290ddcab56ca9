//! The comments of one product.
//!
//! **Invariant:** every comment has one entry in the tree, so one creation time, language and rating.

use std::{collections::BTreeMap, ops::ControlFlow};

use crate::counted_tree::{Code, CountedTree};
use model::{Cd, CommentId, Filter, Language, Order, Rating, RatingCounts, RatingSet, Timestamp, plan::IndexEdit};
use page_index::{Ends, Extent, PageStartQuery, Position, Stats, Summary};

use crate::{
    codes::{Codes, Languages},
    times::Times,
};

/// The comments of one product.
#[derive(Debug, Default)]
pub(crate) struct Product {
    tree: CountedTree,
    times: Times,
}

/// The comments of a filter up to `as_of`.
#[derive(Debug, Clone, Copy)]
struct Selection {
    codes: Codes,
    /// Number of comments of the filter.
    all: u64,
    /// Number of them that are dated later than `as_of`.
    later: u64,
}

impl Selection {
    fn total(self) -> u64 {
        self.all - self.later
    }

    /// The place in the tree's order, which is ascending, of a comment of the selection, or of one just before the
    /// selection. `rank` counts from the selection's first comment in the given order; -1 is the comment before that.
    fn place(self, rank: i64, order: Order) -> Option<u64> {
        let place = match order {
            Order::Newest => i64::try_from(self.total()).ok()? - 1 - rank,
            Order::Oldest => rank,
        };
        u64::try_from(place).ok().filter(|place| *place < self.all)
    }
}

impl Product {
    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Makes one comment's entry match an edit.
    pub(crate) fn apply(&mut self, edit: &IndexEdit, languages: &mut Languages) {
        let present = self.entry(&edit.id);
        // Two sets hold a comment. The one of its language says everything.
        let placement = edit.add.iter().find_map(|set| Some((set.language.as_ref()?, set.rating)));
        match (placement, edit.created_at) {
            (Some((language, rating)), Some(created_at)) => {
                let cd = Cd { created_at, id: edit.id.clone() };
                if let Some((elsewhere, _)) = present.filter(|(present, _)| *present != cd) {
                    self.remove(&elsewhere);
                }
                self.insert(&cd, languages.code(language, rating));
            }
            (None, _) | (_, None) => {
                let leaves = |code| edit.remove.iter().any(|set| languages.codes_in(set).contains(code));
                if let Some((cd, _)) = present.filter(|(_, code)| leaves(*code)) {
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

    /// The place and the code of the comment with this id.
    pub(crate) fn entry(&self, id: &CommentId) -> Option<(Cd, Code)> {
        let cd = self.times.of(id, |cd| self.tree.get(cd).is_some())?;
        let code = self.tree.get(&cd)?;
        Some((cd, code))
    }

    /// Number of comments with these codes.
    pub(crate) fn count(&self, codes: Codes) -> u64 {
        self.tree.count(|code| codes.contains(code))
    }

    fn nth(&self, codes: Codes, n: u64) -> Option<Cd> {
        self.tree.select(n, |code| codes.contains(code))
    }

    fn select(&self, codes: Codes, as_of: Option<Timestamp>) -> Selection {
        let all = self.count(codes);
        let until = as_of.and_then(|as_of| Cd { created_at: as_of, id: CommentId::greatest() }.just_after());
        let before = |end: Cd| self.tree.count_before(&end, |code| codes.contains(code));
        Selection { codes, all, later: until.map_or(0, |end| all - before(end)) }
    }

    /// The total of a query, and the comment just before its page.
    pub(crate) fn page_start(&self, query: &PageStartQuery<'_>, codes: Codes) -> (u64, Option<Cd>) {
        let selection = self.select(codes, query.as_of);
        let skip = i64::try_from(query.skip).ok().filter(|_| query.skip < selection.total());
        let place = skip.and_then(|skip| selection.place(skip - 1, query.order));
        (selection.total(), place.and_then(|place| self.nth(codes, place)))
    }

    /// The first `count` comments of a query's page, or as many as exist.
    pub(crate) fn comments_of_page(&self, query: &PageStartQuery<'_>, codes: Codes, count: u64) -> Vec<Cd> {
        let selection = self.select(codes, query.as_of);
        let end = query.skip.saturating_add(count).min(selection.total());
        let ranks = (query.skip..end).filter_map(|rank| i64::try_from(rank).ok());
        ranks.filter_map(|rank| self.nth(codes, selection.place(rank, query.order)?)).collect()
    }

    /// The creation time of the comment with this rank, counted from 0 in this order.
    pub(crate) fn created_at(&self, codes: Codes, order: Order, rank: u64) -> Option<Timestamp> {
        let place = self.select(codes, None).place(i64::try_from(rank).ok()?, order)?;
        Some(self.nth(codes, place)?.created_at)
    }

    /// How far the ranks of a query's filter reach.
    pub(crate) fn extent(&self, query: &PageStartQuery<'_>, codes: Codes) -> Extent {
        let selection = self.select(codes, query.as_of);
        let end = |order| self.nth(selection.codes, selection.place(0, order).filter(|_| selection.total() > 0)?);
        let ends = end(Order::Newest).zip(end(Order::Oldest));
        Extent { total: selection.total(), ends: ends.map(|(newest, oldest)| Ends { newest, oldest }) }
    }

    /// Where a comment stands. One that is not there counts as if it were.
    pub(crate) fn position(&self, cd: &Cd, codes: Codes, order: Order) -> Position {
        let all = self.count(codes);
        let own = self.entry(&cd.id).filter(|(_, code)| codes.contains(*code)).map(|(own, _)| own);
        let is_there = u64::from(own.is_some());
        let total = all + 1 - is_there;
        // For a moment the comment may be indexed with another time. It does not precede itself.
        let older =
            self.tree.count_before(cd, |code| codes.contains(code)) - u64::from(own.is_some_and(|own| own < *cd));
        let rank = match order {
            Order::Oldest => older,
            Order::Newest => total - 1 - older,
        };
        Position { total, rank }
    }

    /// The creation time of the newest comment with these codes.
    pub(crate) fn newest(&self, codes: Codes) -> Option<Timestamp> {
        Some(self.tree.last(|code| codes.contains(code))?.created_at)
    }

    /// How many comments there are by rating and by language.
    pub(crate) fn stats(&self, filter: &Filter, languages: &Languages) -> Stats {
        let of_language = languages.codes(filter.language(), None);
        let with_ratings = languages.codes(None, filter.ratings());
        let (mut by_rating, mut by_rating_in_any_language) = (RatingCounts::default(), RatingCounts::default());
        let mut by_language: BTreeMap<&Language, u64> = BTreeMap::new();
        for (code, comments) in self.tree.totals() {
            let Some((language, rating)) = languages.meaning(code) else { continue };
            by_rating_in_any_language.add(rating, comments);
            by_rating.add(rating, if of_language.contains(code) { comments } else { 0 });
            *by_language.entry(language).or_default() += if with_ratings.contains(code) { comments } else { 0 };
        }
        let languages = u64::try_from(by_language.len()).unwrap_or(u64::MAX);
        let by_language = by_language.into_iter().map(|(language, comments)| (language.clone(), comments));
        Stats {
            by_rating,
            by_rating_in_any_language,
            by_language: by_language.take(Stats::LANGUAGES_MAX).collect(),
            languages,
            last_commented_at: self.newest(of_language),
        }
    }

    /// How many comments there are by rating in a language, or in any.
    pub(crate) fn summary(&self, language: Option<&Language>, languages: &Languages) -> Summary {
        let mut by_rating = RatingCounts::default();
        for rating in Rating::ALL {
            by_rating.add(rating, self.count(languages.codes(language, RatingSet::of([rating]))));
        }
        Summary { by_rating, last_commented_at: self.newest(languages.codes(language, None)) }
    }

    /// The languages of the comments. One comes once for each of its ratings.
    pub(crate) fn languages<'languages>(
        &self,
        languages: &'languages Languages,
    ) -> impl Iterator<Item = &'languages Language> {
        self.tree.totals().filter_map(|(code, _)| Some(languages.meaning(code)?.0))
    }

    /// Up to `max` comments in ascending order, from a place on.
    pub(crate) fn comments_from(&self, from: Option<&Cd>, max: usize) -> Vec<(Cd, Code)> {
        let mut comments = Vec::new();
        let _: Option<()> = self.tree.visit(from, |cd, code| {
            comments.push((cd, code));
            if comments.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        comments
    }

    /// The memory that the product occupies outside of this value, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.tree.heap_bytes() + self.times.heap_bytes()
    }
}
