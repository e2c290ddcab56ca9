//! `api`: the API over HTTP beside the bare SDK.
//!
//! The real binary runs as a child process, with the page index in Redis. With the index inside the
//! process, as on one machine, the service runs in this process. Engine, load generator and SDK
//! callers are there too. Connections stay open. Bodies are read to their end but not parsed,
//! because the load generator shares the cores with the code under test. First, the comments of
//! sample pages are compared with the expected ones.
//!
//! 16 callers request random pages of 20, in alternating rounds. The SDK's callers know every
//! page's start key and send the **same Query** with the same settings. They use as many clients as
//! the API has threads. The SDK decodes the answer, and nothing is done with it.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use api::{ApiSettings, Application};
use embedded_index::EmbeddedIndex;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1::SendRequest, header};
use page_index::PageIndex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use table::Table;
use tokio::{sync::oneshot, task::JoinSet};

use super::index::{MAX_AGE, PARTITIONS};
use crate::{
    http,
    listing::{ExpectedListing, PAGE_SIZE, all_and_union, drawn},
    measure::{Effort, Rounds, Spread, timed},
    report::{BenchReport, count},
    server::{Home, LOG, ServerProcess, own_binary, processor_time},
    stores::{FilledStores, TableStore, bare_query},
};

const CALLERS: usize = 16;
/// SDK callers that share connections. They then use as many clients as the API has threads on two
/// cores.
const CALLERS_A_CLIENT: usize = 8;
const SAMPLES: u32 = 20;

type PathOf = fn(&ExpectedListing, u64) -> String;

/// The pages of one kind.
struct PageKind {
    name: &'static str,
    /// Which of the stores' listings it is.
    listing: usize,
    path: PathOf,
    /// Whether the answers are compressed, as a browser wants them. The SDK's are not.
    takes_gzip: bool,
    /// The limits of the ratio: with Redis, and with the index in the process.
    limits: Option<[&'static str; 2]>,
}

const PAGES: [PageKind; 5] = [
    PageKind {
        name: "api_json_vs_sdk",
        listing: 0,
        path: ExpectedListing::json_path,
        takes_gzip: false,
        limits: Some(["0.68", "0.95"]),
    },
    PageKind {
        name: "api_union_vs_sdk",
        listing: 1,
        path: ExpectedListing::json_path,
        takes_gzip: false,
        limits: Some(["0.6", "0.95"]),
    },
    PageKind {
        name: "api_html_vs_sdk",
        listing: 0,
        path: ExpectedListing::html_path,
        takes_gzip: false,
        limits: Some(["0.52", "0.64"]),
    },
    PageKind {
        name: "api_json_gzip_vs_sdk",
        listing: 0,
        path: ExpectedListing::json_path,
        takes_gzip: true,
        limits: None,
    },
    PageKind {
        name: "api_html_gzip_vs_sdk",
        listing: 0,
        path: ExpectedListing::html_path,
        takes_gzip: true,
        limits: None,
    },
];

struct MeasuredServer {
    /// For names of figures.
    name: &'static str,
    address: SocketAddr,
    /// The program, in a separate process whose processor time is measured.
    pid: Option<u32>,
}

pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    effort: Effort,
) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let stores = FilledStores::fill(
        TableStore::start().await?,
        drawn(comments)?,
        all_and_union()?,
        false,
    )
    .await?;
    let (api, address) = start(&stores).await?;
    let (in_process, _ended) = serve(&stores, comments).await?;
    let servers = [
        MeasuredServer {
            name: "",
            address,
            pid: Some(api.pid()),
        },
        MeasuredServer {
            name: ", index in the process",
            address: in_process,
            pid: None,
        },
    ];
    let mut subject = Subject {
        stores,
        rng: StdRng::seed_from_u64(7),
    };
    for kind in PAGES {
        for (place, server) in servers.iter().enumerate() {
            let name = format!("{}{}", kind.name, server.name);
            report.step(&format!("{} rounds of {name}", effort.rounds));
            let ratio = subject
                .throughput(report, &name, server, &kind, effort)
                .await?;
            let limit = kind.limits.and_then(|limits| limits.get(place).copied());
            let note = match limit {
                Some(limit) => format!("ratio of rates, at least {limit}"),
                None => "ratio of rates".to_owned(),
            };
            report.noted(name, ratio, "", &note);
        }
    }
    drop(api);
    subject.stores.store.stop().await;
    Ok(())
}

