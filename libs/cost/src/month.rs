//! The month that is billed.

use anyhow::ensure;
use clap::Parser;
use itertools::Itertools;

use crate::{
    design::{Design, REDIS_BYTES, designs},
    number::text,
    prices::TableClass,
};

/// What a bill does not have.
pub const LEFT_OUT: &str = "\
Beside the data: API tasks, load balancer, addresses, metrics, alarms, logs and traffic (docs/deploy.md).
Left out: free tiers, reserved nodes of Redis (AWS: up to 55 % less), taxes, caches in front (DAX, a CDN).
Assumed: all comments have the same length, all pages are full. Function time and Redis bytes are measured.
The template makes tables on demand, and nodes of Redis. Nobody has tried Pagemark on Valkey Serverless.";

/// A month of comments and their readers. `pagemark cost` has these options.
#[derive(Debug, Clone, Parser)]
pub struct Month {
    /// Comments stored all month. Numbers may be written like 1.5e6.
    #[arg(long, value_name = "N", default_value = "10e6", value_parser = number)]
    pub(crate) comments: f64,
    /// Writes in the month: 90 % new comments, 5 % text edits, 2 % changes of the rating, 3 %
    /// deletions.
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = number)]
    pub writes: f64,
    /// Page views in the month. A page has 20 comments.
    #[arg(long, value_name = "N", default_value = "100e6", value_parser = number)]
    pub(crate) views: f64,
    /// Percentages of page views: without a filter by rating, then with filters by 1, 2, 3 and 4
    /// ratings.
    #[arg(
        long,
        value_name = "PERCENT,...",
        value_delimiter = ',',
        default_value = "75,10,5,5,5"
    )]
    pub mix: Vec<f64>,
    /// The percentage of page views that are of a first page. The default is assumed: measure it in
    /// your access log.
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = number)]
    pub(crate) front: f64,
    /// The class of the table, Standard or Standard-IA. By default, for each design the one that
    /// costs less.
    #[arg(long = "table-class", value_name = "CLASS")]
    pub(crate) class: Option<String>,
    /// Bytes of a comment's text.
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = clap::value_parser!(u32).range(1..=40_000))]
    pub(crate) text: u32,
    /// How many pages four indexes read to show one. 1 if readers bring a cursor. N if they open
    /// page N by its number: only the pages before it lead there. Pagemark reads one.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) depth: u32,
    /// Bytes of a comment in Pagemark's Redis. Small products take more.
    #[arg(long, value_name = "BYTES", default_value_t = REDIS_BYTES, value_parser = number)]
    pub(crate) redis_bytes: f64,
    /// Provisioned capacity, as a multiple of the month's mean use. The default is assumed: the
    /// busiest hour has 2.8 times the mean, and takes 70 % of the capacity.
    #[arg(long, value_name = "N", default_value = "4", value_parser = number)]
    pub(crate) peak: f64,
}

impl Month {
    /// Of the options in a line.
    pub fn parse(line: &str) -> anyhow::Result<Self> {
        let month = Self::try_parse_from(["cost"].into_iter().chain(line.split_whitespace()))?;
        month.check()?;
        Ok(month)
    }

    /// What the options cannot say each by itself.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let mix = self.mix.iter().join(",");
        let sum: f64 = self.mix.iter().sum();
        ensure!(
            self.mix.iter().all(|percent| *percent >= 0.0),
            "--mix: a percentage is below 0 or no number"
        );
        ensure!(
            self.mix.len() <= 5,
            "--mix: {mix} has more than five percentages; a filter by all ratings is none"
        );
        ensure!(
            self.front <= 100.0,
            "--front: {} is above 100 %",
            self.front
        );
        ensure!(
            self.peak >= 1.0,
            "--peak: {} is below 1, the mean use",
            self.peak
        );
        ensure!(
            (sum - 100.0).abs() < 0.01,
            "--mix: {mix} is {sum} % together, not 100 %"
        );
        Ok(())
    }

    /// Each design, for comments of this size.
    pub fn designs(&self) -> anyhow::Result<Vec<Design>> {
        designs(self.text, self.depth, self.redis_bytes)
    }

    pub(crate) fn takes(&self, class: &TableClass) -> bool {
        self.class.as_ref().is_none_or(|name| *name == class.name)
    }

    pub fn text(&self) -> String {
        let [comments, writes, views] = [self.comments, self.writes, self.views].map(text);
        let mix = self.mix.iter().join(", ");
        format!(
            "{comments} comments of {} bytes, {writes} writes, {views} page views, {} % of first pages; filters by 0, 1, 2, 3, 4 ratings: {mix} %",
            self.text,
            text(self.front)
        )
    }
}

/// A number of 0 or more, small enough that sums of such numbers are exact.
fn number(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (0.0..1e15).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 1e15"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_are_refused_with_a_reason() {
        for (line, why) in [
            ("--mix 75,10", "75,10 is 85 % together"),
            ("--mix 110,-10", "below 0"),
            ("--mix NaN", "no number"),
            ("--mix a", "invalid"),
            ("--mix 50,10,10,10,10,10", "more than five"),
            ("--front 101", "above 100 %"),
            ("--peak 0", "below 1"),
            ("--text 0", "1..=40000"),
            ("--writes -1", "-1"),
            ("--views NaN", "not a number"),
        ] {
            let error = Month::parse(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
