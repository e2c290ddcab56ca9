//! `pagemark repair`: the repair job's commands on a running stack.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::builder::Resettable;
use functions::quarantine::QuarantinePlace;
use repair_job::{RunArgs, exit, run_command};
use table::Table;

use super::interrupt::{INTERRUPTED, Signals};
use crate::{
    attached::Attached,
    control::ask,
    index_place,
    running::{RunningIndex, RunningStack},
    stack::{LOCAL_ENGINE, TABLE, table_config},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Work on the stack of this data folder. If none runs there, one runs for the command.
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Name of the stack's table [default: pagemark]
    #[arg(long, global = true, env = "PAGEMARK_TABLE", value_name = "NAME")]
    table: Option<String>,
    /// Endpoint of the stack's engine [default: http://127.0.0.1:8000]
    #[arg(long, global = true, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL")]
    dynamodb_url: Option<String>,
    /// Redis of the stack, if `up` was started with --redis-url.
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

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(folder) = args.data_dir.clone() else {
        let url = args.dynamodb_url.clone().unwrap_or_else(|| LOCAL_ENGINE.to_owned());
        return run_by_engine(args, &url).await;
    };
    // The flags are global, so clap does not see that they exclude each other.
    if args.table.is_some() || args.dynamodb_url.is_some() || args.redis_url.is_some() {
        eprintln!("error: --data-dir leaves no room for --table, --dynamodb-url and --redis-url, or their variables");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let mut signals = Signals::listen()?;
    let attached = tokio::select! {
        attached = Attached::to(&folder, "repair") => attached?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let ran = match attached.socket() {
        Some(socket) => ask(&socket, &args.run).await,
        None => run_by_engine(args, attached.dynamodb_url()).await,
    };
    attached.end().await;
    ran
}

/// Runs a command on the stack whose engine is at this endpoint.
async fn run_by_engine(mut args: Args, url: &str) -> anyhow::Result<ExitCode> {
    let table = args.table.as_deref().unwrap_or(TABLE);
    let none = || {
        format!(
            "no running stack was found by the table {table:?} at {url}: is `pagemark up` running, and is its engine there (--dynamodb-url)?"
        )
    };
    let table = Table::connect(&table_config(table, url)).await;
    let stack = RunningStack::on(&table).await.with_context(none)?.with_context(none)?;
    let prefix = match stack.page_index {
        RunningIndex::Embedded { control } => return ask(Path::new(&control), &args.run).await,
        RunningIndex::Redis { prefix } => prefix,
    };
    let redis_url = args.redis_url.with_context(|| {
        format!("the stack was given its Redis server by --redis-url; give the same here, with --dynamodb-url {url}")
    })?;
    let index = redis_index::connect(&index_place::redis_config(&redis_url, prefix))?;
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
            "repair audit --data-dir d --apply",
            "repair erase --author u --apply",
        ] {
            let words = std::iter::once("pagemark").chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
