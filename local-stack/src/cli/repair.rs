//! `pagemark repair`: the repair job's commands on a running stack.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, ensure};
use clap::builder::Resettable;
use functions::quarantine::QuarantinePlace;
use repair_job::{RunArgs, exit, run_command};
use table::Table;

use super::interrupt::{INTERRUPTED, Signals};
use crate::{
    attached::{Attached, Running},
    control::{SOCKET, ask},
    index_place::{self, IndexPlace},
    stack::{LOCAL_ENGINE, QUARANTINE, TABLE, table_config},
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
    /// Work in this process instead of the stack's, with the page index in this Redis. A data folder remembers its Redis.
    #[arg(long, global = true, env = "PAGEMARK_REDIS_URL", value_name = "URL", hide_env_values = true)]
    redis_url: Option<String>,
    #[command(flatten)]
    run: RunArgs,
}

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
    let Some(folder) = args.data_dir else {
        let url = args.dynamodb_url.unwrap_or_else(|| LOCAL_ENGINE.to_owned());
        let table = Table::connect(&table_config(args.table.as_deref().unwrap_or(TABLE), &url)).await;
        let none =
            || format!("no stack runs on the table {:?} at {url}: is `pagemark up` running there?", table.name());
        let Running { socket, has_redis } = Running::on(&table).await.with_context(none)?.with_context(none)?;
        let Some(redis_url) = args.redis_url else { return ask(&socket, &args.run).await };
        ensure!(
            has_redis,
            "the stack has its page index inside its process: leave out --redis-url and PAGEMARK_REDIS_URL"
        );
        let prefix = format!("pagemark-{}", table.describe().await?.id);
        let index = redis_index::connect(&index_place::redis_config(&redis_url, prefix))?;
        args.run.set_quarantine(QuarantinePlace::Folder(socket.with_file_name(QUARANTINE)));
        return run_command(&args.run, table, index).await;
    };
    // The flags are global, so clap does not see that they exclude each other.
    if args.table.is_some() || args.dynamodb_url.is_some() {
        eprintln!("error: --data-dir leaves no room for --table and --dynamodb-url, or their variables");
        return Ok(ExitCode::from(exit::USAGE));
    }
    if args.redis_url.is_some_and(|url| IndexPlace::remembered(&folder) != IndexPlace::RedisAt(url)) {
        let shown = folder.display();
        eprintln!(
            "error: the page index of --data-dir {shown} is not in this Redis: leave out --redis-url and PAGEMARK_REDIS_URL, the folder \
             remembers where it is"
        );
        return Ok(ExitCode::from(exit::USAGE));
    }
    let mut signals = Signals::listen()?;
    let attached = tokio::select! {
        attached = Attached::to_folder(&folder, "repair") => attached?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let ran = ask(&folder.join(SOCKET), &args.run).await;
    attached.end().await;
    ran
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
            "repair rebuild --apply --segments 2",
            "repair audit --data-dir d --apply",
        ] {
            let words = std::iter::once("pagemark").chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
