//! Structured data of a page for search engines: JSON-LD with the vocabulary of schema.org.
//!
//! - It holds only data that the page shows. The average is that of the whole product, which every page shows for any
//!   filter. A review is a comment on the page that has an author.
//! - A `Product` needs an `aggregateRating` or a `review`; without both, the page has no structured data. Without the
//!   page index the average is unknown, so then only a page with an authored comment has structured data.

use model::{Comment, Filter, PageNumber, ProductId, Timestamp};
use serde::Serialize;

use super::{
    script_json::ScriptJson,
    words::{Average, displayed},
};
use crate::{error::ApiError, links, site::Site};

const BEST_RATING: u8 = 5;
const WORST_RATING: u8 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Product<'page> {
    #[serde(rename = "@context")]
    context: &'static str,
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@id")]
    id: &'page str,
    url: &'page str,
    /// The product id, because Pagemark knows no other name.
    name: &'page str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_rating: Option<AggregateRating<'page>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    review: Vec<Review<'page>>,
}

#[derive(Serialize)]
#[serde(tag = "@type", rename_all = "camelCase")]
struct AggregateRating<'page> {
    /// As shown on the page.
    rating_value: &'page str,
    best_rating: u8,
    worst_rating: u8,
    review_count: u64,
}

#[derive(Serialize)]
#[serde(tag = "@type", rename_all = "camelCase")]
struct Review<'page> {
    #[serde(rename = "@id")]
    id: String,
    author: Person<'page>,
    date_published: Timestamp,
    in_language: &'page str,
    review_rating: Rating,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'page str>,
    review_body: &'page str,
}

#[derive(Serialize)]
#[serde(tag = "@type")]
struct Person<'page> {
    name: &'page str,
}

#[derive(Serialize)]
#[serde(tag = "@type", rename_all = "camelCase")]
struct Rating {
    rating_value: u8,
    best_rating: u8,
    worst_rating: u8,
}

/// The structured data of a page with these comments and this average of the whole product. `None` when the page has
/// neither an average nor a review.
///
/// # Errors
/// Never in practice, but the type does not show that.
pub(super) fn of_page(
    site: &Site,
    product: &ProductId,
    average: Option<&Average>,
    comments: &[Comment],
) -> Result<Option<ScriptJson>, ApiError> {
    let review: Vec<Review<'_>> = comments.iter().filter_map(|comment| review(site, comment)).collect();
    if average.is_none() && review.is_empty() {
        return Ok(None);
    }
    let url = site.public_url.join(&links::page(product, &Filter::ANY, PageNumber::FIRST));
    let product = Product {
        context: "https://schema.org",
        kind: "Product",
        id: &url,
        url: &url,
        name: product.as_str(),
        aggregate_rating: average.map(|average| AggregateRating {
            rating_value: &average.text,
            best_rating: BEST_RATING,
            worst_rating: WORST_RATING,
            review_count: average.total,
        }),
        review,
    };
    ScriptJson::new(&product).map(Some).map_err(ApiError::internal)
}

fn review<'page>(site: &Site, comment: &'page Comment) -> Option<Review<'page>> {
    let author = comment.text.author.as_deref()?;
    Some(Review {
        id: site.public_url.join(&links::permalink(&comment.id)),
        author: Person { name: author },
        date_published: comment.created_at,
        in_language: comment.language.as_str(),
        review_rating: Rating {
            rating_value: comment.rating.get(),
            best_rating: BEST_RATING,
            worst_rating: WORST_RATING,
        },
        name: comment.text.title.as_deref(),
        review_body: displayed(&comment.text.body),
    })
}
