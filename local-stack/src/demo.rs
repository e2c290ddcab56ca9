//! The demo: three products of a shop that does not exist, and generated comments. `demo/demo.json`
//! holds the products, and sentences that fit a language and a rating.
//!
//! One count and one instant always give the same comments.

use std::{collections::HashMap, sync::LazyLock};

use model::{
    CommentAttributes, CommentId, CommentText, Language, ProductDetails, ProductId, Rating,
    SiteData, Timestamp, WebUrl,
};
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, IteratorRandom},
};
use serde::Deserialize;
use serde_json::json;
use table::NewComment;

/// The pictures of the products, in their order.
pub const PICTURES: &[(&str, &str)] = &[
    (
        "/static/demo/espresso-machine.svg",
        include_str!("../demo/espresso-machine.svg"),
    ),
    (
        "/static/demo/milk-jug.svg",
        include_str!("../demo/milk-jug.svg"),
    ),
    (
        "/static/demo/slow-coffee.svg",
        include_str!("../demo/slow-coffee.svg"),
    ),
];

const RATING_WEIGHTS: [(u64, u32); 5] = [(1, 9), (2, 6), (3, 9), (4, 26), (5, 50)];

const DAY_MS: i64 = 24 * 3_600_000;
/// The time span of all comments: two years.
const SPAN_MS: i64 = 2 * 365 * DAY_MS;
/// One comment in this many carries only a date, as comments from many sources do. So there are
/// ties.
const DATE_ONLY_ONE_IN: u32 = 10;

static DEMO: LazyLock<Demo> = LazyLock::new(|| {
    let demo = serde_json::from_str(include_str!("../demo/demo.json"));
    demo.unwrap_or_else(|error| unreachable!("the file of the demo is tested: {error}"))
});

#[derive(Deserialize)]
struct Demo {
    products: Vec<DemoProduct>,
    authors: Vec<String>,
    voices: Vec<Voice>,
    /// The shop's replies, to comments in English.
    replies: TextsByRating,
    /// Comments that are written out. They are the second newest comment, the fifth, and so on.
    letters: Vec<Letter>,
}

#[derive(Deserialize)]
struct DemoProduct {
    id: ProductId,
    weight: u32,
    details: ProductDetails,
}

/// The texts in a language: titles, sentences for any product, and sentences for one.
#[derive(Deserialize)]
struct Voice {
    language: Language,
    weight: u32,
    titles: TextsByRating,
    #[serde(flatten)]
    sentences: TextsByRating,
    #[serde(default)]
    of: HashMap<ProductId, TextsByRating>,
}

/// TextsByRating by rating.
#[derive(Deserialize)]
struct TextsByRating {
    good: Vec<String>,
    #[serde(default)]
    mixed: Vec<String>,
    bad: Vec<String>,
}

impl TextsByRating {
    fn of(&self, rating: u64) -> &[String] {
        match rating {
            4.. => &self.good,
            3 => &self.mixed,
            _ => &self.bad,
        }
    }
}

#[derive(Clone, Deserialize)]
struct Letter {
    product: ProductId,
    language: Language,
    rating: u64,
    title: Option<String>,
    body: String,
    author: Option<String>,
    reply: Option<String>,
}

impl Letter {
    fn draw(rng: &mut StdRng) -> Option<Self> {
        let demo = &*DEMO;
        let product = demo
            .products
            .choose_weighted(rng, |product| product.weight)
            .ok()?
            .id
            .clone();
        let voice = demo
            .voices
            .choose_weighted(rng, |voice| voice.weight)
            .ok()?;
        let rating = RATING_WEIGHTS
            .choose_weighted(rng, |(_, weight)| *weight)
            .ok()?
            .0;
        let of_product = match voice.of.get(&product) {
            Some(texts) => texts.of(rating),
            None => &[],
        };
        let length = rng.random_range(1..=3);
        let sentences = voice
            .sentences
            .of(rating)
            .iter()
            .chain(of_product)
            .map(String::as_str)
            .sample(rng, length);
        // The shop answers most complaints, and thanks some.
        let is_answered = rng.random_ratio(if rating < 3 { 3 } else { 1 }, 5);
        let mut title = None;
        if rng.random_ratio(1, 3) {
            title = voice.titles.of(rating).choose(rng).cloned();
        }
        let mut author = None;
        if rng.random_ratio(5, 6) {
            author = demo.authors.choose(rng).cloned();
        }
        let mut reply = None;
        if is_answered && voice.language.as_str() == "en" {
            reply = demo.replies.of(rating).choose(rng).cloned();
        }
        Some(Self {
            product,
            rating,
            body: sentences.join(" "),
            title,
            author,
            reply,
            language: voice.language.clone(),
        })
    }
}

