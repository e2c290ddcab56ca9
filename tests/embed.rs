//! A site can show comments in pages of its own, as `docs/embed.md` describes.

use std::path::Path;

use itertools::Itertools;
use serde_json::{Value, json};

use crate::fixture::{
    data,
    http::{encoded, product_path},
    stack::Running,
};

/// What the requests of `docs/embed.md` ask for.
const PRODUCTS: [(&str, u64); 2] = [("espresso-machine", 45), ("milk-jug", 3)];

/// A stack with comments on [`PRODUCTS`].
async fn start() -> Running {
    let mut running = Running::start().await;
    let mut comments = Vec::new();
    for (product, count) in PRODUCTS {
        for number in 0..count {
            let language = ["en", "de"][usize::from(number % 3 == 0)];
            let id = format!("{product}-{number}");
            comments.push(data::new_comment(&id, &data::product(product), language, 1 + number % 5));
        }
    }
    running.import(&comments).await;
    running
}

#[tokio::test]
async fn the_stats_of_100_products_are_those_of_each_one() {
    let running = start().await;
    let nobody = (2..100).map(|number| format!("nobody/{number}"));
    let products: Vec<String> =
        PRODUCTS.map(|(product, _)| product.to_owned()).into_iter().rev().chain(nobody).collect();
    for language in ["", "language=de", "language=fr"] {
        let asked = products.iter().map(|product| format!("product={}", encoded(product))).join("&");
        let answer = running.http.get(&format!("/api/v1/stats?{asked}&{language}")).await.expect(200);
        assert_eq!(answer["products"].as_array().unwrap().len(), products.len());
        for (product, summary) in products.iter().zip(answer["products"].as_array().unwrap()) {
            let alone = running.http.get(&format!("{}/stats?{language}", product_path(product))).await.expect(200);
            let fields = ["product", "total", "by_rating", "average", "last_commented_at"];
            assert_eq!(
                *summary,
                Value::Object(fields.map(|field| (field.to_owned(), alone[field].clone())).into_iter().collect())
            );
            assert_eq!(alone["language"], answer["language"]);
        }
    }
    running.finish().await;
}

/// The fenced blocks of `docs/embed.md` in this language, each with the one that follows it.
fn blocks() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/embed.md");
    let text = std::fs::read_to_string(path).unwrap();
    let fenced = text.split("```").skip(1).step_by(2);
    fenced
        .map(|block| block.split_once('\n').unwrap())
        .map(|(kind, block)| (kind.to_owned(), block.to_owned()))
        .collect()
}

/// The value of a template's placeholder, such as `products.0.total`.
fn value<'answer>(answer: &'answer Value, placeholder: &str) -> &'answer Value {
    let pointer = format!("/{}", placeholder.replace('.', "/"));
    answer.pointer(&pointer).unwrap_or_else(|| panic!("{placeholder} is not in {answer:#}"))
}

/// Each template of the document is filled with the answers to the requests before it.
#[tokio::test]
async fn the_requests_of_the_recipe_answer_what_its_templates_show() {
    let running = start().await;
    let (mut answers, mut filled) = (json!({}), 0);
    for (kind, block) in blocks() {
        match kind.as_str() {
            "http" => {
                answers = json!({});
                for line in block.lines() {
                    let (name, request) = line.split_once(": GET ").unwrap_or_else(|| panic!("{line}"));
                    answers[name] = running.http.get(request).await.expect(200);
                }
            }
            "html" => {
                for placeholder in block.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim()) {
                    assert!(!value(&answers, placeholder).is_null(), "{placeholder}: {answers:#}");
                    filled += 1;
                }
            }
            _ => {}
        }
    }
    assert!(filled >= 8, "the document has only {filled} placeholders");
    running.finish().await;
}
