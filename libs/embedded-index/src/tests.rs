//! A product's answers, compared with those of a sorted list.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Cd, CommentId, Filter, Language, Order, Placement, ProductId, Rating, RatingSet, Timestamp, plan::index_edits,
};
use page_index::{Ends, Extent, PageStartQuery, Position};
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
        let codes = self.languages.codes_of(filter);
        for (order, as_of) in
            [Order::Newest, Order::Oldest].into_iter().flat_map(|order| [None, Some(at(25))].map(|at| (order, at)))
        {
            let (mut ranked, mut later): (Vec<Cd>, Vec<Cd>) =
                self.matching(filter).into_iter().partition(|cd| as_of.is_none_or(|as_of| cd.created_at <= as_of));
            let total = ranked.len() as u64;
            if order == Order::Newest {
                ranked.reverse();
            }
            let before_first = if order == Order::Newest && total > 0 { later.drain(..).next() } else { None };
            for skip in [0, 1, 2, total / 2, total.saturating_sub(1), total, total + 1, u64::MAX] {
                let query = PageStartQuery { product: &self.id, filter, skip, order, as_of };
                let skipped = usize::try_from(skip).unwrap().min(ranked.len());
                let before = match skip {
                    0 => before_first.clone(),
                    _ => ranked.get(skipped - usize::from(skipped > 0)).filter(|_| skip < total).cloned(),
                };
                assert_eq!(self.product.page_start(&query, codes), (total, before), "{query:?}");
                let page: Vec<Cd> = ranked.iter().skip(skipped).take(3).cloned().collect();
                assert_eq!(self.product.comments_of_page(&query, codes, 3), page, "{query:?}");
                let ends = ranked.first().zip(ranked.last());
                let ends =
                    ends.map(|(first, last)| Ends { newest: first.max(last).clone(), oldest: first.min(last).clone() });
                assert_eq!(self.product.extent(&query, codes), Extent { total, ends }, "{query:?}");
            }
        }
    }

    fn assert_positions(&self, filter: &Filter) {
        let codes = self.languages.codes_of(filter);
        let ascending = self.matching(filter);
        for number in (0..60).step_by(7) {
            let cd = Cd { created_at: at(u64::from(number)), id: id(number) };
            let others: Vec<&Cd> = ascending.iter().filter(|other| other.id != cd.id).collect();
            let older = others.iter().filter(|other| ***other < cd).count() as u64;
            let total = others.len() as u64 + 1;
            for (order, rank) in [(Order::Oldest, older), (Order::Newest, total - 1 - older)] {
                assert_eq!(self.product.position(&cd, codes, order), Position { total, rank }, "{cd} {filter} {order}");
            }
        }
    }

    fn assert_stats(&self, filter: &Filter) {
        let stats = self.product.stats(filter, &self.languages);
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
