//! Lists of products, such as the most commented ones. Each list is an order of the products' totals, and of nothing
//! else. So a list can be made anew at any time, and cannot drift from the totals.

use std::cmp::Reverse;

use serde::Serialize;
use strum::EnumString;

use crate::{
    Rating, Timestamp,
    error::{InvalidInput, quoted},
    id::ProductId,
};

/// Weight of the prior in the score of [`ProductSort::TopRated`], as a number of comments. A product with as many
/// comments is judged half by them and half by the mean of the site.
pub const PRIOR_COMMENTS: u64 = 10;

/// The order of a list of products. Products that are equal in it follow in ascending byte order of their ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, strum::Display, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ProductSort {
    /// The most comments first.
    #[default]
    MostCommented,
    /// The product with the newest comment first.
    RecentlyCommented,
    /// The highest score first. The score is the mean of a product's ratings and of [`PRIOR_COMMENTS`] ratings that equal
    /// the mean rating of the site.
    TopRated,
}

impl ProductSort {
    /// All orders, the default first.
    pub const ALL: [Self; 3] = [Self::MostCommented, Self::RecentlyCommented, Self::TopRated];

    /// Parses `most_commented`, `recently_commented` or `top_rated`.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let names = Self::ALL.map(|sort| sort.to_string()).join(", ");
        text.parse().map_err(|_| InvalidInput::new("sort", format!("{} is none of {names}", quoted(text))))
    }
}

/// How a product with comments is rated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductTotals {
    /// The product.
    pub product: ProductId,
    /// Number of comments with each rating, in the order of [`Rating::ALL`].
    pub by_rating: [u64; Rating::ALL.len()],
    /// Creation time of the newest comment.
    pub last_commented_at: Timestamp,
}

impl ProductTotals {
    /// Number of comments.
    pub fn comments(&self) -> u64 {
        self.by_rating.iter().fold(0, |comments, of_rating| comments.saturating_add(*of_rating))
    }

    /// Number of comments with each rating.
    pub fn ratings(&self) -> impl Iterator<Item = (Rating, u64)> {
        Rating::ALL.into_iter().zip(self.by_rating)
    }

    /// The sum of all ratings.
    fn stars(&self) -> u128 {
        self.ratings().map(|(rating, comments)| u128::from(rating.get()) * u128::from(comments)).sum()
    }
}

/// All lists of some products.
#[derive(Debug, Default)]
pub struct ProductLists {
    /// In ascending byte order of their ids.
    products: Vec<ProductTotals>,
    /// Places in `products`.
    most_commented: Vec<u32>,
    recently_commented: Vec<u32>,
    top_rated: Vec<u32>,
}

impl ProductLists {
    /// The lists of these products, in any order, none of them twice. At most [`u32::MAX`] products are listed.
    pub fn new(mut products: Vec<ProductTotals>) -> Self {
        products.sort_by(|a, b| a.product.cmp(&b.product));
        let comments: u128 = products.iter().map(|product| u128::from(product.comments())).sum();
        let stars: u128 = products.iter().map(ProductTotals::stars).sum();
        let score = |product: &ProductTotals| Score::of(product, stars, comments);
        Self {
            most_commented: sorted(&products, |product| Reverse(product.comments())),
            recently_commented: sorted(&products, |product| Reverse(product.last_commented_at)),
            top_rated: sorted(&products, |product| Reverse(score(product))),
            products,
        }
    }

    /// Number of products.
    pub fn len(&self) -> usize {
        self.products.len()
    }

    /// Whether there are no products.
    pub fn is_empty(&self) -> bool {
        self.products.is_empty()
    }

    /// At most `count` products of a list, after the first `skip` ones. Takes as long for any `skip`.
    pub fn part(&self, sort: ProductSort, skip: u64, count: u64) -> impl Iterator<Item = &ProductTotals> {
        let order = match sort {
            ProductSort::MostCommented => &self.most_commented,
            ProductSort::RecentlyCommented => &self.recently_commented,
            ProductSort::TopRated => &self.top_rated,
        };
        let place = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        let (skip, count) = (place(skip).min(order.len()), place(count));
        let part = order.get(skip..skip.saturating_add(count).min(order.len())).unwrap_or_default();
        part.iter().filter_map(|at| self.products.get(usize::try_from(*at).ok()?))
    }
}

/// The places of the products in ascending order of a key. Equal ones keep their order.
fn sorted<K: Ord>(products: &[ProductTotals], key: impl Fn(&ProductTotals) -> K) -> Vec<u32> {
    let mut keyed: Vec<(K, u32)> = products.iter().map(key).zip(0..).collect();
    keyed.sort();
    keyed.into_iter().map(|(_, at)| at).collect()
}

/// The score of a product, as a fraction. Fractions compare exactly, so that equal scores are equal.
#[derive(Debug, Clone, Copy)]
struct Score {
    numerator: u128,
    denominator: u128,
}

