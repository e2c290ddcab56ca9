//! `pagemark doctor`.

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;

use super::progress::say;
use crate::doctor::{Check, State, examine};

/// Printed below the help.
pub(super) const EXIT_CODES: &str = "\
Exit code:
  0  all is well, or there are only warnings: the stack copes with them
  1  there are problems: a person has to do something
  2  the command line is wrong";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder.
    #[arg(long, env = "PAGEMARK_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let checks = examine(&args.data_dir).await?;
    let has_problem = checks.iter().any(|check| check.state == State::Problem);
    if args.json {
        let folder = args.data_dir.display().to_string();
        say(&format!("{:#}\n", json!({ "data_dir": folder, "problems": has_problem, "checks": checks })));
    } else {
        say(&checks.iter().map(line).collect::<String>());
    }
    Ok(if has_problem { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn line(Check { check, state, found, advice }: &Check) -> String {
    let state = format!("{state:?}").to_lowercase();
    // Reasons of the system or of SQLite may have several lines.
    let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
    let advice = advice.iter().map(|advice| format!(". {advice}")).collect::<String>();
    format!("{state:<8} {check:<12} {found}{advice}\n")
}
