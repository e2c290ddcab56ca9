//! The product review feed of Google Merchant Center, version 2.4, from the lines of an export.
//!
//! Its elements, their order and what must be there:
//! <https://developers.google.com/product-review-feeds/schema>. A feed is always whole: Google deletes
//! the reviews that the next one lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use api::{PublicUrl, links};
use indicatif::HumanCount;
use itertools::Itertools;
use model::{CommentId, Documented, ProductDetails, ProductId, Rating, Status, Timestamp};
use serde::Deserialize;
use serde_json::Value;

const BEGIN: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns:vc="http://www.w3.org/2007/XMLSchema-versioning" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.google.com/shopping/reviews/schema/product/2.4/product_reviews.xsd">
<version>2.4</version>
"#;

/// How many products are named that the feed leaves out.
const NAMED_MAX: usize = 10;

/// Who publishes the reviews, and where.
#[derive(Debug, Clone)]
pub struct Publisher {
    pub(crate) name: String,
    pub(crate) site: PublicUrl,
}

/// What of a line the feed takes.
#[derive(Deserialize)]
struct Review {
    id: CommentId,
    product: ProductId,
    rating: Rating,
    created_at: Timestamp,
    status: Status,
    title: Option<String>,
    body: Option<String>,
    author: Option<String>,
    #[serde(default)]
    attributes: Value,
}

pub(super) struct Feed<'to> {
    publisher: Publisher,
    records: BTreeMap<ProductId, ProductDetails>,
    to: &'to mut dyn Write,
    summary: Summary,
}

/// What a feed holds, and what it leaves out.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) reviews: u64,
    without_text: u64,
    of_unknown_products: u64,
    unknown_products: BTreeSet<ProductId>,
}

impl<'to> Feed<'to> {
    pub(super) fn begin(
        publisher: Publisher,
        records: BTreeMap<ProductId, ProductDetails>,
        to: &'to mut dyn Write,
    ) -> io::Result<Self> {
        to.write_all(BEGIN.as_bytes())?;
        let name = element("name", &publisher.name);
        writeln!(to, "<publisher>{name}</publisher>\n<reviews>")?;
        Ok(Self {
            publisher,
            records,
            to,
            summary: Summary::default(),
        })
    }

    /// Adds the comment of a line of an export, if readers see it and Google can place it.
    pub(super) fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let review: Review = serde_json::from_slice(line)?;
        if review.status != Status::Published {
            return Ok(());
        }
        let body = review.body.as_deref().unwrap_or_default();
        if body.trim().is_empty() {
            self.summary.without_text += 1;
            return Ok(());
        }
        let details = self.records.get(&review.product);
        let Some((details, ids)) = details.and_then(|details| Some((details, ids(details)?)))
        else {
            self.summary.of_unknown_products += 1;
            self.summary.unknown_products.insert(review.product);
            return Ok(());
        };
        self.summary.reviews += 1;
        let site = &self.publisher.site;
        let page = format!("{site}{}", links::product_page(&review.product));
        let product_url = match &details.url {
            Some(url) => url.as_str(),
            None => &page,
        };
        let reviewer = match &review.author {
            Some(author) => element("name", author),
            None => r#"<name is_anonymous="true">Anonymous</name>"#.to_owned(),
        };
        let is_verified = Documented::of_json(&review.attributes).is_verified;
        // Without it, nobody has checked whether there was a purchase.
        let verified = is_verified.then(|| element("is_verified_purchase", "true"));
        let title = review.title.as_deref().map(|title| element("title", title));
        let url = escaped(&format!("{site}{}", links::permalink(&review.id)));
        let parts = [
            element("review_id", review.id.as_str()),
            format!("<reviewer>{reviewer}</reviewer>"),
            verified.unwrap_or_default(),
            element("review_timestamp", &review.created_at.to_string()),
            title.unwrap_or_default(),
            element("content", body),
            // The page shows other reviews, too.
            format!(r#"<review_url type="group">{url}</review_url>"#),
            format!(
                r#"<ratings><overall min="1" max="5">{}</overall></ratings>"#,
                review.rating.get()
            ),
            format!(
                "<products><product><product_ids>{ids}</product_ids>{}{}</product></products>",
                element("product_name", &details.name),
                element("product_url", product_url)
            ),
        ];
        writeln!(self.to, "<review>{}</review>", parts.concat())
    }

    pub(super) fn end(self) -> io::Result<Summary> {
        self.to.write_all(b"</reviews>\n</feed>\n")?;
        Ok(self.summary)
    }
}

impl Summary {
    /// What to tell of a feed with this name, one line each.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let mut lines = vec![format!("{name}: {} reviews", HumanCount(self.reviews))];
        if self.without_text > 0 {
            let count = HumanCount(self.without_text);
            lines.push(format!("{name}: left out {count} comments without a text"));
        }
        if self.of_unknown_products > 0 {
            let named = self.unknown_products.iter().take(NAMED_MAX).join(", ");
            let more = self.unknown_products.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            lines.push(format!(
                "{name}: left out {} comments on products whose record has neither gtin nor sku: {named}{more}",
                HumanCount(self.of_unknown_products)
            ));
        }
        lines
    }
}

