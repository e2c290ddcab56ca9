//! Generated comments: several products and languages, a long tail, ties, awkward product ids.
//!
//! One count always gives the same comments, so a stack that is started again with kept data changes nothing.

use model::{CommentId, CommentText, Language, ProductId, Rating, SiteData, Timestamp};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use table::NewComment;

/// The products, the most commented first.
const PRODUCTS: [&str; 14] = [
    "espresso-machine",
    "books/the-long-tail",
    "garden hose 20m",
    "headphones#2",
    "tea/green/sencha",
    "bicycle-lamp",
    "c++ in 21 days",
    "☕ mug",
    "שולחן",
    "50% wool socks",
    "chair~classic",
    "notebook {dotted}",
    "com.example.app",
    "candle",
];

/// A language, its weight in the draw, and the texts of its comments.
struct Voice {
    tag: &'static str,
    weight: u32,
    openings: &'static [&'static str],
    remarks: &'static [&'static str],
}

const VOICES: [Voice; 7] = [
    Voice {
        tag: "en",
        weight: 60,
        openings: &[
            "Does what it should.",
            "I use it every day.",
            "Not what I expected.",
            "A gift for my sister.",
            "Second one I bought.",
        ],
        remarks: &[
            "Delivery took a week.",
            "The manual could be clearer.",
            "Would buy again.",
            "It broke after a month.",
            "Good value.",
            "Smaller than it looks.",
        ],
    },
    Voice {
        tag: "de",
        weight: 12,
        openings: &["Tut, was es soll.", "Jeden Tag in Gebrauch.", "Leider enttäuscht."],
        remarks: &["Die Lieferung war schnell.", "Für den Preis in Ordnung.", "Die Anleitung fehlt."],
    },
    Voice {
        tag: "fr",
        weight: 10,
        openings: &["Très bon produit.", "Je suis déçue.", "Conforme à la description."],
        remarks: &["Livraison rapide.", "Un peu cher.", "Je recommande."],
    },
    Voice {
        tag: "es",
        weight: 8,
        openings: &["Funciona muy bien.", "No me convence.", "Lo uso a diario."],
        remarks: &["Llegó a tiempo.", "Buena relación calidad-precio.", "Se rompió pronto."],
    },
    Voice {
        tag: "pt-BR",
        weight: 5,
        openings: &["Gostei bastante.", "Esperava mais."],
        remarks: &["Chegou antes do prazo.", "Vale o preço."],
    },
    Voice {
        tag: "he",
        weight: 3,
        openings: &["מוצר מצוין.", "לא התרשמתי."],
        remarks: &["המשלוח הגיע מהר.", "קצת יקר."],
    },
    Voice {
        tag: "ja",
        weight: 2,
        openings: &["とても便利です。", "少し小さいです。"],
        remarks: &["配送が早かった。", "また買います。"],
    },
];

const AUTHORS: [&str; 12] =
    ["Ada", "Bruno", "Chen", "Dalia", "Emeka", "Fatima", "Goran", "Hana", "Ines", "Jun", "Kofi", "לאה"];
const TITLES: [&str; 5] = ["Recommended", "Mixed feelings", "Five stars", "Hm", "Once is enough"];
const RATING_WEIGHTS: [(u64, u32); 5] = [(1, 14), (2, 6), (3, 9), (4, 21), (5, 50)];

/// The time of the first comment, 2024-01-01T00:00:00Z, and the time span of all comments, two years.
const FIRST_MS: i64 = 1_704_067_200_000;
const SPAN_MS: i64 = 2 * 365 * 24 * 3_600_000;
/// One comment in this many carries only a date, as comments from many sources do. So there are ties.
const DATE_ONLY_ONE_IN: u32 = 10;

pub fn top_product() -> Option<ProductId> {
    ProductId::parse(PRODUCTS[0]).ok()
}

pub fn demo_comments(count: u64) -> impl Iterator<Item = NewComment> {
    // Any constant will do: it makes the comments the same every time.
    let mut rng = StdRng::seed_from_u64(20_240_229);
    (0..count).filter_map(move |number| demo_comment(&mut rng, number, count))
}

fn demo_comment(rng: &mut StdRng, number: u64, count: u64) -> Option<NewComment> {
    // Zipf's law: the k-th product is drawn in proportion to 1/k.
    let ranked: Vec<(f64, &str)> =
        (1_u32..).zip(PRODUCTS).map(|(rank, product)| (1.0 / f64::from(rank), product)).collect();
    let product = ranked.choose_weighted(rng, |(weight, _)| *weight).ok()?.1;
    let voice = VOICES.choose_weighted(rng, |voice| voice.weight).ok()?;
    let rating = RATING_WEIGHTS.choose_weighted(rng, |(_, weight)| *weight).ok()?.0;
    let mut body = (*voice.openings.choose(rng)?).to_owned();
    let remarks = rng.random_range(0..=3_usize.min(voice.remarks.len()));
    for remark in voice.remarks.sample(rng, remarks).collect::<Vec<_>>() {
        body.push(if rng.random_ratio(1, 4) { '\n' } else { ' ' });
        body.push_str(remark);
    }
    let offset_ms =
        i64::try_from(u128::from(number) * u128::try_from(SPAN_MS).ok()? / u128::from(count.max(1))).ok()?;
    let mut created_ms = FIRST_MS + offset_ms;
    if rng.random_ratio(1, DATE_ONLY_ONE_IN) {
        created_ms -= created_ms.rem_euclid(24 * 3_600_000);
    }
    let title = rng.random_ratio(1, 3).then(|| TITLES.choose(rng).map(|title| (*title).to_owned())).flatten();
    let author = rng.random_ratio(3, 4).then(|| AUTHORS.choose(rng).map(|author| (*author).to_owned())).flatten();
    Some(NewComment {
        id: CommentId::parse(&format!("demo-{number:06}")).ok()?,
        product: ProductId::parse(product).ok()?,
        language: Language::parse(voice.tag).ok()?,
        rating: Rating::new(rating).ok()?,
        created_at: Timestamp::from_epoch_ms(created_ms).ok()?,
        status: None,
        text: CommentText::new(title, body, author).ok()?,
        site: SiteData::default(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_demo_is_the_same_every_time_and_has_what_makes_data_awkward() {
        let comments: Vec<_> = demo_comments(2_000).collect();
        assert_eq!(comments, demo_comments(2_000).collect::<Vec<_>>());
        assert_eq!(comments.len(), 2_000);
        let distinct = |of: fn(&NewComment) -> String| comments.iter().map(of).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(|comment| comment.product.to_string()), PRODUCTS.len());
        assert_eq!(distinct(|comment| comment.language.to_string()), VOICES.len());
        assert!(distinct(|comment| format!("{} {}", comment.product, comment.created_at)) < 2_000, "there are ties");
    }
}
