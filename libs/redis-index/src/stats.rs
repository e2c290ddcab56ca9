//! How many comments a product has, by rating and by language.
//!
//! The script needs the languages. A cache names those that each product had at the last look-up: a guess, which saves a
//! call if it is right. The answer of the call names the actual languages, so a wrong guess costs one call but never gives a
//! wrong answer (`tests/selection` changes languages meanwhile).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use model::{Filter, Language, Malformed, ProductId, RatingCounts, RatingSet, Timestamp};
use page_index::{IndexAnswer, Stats, Summary};
use process::{Store, StoreError};

use crate::{RedisIndex, connection::Routed, markers::marker_of_fields, reads::timestamp_of};

/// Maximum number of cached products; beyond it the cache is cleared. With [`LANGUAGES_MAX`] languages each, this takes
/// about 40 MB, usually a tenth of that.
const PRODUCTS_MAX: usize = 10_000;

/// Products with more languages than this are not cached.
const LANGUAGES_MAX: usize = 64;

#[derive(Clone, Default)]
pub(super) struct KnownLanguages(Arc<Mutex<HashMap<ProductId, Vec<Language>>>>);

impl KnownLanguages {
    /// The cached languages of a product; empty when unknown.
    pub(super) fn of(&self, product: &ProductId) -> Vec<Language> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(product).cloned().unwrap_or_default()
    }

    pub(super) fn keep(&self, product: &ProductId, languages: &[Language]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if languages.is_empty() || languages.len() > LANGUAGES_MAX {
            known.remove(product);
            return;
        }
        if known.len() >= PRODUCTS_MAX {
            known.clear();
        }
        known.insert(product.clone(), languages.to_vec());
    }
}

/// Maximum number of tries of [`RedisIndex::count`]. It tries again when a language is added or removed meanwhile.
const STATS_TRIES_MAX: usize = 4;

/// What the script returns, in its order: `stats.lua` names the parts.
type Answer = (Option<String>, Option<i64>, Option<i64>, Vec<String>, Vec<u64>, Vec<u64>, Option<f64>, Vec<u64>);

impl RedisIndex {
    pub(crate) async fn count(
        &self,
        product: &ProductId,
        filter: &Filter,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Stats>, StoreError> {
        let sets_a_language = filter.ratings().unwrap_or(RatingSet::ALL).iter().count();
        let mut languages = self.known_languages.of(product);
        for _ in 0..STATS_TRIES_MAX {
            let call = self.stats_call(product, filter, &languages);
            let (table, watermark, confirmed, found, by_rating, in_any_language, last, by_language): Answer =
                self.ask(call).await?;
            if let Err(not_ready) = self.judge(marker_of_fields((table, watermark, confirmed)), table_id, now) {
                return Ok(Err(not_ready));
            }
            let mut found: Vec<Language> = found
                .iter()
                .map(|tag| Language::parse(tag).map_err(|error| Malformed::new("set of languages", error.to_string())))
                .collect::<Result<_, _>>()?;
            found.sort();
            let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
            found.truncate(Stats::LANGUAGES_MAX);
            if found != languages {
                self.known_languages.keep(product, &found);
                languages = found;
                continue;
            }
            return Ok(Ok(Stats {
                by_rating: rating_counts(by_rating)?,
                by_rating_in_any_language: rating_counts(in_any_language)?,
                by_language: languages
                    .into_iter()
                    .zip(by_language.chunks(sets_a_language).map(|sets| sets.iter().sum()))
                    .collect(),
                languages: count,
                last_commented_at: last.map(timestamp_of).transpose()?,
            }));
        }
        Err(StoreError::unavailable(Store::PageIndex, "the product's languages change faster than they can be read"))
    }

    pub(crate) async fn summarise(
        &self,
        products: &[ProductId],
        language: Option<&Language>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<Vec<IndexAnswer<Summary>>, StoreError> {
        let filter = Filter::new(language.cloned(), None);
        let calls = products.iter().map(|product| self.stats_call(product, &filter, &[]));
        let answers: Vec<Answer> = self.ask_all(calls).await?;
        let summaries = answers.into_iter().map(|(table, watermark, confirmed, _, by_rating, _, last, _)| {
            let last_commented_at = last.map(timestamp_of).transpose()?;
            let by_rating = rating_counts(by_rating)?;
            let judged = self.judge(marker_of_fields((table, watermark, confirmed)), table_id, now);
            Ok(judged.map(|_| Summary { by_rating, last_commented_at }))
        });
        summaries.collect()
    }

    fn stats_call(&self, product: &ProductId, filter: &Filter, languages: &[Language]) -> Routed<'_> {
        let mut keys = vec![self.marker_of(product), self.keys.languages(product)];
        let of_all = [filter.language().cloned(), None].map(|language| Filter::new(language, None));
        let of_known = languages.iter().map(|known| Filter::new(Some(known.clone()), filter.ratings()));
        for filter in of_all.into_iter().chain(of_known) {
            keys.extend(filter.base_sets(product).iter().map(|set| self.keys.base_set(set)));
        }
        Routed::call(&self.scripts.stats, &keys)
    }
}

/// The counts of the five ratings in a script's answer.
pub(crate) fn rating_counts(ascending: Vec<u64>) -> Result<RatingCounts, Malformed> {
    let counts = ascending.try_into().map_err(|_| Malformed::new("counts of ratings", "not five numbers"))?;
    Ok(RatingCounts::new(counts))
}