/// The identifiers of a product, in the order of the schema; `None` without one that Google takes.
fn ids(details: &ProductDetails) -> Option<String> {
    let gtin = details.gtin.as_ref().map(|gtin| gtin.as_str());
    let sku = details.sku.as_deref();
    gtin.or(sku)?;
    let mut ids = String::new();
    for (list, name, id) in [
        ("gtins", "gtin", gtin),
        ("skus", "sku", sku),
        ("brands", "brand", details.brand.as_deref()),
    ] {
        if let Some(id) = id {
            ids.push_str(&format!("<{list}>{}</{list}>", element(name, id)));
        }
    }
    Some(ids)
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escaped(text))
}

/// A text of XML, without the characters that XML 1.0 lacks.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use model::{Gtin, WebUrl};

    use super::*;

    fn details(gtin: Option<&str>, sku: Option<&str>, url: Option<&str>) -> ProductDetails {
        ProductDetails {
            name: "Milk & more".to_owned(),
            url: url.map(|url| WebUrl::parse("url", url).unwrap()),
            image: None,
            brand: Some("Ada".to_owned()),
            gtin: gtin.map(|gtin| Gtin::parse(gtin).unwrap()),
            sku: sku.map(str::to_owned),
            language: None,
        }
    }

    fn product(id: &str) -> ProductId {
        ProductId::parse(id).unwrap()
    }

    fn check(lines: &[&str], expected: &Expect) {
        let url = Some("https://shop.example/jug?a=1&b=2");
        let records = BTreeMap::from([
            (
                product("jug"),
                details(Some("4006381333931"), Some("J<1>"), url),
            ),
            (product("a/b"), details(None, Some("7"), None)),
            (product("unknown"), details(None, None, None)),
        ]);
        let publisher = Publisher {
            name: "Ada's <shop>".to_owned(),
            site: "https://shop.example/reviews".parse().unwrap(),
        };
        let mut to = Vec::new();
        let mut feed = Feed::begin(publisher, records, &mut to).unwrap();
        for line in lines {
            feed.add(line.as_bytes()).unwrap();
        }
        let summary = feed.end().unwrap().lines("feed.xml").join("\n");
        let feed = String::from_utf8(to).unwrap();
        expected.assert_eq(&feed.replace(BEGIN, ""));
        assert_eq!(feed.matches("<review>").count(), 2);
        let expected = "feed.xml: 2 reviews\nfeed.xml: left out 1 comments without a text\n\
             feed.xml: left out 2 comments on products whose record has neither gtin nor sku: nothing, unknown";
        assert_eq!(summary, expected);
    }

    #[test]
    fn a_feed_has_the_elements_of_the_schema_in_their_order_and_says_what_it_leaves_out() {
        check(
            &[
                r#"{"id":"1","product":"jug","rating":5,"created_at":"2024-02-29T12:00:00.000Z","status":"published","title":"A <b>","body":"x \u0007& y","author":"Ann","attributes":{"verified":true,"size":"M"}}"#,
                r#"{"id":"a.2","product":"a/b","rating":1,"created_at":"2024-02-29T12:00:00.000Z","status":"published","title":null,"body":"Bad","author":null,"attributes":{"verified":"yes"}}"#,
                r#"{"id":"3","product":"jug","rating":4,"created_at":"2024-02-29T12:00:00.000Z","status":"published","title":"T","body":null,"author":"B"}"#,
                r#"{"id":"4","product":"jug","rating":4,"created_at":"2024-02-29T12:00:00.000Z","status":"pending","title":"T","body":"x","author":"B"}"#,
                r#"{"id":"5","product":"unknown","rating":4,"created_at":"2024-02-29T12:00:00.000Z","status":"published","title":"T","body":"x","author":"B"}"#,
                r#"{"id":"6","product":"nothing","rating":4,"created_at":"2024-02-29T12:00:00.000Z","status":"published","title":"T","body":"x","author":"B"}"#,
            ],
            &expect![[r#"
                <publisher><name>Ada's &lt;shop&gt;</name></publisher>
                <reviews>
                <review><review_id>1</review_id><reviewer><name>Ann</name></reviewer><is_verified_purchase>true</is_verified_purchase><review_timestamp>2024-02-29T12:00:00.000Z</review_timestamp><title>A &lt;b&gt;</title><content>x &amp; y</content><review_url type="group">https://shop.example/reviews/comments/1</review_url><ratings><overall min="1" max="5">5</overall></ratings><products><product><product_ids><gtins><gtin>4006381333931</gtin></gtins><skus><sku>J&lt;1&gt;</sku></skus><brands><brand>Ada</brand></brands></product_ids><product_name>Milk &amp; more</product_name><product_url>https://shop.example/jug?a=1&amp;b=2</product_url></product></products></review>
                <review><review_id>a.2</review_id><reviewer><name is_anonymous="true">Anonymous</name></reviewer><review_timestamp>2024-02-29T12:00:00.000Z</review_timestamp><content>Bad</content><review_url type="group">https://shop.example/reviews/comments/a.2</review_url><ratings><overall min="1" max="5">1</overall></ratings><products><product><product_ids><skus><sku>7</sku></skus><brands><brand>Ada</brand></brands></product_ids><product_name>Milk &amp; more</product_name><product_url>https://shop.example/reviews/product/a%2Fb/comments</product_url></product></products></review>
                </reviews>
                </feed>
            "#]],
        );
    }
}
