//! The month that is asked about: the command line, checked.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Parser;
use itertools::Itertools;
use serde::Serialize;

use super::model::{REDIS_BYTES, Shape};
use crate::report::figure;

/// The command line of `bench cost`.
#[derive(Debug, clap::Args)]
#[command(after_help = LEFT_OUT)]
pub(crate) struct CostArgs {
    /// Comments stored all month. Numbers may end with K, M or G.
    #[arg(long, value_name = "N", default_value = "10M", value_parser = number)]
    comments: f64,
    /// Writes in the month: 90 % new comments, 5 % text edits, 2 % changes of the rating, 3 % deletions.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = number)]
    writes: f64,
    /// Page views in the month. A page has 20 comments.
    #[arg(long, value_name = "N", default_value = "100M", value_parser = number)]
    views: f64,
    /// Percentages of page views. The first is for pages without a filter by rating, that is of any rating. Then come
    /// filters by 1 rating, by 2, and so on. Missing ones are 0. A filter by all ratings is none.
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "75,10,5,5,5")]
    mix: Vec<f64>,
    /// Bytes of a comment's text.
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = clap::value_parser!(u32).range(1..=40_000))]
    text: u32,
    /// How many values a rating has, 2 to 10. Pagemark has 5; others are what its design would cost.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(2..=10))]
    ratings: u32,
    /// In how many languages a product has comments, 1 to 1000. Each comment has one language.
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    languages: u32,
    /// How many pages four indexes read to show one. It is 1 if readers bring a cursor. It is N if they open page N by its
    /// number: only the pages before it lead there. Pagemark reads one.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    depth: u32,
    /// Bytes of a comment in Pagemark's Redis. Small products take more.
    #[arg(long, value_name = "BYTES", default_value_t = REDIS_BYTES, value_parser = number)]
    redis_bytes: f64,
    /// Prices from this file instead of bench/prices.json, in the same format.
    #[arg(long, value_name = "FILE")]
    pub(super) region_prices: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What no bill contains.
pub(super) const LEFT_OUT: &str = "\
Left out, because it is equal in all designs: API, load balancer, logs, data to readers, records of products.
Left out of Pagemark: alarms, secrets, the repair job's function and the journal, some dollars (docs/deploy.md).
Left out of all: free tiers, reserved capacity, taxes, and caches in front (DAX, a CDN).
Assumed: all comments have the same length, all pages are full. Function time and Redis bytes are measured.";

/// A month.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Month {
    pub(super) comments: f64,
    pub(super) writes: f64,
    pub(super) views: f64,
    /// Shares of page views, which add up to 1: without a filter by rating, then with 1, 2, and more ratings. As many as
    /// a rating has values.
    pub(super) mix: Vec<f64>,
    pub(super) shape: Shape,
}

/// A command line of its own.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: CostArgs,
}

impl Month {
    /// The month of a command line, such as "--comments 1M --writes 0".
    ///
    /// # Errors
    /// When it is not a valid one.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        Self::of(&Line::try_parse_from(["cost"].into_iter().chain(line.split_whitespace()))?.args)
    }

    /// # Errors
    /// When the mix is not one.
    pub(super) fn of(args: &CostArgs) -> anyhow::Result<Self> {
        let mix = &args.mix;
        ensure!(mix.iter().all(|percent| *percent >= 0.0), "--mix: a percentage is below 0 or no number");
        let sum: f64 = mix.iter().sum();
        ensure!((sum - 100.0).abs() < 0.01, "--mix: {} is {sum} % together, not 100 %", mix.iter().join(","));
        let month = Self {
            comments: args.comments,
            writes: args.writes,
            views: args.views,
            mix: mix.iter().map(|percent| percent / sum).collect(),
            shape: Shape {
                text_bytes: args.text,
                rating_values: args.ratings,
                languages: args.languages,
                depth: args.depth,
                redis_bytes: args.redis_bytes,
            },
        };
        Ok(month.with_rating_values(args.ratings))
    }

    /// The same month with another number of rating values. Views that are filtered by as many ratings or more are then
    /// unfiltered ones.
    pub(super) fn with_rating_values(&self, rating_values: u32) -> Self {
        let mut mix = vec![0.0; rating_values as usize];
        for (ratings, share) in self.mix.iter().enumerate() {
            let place = if ratings < mix.len() { ratings } else { 0 };
            if let Some(sum) = mix.get_mut(place) {
                *sum += share;
            }
        }
        Self { mix, shape: Shape { rating_values, ..self.shape.clone() }, ..self.clone() }
    }

    /// The same month with all views filtered by this many ratings, or by none.
    pub(super) fn with_all_views_of(&self, ratings: usize) -> Self {
        let mix = (0..self.mix.len()).map(|place| if place == ratings { 1.0 } else { 0.0 }).collect();
        Self { mix, ..self.clone() }
    }

    /// The month in words.
    pub(super) fn text(&self) -> String {
        let Self { comments, writes, views, mix, shape } = self;
        let [comments, writes, views, text] = [*comments, *writes, *views, shape.text_bytes.into()].map(figure);
        let mix = mix.iter().map(|share| figure((1e3 * share).round() / 10.0)).join(", ");
        format!(
            "{comments} comments of {text} bytes, {writes} writes, {views} page views. Views by the number of ratings in \
             the filter, from none on: {mix} %"
        )
    }
}

