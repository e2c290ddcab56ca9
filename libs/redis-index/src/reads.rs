//! What readers ask: comments by their ranks, totals, the place of a comment, and the names of
//! products.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use model::{Filter, Language, Malformed, Order, ProductId, RatingCounts, RatingSet, Timestamp};
use page_index::{
    CommentPosition, IndexPartition, Marker, PositionQuery, RankedQuery, RawRanked, Reads, Stats,
    StatsWanted,
};
use process::{Store, StoreError};

use crate::{
    RedisIndex,
    connection::Routed,
    keys::language_and_rating,
    markers::{MarkerFields, marker_of_fields},
    member::cd_of,
};

/// Number of queries that one pipeline asks: some milliseconds of the server's time. A page of 20
/// takes it up to a third of a millisecond, one of a rare filter up to a whole one. More comments of
/// a rare filter take longer: 100 some 2 ms, 500 some 10 ms.
const QUERIES_STEP: usize = 50;

/// Number of names that one call reads: some tenths of a millisecond of the server's time.
const NAMES_STEP: usize = 1_000;

/// Maximum number of starts of a read of names. It starts over when the marker changes meanwhile:
/// in a rebuild, and whenever repair advances the watermark.
const NAMES_STARTS_MAX: usize = 3;

/// What `ranked.lua` returns, in its order.
type RankedFields = (
    MarkerFields,
    Vec<String>,
    u64,
    u64,
    u64,
    Vec<String>,
    Vec<u64>,
    Vec<u64>,
    Vec<String>,
    BTreeMap<String, u64>,
);

/// What `ranked.lua` finds about the comments of a product.
struct FoundStats {
    by_rating: Vec<u64>,
    by_rating_in_any_language: Vec<u64>,
    last_comment: Vec<String>,
    /// The totals by field, `<language>/<rating>`.
    totals: BTreeMap<String, u64>,
}

#[async_trait]
impl Reads for RedisIndex {
    async fn ranked(
        &self,
        queries: &[RankedQuery<'_>],
    ) -> Result<Vec<(Marker, RawRanked)>, StoreError> {
        let mut found = Vec::with_capacity(queries.len());
        for together in queries.chunks(QUERIES_STEP) {
            let calls = together.iter().map(|query| self.ranked_call(query));
            let answers: Vec<RankedFields> = self.ask_all(calls).await?;
            for (query, answer) in together.iter().zip(answers) {
                found.push(read_ranked(query, answer)?);
            }
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
        let keys = [self.marker_of(product), self.keys.totals(product)];
        let call = Routed::call(&self.scripts.position, &keys)
            .arg(language_text(filter))
            .arg(ratings_text(filter))
            .arg(cd.id.as_str())
            .arg(cd.created_at.epoch_ms())
            .arg(score_text(settled_at));
        let (marker, others, preceding, settled): (MarkerFields, u64, u64, u64) =
            self.ask(call).await?;
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
    fn ranked_call(&self, query: &RankedQuery<'_>) -> Routed<'_> {
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
        let keys = [self.marker_of(product), self.keys.totals(product)];
        let position = match after {
            Some(cd) => cd.id.as_str(),
            None => "",
        };
        let counted = match stats {
            StatsWanted::No => "",
            StatsWanted::ByRating => "ratings",
            StatsWanted::WithLanguages => "languages",
        };
        Routed::call(&self.scripts.ranked, &keys)
            .arg(language_text(filter))
            .arg(ratings_text(filter))
            .arg(order.to_string())
            .arg(skip)
            .arg(count)
            .arg(score_text(as_of))
            .arg(score_text(settled_at))
            .arg(position)
            .arg(score_text(after.map(|cd| cd.created_at)))
            .arg(counted)
    }
}

fn read_ranked(
    query: &RankedQuery<'_>,
    fields: RankedFields,
) -> Result<(Marker, RawRanked), StoreError> {
    let (
        marker,
        members,
        total,
        settled,
        all,
        newest,
        by_rating,
        by_rating_in_any_language,
        last_comment,
        totals,
    ) = fields;
    let mut comments = Vec::with_capacity(members.len());
    for member in &members {
        comments.push(cd_of(member)?);
    }
    if query.order == Order::Oldest {
        comments.reverse();
    }
    let stats = if query.stats == StatsWanted::No {
        None
    } else {
        let found = FoundStats {
            by_rating,
            by_rating_in_any_language,
            last_comment,
            totals,
        };
        Some(found.read(query.filter)?)
    };
    let ranked = RawRanked {
        comments,
        total,
        settled,
        all,
        newest: time_of_first(&newest)?,
        stats,
    };
    Ok((marker_of_fields(marker), ranked))
}

impl FoundStats {
    fn read(self, filter: &Filter) -> Result<Stats, StoreError> {
        let ratings = filter.ratings().unwrap_or(RatingSet::ALL);
        let mut by_language: BTreeMap<Language, u64> = BTreeMap::new();
        for (field, count) in &self.totals {
            // The index scan finds names that are not languages.
            let Some((language, rating)) = language_and_rating(field) else {
                continue;
            };
            let of_language = by_language.entry(language).or_default();
            if ratings.contains(rating) {
                *of_language += count;
            }
        }
        let languages = u64::try_from(by_language.len()).unwrap_or(u64::MAX);
        Ok(Stats {
            by_rating: rating_counts(self.by_rating)?,
            by_rating_in_any_language: rating_counts(self.by_rating_in_any_language)?,
            by_language: by_language.into_iter().take(Stats::LANGUAGES_MAX).collect(),
            languages,
            last_commented_at: time_of_first(&self.last_comment)?,
        })
    }
}

fn language_text(filter: &Filter) -> &str {
    match filter.language() {
        Some(language) => language.as_str(),
        None => model::ANY,
    }
}

/// The digits of a filter's ratings.
fn ratings_text(filter: &Filter) -> String {
    let ratings = filter.ratings().unwrap_or(RatingSet::ALL);
    ratings.iter().map(|rating| rating.as_str()).collect()
}

/// The score of an instant; empty without one.
fn score_text(instant: Option<Timestamp>) -> String {
    match instant {
        Some(instant) => instant.epoch_ms().to_string(),
        None => String::new(),
    }
}

fn time_of_first(members: &[String]) -> Result<Option<Timestamp>, StoreError> {
    match members.first() {
        Some(member) => Ok(Some(cd_of(member)?.created_at)),
        None => Ok(None),
    }
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
