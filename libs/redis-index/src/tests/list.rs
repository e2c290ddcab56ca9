//! Random edits of blocks, compared with a list in memory.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Cd, CommentId, Filter, Language, Order, RankEntry, Rating, RatingCounts, RatingSet, Timestamp,
    plan::{IndexEdit, index_edits},
};
use page_index::{
    CommentPosition, Edits, PositionQuery, RankedQuery, RawRanked, Reads, Stats, StatsWanted,
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{LANGUAGES, OwnIndex, SMALL, entry, id, product};
use crate::member::member_of;

/// Number of schedules, and of edits in each: ten thousand together.
const SCHEDULES: u64 = 25;
const EDITS: u32 = 400;

/// After so many edits, everything is compared.
const COMPARED_EVERY: u32 = 7;

/// After so many edits, the share of additions changes: the product grows or shrinks.
const PHASE: u32 = 60;

/// The time that the ULIDs among the ids hold.
const ULID_MS: i64 = 1_700_000_000_000;

/// The entries of comments, in the order of (time, member). A redelivery may leave two of one comment.
#[derive(Default)]
struct List(BTreeMap<(Timestamp, String), (CommentId, RankEntry)>);

impl List {
    fn of(&self, id: &CommentId) -> Vec<RankEntry> {
        let mut entries = Vec::new();
        for (of, entry) in self.0.values() {
            if of == id {
                entries.push(entry.clone());
            }
        }
        entries
    }

    /// Does what an edit says: `last` is the entry that it adds.
    fn apply(&mut self, edit: &IndexEdit, last: Option<&RankEntry>) {
        self.0.retain(|(time, _), (id, entry)| {
            *id != edit.id || !edit.remove_at.contains(time) || Some(&*entry) == last
        });
        if let Some(last) = last {
            let cd = Cd {
                created_at: last.created_at,
                id: edit.id.clone(),
            };
            let member = member_of(&cd, &last.placement.language, last.placement.rating);
            let comment = (edit.id.clone(), last.clone());
            self.0.insert((last.created_at, member), comment);
        }
    }

    /// The comments of a filter, newest first.
    fn listing(&self, filter: &Filter) -> Vec<Cd> {
        let mut listing = Vec::new();
        for (id, entry) in self.0.values().rev() {
            if filter.matches(&entry.placement) {
                listing.push(Cd {
                    created_at: entry.created_at,
                    id: id.clone(),
                });
            }
        }
        listing
    }

    fn by_rating(&self, language: Option<&Language>) -> RatingCounts {
        let mut counts = [0; 5];
        for (count, rating) in counts.iter_mut().zip(Rating::ALL) {
            let ratings = RatingSet::every().find(|set| {
                Rating::ALL
                    .iter()
                    .all(|other| set.contains(*other) == (*other == rating))
            });
            *count = self.listing(&Filter::new(language.cloned(), ratings)).len() as u64;
        }
        RatingCounts::new(counts)
    }

    fn ranked(&self, query: &RankedQuery<'_>) -> RawRanked {
        let all = self.listing(query.filter);
        let ranked = up_to(&all, query.as_of);
        let mut asked = ranked.clone();
        if query.order == Order::Oldest {
            asked.reverse();
        }
        if let Some(position) = query.after {
            asked.retain(|cd| query.order.compare(cd, position).is_gt());
        }
        let from_skip = asked.into_iter().skip(usize::try_from(query.skip).unwrap());
        let newest = all.first().map(|cd| cd.created_at);
        RawRanked {
            comments: from_skip.take(query.count.into()).collect(),
            total: ranked.len() as u64,
            settled: up_to(&all, query.settled_at).len() as u64,
            all: all.len() as u64,
            newest: newest.filter(|_| query.as_of.is_none()),
            stats: match query.stats {
                StatsWanted::No => None,
                StatsWanted::ByRating | StatsWanted::WithLanguages => Some(self.stats(query)),
            },
        }
    }

    fn stats(&self, query: &RankedQuery<'_>) -> Stats {
        let language = query.filter.language();
        let in_language = self.listing(&Filter::new(language.cloned(), None));
        let mut languages: BTreeSet<Language> = BTreeSet::new();
        if query.stats == StatsWanted::WithLanguages {
            languages.extend(
                self.0
                    .values()
                    .map(|(_, entry)| entry.placement.language.clone()),
            );
        }
        let mut by_language = Vec::new();
        for language in &languages {
            let filter = Filter::new(Some(language.clone()), query.filter.ratings());
            by_language.push((language.clone(), self.listing(&filter).len() as u64));
        }
        Stats {
            by_rating: self.by_rating(language),
            by_rating_in_any_language: self.by_rating(None),
            by_language,
            languages: languages.len() as u64,
            last_commented_at: in_language.first().map(|cd| cd.created_at),
        }
    }

    fn position(&self, query: &PositionQuery<'_>) -> CommentPosition {
        let mut others = self.listing(query.filter);
        others.retain(|cd| cd != query.cd);
        let mut with_it = others.clone();
        with_it.push(query.cd.clone());
        CommentPosition {
            older: others.iter().filter(|cd| *cd < query.cd).count() as u64,
            total: with_it.len() as u64,
            settled: up_to(&with_it, query.settled_at).len() as u64,
        }
    }
}

fn up_to(listing: &[Cd], instant: Option<Timestamp>) -> Vec<Cd> {
    let mut found = listing.to_vec();
    if let Some(instant) = instant {
        found.retain(|cd| cd.created_at <= instant);
    }
    found
}

/// Draws edits and questions.
struct Draws {
    random: StdRng,
    ids: Vec<CommentId>,
    /// Creation times begin here, and differ by less than `span_ms`.
    base_ms: i64,
    span_ms: i64,
    share_of_additions: f64,
}

impl Draws {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let greatest = "Z".repeat(64);
        let mut ids = Vec::new();
        // Ids that begin with others, and the first and the last one.
        for text in ["z", "a", "a-", "a.", "a0", "aa", "a_", "0", "-", &greatest] {
            ids.push(id(text));
        }
        for number in 0..60 {
            ids.push(id(&format!("i{number}")));
            if number % 3 == 0 {
                ids.push(id(&format!("01HF7YAT00{number:016}")));
            }
        }
        let bases = [
            0,
            -5,
            Timestamp::MIN.epoch_ms(),
            253_402_300_000_000,
            ULID_MS,
            ULID_MS,
        ];
        Self {
            ids,
            base_ms: *bases.choose(&mut random).unwrap(),
            span_ms: *[2, 8, 200, 700_000].choose(&mut random).unwrap(),
            share_of_additions: 0.75,
            random,
        }
    }

    fn time(&mut self) -> Timestamp {
        let created_ms = self.base_ms + self.random.random_range(0..self.span_ms);
        Timestamp::from_epoch_ms(created_ms).unwrap()
    }

    fn maybe_time(&mut self) -> Option<Timestamp> {
        let is_some = self.random.random_bool(0.5);
        is_some.then(|| self.time())
    }

    fn entry(&mut self) -> RankEntry {
        let created_ms = self.time().epoch_ms();
        let language = LANGUAGES.choose(&mut self.random).unwrap();
        entry(created_ms, language, self.random.random_range(1..=5))
    }

    /// An edit and the entry that it adds. It seldom knows nothing of the entries that the comment has,
    /// and often of others.
    fn edit(&mut self, list: &List) -> Option<(IndexEdit, Option<RankEntry>)> {
        let id = self.ids.choose(&mut self.random).unwrap().clone();
        let mut seen = list.of(&id);
        let mut last = None;
        if self.random.random_bool(self.share_of_additions) {
            let mut added = self.entry();
            if let Some(before) = seen.first()
                && self.random.random_bool(0.4)
            {
                added.created_at = before.created_at;
            }
            last = Some(added);
        }
        if self.random.random_bool(0.1) {
            seen.clear();
        }
        if self.random.random_bool(0.3) {
            seen.push(self.entry());
        }
        let edit = index_edits(&id, last.as_ref(), &seen).pop()?;
        Some((edit, last))
    }

    fn filter(&mut self) -> Filter {
        let mut language = None;
        if self.random.random_bool(0.5) {
            let tag = LANGUAGES.choose(&mut self.random).unwrap();
            language = Some(Language::parse_stored(tag).unwrap());
        }
        let sets: Vec<RatingSet> = RatingSet::every().collect();
        let ratings = sets.choose(&mut self.random).copied();
        Filter::new(language, ratings.filter(|_| self.random.random_bool(0.7)))
    }

    /// The place of a comment, or one just beside comments.
    fn position(&mut self, list: &List) -> Cd {
        let id = self.ids.choose(&mut self.random).unwrap().clone();
        let created_at = match list.of(&id).first() {
            Some(entry) if self.random.random_bool(0.7) => entry.created_at,
            Some(_) | None => self.time(),
        };
        Cd { created_at, id }
    }
}

