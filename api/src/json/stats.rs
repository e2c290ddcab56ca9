//! `GET /api/v1/products/{product}/stats`

use actix_web::{HttpRequest, HttpResponse, web};
use model::{Filter, Language, ProductId, Rating, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameters::{LANGUAGE, PRODUCT, Parameter, Parsed, Query, Request};
use crate::{
    error::{ApiError, PROBLEM_JSON, Problem},
    http::path_and_query,
    read::known::check_known,
    site::Site,
    store::StoreClients,
};

/// A request for the totals of a product.
pub(crate) struct StatsRequest {
    product: ProductId,
    language: Option<Language>,
}

impl Request for StatsRequest {
    const PARAMETERS: &'static [&'static Parameter] = &[&PRODUCT, &LANGUAGE];

    fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        let product = path_and_query::product(request, 4)?;
        Ok(Self { product, language: Query::read(request, Self::PARAMETERS)?.parse(&LANGUAGE, Language::parse)? })
    }
}

/// How many comments a product has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats, example = json!({
    "product": "espresso-machine", "language": null, "total": 45,
    "by_rating": [
        {"rating": 1, "total": 2}, {"rating": 2, "total": 1}, {"rating": 3, "total": 4}, {"rating": 4, "total": 12},
        {"rating": 5, "total": 26}
    ],
    "by_language": [{"language": "de", "total": 15}, {"language": "en", "total": 30}], "languages": 2,
    "average": 4.31, "last_commented_at": "2024-11-14T09:21:05.600Z"
}))]
pub(crate) struct Body<'stats> {
    product: &'stats str,
    /// Null: of all languages.
    #[schema(required)]
    language: Option<&'stats str>,
    /// How many there are, in the language when one is given.
    total: u64,
    /// By rating, all five, in the language when one is given.
    by_rating: Vec<RatingTotal>,
    /// By language, whichever is given: the first 200 by their tags.
    #[schema(max_items = 200)]
    by_language: Vec<LanguageTotal<'stats>>,
    /// How many languages there are.
    languages: u64,
    /// The average rating, to two decimals; null without comments.
    #[schema(minimum = 1, maximum = 5, required)]
    average: Option<f64>,
    /// When the newest was made; null without comments.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    last_commented_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RatingTotal {
    #[schema(value_type = u8, minimum = 1, maximum = 5)]
    pub(super) rating: Rating,
    pub(super) total: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct LanguageTotal<'stats> {
    #[schema(value_type = String)]
    language: &'stats Language,
    total: u64,
}

/// How many comments a product has, by rating and by language.
#[utoipa::path(
    get,
    path = "/api/v1/products/{product}/stats",
    tag = "comments",
    params(Parsed<StatsRequest>),
    responses(
        (status = 200, description = "The totals", body = Body<'static>),
        (
            status = 404,
            description = "Nobody knows the product, and the site does not serve such products",
            body = Problem<'static>,
            content_type = PROBLEM_JSON,
        ),
    ),
)]
pub(crate) async fn product_stats(
    Parsed(StatsRequest { product, language }): Parsed<StatsRequest>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let stats = stores.stats(&product, &Filter::new(language.clone(), None)).await.ok_or(ApiError::IndexUnavailable)?;
    if total(&stats.by_rating) == 0 {
        check_known(&stores, &site, &product).await?;
    }
    Ok(HttpResponse::Ok().json(Body {
        product: product.as_str(),
        language: language.as_ref().map(Language::as_str),
        total: total(&stats.by_rating),
        by_rating: by_rating(&stats.by_rating),
        by_language: stats
            .by_language
            .iter()
            .map(|(language, total)| LanguageTotal { language, total: *total })
            .collect(),
        languages: stats.languages,
        average: average(&stats.by_rating),
        last_commented_at: stats.last_commented_at,
    }))
}

/// The totals of the ratings.
pub(super) fn by_rating(by_rating: &[(Rating, u64)]) -> Vec<RatingTotal> {
    by_rating.iter().map(|&(rating, total)| RatingTotal { rating, total }).collect()
}

/// Average rating, rounded half up to two decimals; `None` without comments.
pub(super) fn average(by_rating: &[(Rating, u64)]) -> Option<f64> {
    average_hundredths(by_rating).map(|hundredths| f64::from(hundredths) / 100.0)
}

/// Total number of comments.
pub(crate) fn total(by_rating: &[(Rating, u64)]) -> u64 {
    by_rating.iter().map(|(_, total)| total).sum()
}

/// Average rating in hundredths, rounded half up; `None` without comments.
pub(crate) fn average_hundredths(by_rating: &[(Rating, u64)]) -> Option<u16> {
    let total = u128::from(total(by_rating));
    let sum: u128 = by_rating.iter().map(|(rating, total)| u128::from(rating.get()) * u128::from(*total)).sum();
    u16::try_from((sum * 200 + total).checked_div(total * 2)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_rounded_to_two_decimals() {
        let average = |totals: [u64; 5]| average_hundredths(&Rating::ALL.into_iter().zip(totals).collect::<Vec<_>>());
        assert_eq!(average([0, 0, 0, 0, 0]), None);
        assert_eq!(average([0, 0, 0, 0, 7]), Some(500));
        assert_eq!(average([1, 0, 0, 0, 2]), Some(367));
        assert_eq!(average([1, 2, 0, 0, 0]), Some(167));
        assert_eq!(average([u64::MAX / 5; 5]), Some(300));
    }
}
