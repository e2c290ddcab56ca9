//! `one-machine`: the single-machine edition as a site runs it, one process with its data on disk.
//!
//! The real binary `pagemark` runs as a child process. It generates comments, writes them, and
//! serves pages. The callers share the cores with it.
//!
//! - **Writes**: from the start on an empty folder until every comment is visible under every
//!   filter.
//! - **Pages**: 16 callers request random pages of the product with the most comments, on open
//!   connections.
//! - **Memory**: of the process, after that.
//! - **Start**: from the start of the process until numbered pages are exact.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, header};
use local_stack::demo::demo_comments;
use model::{Filter, ProductId};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    http,
    listing::{ExpectedListing, PAGE_SIZE},
    measure::{Spread, as_f64, timed},
    report::{BenchReport, count},
    server::{Home, LOG, ServerProcess, own_binary, resident_bytes},
};

const CALLERS: usize = 16;
const TOKEN: &str = "the-token-of-bench";
const STARTS: u32 = 3;
/// How a process ends: at once, or as an operator ends it.
const KILL: &str = "KILL";
const TERM: &str = "TERM";
/// The lines of a stack that is ready: the address of its pages, and the last one.
const PAGES: &str = "\n  pages ";
const READY: &str = "\n  data ";
const MIB: f64 = 1_048_576.0;

/// Measures with so many comments, and so many requests of pages.
pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    requests: u32,
) -> anyhow::Result<()> {
    let program = own_binary("pagemark")?;
    // On the disk of the program, not in memory.
    let folder = TempDir::with_prefix_in(
        "pagemark-bench-",
        program.parent().context("a program has a folder")?,
    )?;
    let data = folder.path().join("data");
    report.step(&format!("writing {} comments", count(comments)));
    let pagemark = Pagemark::start(&program, &data, comments, KILL).await?;
    let rate = f64::from(comments) / pagemark.took.as_secs_f64();
    report.add("comments a second, written and visible", rate, "comments/s");

    report.step("reading pages");
    let (product, of_product) = largest_product(comments)?;
    let listing = ExpectedListing::new(&product, Filter::ANY);
    let first = listing.html_path(1);
    // The front page has the comments that fill no archive page yet.
    let archived = (of_product / PAGE_SIZE as u64).saturating_sub(1);
    ensure!(archived > 0, "too few comments for pages with a number");
    let mut rng = StdRng::seed_from_u64(9);
    for (name, prefix) in [
        ("pages a second, in HTML", format!("{first}?page=")),
        (
            "pages a second, in JSON",
            format!("/api/v1{first}?page=").replace("/product/", "/products/"),
        ),
    ] {
        let paths: Arc<[String]> = (0..requests)
            .map(|_| format!("{prefix}{}", rng.random_range(1..=archived)))
            .collect();
        ask_all(pagemark.address, &paths).await?;
        let ((), took) = timed(ask_all(pagemark.address, &paths)).await?;
        report.add(name, f64::from(requests) / took.as_secs_f64(), "pages/s");
    }
    let memory = as_f64(resident_bytes(pagemark.server.pid())?) / MIB;
    report.add("resident memory, MiB", memory, "MiB");
    drop(pagemark);

    report.step("starting again");
    for (name, signal) in [
        ("start after kill -9", KILL),
        ("start after an orderly end", TERM),
    ] {
        // It ends by this signal.
        drop(Pagemark::start(&program, &data, 0, signal).await?);
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            let pagemark = Pagemark::start(&program, &data, 0, signal).await?;
            starts.push(pagemark.took.as_secs_f64() * 1e6);
        }
        report.add(name, Spread::of(&starts), "us");
    }
    Ok(())
}

/// The product with the most generated comments, and how many it has.
fn largest_product(comments: u32) -> anyhow::Result<(ProductId, u64)> {
    let mut counts = BTreeMap::new();
    for comment in demo_comments(comments.into(), process::now()) {
        *counts.entry(comment.product).or_insert(0) += 1;
    }
    let largest = counts.into_iter().max_by_key(|(_, count)| *count);
    largest.context("a product")
}

/// Lets callers request all paths, each the next one as soon as it has an answer.
async fn ask_all(address: SocketAddr, paths: &Arc<[String]>) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let paths = Arc::clone(paths);
        let next = Arc::clone(&next);
        callers.spawn(async move {
            let mut connection = http::connect(address).await?;
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = Request::get(path)
                    .header(header::HOST, address.to_string())
                    .body(Empty::<Bytes>::new())?;
                connection.ready().await?;
                let answer = connection.send_request(request).await?;
                let status = answer.status();
                ensure!(status == StatusCode::OK, "{path} is answered {status}");
                answer.into_body().collect().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(())
}

/// A running `pagemark up`. Dropping it ends it by its signal.
struct Pagemark {
    server: ServerProcess,
    address: SocketAddr,
    /// From the start of the process until it was ready.
    took: Duration,
}

impl Pagemark {
    /// Starts it on a data folder, generates comments, and waits until all of them are visible.
    async fn start(
        program: &Path,
        data: &Path,
        comments: u32,
        signal: &str,
    ) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let log = home.path(LOG);
        let mut command = Command::new(program);
        command
            .args(["up", "--listen", "127.0.0.1:0", "--write-token", TOKEN])
            .args(["--demo", &comments.to_string(), "--data-dir"])
            .arg(data);
        let began = Instant::now();
        let started = home.start(&mut command, signal, async || ready(&log));
        let (server, address) = started.await?;
        Ok(Self {
            server,
            address,
            took: began.elapsed(),
        })
    }
}

/// The address of the pages, if the log says that the stack is ready.
fn ready(log: &Path) -> anyhow::Result<SocketAddr> {
    let printed = fs::read_to_string(log)?;
    ensure!(printed.contains(READY), "not ready");
    let (_, after) = printed
        .split_once(PAGES)
        .context("the address of the pages")?;
    let url = after.trim_start().lines().next().unwrap_or_default();
    http::address_in(url)
}
