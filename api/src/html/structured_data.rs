//! Structured data of a page for search engines: JSON-LD with the vocabulary of schema.org.
//!
//! - It holds only data that the page shows. The average is that of the whole product, for any
//!   filter. The entity tag of an archive page leaves it out, because it changes with every comment.
//!   A review is a comment on the page that has an author.
//! - Search Console reports a product with several reviews and without an average as an error
//!   ("Multiple reviews without aggregateRating object").
//! - Names and numbers of the product are those of its record. Search engines refuse a `Product`
//!   without `name`, but a product id is not a name: so without a record the page has no structured
//!   data.
//! - A `Product` needs an `aggregateRating` or a `review`; without both, the page has no structured
//!   data. Without the page index the average is unknown, so then only a page with an authored
//!   comment has structured data.

use model::{Comment, Documented, Gtin, ProductDetails, ProductId, Timestamp};
use serde::Serialize;

use super::{
    script_json::ScriptJson,
    words::{Average, displayed},
};
use crate::{links, site::Site};

/// The product of a page: schema.org's `Product`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SchemaProduct<'page> {
    #[serde(rename = "@context")]
    context: &'static str,
    #[serde(rename = "@id")]
    id: &'page str,
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_rating: Option<SchemaRating<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    brand: Option<Named<'page>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gtin: Option<&'page Gtin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'page str>,
    name: &'page str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    review: Vec<SchemaReview<'page>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sku: Option<&'page str>,
    url: &'page str,
}

/// A brand or an author: schema.org's `Brand` or `Person`.
#[derive(Serialize)]
struct Named<'page> {
    #[serde(rename = "@type")]
    kind: &'static str,
    name: &'page str,
}

/// The rating of a comment, or the average of all: schema.org's `Rating` or `AggregateRating`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchemaRating<Value> {
    #[serde(rename = "@type")]
    kind: &'static str,
    best_rating: u8,
    rating_value: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_count: Option<u64>,
    worst_rating: u8,
}

impl<Value> SchemaRating<Value> {
    fn new(kind: &'static str, rating_value: Value, review_count: Option<u64>) -> Self {
        Self {
            kind,
            best_rating: 5,
            rating_value,
            review_count,
            worst_rating: 1,
        }
    }
}

/// A comment that has an author: schema.org's `Review`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SchemaReview<'page> {
    #[serde(rename = "@id")]
    id: String,
    #[serde(rename = "@type")]
    kind: &'static str,
    author: Named<'page>,
    #[serde(skip_serializing_if = "Option::is_none")]
    date_published: Option<Timestamp>,
    /// The photos that the page shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    image: Vec<String>,
    in_language: &'page str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'page str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_body: Option<&'page str>,
    review_rating: SchemaRating<u8>,
}

/// The structured data of a page with these comments and this average of the whole product. `None`
/// when the product has no name, or the page neither an average nor a review.
pub(super) fn of_page(
    site: &Site,
    product: &ProductId,
    details: Option<&ProductDetails>,
    average: Option<&Average>,
    comments: &[Comment],
) -> Option<ScriptJson> {
    let details = details?;
    let reviews: Vec<SchemaReview<'_>> = comments
        .iter()
        .filter_map(|comment| review(site, comment))
        .collect();
    if average.is_none() && reviews.is_empty() {
        return None;
    }
    let url = site.public_url.join(&links::product_page(product));
    Some(ScriptJson::new(&SchemaProduct {
        context: "https://schema.org",
        id: &url,
        kind: "Product",
        aggregate_rating: average.map(average_of),
        brand: details.brand.as_deref().map(|name| Named {
            kind: "Brand",
            name,
        }),
        gtin: details.gtin.as_ref(),
        image: details.image.as_ref().map(|image| image.as_str()),
        name: &details.name,
        review: reviews,
        sku: details.sku.as_deref(),
        url: match &details.url {
            Some(url) => url.as_str(),
            None => &url,
        },
    }))
}

/// The average of a product: schema.org's `AggregateRating`.
pub(super) fn average_of(average: &Average) -> SchemaRating<String> {
    SchemaRating::new("AggregateRating", average.decimal(), Some(average.total))
}

fn photos(site: &Site, comment: &Comment) -> Vec<String> {
    let Some(attributes) = &comment.site.attributes else {
        return Vec::new();
    };
    let photos = site.shown(Documented::of(attributes).photos);
    photos.iter().map(|photo| photo.url.to_string()).collect()
}

/// The review of a comment; `None` without an author.
fn review<'page>(site: &Site, comment: &'page Comment) -> Option<SchemaReview<'page>> {
    let author = comment.text.author.as_deref()?;
    Some(SchemaReview {
        id: site.public_url.join(&links::permalink(&comment.id)),
        kind: "Review",
        author: Named {
            kind: "Person",
            name: author,
        },
        date_published: Some(comment.created_at)
            .filter(|date| date.is_between_1970_and(process::now())),
        image: photos(site, comment),
        in_language: comment.language.as_str(),
        name: comment.text.title.as_deref(),
        review_body: comment.text.body.as_deref().map(displayed),
        review_rating: SchemaRating::new("Rating", comment.rating.get(), None),
    })
}
