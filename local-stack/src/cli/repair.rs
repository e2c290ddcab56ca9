//! `pagemark repair`: the repair job's commands on a running stack.

use std::{path::Path, process::ExitCode};

use anyhow::Context;
use clap::builder::Resettable;
use functions::quarantine::QuarantinePlace;
use repair_job::{RunArgs, run_command};
use table::Table;

use crate::{
    control::ask,
    index_place,
    running::{RunningIndex, RunningStack},
    stack::{TABLE, table_config},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the stack's table.
    #[arg(long, global = true, env = "PAGEMARK_TABLE", value_name = "NAME", default_value = TABLE)]
    table: String,
    /// Endpoint of the stack's engine.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_DYNAMODB_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8000"
    )]
    dynamodb_url: String,
    /// Redis of the stack, if `up` was started with --redis-url. Otherwise it is found.
    #[arg(long, global = true, env = "PAGEMARK_REDIS_URL", value_name = "URL", hide_env_values = true)]
    redis_url: Option<String>,
    #[command(flatten)]
    run: RunArgs,
}

/// Takes the quarantine from the record of the running stack. (The value is a placeholder.)
pub(super) fn with_the_quarantine_of_the_stack(command: clap::Command) -> clap::Command {
    command
        .mut_arg("quarantine", |it| it.env(Resettable::Reset).required(false).default_value("mapping").hide(true))
        .mut_arg("s3_url", |it| it.env(Resettable::Reset).hide(true))
}

/// The table is one part, as for the stack's own audit ([`crate::repair`]).
pub(super) fn in_one_part(command: clap::Command) -> clap::Command {
    command.mut_arg("segments", |it| it.default_value("1"))
}

pub(super) async fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let table = Table::connect(&table_config(&args.table, &args.dynamodb_url)).await;
    let none = || {
        let (table, url) = (&args.table, &args.dynamodb_url);
        format!(
            "no running stack was found by the table {table:?} at {url}: is `pagemark up` running, and is its engine there (--dynamodb-url)?"
        )
    };
    let stack = RunningStack::on(&table).await.with_context(none)?.with_context(none)?;
    let (url, prefix) = match stack.page_index {
        RunningIndex::Embedded { control } => return ask(Path::new(&control), &args.run).await,
        RunningIndex::Redis { url, prefix } => (url, prefix),
    };
    let url =
        url.or(args.redis_url).context("the stack was given its Redis server by --redis-url; give the same here")?;
    let index = redis_index::connect(&index_place::redis_config(&url, prefix))?;
    args.run.set_quarantine(QuarantinePlace::Folder(stack.quarantine.into()));
    run_command(&args.run, table, index).await
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::Cli;

    #[test]
    fn the_command_lines_are_possible() {
        Cli::command().debug_assert();
        for line in [
            "repair status",
            "repair audit --apply",
            "repair --apply audit --rolling",
            "repair --dynamodb-url http://127.0.0.1:1 check c1",
            "repair quarantine --apply --dynamodb-url http://127.0.0.1:1",
            "repair recent --json --table other",
            "repair rebuild --apply --segments 2",
        ] {
            let words = std::iter::once("pagemark").chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