async fn compare(own: &OwnIndex, list: &List, draws: &mut Draws, step: &str) {
    let product = product();
    for _ in 0..6 {
        let filter = draws.filter();
        let position = draws.position(list);
        let query = RankedQuery {
            order: *[Order::Newest, Order::Oldest]
                .choose(&mut draws.random)
                .unwrap(),
            after: draws.random.random_bool(0.5).then_some(&position),
            skip: *[0, 0, 1, 5].choose(&mut draws.random).unwrap(),
            count: *[0, 1, 3, 20, 100].choose(&mut draws.random).unwrap(),
            as_of: draws.maybe_time(),
            settled_at: draws.maybe_time(),
            stats: *[
                StatsWanted::No,
                StatsWanted::ByRating,
                StatsWanted::WithLanguages,
            ]
            .choose(&mut draws.random)
            .unwrap(),
            ..RankedQuery::new(&product, &filter)
        };
        let (_, found) = own.index.ranked(&[query]).await.unwrap().remove(0);
        assert_eq!(found, list.ranked(&query), "{step}: {query:?}");
        let query = PositionQuery {
            product: &product,
            filter: &filter,
            cd: &position,
            settled_at: draws.maybe_time(),
        };
        let (_, found) = own.index.position(&query).await.unwrap();
        assert_eq!(found, list.position(&query), "{step}: {query:?}");
    }
    assert_eq!(own.scan().await, (Vec::new(), list.0.len()), "{step}");
    assert_eq!(own.keys().await.is_empty(), list.0.is_empty(), "{step}");
}

