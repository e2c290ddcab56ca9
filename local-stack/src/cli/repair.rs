//! `pagemark repair`: the repair job's commands on a running stack.

use std::{convert::identity, process::ExitCode};

use clap::{Subcommand, builder::Resettable};
use repair_job::{RepairCommand, RunArgs, RunOptions, Signals, exit};

use super::{
    INTERRUPTED,
    undo::{self, UndoArgs},
};
use crate::{attached::TableAddress, control::ask};

#[derive(Debug, clap::Args)]
pub(super) struct RepairArgs {
    #[command(flatten)]
    table: TableAddress,
    #[command(flatten)]
    options: RunOptions,
    #[command(subcommand)]
    command: StackCommand,
}

#[derive(Debug, Subcommand)]
enum StackCommand {
    #[command(flatten)]
    OfJob(RepairCommand),
    /// Remove the comments that an import of these files created and nobody has changed since.
    /// Without --apply, only count them.
    UndoImport(Box<UndoArgs>),
}

pub(super) const EXAMPLES: &str = "\
Examples:
  pagemark repair status --data-dir /var/lib/pagemark
  pagemark repair audit --apply --data-dir /var/lib/pagemark";

/// The examples of the repair job's help, with the name that the command has here.
pub(super) fn as_pagemarks(command: clap::Command) -> clap::Command {
    match command.get_after_help().map(ToString::to_string) {
        Some(help) => command.after_help(help.replace("repair-job ", "pagemark repair ")),
        None => command,
    }
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
    let command = match args.command {
        StackCommand::OfJob(command) => command,
        StackCommand::UndoImport(undo) => {
            return undo::run(&args.table, &args.options, *undo).await;
        }
    };
    let run = RunArgs {
        options: args.options,
        command,
    };
    let mut signals = Signals::listen()?;
    let opened = async {
        let attached = args.table.open("repair", identity).await?;
        anyhow::Ok((attached.socket().await?, attached))
    };
    let (socket, attached) = tokio::select! {
        opened = opened => opened?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let ran = ask(&socket, &run).await;
    attached.end().await;
    ran
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::Cli;

    /// The commands below this one whose help has no example of them.
    fn without_example(command: &clap::Command, path: &str) -> Vec<String> {
        let mut without = Vec::new();
        for command in command.get_subcommands() {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string);
            if !help.is_some_and(|help| help.contains(&format!("\n  {path} ")))
                && !path.ends_with(" help")
            {
                without.push(path.clone());
            }
            without.extend(without_example(command, &path));
        }
        without
    }

    #[test]
    fn the_help_of_each_command_has_an_example() {
        let command = Cli::command();
        assert_eq!(without_example(&command, "pagemark"), Vec::<String>::new());
    }

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
            "repair undo-import f.csv --map rating=stars --since 2024-01-31T06:00:00Z --apply",
        ] {
            let words = std::iter::once("pagemark").chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
