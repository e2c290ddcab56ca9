//! The command `pagemark`.

use std::process::ExitCode;

use local_stack::cli::Cli;
use process::parse_settings;

#[tokio::main]
async fn main() -> ExitCode {
    match parse_settings::<Cli>().run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pagemark: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes in one line. It omits repetitions, because many errors repeat their
/// causes.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&cause);
        }
    }
    line
}
