//! The commands of `pagemark`.

mod cost;
mod export;
mod import;
mod progress;
mod repair;
mod undo;
mod up;
mod written;

use std::{io::IsTerminal, process::ExitCode};

use clap::{Parser, Subcommand};
use process::log::start_log;

/// The exit code after Ctrl-C or SIGTERM: 128 and the number of SIGINT, as in shells.
const INTERRUPTED: u8 = 130;

const MORE_HELP: &str = "\
Environment:
  PAGEMARK_LOG  what the log says, such as info, debug, or warn,local_stack=info (the default)

Examples:
  pagemark up --demo
  pagemark repair status --data-dir /var/lib/pagemark";

/// Product comments with page numbers, the whole system on one machine.
#[derive(Debug, Parser)]
#[command(name = "pagemark", version, after_help = MORE_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run everything in one process: DynamoDB engine, page index, stream handlers, API and pages.
    Up(Box<up::UpArgs>),
    /// Import comments from files into a stack, or any table.
    #[command(after_help = import::MORE_HELP)]
    Import(Box<import::ImportArgs>),
    /// Export comments to a file of JSON Lines, from a stack or any table, while writes continue.
    #[command(after_help = export::MORE_HELP)]
    Export(export::ExportArgs),
    /// Find and repair differences between comments and the data derived from them, in a stack.
    #[command(
        after_help = format!("{}\n\n{}", repair_job::EXIT_CODES, repair::EXAMPLES),
        mut_subcommands(repair::as_pagemarks),
        mut_subcommand("audit", repair::in_one_part),
        mut_subcommand("quarantine", repair::with_the_quarantine_of_the_stack),
        mut_subcommand("status", |status| repair::in_one_part(repair::with_the_quarantine_of_the_stack(status)))
    )]
    Repair(Box<repair::RepairArgs>),
    /// Compute the monthly bill of a deployment, and of other designs, by published prices.
    #[command(after_help = cost::more_help())]
    Cost(cost::CostArgs),
    /// Write the completions for a shell to the standard output.
    Completions(written::CompletionsArgs),
    /// Write man pages into a folder.
    Man(written::ManArgs),
}

impl Cli {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        // The person at the terminal needs only warnings and errors, and the messages of the local
        // stack itself.
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let lines = lines.with_ansi(std::io::stderr().is_terminal());
        start_log("warn,local_stack=info", lines).map_err(anyhow::Error::msg)?;
        match self.command {
            CliCommand::Up(args) => up::run(*args).await,
            CliCommand::Import(args) => Box::pin(import::run(*args)).await,
            CliCommand::Export(args) => Box::pin(export::run(args)).await,
            CliCommand::Repair(args) => Box::pin(repair::run(*args)).await,
            CliCommand::Cost(args) => cost::run(&args).map(|()| ExitCode::SUCCESS),
            CliCommand::Completions(args) => {
                written::completions(&args);
                Ok(ExitCode::SUCCESS)
            }
            CliCommand::Man(args) => written::man(&args).map(|()| ExitCode::SUCCESS),
        }
    }
}