impl Score {
    /// `stars` is the sum of all ratings on the site, and `comments` their number. With m = stars / comments, the score
    /// is (prior × m + the product's stars) / (prior + the product's comments). The fraction leaves out the common
    /// denominator `comments`.
    fn of(product: &ProductTotals, stars: u128, comments: u128) -> Self {
        let prior = u128::from(PRIOR_COMMENTS);
        Self {
            numerator: (prior * stars).saturating_add(product.stars().saturating_mul(comments)),
            denominator: prior + u128::from(product.comments()),
        }
    }

    fn cross(self, other: Self) -> u128 {
        self.numerator.saturating_mul(other.denominator)
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.cross(*other).cmp(&other.cross(*self))
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn totals(id: &str, by_rating: [u64; 5], last_ms: i64) -> ProductTotals {
        let last_commented_at = Timestamp::from_epoch_ms(last_ms).unwrap();
        ProductTotals { product: ProductId::parse(id).unwrap(), by_rating, last_commented_at }
    }

    fn ids(lists: &ProductLists, sort: ProductSort) -> Vec<&str> {
        lists.part(sort, 0, u64::MAX).map(|product| product.product.as_str()).collect()
    }

    #[test]
    fn a_single_five_does_not_beat_many_fives_and_equals_follow_by_id() {
        // The mean of the site is 3.83.
        let lists = ProductLists::new(vec![
            totals("one-five", [0, 0, 0, 0, 1], 50),
            totals("many", [0, 0, 0, 20, 80], 40),
            totals("poor", [38, 0, 2, 0, 8], 30),
            totals("b-average", [0, 0, 0, 7, 0], 20),
            totals("a-average", [0, 0, 1, 0, 1], 20),
        ]);
        assert_eq!(ids(&lists, ProductSort::TopRated), ["many", "one-five", "b-average", "a-average", "poor"]);
        assert_eq!(ids(&lists, ProductSort::MostCommented), ["many", "poor", "b-average", "a-average", "one-five"]);
        assert_eq!(ids(&lists, ProductSort::RecentlyCommented), ["one-five", "many", "poor", "a-average", "b-average"]);
    }

    #[test]
    fn products_with_equal_scores_follow_by_id_whatever_their_totals() {
        let lists = ProductLists::new(vec![
            totals("c", [0, 0, 3, 0, 0], 3),
            totals("a", [1, 0, 0, 0, 1], 2),
            totals("b", [100, 0, 0, 0, 100], 1),
        ]);
        assert_eq!(ids(&lists, ProductSort::TopRated), ["a", "b", "c"]);
        assert!(ProductLists::new(Vec::new()).part(ProductSort::TopRated, 0, 20).next().is_none());
    }

    #[test]
    fn totals_beyond_all_numbers_do_not_overflow() {
        let most = [u64::MAX; 5];
        let lists = ProductLists::new(vec![totals("b", most, 0), totals("a", most, 0)]);
        assert_eq!(lists.len(), 2);
        assert_eq!(ids(&lists, ProductSort::MostCommented), ["a", "b"]);
    }

    proptest! {
        /// The score is compared with one in floating point, which is exact enough unless two are almost equal.
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        fn every_page_of_every_list_is_that_of_a_sorted_vector(
            products in prop::collection::btree_map("[a-d]{1,3}", (prop::array::uniform5(0..4_u64), 0..9_i64), 0..40),
            size in 1..7_u64,
        ) {
            let products: BTreeMap<String, ([u64; 5], i64)> =
                products.into_iter().filter(|(_, (by_rating, _))| by_rating.iter().sum::<u64>() > 0).collect();
            let lists = ProductLists::new(
                products.iter().rev().map(|(id, (by_rating, last))| totals(id, *by_rating, *last)).collect(),
            );
            let comments = |by_rating: &[u64; 5]| by_rating.iter().sum::<u64>() as f64;
            let stars = |by_rating: &[u64; 5]| by_rating.iter().zip(1..).map(|(n, rating)| n * rating).sum::<u64>() as f64;
            let all = products.values().fold([0; 5], |mut all, (by_rating, _)| {
                all.iter_mut().zip(by_rating).for_each(|(all, of)| *all += of);
                all
            });
            let mean = stars(&all) / comments(&all);
            let score = |by_rating: &[u64; 5]| (10.0 * mean + stars(by_rating)) / (10.0 + comments(by_rating));
            for sort in ProductSort::ALL {
                let key = |(by_rating, last): &([u64; 5], i64)| match sort {
                    ProductSort::MostCommented => comments(by_rating),
                    ProductSort::RecentlyCommented => *last as f64,
                    ProductSort::TopRated => (score(by_rating) * 1e9).round(),
                };
                let mut expected: Vec<(&String, f64)> = products.iter().map(|(id, of)| (id, key(of))).collect();
                expected.sort_by(|(_, a), (_, b)| b.total_cmp(a));
                let expected: Vec<&str> = expected.iter().map(|(id, _)| id.as_str()).collect();
                let pages = (0..=products.len() as u64).map(|page| lists.part(sort, page * size, size));
                let listed: Vec<&str> = pages.flatten().map(|product| product.product.as_str()).collect();
                prop_assert_eq!(listed, expected);
            }
        }
    }
}