/// Serves in this process, with an index of the same comments in it, until the sender is dropped.
async fn serve(
    stores: &FilledStores,
    comments: u32,
) -> anyhow::Result<(SocketAddr, oneshot::Sender<()>)> {
    let index = PageIndex::new(EmbeddedIndex::new(PARTITIONS), MAX_AGE);
    stores.fill_index(&index, drawn(comments)?).await?;
    let table = stores.store.table.with_own_connections();
    let settings = ApiSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        ..ApiSettings::default()
    };
    let application = Application::with_stores(table, index, settings)?;
    let address = application.address();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(application.run_until(async { drop(stopped.await) }));
    Ok((address, stop))
}

/// Starts the API on the stores and waits until it answers page 2: once all required parts are up.
async fn start(stores: &FilledStores) -> anyhow::Result<(ServerProcess, SocketAddr)> {
    let home = Home::new()?;
    let mut command = Command::new(own_binary("api")?);
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--public-url",
        "https://comments.example.com",
    ]);
    command.args([
        "--table",
        stores.store.table.name(),
        "--dynamodb-url",
        &stores.store.engine_url()?,
    ]);
    command.args(["--redis-url", &stores.redis.url]);
    let log = home.path(LOG);
    let path = stores.listing(0)?.json_path(2);
    home.start(&mut command, "KILL", async || answering(&log, &path).await)
        .await
}

/// The address in the log, if the API answers there.
async fn answering(log: &Path, path: &str) -> anyhow::Result<SocketAddr> {
    let log = fs::read_to_string(log)?;
    let address = log
        .lines()
        .find_map(logged_address)
        .context("no address in the log")?;
    let (status, _) = http::get(address, path).await?;
    ensure!(status.is_success(), "{path} is answered {status}");
    Ok(address)
}

fn logged_address(line: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("fields")?.get("address")?.as_str()?.parse().ok()
}

struct Subject {
    stores: FilledStores,
    rng: StdRng,
}

impl Subject {
    async fn throughput(
        &mut self,
        report: &mut BenchReport,
        name: &str,
        &MeasuredServer { address, pid, .. }: &MeasuredServer,
        &PageKind {
            listing,
            path,
            takes_gzip,
            ..
        }: &PageKind,
        effort: Effort,
    ) -> anyhow::Result<Spread> {
        let listing = &self.stores.listing(listing)?.clone();
        // The callers keep their connections between rounds.
        let mut api = Vec::new();
        for _ in 0..CALLERS {
            let channel = Channel::Http {
                connection: http::connect(address).await?,
                api: address,
                path,
                takes_gzip: false,
            };
            api.push(LoadClient {
                listing: listing.clone(),
                channel,
            });
        }
        let mut sdk = Vec::new();
        for _ in 0..CALLERS / CALLERS_A_CLIENT {
            let table = self.stores.store.table.with_own_connections();
            for _ in 0..CALLERS_A_CLIENT {
                sdk.push(LoadClient {
                    listing: listing.clone(),
                    channel: Channel::Sdk(table.clone()),
                });
            }
        }
        let sample = api.first_mut().context("a caller")?;
        let certain = [1, 2, listing.pages()];
        for page in certain.into_iter().chain(self.draw(listing, SAMPLES)) {
            sample.compare(page).await?;
        }
        for caller in &mut api {
            if let Channel::Http {
                takes_gzip: asks, ..
            } = &mut caller.channel
            {
                *asks = takes_gzip;
            }
        }
        let mut spent_us = Vec::new();
        let rounds = Rounds::run(effort.rounds, async || {
            let before = pid.map(processor_time).transpose()?;
            let ours = ask_all(&mut api, self.draw(listing, effort.a_turn)).await?;
            if let (Some(pid), Some(before)) = (pid, before) {
                let spent = processor_time(pid)?.saturating_sub(before);
                spent_us.push(spent.as_secs_f64() * 1e6 / f64::from(effort.a_turn));
            }
            Ok([
                ours,
                ask_all(&mut sdk, self.draw(listing, effort.a_turn)).await?,
            ])
        });
        let rounds = rounds.await?;
        report.add(
            format!("{name}: API"),
            rounds.rate(0, effort.a_turn),
            "requests/s",
        );
        report.add(
            format!("{name}: bare SDK"),
            rounds.rate(1, effort.a_turn),
            "queries/s",
        );
        // The first round warms up.
        if let Some(spent_us) = spent_us.get(1..) {
            report.add(
                format!("{name}: processor time of the API for a request"),
                Spread::of(spent_us),
                "us",
            );
        }
        Ok(rounds.ratio(0, 1))
    }

