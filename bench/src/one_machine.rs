//! `one-machine`: the single-machine edition as a site runs it, one process with its data on disk.
//!
//! The real binary `pagemark` runs as a child process. It generates comments, writes them, and serves pages. The callers
//! share the two cores with it.
//!
//! - **Writes.** From the start on an empty folder until every comment is visible under every filter.
//! - **Pages.** 16 callers request random full pages of the product with the most comments, on open connections.
//! - **Memory and disk.** Of the process and of its folder, after that.
//! - **Start.** From the start of the process until numbered pages are exact, after `kill -9` and after an orderly end.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1::SendRequest, header};
use local_stack::demo::{demo_comments, top_product};
use model::{Filter, ProductId};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::{
    api::{
        callers::{Caller, ask_all},
        resident_bytes,
    },
    binaries, http,
    import::folder_size,
    listing::{Listing, PAGE_SIZE},
    report::{Report, count},
    statistics::as_f64,
};

const CALLERS: usize = 16;
/// Requests of each kind, and those before them that warm up.
const REQUESTS: u32 = 10_000;
const QUICK_REQUESTS: u32 = 1_000;
const WARM_UP: u32 = 500;
/// How long a start may take, with the time that generated comments take to be written.
const READY_WITHIN: Duration = Duration::from_secs(1_800);
const READY_POLL: Duration = Duration::from_millis(2);
/// The last part of what the program prints when it is ready.
const READY: &str = "\n  data ";
/// What begins the line with the address of the pages.
const PAGES: &str = "\n  pages ";
const MIB: f64 = 1_048_576.0;

pub(crate) async fn measure(report: &mut Report, comments: u32, is_quick: bool) -> anyhow::Result<()> {
    let binary = binaries::binary("pagemark")?;
    let folder = TempDir::with_prefix("pagemark-bench-").context("a folder for the data")?;
    let data = folder.path().join("data");
    report.step(&format!("writing {} comments", count(comments)));
    let (pagemark, written) = Pagemark::start(&binary, &data, comments).await?;

    report.step("pages");
    let product = top_product().context("a product")?;
    let of_product = demo_comments(comments.into()).filter(|comment| comment.product == product).count();
    // Under either numbering, these pages are full.
    let full = (of_product / PAGE_SIZE).checked_sub(2).filter(|pages| *pages > 0);
    let full = full.context("too few comments for full pages")? as u64;
    let requests = if is_quick { QUICK_REQUESTS } else { REQUESTS };
    let html = pagemark.pages_per_s(&product, full, requests, Listing::html_path).await?;
    let json = pagemark.pages_per_s(&product, full, requests, Listing::json_path).await?;
    let memory = as_f64(resident_bytes(pagemark.child.id())?);
    let disk = as_f64(folder_size(&data)?);

    report.step("starting again");
    drop(pagemark);
    let (pagemark, after_kill) = Pagemark::start(&binary, &data, 0).await?;
    pagemark.end()?;
    let (pagemark, after_end) = Pagemark::start(&binary, &data, 0).await?;
    drop(pagemark);
    let all = f64::from(comments);
    report.add(
        "one-machine",
        &format!("{} comments; {} pages of a product of {of_product} comments", count(comments), count(requests)),
        &[
            ("written and visible under every filter", all / written.as_secs_f64(), "comments/s"),
            ("pages in HTML", html, "pages/s"),
            ("pages in JSON", json, "pages/s"),
            ("resident memory", memory / MIB, "MiB"),
            ("disk", disk / all / 1e3, "kB/comment"),
            ("start after kill -9", after_kill.as_secs_f64(), "s"),
            ("start after an orderly end", after_end.as_secs_f64(), "s"),
        ],
    );
    Ok(())
}

/// A running `pagemark up`. Dropping it kills it.
struct Pagemark {
    child: Child,
    pages: SocketAddr,
}

impl Pagemark {
    /// Starts it on a data folder, generates comments, and waits until all of them are visible. Returns how long that took.
    async fn start(binary: &Path, data: &Path, comments: u32) -> anyhow::Result<(Self, Duration)> {
        let log: PathBuf = data.with_extension("log");
        let began = Instant::now();
        let child = Command::new(binary)
            .args(["up", "--listen", "127.0.0.1:0", "--dynamodb-listen", "127.0.0.1:0"])
            .args(["--write-token", "bench", "--demo", &comments.to_string(), "--data-dir"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .spawn()
            .with_context(|| binary.display().to_string())?;
        // From here on, every path ends the process.
        let unknown = ([127, 0, 0, 1], 0).into();
        let mut pagemark = Self { child, pages: unknown };
        loop {
            if let Some(status) = pagemark.child.try_wait()? {
                bail!("pagemark up has ended with {status}");
            }
            let printed = fs::read_to_string(&log)?;
            if printed.contains(READY) {
                let (_, after) = printed.split_once(PAGES).context("pagemark up prints the address of its pages")?;
                let url = after.trim_start().split_inclusive('/').take(3).collect::<String>();
                pagemark.pages = http::address_in(&url)?;
                return Ok((pagemark, began.elapsed()));
            }
            ensure!(began.elapsed() < READY_WITHIN, "pagemark up is not ready:\n{printed}");
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// The rate at which random pages from 1 to `pages` are answered.
    async fn pages_per_s(
        &self,
        product: &ProductId,
        pages: u64,
        requests: u32,
        path: fn(&Listing, u64) -> String,
    ) -> anyhow::Result<f64> {
        let mut rng = StdRng::seed_from_u64(9);
        let mut draw = |count: u32| (0..count).map(|_| rng.random_range(1..=pages)).collect::<Vec<_>>();
        ask_all(self.callers(product, path).await?, draw(WARM_UP)).await?;
        let took = ask_all(self.callers(product, path).await?, draw(requests)).await?;
        Ok(f64::from(requests) / took.as_secs_f64())
    }

    async fn callers(&self, product: &ProductId, path: fn(&Listing, u64) -> String) -> anyhow::Result<Vec<PageCaller>> {
        let mut callers = Vec::with_capacity(CALLERS);
        for _ in 0..CALLERS {
            let connection = http::connect(self.pages).await?;
            let listing = Listing::new(product, Filter::ANY);
            callers.push(PageCaller { connection, host: self.pages.to_string(), listing, path });
        }
        Ok(callers)
    }

    /// Ends it as an operator does.
    fn end(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status()?;
        ensure!(asked.success(), "kill: {asked}");
        let ended = self.child.wait()?;
        ensure!(ended.success(), "pagemark up: {ended}");
        Ok(())
    }
}

impl Drop for Pagemark {
    fn drop(&mut self) {
        // An error means that it has already ended.
        if self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}

struct PageCaller {
    connection: SendRequest<Empty<Bytes>>,
    host: String,
    listing: Listing,
    path: fn(&Listing, u64) -> String,
}

impl Caller for PageCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let path = (self.path)(&self.listing, page);
        let request = Request::get(path.as_str()).header(header::HOST, &self.host).body(Empty::new())?;
        self.connection.ready().await?;
        let answer = self.connection.send_request(request).await?;
        ensure!(answer.status() == StatusCode::OK, "{path} was answered {}", answer.status());
        answer.into_body().collect().await?;
        Ok(())
    }
}
