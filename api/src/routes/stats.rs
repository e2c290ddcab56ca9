//! `GET /api/v1/products/{product}/stats`

use actix_web::{HttpRequest, HttpResponse, web};
use model::{Instant, Language, Rating};
use serde::Serialize;
use stores::page_index::Stats;

use crate::{
    error::ApiError,
    request::{self, Parameters},
    state::State,
};

#[derive(Debug, Serialize)]
struct Body<'stats> {
    product: &'stats str,
    language: Option<&'stats str>,
    total: u64,
    by_rating: Vec<RatingTotal>,
    by_language: Vec<LanguageTotal<'stats>>,
    average: Option<f64>,
    last_commented_at: Option<Instant>,
}

#[derive(Debug, Serialize)]
struct RatingTotal {
    rating: Rating,
    total: u64,
}

#[derive(Debug, Serialize)]
struct LanguageTotal<'stats> {
    language: &'stats str,
    total: u64,
}

/// Answers how many comments a product has.
pub(crate) async fn product(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let product = request::product(&request, 4)?;
    let language = Parameters::read(&request, &["language"], &[])?.parse("language", Language::parse)?;
    let stats = state.stats(&product, language.as_ref()).await.ok_or(ApiError::IndexUnavailable)?;
    Ok(HttpResponse::Ok().json(Body {
        product: product.as_str(),
        language: language.as_ref().map(Language::as_str),
        total: total(&stats),
        by_rating: stats
            .by_rating
            .iter()
            .map(|(rating, total)| RatingTotal { rating: *rating, total: *total })
            .collect(),
        by_language: stats
            .by_language
            .iter()
            .map(|(language, total)| LanguageTotal { language: language.as_str(), total: *total })
            .collect(),
        average: average_hundredths(&stats).map(|hundredths| f64::from(hundredths) / 100.0),
        last_commented_at: stats.last_commented_at,
    }))
}

/// How many comments there are.
pub(crate) fn total(stats: &Stats) -> u64 {
    stats.by_rating.iter().map(|(_, total)| total).sum()
}

/// The average rating in hundredths, rounded half up; `None` when there are no comments.
pub(crate) fn average_hundredths(stats: &Stats) -> Option<u16> {
    let total = u128::from(total(stats));
    let sum: u128 = stats.by_rating.iter().map(|(rating, total)| u128::from(rating.get()) * u128::from(*total)).sum();
    u16::try_from((sum * 200 + total).checked_div(total * 2)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_rounded_to_two_decimals() {
        let average = |totals: [u64; 5]| {
            let by_rating = Rating::ALL.into_iter().zip(totals).collect();
            average_hundredths(&Stats { by_rating, by_language: Vec::new(), last_commented_at: None })
        };
        assert_eq!(average([0, 0, 0, 0, 0]), None);
        assert_eq!(average([0, 0, 0, 0, 7]), Some(500));
        assert_eq!(average([1, 0, 0, 0, 2]), Some(367));
        assert_eq!(average([1, 2, 0, 0, 0]), Some(167));
        assert_eq!(average([u64::MAX / 5; 5]), Some(300));
    }
}
