//! Structured data of a page for search engines: JSON-LD with the vocabulary of schema.org.
//!
//! - It holds only data that the page shows. The average is that of the whole product, for any filter. An archive page
//!   leaves it out, because it changes with every comment. A review is a comment on the page that has an author.
//! - Names and numbers of the product are those of its record. Google requires `name`, but a product id is not a name: so
//!   without a record there is none.
//! - A `Product` needs an `aggregateRating` or a `review`; without both, the page has no structured data. Without the
//!   page index the average is unknown, so then only a page with an authored comment has structured data.

use model::{Comment, ProductId, ProductRecord};
use serde_json::{Value, json};

use super::{
    script_json::ScriptJson,
    words::{Average, displayed},
};
use crate::{links, site::Site};

const BEST_RATING: u8 = 5;
const WORST_RATING: u8 = 1;

/// The structured data of a page with these comments and this average of the whole product. `None` when the page has
/// neither an average nor a review.
pub(super) fn of_page(
    site: &Site,
    product: &ProductId,
    record: Option<&ProductRecord>,
    average: Option<&Average>,
    comments: &[Comment],
) -> Option<ScriptJson> {
    let reviews: Vec<Value> = comments.iter().filter_map(|comment| review(site, comment)).collect();
    if average.is_none() && reviews.is_empty() {
        return None;
    }
    let url = site.public_url.join(&links::product_page(product));
    let rating = average.map(|average| {
        json!({
            "@type": "AggregateRating",
            "ratingValue": average.decimal(),
            "bestRating": BEST_RATING,
            "worstRating": WORST_RATING,
            "reviewCount": average.total,
        })
    });
    let details = record.map(|record| &record.details);
    let brand = details.and_then(|details| details.brand.as_deref());
    let data = json!({
        "@context": "https://schema.org",
        "@type": "Product",
        "@id": url,
        "url": details.and_then(|details| details.url.as_ref()).map_or(url.as_str(), |url| url.as_str()),
        "name": details.map(|details| &details.name),
        "image": details.and_then(|details| details.image.as_ref()),
        "brand": brand.map(|brand| json!({ "@type": "Brand", "name": brand })),
        "gtin": details.and_then(|details| details.gtin.as_ref()),
        "sku": details.and_then(|details| details.sku.as_ref()),
        "aggregateRating": rating,
        "review": Some(reviews).filter(|reviews| !reviews.is_empty()),
    });
    Some(ScriptJson::new(&without_nulls(data)))
}

/// The review of a comment that has an author.
fn review(site: &Site, comment: &Comment) -> Option<Value> {
    let author = comment.text.author.as_deref()?;
    Some(without_nulls(json!({
        "@type": "Review",
        "@id": site.public_url.join(&links::permalink(&comment.id)),
        "author": { "@type": "Person", "name": author },
        "datePublished": comment.created_at,
        "inLanguage": comment.language.as_str(),
        "reviewRating": {
            "@type": "Rating",
            "ratingValue": comment.rating.get(),
            "bestRating": BEST_RATING,
            "worstRating": WORST_RATING,
        },
        "name": comment.text.title,
        "reviewBody": displayed(&comment.text.body),
    })))
}

fn without_nulls(mut object: Value) -> Value {
    if let Some(properties) = object.as_object_mut() {
        properties.retain(|_, value| !value.is_null());
    }
    object
}
