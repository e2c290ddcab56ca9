//! `api`: the API over HTTP beside the bare SDK.
//!
//! The real binary runs as a child process. Engine, load generator and SDK callers share this process. Connections stay open.
//! Bodies are read to their end but not parsed, because the load generator shares the cores with the code under test. First,
//! the comments of sample pages are compared with the expected ones.
//!
//! 16 callers request random pages of 20, in alternating rounds. The SDK's callers know every page's start key and send the
//! **same Query** with the same settings. They use as many clients as the API has threads. The SDK decodes the answer, and
//! nothing is done with it. Processor time shows where the time is spent, regardless of other load on the machine.

pub(crate) mod callers;

use std::{fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;

use crate::{
    http,
    listing::{Listing, all_and_union, drawn},
    measure::{Effort, Rounds, Spread, as_f64},
    report::{Report, count},
    server::{Home, Server, own_binary, processor_time, resident_bytes},
    stores::{FilledStores, Store},
};
use callers::{HttpCaller, SdkCaller, Show, ask_all, several};

const CALLERS: usize = 16;
const SAMPLES: u32 = 20;
const MIB: f64 = 1_048_576.0;

pub(crate) async fn measure(report: &mut Report, comments: u32, effort: Effort) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let stores = FilledStores::fill(Store::start().await?, drawn(comments)?, all_and_union()?, false).await?;
    let (api, address) = start(&stores).await?;
    let mut subject = Subject { stores, api, address, rng: StdRng::seed_from_u64(7) };
    subject.compare_samples().await?;
    for (name, listing, show, limit) in [
        ("api_json_vs_sdk", 0, Show::Json, "ratio of rates, at least 0.7"),
        ("api_union_vs_sdk", 1, Show::Json, "ratio of rates under three ratings, at least 0.7"),
        ("api_html_vs_sdk", 0, Show::Html, "ratio of rates, at least 0.6"),
    ] {
        report.step(&format!("{} rounds of {name}", effort.rounds));
        let listing = subject.stores.listing(listing)?.clone();
        let ratio = subject.throughput(report, name.trim_end_matches("_vs_sdk"), &listing, show, effort).await?;
        report.noted(name, ratio, "", limit);
    }
    let mib = as_f64(resident_bytes(subject.api.pid())?) / MIB;
    report.add("resident memory of the API after these rounds", mib, "MiB");
    drop(subject.api);
    subject.stores.store.stop().await;
    Ok(())
}

/// Starts the API on the stores and waits until it answers page 2: once all required parts are up.
async fn start(stores: &FilledStores) -> anyhow::Result<(Server, SocketAddr)> {
    let home = Home::new()?;
    let mut command = home.command(&own_binary("api")?);
    command.args(["--listen", "127.0.0.1:0", "--public-url", "https://comments.example.com"]);
    command.args(["--table", stores.store.table.name(), "--dynamodb-url", &stores.store.engine_url()?]);
    command.args(["--redis-url", &stores.redis.url]);
    let (log, path) = (home.log(), stores.listing(0)?.json_path(2));
    let ready = async || {
        let address = logged_address(&log)?;
        let (status, _) = http::get(address, &path).await?;
        ensure!(status.is_success(), "{path} is answered {status}");
        Ok(address)
    };
    home.start(&mut command, "KILL", ready).await
}

/// The listening address in the API's log.
fn logged_address(log: &Path) -> anyhow::Result<SocketAddr> {
    let address = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        line.get("fields")?.get("address")?.as_str()?.parse().ok()
    };
    fs::read_to_string(log)?.lines().find_map(address).context("no address in the log")
}

struct Subject {
    stores: FilledStores,
    api: Server,
    address: SocketAddr,
    rng: StdRng,
}

impl Subject {
    /// Compares the first pages, the last one, and some random ones of every listing.
    async fn compare_samples(&mut self) -> anyhow::Result<()> {
        for listing in self.stores.listings.clone() {
            let pages = [1, 2, listing.pages()].into_iter().chain(self.draw(&listing, SAMPLES));
            let (mut json, mut html) = (self.open(&listing, Show::Json).await?, self.open(&listing, Show::Html).await?);
            for page in pages {
                json.compare(page).await?;
                html.compare(page).await?;
            }
        }
        Ok(())
    }

    fn draw(&mut self, listing: &Listing, count: u32) -> Vec<u64> {
        (0..count).map(|_| self.rng.random_range(1..=listing.pages())).collect()
    }

    async fn open(&self, listing: &Arc<Listing>, show: Show) -> anyhow::Result<HttpCaller> {
        HttpCaller::open(self.address, listing, show).await
    }

    async fn open_all(&self, listing: &Arc<Listing>, show: Show) -> anyhow::Result<Vec<HttpCaller>> {
        let mut callers = Vec::with_capacity(CALLERS);
        for _ in 0..CALLERS {
            callers.push(self.open(listing, show).await?);
        }
        Ok(callers)
    }

    /// Returns the ratio of the API's rate to the SDK's.
    async fn throughput(
        &mut self,
        report: &mut Report,
        name: &str,
        listing: &Arc<Listing>,
        show: Show,
        effort: Effort,
    ) -> anyhow::Result<Spread> {
        // The callers keep their connections between rounds, like the API.
        let table = self.stores.store.table.clone();
        let sdk = several(CALLERS, || SdkCaller { table: table.with_own_connections(), listing: listing.clone() });
        let mut spent: Vec<[Duration; 4]> = Vec::new();
        let rounds = Rounds::run(effort.rounds, async || {
            let (callers, pages) = (self.open_all(listing, show).await?, self.draw(listing, effort.a_turn));
            let before = self.spent()?;
            let ours = ask_all(callers, pages).await?;
            let between = self.spent()?;
            let bare = ask_all(sdk.clone(), self.draw(listing, effort.a_turn)).await?;
            let [api, redis, rest] = difference(between, before);
            let [.., of_sdk] = difference(self.spent()?, between);
            spent.push([api, redis, rest, of_sdk]);
            Ok([ours, bare])
        });
        let rounds = rounds.await?;
        report.add(format!("{name}: API"), rounds.rate(0, effort.a_turn), "requests/s");
        report.add(format!("{name}: bare SDK"), rounds.rate(1, effort.a_turn), "queries/s");
        let parts = ["API", "Redis", "engine and callers", "all of a bare query"];
        for (place, part) in parts.into_iter().enumerate() {
            // The first round warms up.
            let us = spent.iter().skip(1).filter_map(|round| round.get(place));
            let us: Vec<f64> = us.map(|time| time.as_secs_f64() * 1e6 / f64::from(effort.a_turn)).collect();
            report.add(format!("{name}: processor time of a request, {part}"), Spread::of(&us), "us");
        }
        Ok(rounds.ratio(0, 1))
    }

    /// The processor time so far of API, Redis and this process.
    fn spent(&self) -> anyhow::Result<[Duration; 3]> {
        let [api, redis] = [self.api.pid(), self.stores.redis.server.pid()].map(processor_time);
        Ok([api?, redis?, processor_time(std::process::id())?])
    }
}

fn difference<const N: usize>(after: [Duration; N], before: [Duration; N]) -> [Duration; N] {
    let mut difference = after;
    difference.iter_mut().zip(before).for_each(|(after, before)| *after = after.saturating_sub(before));
    difference
}
