//! A product's answers, compared with those of a sorted list.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Cd, CommentId, Filter, Language, Order, Placement, ProductId, Rating, RatingSet, Timestamp, plan::index_edits,
};
use page_index::{Position, PositionQuery, RankedQuery, RawRanked, StatsWanted};
use proptest::prelude::*;
use ulid::Ulid;

use crate::{codes::Languages, product::Product};

type Comment = (Timestamp, Language, Rating);

struct Compared {
    id: ProductId,
    product: Product,
    languages: Languages,
    comments: BTreeMap<CommentId, Comment>,
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_epoch_ms(i64::try_from(ms).unwrap()).unwrap()
}

/// One of 60 ids: two thirds are ULIDs of the instants 0 to 39.
fn id(number: u8) -> CommentId {
    let text = match u64::from(number % 60) {
        ms @ 0..40 => Ulid::from_parts(ms, 7).to_string(),
        other => format!("imported-{other}"),
    };
    CommentId::parse(&text).unwrap()
}

fn language(number: u8) -> Language {
    Language::parse(["en", "de", "pt-BR", "sv"][usize::from(number % 4)]).unwrap()
}

fn filters() -> Vec<Filter> {
    let languages = (0..4).map(|number| Some(language(number))).chain([None, Some(Language::parse("fi").unwrap())]);
    let sets = ["1", "5", "2.4", "1.2.3.5"].map(|set| Some(RatingSet::parse(set).unwrap()));
    let sets = sets.into_iter().chain([None]);
    languages.flat_map(|language| sets.clone().map(move |set| Filter::new(language.clone(), set))).collect()
}

impl Compared {
    fn new() -> Self {
        let id = ProductId::parse("p").unwrap();
        Self { id, product: Product::default(), languages: Languages::default(), comments: BTreeMap::new() }
    }

    fn placement(&self, (_, language, rating): &Comment) -> Placement {
        Placement { product: self.id.clone(), language: language.clone(), rating: *rating }
    }

    fn change(&mut self, id: &CommentId, last: Option<Comment>) {
        let seen: Vec<Placement> = self.comments.get(id).map(|comment| self.placement(comment)).into_iter().collect();
        let placement = last.as_ref().map(|comment| (self.placement(comment), comment.0));
        let edits = index_edits(id, placement.as_ref().map(|(placement, at)| (placement, *at)), &seen);
        // A batch may be delivered again.
        for edit in edits.iter().chain(&edits) {
            self.product.apply(edit, &mut self.languages);
        }
        match last {
            Some(comment) => drop(self.comments.insert(id.clone(), comment)),
            None => drop(self.comments.remove(id)),
        }
    }

    fn matching(&self, filter: &Filter) -> Vec<Cd> {
        let comments = self.comments.iter().filter(|(_, comment)| filter.matches(&self.placement(comment)));
        let cds: BTreeSet<Cd> =
            comments.map(|(id, (created_at, ..))| Cd { created_at: *created_at, id: id.clone() }).collect();
        cds.into_iter().collect()
    }

    fn assert_equal(&self) {
        for filter in filters() {
            self.assert_pages(&filter);
            self.assert_positions(&filter);
            self.assert_stats(&filter);
        }
        for number in 0..60 {
            let id = id(number);
            let entry = self.product.entry(&id).map(|(cd, code)| {
                let (language, rating) = self.languages.meaning(code).unwrap();
                (cd.created_at, language.clone(), rating)
            });
            assert_eq!(entry.as_ref(), self.comments.get(&id), "{id}");
        }
        assert_eq!(self.product.is_empty(), self.comments.is_empty());
    }

