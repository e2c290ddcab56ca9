//! `pagemark repair`: the repair job's commands on a running stack.

use std::{convert::identity, process::ExitCode};

use clap::builder::Resettable;
use repair_job::{RunArgs, Signals, exit};

use super::INTERRUPTED;
use crate::{attached::TableAddress, control::ask};

#[derive(Debug, clap::Args)]
pub(super) struct RepairArgs {
    #[command(flatten)]
    table: TableAddress,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn with_the_quarantine_of_the_stack(command: clap::Command) -> clap::Command {
    command
        .mut_arg("quarantine", |it| {
            it.env(Resettable::Reset)
                .required(false)
                .default_value("mapping")
                .hide(true)
        })
        .mut_arg("s3_url", |it| it.env(Resettable::Reset).hide(true))
}

/// The table is one part, as for the stack's own audit ([`crate::repair`]).
pub(super) fn in_one_part(command: clap::Command) -> clap::Command {
    command.mut_arg("segments", |it| it.default_value("1"))
}

pub(super) async fn run(args: RepairArgs) -> anyhow::Result<ExitCode> {
    if args.table.is_contradictory() {
        eprintln!(
            "error: --data-dir leaves no room for --table and --dynamodb-url, or their variables"
        );
        return Ok(ExitCode::from(exit::USAGE));
    }
    let mut signals = Signals::listen()?;
    let opened = async {
        let attached = args.table.open("repair", identity).await?;
        anyhow::Ok((attached.socket().await?, attached))
    };
    let (socket, attached) = tokio::select! {
        opened = opened => opened?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let ran = ask(&socket, &args.run).await;
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