/// Edits that are applied together. Edits of one comment may be applied in any order, so they are never
/// together unless they are the same.
#[derive(Default)]
struct Together(Vec<IndexEdit>);

impl Together {
    async fn push(&mut self, edit: IndexEdit, own: &OwnIndex, at: &str) {
        if self.0.iter().any(|other| other.id == edit.id) {
            self.apply(own, at).await;
        }
        self.0.push(edit);
    }

    async fn apply(&mut self, own: &OwnIndex, at: &str) {
        let edits = std::mem::take(&mut self.0);
        let applied = own.index.apply(&edits).await;
        applied.unwrap_or_else(|error| panic!("{at}: {edits:?}: {error}"));
    }
}

#[tokio::test]
async fn random_edits_of_small_blocks_leave_what_they_leave_in_a_list() {
    let own = OwnIndex::start(&SMALL).await;
    for seed in 0..SCHEDULES {
        own.clear().await;
        let mut draws = Draws::new(seed);
        let mut list = List::default();
        let mut together = Together::default();
        for step in 0..EDITS {
            if step % PHASE == 0 {
                draws.share_of_additions = *[0.95, 0.5, 0.2].choose(&mut draws.random).unwrap();
            }
            let Some((edit, last)) = draws.edit(&list) else {
                continue;
            };
            let at = format!("seed {seed}, step {step}");
            list.apply(&edit, last.as_ref());
            let is_repeated = draws.random.random_bool(0.1);
            together.push(edit.clone(), &own, &at).await;
            if is_repeated {
                together.0.push(edit);
            }
            if step % COMPARED_EVERY == 0 {
                together.apply(&own, &at).await;
                compare(&own, &list, &mut draws, &at).await;
            }
        }
    }
}
