//! `GET /api/v1/stats`

use std::collections::BTreeSet;

use actix_web::{HttpResponse, web};
use model::{Filter, Language, ProductId};
use page_index::{RankedQuery, StatsWanted};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    parameters::{FromParameters, Given, PRODUCTS, PRODUCTS_MAX, Parsed},
    stats::TotalsBody,
};
use crate::{error::ApiError, store::StoreClients};

pub(crate) struct SummariesRequest {
    /// Each once.
    products: Vec<ProductId>,
    language: Option<Language>,
}

impl FromParameters for SummariesRequest {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        let products = given.all(&PRODUCTS)?;
        let language = FromParameters::read(given)?;
        match problem_of(&products) {
            Some(problem) => Err(ApiError::invalid(PRODUCTS.name, problem)),
            None => Ok(Self { products, language }),
        }
    }
}

/// The errors of the products of a request.
fn problem_of(products: &[ProductId]) -> Option<String> {
    if products.is_empty() {
        let problem = "is missing: name each product once, as in product=a&product=b";
        return Some(problem.to_owned());
    }
    if products.len() > PRODUCTS_MAX {
        let times = products.len();
        return Some(format!(
            "is given {times} times; one request takes up to {PRODUCTS_MAX}"
        ));
    }
    let mut seen = BTreeSet::new();
    for product in products {
        if !seen.insert(product) {
            return Some(format!("names {:?} more than once", product.as_str()));
        }
    }
    None
}

/// How many comments some products have.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsOfProducts, example = json!({
    "language": null, "products": [
        {
            "product": "espresso-machine", "total": 45, "by_rating": [
                {"rating": 1, "total": 2}, {"rating": 2, "total": 1}, {"rating": 3, "total": 4},
                {"rating": 4, "total": 12}, {"rating": 5, "total": 26}
            ],
            "average": 4.31, "last_commented_at": "2024-11-14T09:21:05.600Z"
        },
        {
            "product": "milk-jug", "total": 0, "by_rating": [
                {"rating": 1, "total": 0}, {"rating": 2, "total": 0}, {"rating": 3, "total": 0},
                {"rating": 4, "total": 0}, {"rating": 5, "total": 0}
            ],
            "average": null, "last_commented_at": null
        }
    ]
}))]
pub(crate) struct SummariesBody<'summaries> {
    /// Null: of all languages.
    #[schema(required)]
    language: Option<&'summaries str>,
    /// In the order of the request. A product that is not known has zeros.
    #[schema(min_items = 1, max_items = 100)]
    products: Vec<ProductSummary<'summaries>>,
}

/// How many comments a product has, in the language when one is given.
#[derive(Debug, Serialize, ToSchema)]
struct ProductSummary<'summaries> {
    product: &'summaries str,
    #[serde(flatten)]
    totals: TotalsBody,
}

/// How many comments up to 100 products have, by rating: for a page that lists products.
#[utoipa::path(
    get,
    path = "/api/v1/stats",
    tag = "comments",
    params(Parsed<SummariesRequest>),
    responses((status = 200, description = "The totals of each product", body = SummariesBody<'static>)),
)]
pub(crate) async fn stats_of_products(
    Parsed(SummariesRequest { products, language }): Parsed<SummariesRequest>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let filter = Filter::new(language.clone(), None);
    let mut queries = Vec::with_capacity(products.len());
    for product in &products {
        queries.push(RankedQuery {
            stats: StatsWanted::ByRating,
            ..RankedQuery::new(product, &filter)
        });
    }
    let counted = stores.ranked("stats", &queries).await;
    let stats = counted
        .ok_or(ApiError::IndexUnavailable)?
        .into_iter()
        .filter_map(|counted| counted.stats);
    let mut summaries = Vec::with_capacity(products.len());
    for (product, stats) in products.iter().zip(stats) {
        summaries.push(ProductSummary {
            product: product.as_str(),
            totals: TotalsBody::new(stats.by_rating, stats.last_commented_at),
        });
    }
    Ok(HttpResponse::Ok().json(SummariesBody {
        language: language.as_ref().map(Language::as_str),
        products: summaries,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::tests::refused_field, json::parameters::tests::read_at};

    fn read(query: &str) -> Result<SummariesRequest, ApiError> {
        read_at(&format!("/api/v1/stats?{query}"))
    }

    /// A query with so many products.
    fn many(count: usize) -> String {
        (0..count)
            .map(|number| format!("product={number}"))
            .collect::<Vec<_>>()
            .join("&")
    }

    #[test]
    fn one_request_names_up_to_100_different_products() {
        assert_eq!(
            read(&many(PRODUCTS_MAX)).unwrap().products.len(),
            PRODUCTS_MAX
        );
        for wrong in [
            "",
            "language=en",
            "product=",
            "product=..",
            &many(PRODUCTS_MAX + 1),
            "product=a&product=%61",
        ] {
            assert_eq!(refused_field(read(wrong)), "product", "{wrong}");
        }
        assert_eq!(
            refused_field(read("product=a&language=en&language=de")),
            "language"
        );
    }
}
