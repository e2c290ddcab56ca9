//! What readers ask: comments by their ranks, totals, the place of a comment, and the names of
//! products.

use std::collections::BTreeSet;

use async_trait::async_trait;
use model::{
    Cd, CommentId, Filter, Language, Malformed, Order, ProductId, Rating, RatingCounts, RatingSet,
    Timestamp,
};
use page_index::{
    CommentPosition, IndexPartition, Marker, PositionQuery, RankedQuery, RawRanked, Reads, Stats,
    StatsWanted,
};
use process::{Store, StoreError};

use crate::{
    RedisIndex,
    connection::Routed,
    contents::language,
    keys::Keys,
    markers::{MarkerFields, marker_of_fields},
};

/// Number of queries that one pipeline asks: some milliseconds of the server's time. A page takes
/// it up to a third of a millisecond, and the counts of 200 languages another one.
const QUERIES_STEP: usize = 50;

/// Maximum number of times a query is asked. A retry follows when a language is added or removed
/// meanwhile.
const QUERY_TRIES_MAX: usize = 4;

/// Number of names that one call reads: some tenths of a millisecond of the server's time.
const NAMES_STEP: usize = 1_000;

/// Maximum number of starts of a read of names. It starts over when the marker changes meanwhile:
/// in a rebuild, and whenever repair advances the watermark.
const NAMES_STARTS_MAX: usize = 3;

/// What `ranked.lua` returns, in its order.
type RankedAnswer = (
    MarkerFields,
    Vec<(String, f64)>,
    u64,
    u64,
    u64,
    Option<f64>,
    Vec<u64>,
    Vec<u64>,
    Option<f64>,
    Vec<String>,
    Vec<u64>,
);

#[async_trait]
impl Reads for RedisIndex {
    async fn ranked(
        &self,
        queries: &[RankedQuery<'_>],
    ) -> Result<Vec<(Marker, RawRanked)>, StoreError> {
        let mut found = Vec::with_capacity(queries.len());
        for together in queries.chunks(QUERIES_STEP) {
            found.extend(self.ranked_together(together).await?);
        }
        Ok(found)
    }

    async fn position(
        &self,
        query: &PositionQuery<'_>,
    ) -> Result<(Marker, CommentPosition), StoreError> {
        let PositionQuery {
            product,
            filter,
            cd,
            settled_at,
        } = *query;
        let stem = self
            .keys
            .stem(self.keys.partition_of(product), &product.escaped());
        let mut keys = vec![self.marker_of(product)];
        keys.extend(set_keys(&stem, product, filter));
        let call = Routed::call(&self.scripts.position, &keys)
            .arg(cd.id.as_str())
            .arg(cd.created_at.epoch_ms());
        let (marker, others, preceding, settled): (MarkerFields, u64, u64, u64) =
            self.ask(call.arg(score_text(settled_at))).await?;
        let is_settled = settled_at.is_none_or(|settled_at| cd.created_at <= settled_at);
        let position = CommentPosition {
            older: others.saturating_sub(preceding),
            total: others + 1,
            settled: settled + u64::from(is_settled),
        };
        Ok((marker_of_fields(marker), position))
    }

    /// **Invariant:** all steps see a marker of the same owner and watermark. So an answer never
    /// comes from a partition that was lost or rebuilt during the read.
    async fn products(
        &self,
        partition: IndexPartition,
    ) -> Result<(Marker, Vec<ProductId>), StoreError> {
        let keys = [self.keys.marker(partition), self.keys.products(partition)];
        for _ in 0..NAMES_STARTS_MAX {
            let (mut first, mut products, mut cursor) = (None, BTreeSet::new(), "0".to_owned());
            loop {
                let call = Routed::call(&self.scripts.products, &keys)
                    .arg(&cursor)
                    .arg(NAMES_STEP);
                let (fields, next, names): (MarkerFields, String, Vec<String>) =
                    self.ask(call).await?;
                let marker = marker_of_fields(fields);
                let seen = (marker.owner.clone(), marker.watermark);
                if *first.get_or_insert_with(|| seen.clone()) != seen {
                    break;
                }
                for name in names {
                    products.insert(product_of(&name)?);
                }
                if next == "0" {
                    return Ok((marker, products.into_iter().collect()));
                }
                cursor = next;
            }
        }
        let problem = "the partition's marker changes faster than its products are read";
        Err(StoreError::unavailable(Store::PageIndex, problem))
    }
}

impl RedisIndex {
    async fn ranked_together(
        &self,
        queries: &[RankedQuery<'_>],
    ) -> Result<Vec<(Marker, RawRanked)>, StoreError> {
        let believed = |query: &RankedQuery<'_>| match query.stats {
            StatsWanted::WithLanguages => self.known_languages.of(query.product),
            StatsWanted::No | StatsWanted::ByRating => Vec::new(),
        };
        let mut answers: Vec<Result<(Marker, RawRanked), Vec<Language>>> =
            queries.iter().map(|query| Err(believed(query))).collect();
        for _ in 0..QUERY_TRIES_MAX {
            let open = answers.iter().zip(queries);
            let calls = open.filter_map(|(answer, query)| {
                Some(self.ranked_call(query, answer.as_ref().err()?))
            });
            let mut found = self.ask_all::<RankedAnswer>(calls).await?.into_iter();
            for (answer, query) in answers.iter_mut().zip(queries) {
                if let Err(believed) = answer
                    && let Some(found) = found.next()
                {
                    *answer = self.read_ranked(query, believed, found)?;
                    // A walk over many products would push out what readers need.
                    if let (Err(languages), [query]) = (&*answer, queries) {
                        self.known_languages.keep(query.product, languages);
                    }
                }
            }
            if answers.iter().all(Result::is_ok) {
                return Ok(answers.into_iter().flatten().collect());
            }
        }
        Err(StoreError::unavailable(
            Store::PageIndex,
            "a product's languages change faster than they can be read",
        ))
    }