/// The records of the products. `site` is the URL that their pictures are at.
pub fn demo_products(site: &str) -> impl Iterator<Item = (&ProductId, ProductDetails)> {
    DEMO.products
        .iter()
        .zip(PICTURES)
        .map(move |(product, (path, _))| {
            let image = WebUrl::parse("image", &format!("{site}{path}")).ok();
            (
                &product.id,
                ProductDetails {
                    image,
                    ..product.details.clone()
                },
            )
        })
}

/// Comments of the two years up to an instant.
pub fn demo_comments(count: u64, until: Timestamp) -> impl Iterator<Item = NewComment> {
    // Any constant will do: it makes the comments the same every time.
    let mut rng = StdRng::seed_from_u64(20_240_229);
    (0..count).filter_map(move |number| demo_comment(&mut rng, number, count, until))
}

fn demo_comment(rng: &mut StdRng, number: u64, count: u64, until: Timestamp) -> Option<NewComment> {
    let drawn = Letter::draw(rng)?;
    let later = usize::try_from(count - 1 - number).ok()?;
    let written = if later % 3 == 1 {
        DEMO.letters.get(later / 3)
    } else {
        None
    };
    let letter = written.cloned().unwrap_or(drawn);
    let before_ms = i64::try_from(later).ok()? * (SPAN_MS / i64::try_from(count).ok()?);
    let mut created_ms = until.epoch_ms() - before_ms;
    if rng.random_ratio(1, DATE_ONLY_ONE_IN) {
        created_ms -= created_ms.rem_euclid(DAY_MS);
    }
    let replied_at = Timestamp::from_epoch_ms(created_ms + DAY_MS)
        .ok()?
        .min(until);
    let reply = letter
        .reply
        .map(|text| json!({ "text": text, "author": "Corner Coffee", "at": replied_at }));
    let attributes = json!({ "verified": rng.random_ratio(2, 3), "reply": reply });
    Some(NewComment {
        id: CommentId::parse(&format!("demo-{number:06}")).ok()?,
        product: letter.product,
        language: letter.language,
        rating: Rating::new(letter.rating).ok()?,
        created_at: Timestamp::from_epoch_ms(created_ms).ok()?,
        status: None,
        text: CommentText::new(letter.title, letter.body, letter.author).ok()?,
        site: SiteData {
            attributes: CommentAttributes::parse(&attributes.to_string()).ok(),
            author_id: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn count_distinct(comments: &[NewComment], of: fn(&NewComment) -> String) -> usize {
        comments.iter().map(of).collect::<BTreeSet<_>>().len()
    }

    fn has_reply(comment: &NewComment) -> bool {
        let attributes = comment.site.attributes.as_ref().unwrap();
        attributes.as_json().contains("\"text\"")
    }

    #[test]
    fn the_demo_is_the_same_every_time_and_ends_now() {
        let until = Timestamp::parse("2026-02-28T12:00:00Z").unwrap();
        let comments: Vec<_> = demo_comments(2_000, until).collect();
        assert_eq!(comments, demo_comments(2_000, until).collect::<Vec<_>>());
        assert_eq!(comments.len(), 2_000);
        let products = count_distinct(&comments, |comment| comment.product.to_string());
        assert_eq!(products, DEMO.products.len());
        let languages = count_distinct(&comments, |comment| comment.language.to_string());
        assert_eq!(languages, DEMO.voices.len());
        let instants = count_distinct(&comments, |comment| {
            format!("{} {}", comment.product, comment.created_at)
        });
        assert!(instants < 2_000, "there are ties");
        assert_eq!(
            comments.iter().map(|comment| comment.created_at).max(),
            Some(until)
        );
        let written = comments.iter().filter(|comment| {
            DEMO.letters
                .iter()
                .any(|letter| Some(&letter.body) == comment.text.body.as_ref())
        });
        assert_eq!(written.count(), DEMO.letters.len());
        assert!(comments.iter().filter(|comment| has_reply(comment)).count() > 50);
        assert_eq!(
            demo_products("http://127.0.0.1:8080")
                .filter(|(_, details)| details.image.is_some())
                .count(),
            3
        );
    }

    #[test]
    fn every_language_has_titles_and_sentences_for_every_rating() {
        for voice in &DEMO.voices {
            let all = [&voice.titles, &voice.sentences]
                .into_iter()
                .chain(voice.of.values());
            for texts in all {
                assert!(
                    [1, 3, 5].iter().all(|rating| !texts.of(*rating).is_empty()),
                    "{}",
                    voice.language
                );
            }
        }
    }
}
