//! Spreads of creation times that make the selection of a rank hard.

use model::{Cd, CommentId, Filter, Order, ProductId, Timestamp};
use rand::{RngExt, rngs::StdRng, seq::SliceRandom};

use crate::{fixture::data, reading::ordering::Listed};

#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub(super) shape: &'static str,
    pub(super) id: ProductId,
    pub(super) comments: Vec<Listed>,
}

impl Product {
    pub(super) fn listing(&self, filter: &Filter, order: Order) -> Vec<&Cd> {
        let mut cds: Vec<&Cd> = self
            .comments
            .iter()
            .filter(|c| filter.matches(&c.placement))
            .map(|comment| &comment.cd)
            .collect();
        cds.sort();
        if order == Order::Newest {
            cds.reverse();
        }
        cds
    }
}

/// Makes the rating and milliseconds of each of about `n` comments.
pub(super) type Shape = fn(n: i64, random: &mut StdRng) -> Vec<(u64, i64)>;

/// 2024-03-01, close to real times.
const BASE_MS: i64 = 1_709_250_000_000;

pub(super) const SHAPES: [(&str, Shape); 14] = [
    ("all in one millisecond", |n, random| {
        make(n, |_| (any_rating(random), BASE_MS))
    }),
    ("three distinct times", |n, random| {
        make(n, |_| {
            (
                any_rating(random),
                BASE_MS + random.random_range(0..3_i64) * 1000,
            )
        })
    }),
    ("evenly spread", |n, random| {
        make(n, |i| (any_rating(random), BASE_MS + i * 60_000))
    }),
    ("days only, twenty a day", |n, random| {
        make(n, |i| (any_rating(random), BASE_MS + i / 20 * 86_400_000))
    }),
    ("bursts with growing gaps", |n, random| {
        let mut ms = BASE_MS;
        let mut remaining_in_burst = 0_i64;
        let mut gap_ms = 1_i64;
        make(n, |_| {
            if remaining_in_burst == 0 {
                remaining_in_burst = random.random_range(1..120);
                gap_ms = (gap_ms * 3).min(1 << 36);
                ms += gap_ms;
            }
            remaining_in_burst -= 1;
            (any_rating(random), ms)
        })
    }),
    ("disjoint times a rating", |n, _| {
        make(n, |i| {
            (1 + 5 * i.unsigned_abs() / n.unsigned_abs(), BASE_MS + i)
        })
    }),
    ("disjoint times a rating, reversed", |n, _| {
        make(n, |i| {
            (1 + 5 * i.unsigned_abs() / n.unsigned_abs(), BASE_MS - i)
        })
    }),
    ("blocks of ratings that double in length", |n, _| {
        make(n, |i| {
            (
                1 + u64::from((i + 1).unsigned_abs().ilog2()) % 4,
                BASE_MS + i,
            )
        })
    }),
    ("one huge set and tiny ones", |n, random| {
        make(n, |_| {
            let rating = if random.random_range(0..100) == 0 {
                random.random_range(1..=4)
            } else {
                5
            };
            (rating, BASE_MS + random.random_range(0..1_000_000))
        })
    }),
    (
        "one rating in one millisecond amid the others",
        |n, random| {
            make(n, |i| {
                let rating = any_rating(random);
                let ms = if rating == 3 { n / 2 } else { i };
                (rating, BASE_MS + ms)
            })
        },
    ),
    ("each rating in one millisecond of its own", |n, random| {
        make(n, |_| {
            let rating = any_rating(random);
            (rating, BASE_MS + (rating * 7 % 5).cast_signed())
        })
    }),
    ("times that grow exponentially", |n, random| {
        make(n, |i| {
            (
                any_rating(random),
                BASE_MS + (1_i64 << (i * 46 / n)) + random.random_range(0..9),
            )
        })
    }),
    ("before 1970 and far ahead", |n, random| {
        make(n, |_| {
            (
                any_rating(random),
                random.random_range(Timestamp::MIN.epoch_ms()..Timestamp::MAX.epoch_ms()),
            )
        })
    }),
    ("sets of one comment", |_, _| {
        (1..=5_u64)
            .map(|rating| (rating, BASE_MS + (rating * 3 % 5).cast_signed()))
            .collect()
    }),
];

fn make(n: i64, comment: impl FnMut(i64) -> (u64, i64)) -> Vec<(u64, i64)> {
    (0..n).map(comment).collect()
}

/// As in real data, most comments have five stars or one.
fn any_rating(random: &mut StdRng) -> u64 {
    [5, 5, 5, 5, 1, 1, 4, 3, 2][random.random_range(0..9)]
}

/// A product of about `n` comments of a shape, in two languages, with similar ids.
pub(super) fn product(
    (shape, make_comments): (&'static str, Shape),
    n: i64,
    random: &mut StdRng,
) -> Product {
    let product = data::product(&format!("shape/{shape}"));
    let made = make_comments(n, random);
    let ids = similar_ids(made.len(), random);
    let mut comments = Vec::new();
    for ((rating, ms), id) in made.into_iter().zip(ids) {
        let created_at = data::at_ms(ms);
        let language = if random.random_range(0..3) == 0 {
            "pt-BR"
        } else {
            "en"
        };
        comments.push(Listed {
            cd: Cd { created_at, id },
            placement: data::placement(&product, language, rating),
        });
    }
    Product {
        shape,
        id: product,
        comments,
    }
}

/// Distinct ids in random order. They use few letters in both cases, digits and punctuation, and
/// many are prefixes of others. Their order in a locale differs from their byte order.
pub(super) fn similar_ids(count: usize, random: &mut StdRng) -> Vec<CommentId> {
    const LETTERS: [char; 8] = ['a', 'A', 'b', 'B', '-', '_', '.', '0'];
    let mut ids = Vec::new();
    let mut number = 0;
    while ids.len() < count {
        number += 1;
        // Bijective base 8: each number gives a different text.
        let mut rest = number;
        let mut text = String::new();
        while rest > 0 {
            rest -= 1;
            text.push(LETTERS[rest % LETTERS.len()]);
            rest /= LETTERS.len();
        }
        // `.` and `..` are not ids.
        ids.extend(CommentId::parse(&text));
    }
    ids.shuffle(random);
    ids
}