    fn assert_pages(&self, filter: &Filter) {
        let ascending = self.matching(filter);
        let up_to = |instant: Option<Timestamp>| move |cd: &&Cd| instant.is_none_or(|instant| cd.created_at <= instant);
        for (order, as_of, settled_at) in [
            (Order::Newest, None, Some(at(25))),
            (Order::Newest, Some(at(25)), None),
            (Order::Oldest, None, None),
            (Order::Oldest, Some(at(25)), Some(at(10))),
        ] {
            let mut ranked: Vec<&Cd> = ascending.iter().filter(up_to(as_of)).collect();
            let total = ranked.len() as u64;
            if order == Order::Newest {
                ranked.reverse();
            }
            for skip in [0, 1, 2, total / 2, total.saturating_sub(1), total, total + 1, u64::MAX] {
                let all = RankedQuery::new(&self.id, filter);
                let query = RankedQuery { order, skip, count: 3, as_of, settled_at, ..all };
                let skipped = usize::try_from(skip).unwrap();
                let newest = ascending.last().filter(|_| as_of.is_none());
                let expected = RawRanked {
                    comments: ranked.iter().skip(skipped).take(3).copied().cloned().collect(),
                    total,
                    settled: ascending.iter().filter(up_to(settled_at)).count() as u64,
                    all: ascending.len() as u64,
                    newest: newest.map(|cd| cd.created_at),
                    stats: None,
                };
                assert_eq!(self.product.ranked(&query, &self.languages), expected, "{query:?}");
            }
        }
    }

    fn assert_positions(&self, filter: &Filter) {
        let ascending = self.matching(filter);
        for number in (0..60).step_by(7) {
            let cd = Cd { created_at: at(u64::from(number)), id: id(number) };
            let others: Vec<&Cd> = ascending.iter().filter(|other| other.id != cd.id).collect();
            let older = others.iter().filter(|other| ***other < cd).count() as u64;
            let total = others.len() as u64 + 1;
            for settled_at in [None, Some(at(25))] {
                let is_settled = |cd: &Cd| settled_at.is_none_or(|instant| cd.created_at <= instant);
                let settled = others.iter().filter(|other| is_settled(other)).count() as u64;
                let query = PositionQuery { product: &self.id, filter, cd: &cd, settled_at };
                let expected = Position { older, total, settled: settled + u64::from(is_settled(&cd)) };
                assert_eq!(self.product.position(&query, &self.languages), expected, "{query:?}");
            }
        }
    }

    fn assert_stats(&self, filter: &Filter) {
        let query = RankedQuery { stats: StatsWanted::WithLanguages, ..RankedQuery::new(&self.id, filter) };
        let stats = self.product.ranked(&query, &self.languages).stats.unwrap();
        let count = |language: Option<&Language>, ratings: Option<RatingSet>| {
            self.matching(&Filter::new(language.cloned(), ratings)).len() as u64
        };
        for (rating, comments) in stats.by_rating.iter() {
            assert_eq!(comments, count(filter.language(), RatingSet::of([rating])));
        }
        for (rating, comments) in stats.by_rating_in_any_language.iter() {
            assert_eq!(comments, count(None, RatingSet::of([rating])));
        }
        let tags: BTreeSet<&Language> = self.comments.values().map(|(_, language, _)| language).collect();
        let by_language = tags.iter().map(|tag| ((*tag).clone(), count(Some(tag), filter.ratings())));
        assert_eq!(stats.by_language, by_language.collect::<Vec<_>>());
        assert_eq!(stats.languages, tags.len() as u64);
        let newest = self.matching(&Filter::new(filter.language().cloned(), None)).pop();
        assert_eq!(stats.last_commented_at, newest.map(|cd| cd.created_at));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// A comment may also move to another time, which its id then does not hold.
    #[test]
    fn a_product_answers_as_a_sorted_list(
        steps in prop::collection::vec((any::<u8>(), 0..40_u64, any::<u8>(), 1..=5_u64, 0..5_u8), 0..150),
    ) {
        let mut compared = Compared::new();
        for (number, ms, tag, rating, kind) in steps {
            let last = match kind {
                0 => None,
                1 => Some(at(ms)),
                _ => Some(at(u64::from(number % 60))),
            };
            let last = last.map(|created_at| (created_at, language(tag), Rating::new(rating).unwrap()));
            compared.change(&id(number), last);
        }
        compared.assert_equal();
    }
}