    fn ranked_call(&self, query: &RankedQuery<'_>, languages: &[Language]) -> Routed<'_> {
        let RankedQuery {
            product,
            filter,
            order,
            after,
            skip,
            count,
            as_of,
            settled_at,
            stats,
        } = *query;
        let stem = self
            .keys
            .stem(self.keys.partition_of(product), &product.escaped());
        let keys_of = |filter: &Filter| set_keys(&stem, product, filter);
        let mut keys = vec![self.marker_of(product)];
        keys.extend(keys_of(filter));
        let sets = keys.len() - 1;
        if stats != StatsWanted::No {
            for language in [filter.language(), None] {
                let of_rating =
                    |rating| keys_of(&Filter::new(language.cloned(), RatingSet::of([rating])));
                keys.extend(Rating::ALL.into_iter().flat_map(of_rating));
            }
        }
        if stats == StatsWanted::WithLanguages {
            keys.push(Keys::languages_at(&stem));
            for language in languages {
                keys.extend(keys_of(&Filter::new(
                    Some(language.clone()),
                    filter.ratings(),
                )));
            }
        }
        let position = match after {
            Some(cd) => cd.id.as_str(),
            None => "",
        };
        Routed::call(&self.scripts.ranked, &keys)
            .arg(order.to_string())
            .arg(skip)
            .arg(count)
            .arg(score_text(as_of))
            .arg(score_text(settled_at))
            .arg(sets)
            .arg(position)
            .arg(score_text(after.map(|cd| cd.created_at)))
    }

    /// Reads an answer. `Err` with the product's languages if they are not those that the caller
    /// believed.
    fn read_ranked(
        &self,
        query: &RankedQuery<'_>,
        believed: &[Language],
        answer: RankedAnswer,
    ) -> Result<Result<(Marker, RawRanked), Vec<Language>>, StoreError> {
        let (
            marker,
            comments,
            total,
            settled,
            all,
            newest,
            by_rating,
            in_any_language,
            last,
            tags,
            sizes,
        ) = answer;
        let mut comments: Vec<Cd> = comments
            .iter()
            .map(|(member, score)| cd_of(member, *score))
            .collect::<Result<_, _>>()?;
        if query.order == Order::Oldest {
            comments.reverse();
        }
        let stats = match query.stats {
            StatsWanted::No => None,
            StatsWanted::ByRating | StatsWanted::WithLanguages => {
                // The index scan finds names that are not languages.
                let mut languages: Vec<Language> =
                    tags.iter().filter_map(|tag| language(tag)).collect();
                languages.sort();
                let count = u64::try_from(languages.len()).unwrap_or(u64::MAX);
                languages.truncate(Stats::LANGUAGES_MAX);
                if languages != believed {
                    return Ok(Err(languages));
                }
                let sets_a_language = query.filter.base_sets(query.product).len().max(1);
                let by_language = sizes
                    .chunks(sets_a_language)
                    .map(|sizes| sizes.iter().sum());
                Some(Stats {
                    by_rating: rating_counts(by_rating)?,
                    by_rating_in_any_language: rating_counts(in_any_language)?,
                    by_language: languages.into_iter().zip(by_language).collect(),
                    languages: count,
                    last_commented_at: last.map(timestamp_of).transpose()?,
                })
            }
        };
        let newest = newest.map(timestamp_of).transpose()?;
        Ok(Ok((
            marker_of_fields(marker),
            RawRanked {
                comments,
                total,
                settled,
                all,
                newest,
                stats,
            },
        )))
    }
}

fn set_keys(stem: &str, product: &ProductId, filter: &Filter) -> Vec<String> {
    filter
        .base_sets(product)
        .iter()
        .map(|set| Keys::base_set_at(stem, set))
        .collect()
}

/// The score of an instant; empty without one.
fn score_text(instant: Option<Timestamp>) -> String {
    match instant {
        Some(instant) => instant.epoch_ms().to_string(),
        None => String::new(),
    }
}

fn cd_of(member: &str, score: f64) -> Result<Cd, StoreError> {
    let id =
        CommentId::parse(member).map_err(|error| Malformed::new("member", error.to_string()))?;
    Ok(Cd {
        created_at: timestamp_of(score)?,
        id,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "scores are whole milliseconds, exact in a double"
)]
fn timestamp_of(score: f64) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_epoch_ms(score as i64)
        .map_err(|error| Malformed::new("score", error.to_string()))?)
}

fn product_of(escaped: &str) -> Result<ProductId, Malformed> {
    ProductId::from_escaped(escaped)
        .map_err(|error| Malformed::new("set of products", error.to_string()))
}

fn rating_counts(ascending: Vec<u64>) -> Result<RatingCounts, Malformed> {
    let counts = ascending
        .try_into()
        .map_err(|_| Malformed::new("counts of ratings", "not five numbers"))?;
    Ok(RatingCounts::new(counts))
}
