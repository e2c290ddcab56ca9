//! `GET /api/v1/products/{product}/stats`

use actix_web::{HttpResponse, web};
use model::{Filter, Language, ProductId, Rating, RatingCounts, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameters::Parsed;
use crate::{error::ApiError, read::page::check_known, site::Site, store::StoreClients};

/// How many comments a product has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats, example = json!({
    "product": "espresso-machine", "language": null, "total": 45,
    "by_rating": [
        {"rating": 1, "total": 2}, {"rating": 2, "total": 1}, {"rating": 3, "total": 4}, {"rating": 4, "total": 12},
        {"rating": 5, "total": 26}
    ],
    "average": 4.31, "last_commented_at": "2024-11-14T09:21:05.600Z",
    "by_language": [{"language": "de", "total": 15}, {"language": "en", "total": 30}], "languages": 2
}))]
pub(crate) struct StatsBody<'stats> {
    product: &'stats str,
    /// Null: of all languages.
    #[schema(required)]
    language: Option<&'stats str>,
    /// In the language when one is given.
    #[serde(flatten)]
    totals: TotalsBody,
    /// By language, whichever is given: the first 200 by their tags.
    #[schema(max_items = 200)]
    by_language: Vec<LanguageTotal<'stats>>,
    /// How many languages there are.
    languages: u64,
}

/// How many comments there are, and how they rate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Totals)]
pub(super) struct TotalsBody {
    total: u64,
    /// How many there are of each rating, all five.
    by_rating: Vec<RatingTotal>,
    /// The average rating, to two decimals; null without comments.
    #[schema(minimum = 1, maximum = 5, required)]
    average: Option<f64>,
    /// When the newest was made; null without comments.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    last_commented_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
struct RatingTotal {
    #[schema(value_type = u8, minimum = 1, maximum = 5)]
    rating: Rating,
    total: u64,
}

impl TotalsBody {
    pub(super) fn new(by_rating: RatingCounts, last_commented_at: Option<Timestamp>) -> Self {
        Self {
            total: by_rating.total(),
            by_rating: by_rating
                .iter()
                .map(|(rating, total)| RatingTotal { rating, total })
                .collect(),
            average: by_rating
                .average_hundredths()
                .map(|hundredths| f64::from(hundredths) / 100.0),
            last_commented_at,
        }
    }
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
    params(Parsed<(ProductId, Option<Language>)>),
    responses((status = 200, description = "The totals", body = StatsBody<'static>)),
)]
pub(crate) async fn product_stats(
    Parsed((product, language)): Parsed<(ProductId, Option<Language>)>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let stats = stores
        .stats(&product, &Filter::new(language.clone(), None))
        .await
        .ok_or(ApiError::IndexUnavailable)?;
    if stats.by_rating.total() == 0 {
        check_known(&stores, &site, &product).await?;
    }
    Ok(HttpResponse::Ok().json(StatsBody {
        product: product.as_str(),
        language: language.as_ref().map(Language::as_str),
        totals: TotalsBody::new(stats.by_rating, stats.last_commented_at),
        by_language: stats
            .by_language
            .iter()
            .map(|(language, total)| LanguageTotal {
                language,
                total: *total,
            })
            .collect(),
        languages: stats.languages,
    }))
}
