//! `pagemark cost`.

use ::cost::{LEFT_OUT, Month, statement};

use super::progress::say;

const EXAMPLES: &str = "\
Examples:
  pagemark cost
  pagemark cost --comments 1e6 --writes 1e5 --views 10e6 --front 80";

#[derive(Debug, clap::Args)]
pub(super) struct CostArgs {
    #[command(flatten)]
    month: Month,
}

pub(super) fn more_help() -> String {
    format!("{LEFT_OUT}\n\n{EXAMPLES}")
}

pub(super) fn run(args: &CostArgs) -> anyhow::Result<()> {
    say(&statement(&args.month)?);
    Ok(())
}