/// A number of 0 or more, such as 400, 1.5M or 100K.
fn number(text: &str) -> Result<f64, String> {
    let suffixes = [('k', 1e3), ('m', 1e6), ('g', 1e9)];
    let last = text.chars().last().map(|last| last.to_ascii_lowercase());
    let (digits, times) = match suffixes.into_iter().find(|(suffix, _)| last == Some(*suffix)) {
        Some((_, times)) => (text.get(..text.len() - 1).unwrap_or_default(), times),
        None => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(value) if value >= 0.0 && value * times <= MOST => Ok(value * times),
        Ok(_) | Err(_) => Err(format!("{text:?} is not a number from 0 to 1000000G, such as 400, 1.5M or 100K")),
    }
}

/// The largest number that can be asked for. Sums of such numbers are exact enough.
const MOST: f64 = 1e15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_suffixes() {
        for (text, value) in [("0", 0.0), ("400", 400.0), ("10K", 1e4), ("1.5m", 1.5e6), ("2G", 2e9), ("1e3", 1e3)] {
            assert_eq!(number(text), Ok(value), "{text}");
        }
        for text in ["", "M", "-1", "1T", "1 M", "NaN", "inf", "1000001G", "1MM", "µ", "1µ"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_defaults_are_the_example() {
        let example = "--comments 10M --writes 1M --views 100M --mix 75,10,5,5,5 --text 400 --ratings 5 --languages 8";
        assert_eq!(Month::parse("").unwrap(), Month::parse(example).unwrap());
    }

    #[test]
    fn the_first_share_of_a_mix_has_no_filter_and_views_of_all_ratings_join_it() {
        assert_eq!(Month::parse("--mix 75,10,5,5,5").unwrap().mix, [0.75, 0.1, 0.05, 0.05, 0.05]);
        assert_eq!(Month::parse("--mix 50,50").unwrap().mix, [0.5, 0.5, 0.0, 0.0, 0.0]);
        let three = Month::parse("--ratings 3").unwrap().mix;
        assert!(three.iter().zip([0.85, 0.1, 0.05]).all(|(found, share)| (found - share).abs() < 1e-12), "{three:?}");
        assert_eq!(Month::parse("--ratings 7").unwrap().mix.len(), 7);
        let ten = Month::parse("").unwrap().with_rating_values(10);
        assert_eq!((ten.mix.len(), ten.mix.iter().sum::<f64>().round()), (10, 1.0));
    }

    #[test]
    fn a_mix_that_is_none_is_refused_with_its_sum() {
        for (line, why) in [
            ("--mix 75,10", "75,10 is 85 % together"),
            ("--mix 110,-10", "below 0"),
            ("--mix NaN", "no number"),
            ("--mix a", "invalid"),
            ("--ratings 1", "2..=10"),
            ("--text 0", "1..=40000"),
        ] {
            let error = Month::parse(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
