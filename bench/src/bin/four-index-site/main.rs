//! Pages of the design that Pagemark is compared with, for people: what the API is for Pagemark, as a process of its own.
//!
//! It serves `/product/{product}/comments`, and with `/{language or ~}/{ratings or ~}` behind it. Template, layers,
//! allocator, log and time-outs are the API's ([`api::comparison`]), so that the two processes differ in how they read
//! comments, and in what follows from that:
//!
//! - A page has no number to be found by, so in place of the page bar there is a link with a cursor. How many pages it took
//!   to get there stands in the link too, for the heading alone.
//! - A page takes its queries and, at the same time, one of all statistics items, where the API asks Redis: so the table must
//!   have counters. With `--skip-empty` the first page reads the counters of its filter before.
//! - A full last page leads on to an empty one.
//! - There is no redirect to a canonical address.
//!
//! Where it listens stands in its log as in the API's.

mod site;

use std::{net::SocketAddr, process::ExitCode};

use api::{ApiSettings, PublicUrl, SiteSettings};
use clap::Parser;
use stores::{
    Table,
    config::parse_settings,
    log::{log_filter, log_rules},
    table::TableConfig,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

/// The API's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves pages of comments from a table of four indexes.
#[derive(Debug, Parser)]
#[command(name = "four-index-site", version)]
struct Args {
    /// Address and port to serve at; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The scheme, host and port that readers know the site by.
    #[arg(long, value_name = "URL")]
    public_url: PublicUrl,
    /// The table's name.
    #[arg(long)]
    table: String,
    /// Where DynamoDB is.
    #[arg(long, value_name = "URL")]
    dynamodb_url: String,
    /// Ask no partition that the counters call empty.
    #[arg(long)]
    skip_empty: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(parse_settings()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let filter = log_filter("info").map_err(anyhow::Error::msg)?;
    let log = tracing_subscriber::fmt().json().with_span_list(false).with_env_filter(filter).finish();
    log.with(log_rules()).init();
    let mut terminate = signal(SignalKind::terminate())?;
    let table = Table::connect(&TableConfig::new(args.table, Some(args.dynamodb_url))).await;
    let site = SiteSettings { public_url: Some(args.public_url), ..SiteSettings::default() };
    let settings = ApiSettings { site, ..ApiSettings::default() };
    let application = site::application(args.listen, table, settings, args.skip_empty)?;
    tracing::info!(address = %application.address(), "listening");
    let shutdown = async move {
        tokio::select! {
            Ok(()) = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(application.run_until(shutdown).await?)
}
