//! `bench cost`: what a month costs in each design, for a reader's own load. It measures nothing and needs no server.
//!
//! - `question`: the month that is asked about.
//! - `model`: units and bytes of comments, writes and pages, from the sizes of items.
//! - `answer`: bills, break-evens and the sensitivity, by [`crate::money`].
//! - `text`: the answer on a terminal.

mod answer;
mod model;
mod question;
mod text;

use std::fs;

use anyhow::Context;

use crate::money::Prices;
use answer::Answer;
#[cfg(test)]
pub(crate) use model::tests::write_units_of_short_comments;
pub(crate) use question::CostArgs;
use question::Question;

/// Prints the answer.
pub(crate) fn print(args: &CostArgs) -> anyhow::Result<()> {
    let prices = match &args.region_prices {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Prices::parse(&text).with_context(|| file.display().to_string())?
        }
        None => Prices::published()?,
    };
    let answer = Answer::to(Question::of(args)?, &prices)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        print!("{answer}");
    }
    Ok(())
}