    fn draw(&mut self, listing: &ExpectedListing, count: u32) -> Vec<u64> {
        (0..count)
            .map(|_| self.rng.random_range(1..=listing.pages()))
            .collect()
    }
}

/// Lets the callers request all pages, each caller the next page as soon as it has an answer.
/// Returns the duration.
async fn ask_all(callers: &mut Vec<LoadClient>, pages: Vec<u64>) -> anyhow::Result<Duration> {
    let pages = Arc::new(pages);
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let asked = async {
        for mut caller in callers.drain(..) {
            let pages = pages.clone();
            let next = next.clone();
            tasks.spawn(async move {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    caller.ask(*page).await?;
                }
                anyhow::Ok(caller)
            });
        }
        while let Some(done) = tasks.join_next().await {
            callers.push(done??);
        }
        Ok(())
    };
    Ok(timed(asked).await?.1)
}

struct LoadClient {
    listing: Arc<ExpectedListing>,
    channel: Channel,
}

enum Channel {
    Http {
        connection: SendRequest<Empty<Bytes>>,
        api: SocketAddr,
        path: PathOf,
        takes_gzip: bool,
    },
    /// Knows all start keys and queries the table itself.
    Sdk(Table),
}

impl LoadClient {
    /// Requests a page, counted from 1. Returns the body of an answer by HTTP.
    async fn ask(&mut self, page: u64) -> anyhow::Result<Bytes> {
        let (connection, api, path, takes_gzip) = match &mut self.channel {
            Channel::Http {
                connection,
                api,
                path,
                takes_gzip,
            } => (connection, api, path(&self.listing, page), *takes_gzip),
            Channel::Sdk(table) => {
                let answer = bare_query(table, &self.listing.key, self.listing.before(page))?
                    .send()
                    .await?;
                ensure!(answer.items().len() == PAGE_SIZE, "page {page} is not full");
                return Ok(Bytes::new());
            }
        };
        let request = Request::get(path.as_str())
            .header(header::HOST, api.to_string())
            .header(
                header::ACCEPT_ENCODING,
                if takes_gzip { "gzip" } else { "identity" },
            )
            .body(Empty::new())?;
        connection.ready().await?;
        let answer = connection.send_request(request).await?;
        ensure!(
            answer.status() == StatusCode::OK,
            "{path} was answered {}",
            answer.status()
        );
        Ok(answer.into_body().collect().await?.to_bytes())
    }

    async fn compare(&mut self, page: u64) -> anyhow::Result<()> {
        let body = self.ask(page).await?;
        if let Ok(json) = serde_json::from_slice::<Value>(&body) {
            let comments = json
                .get("comments")
                .and_then(Value::as_array)
                .context("a page has comments")?;
            return self.listing.expect_page(
                page,
                comments
                    .iter()
                    .filter_map(|comment| comment.get("id")?.as_str()),
            );
        }
        let ids = std::str::from_utf8(&body)?.split("id=\"comment-").skip(1);
        self.listing
            .expect_page(page, ids.filter_map(|after| after.split('"').next()))
    }
}
