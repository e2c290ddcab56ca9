//! The settings.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, builder::NonEmptyStringValueParser};
use functions::MetricsArgs;

/// Posts a comment, waits until readers see it, and deletes it (AWS Lambda on a schedule, or a command line).
#[derive(Debug, Clone, Parser)]
#[command(name = "canary", version)]
pub struct Config {
    /// The API that it uses.
    #[command(flatten)]
    pub api: ApiArgs,
    /// Where metrics go.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// What the command line does; the function runs the canary.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The API that a client uses.
#[derive(Debug, Clone, Args)]
pub struct ApiArgs {
    /// Where readers find the pages, such as `https://comments.example.com`.
    #[arg(long, env = "PAGEMARK_PUBLIC_URL", value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub public_url: String,
    /// A write token; where new comments are pending, it must also allow moderating.
    #[arg(long = "token", env = "PAGEMARK_CANARY_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub token: String,
    /// A host, and a port if needed, to connect to in place of the URL's host, before the name of that host leads there.
    #[arg(long, env = "PAGEMARK_CANARY_CONNECT", value_name = "HOST")]
    pub connect: Option<String>,
}

/// A command of the command line.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Runs the canary once, and prints its metrics. This is also done without a command.
    Run,
    /// Posts comments to a product, and writes them to a file. Repeated within a day, it posts no others.
    Fill {
        /// The product.
        #[arg(long)]
        product: String,
        /// How many comments.
        #[arg(long, value_name = "NUMBER")]
        comments: u64,
        /// The file.
        #[arg(long)]
        file: PathBuf,
    },
    /// Reads every filter of a product to the end. Waits until it shows exactly the comments of the file, in order.
    Compare {
        /// The product.
        #[arg(long)]
        product: String,
        /// The file.
        #[arg(long)]
        file: PathBuf,
        /// How long to wait, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        within: u64,
    },
}
