//! `api`: compares the API over HTTP with the bare SDK, and the last page with page 2; measures the API's memory.
//!
//! The real binary runs as a child process. Engine, load generator and SDK callers share this process, and Redis is
//! another child. Connections stay open. Bodies are read to their end but not parsed, because the load generator shares
//! the cores with the code under test. Before the measurement, sample pages are compared: the comments in the JSON, in
//! the HTML, in the bare query, and the expected ones.
//!
//! - **Throughput.** 16 callers request random pages of 20, in alternating rounds: the API, the SDK, the SDK with the API's
//!   reader of comments. The SDK's callers know every page's start key and send the **same Query** with the same settings. They use as many
//!   clients, each with separate connections, as the API has threads. The SDK decodes the answer, and nothing is done
//!   with it. The API's time includes all its further work (HTTP, finding the start key in Redis, reading comments from
//!   items, links, cursors, JSON or HTML). Every half of a round draws new pages.
//! - **Processor time** shows where the time is spent, regardless of other load on the machine. The report gives it
//!   for the API, for Redis, and for the rest, which is engine and callers together.
//! - **Last page.** One connection requests the last page and page 2 in turn, in blocks. The last page is full.
//! - **Memory.** Resident memory of the API's process after a warm-up, in the middle of 50,000 requests, and after
//!   them.
//! - **A stalled store.** Duration of the longest requests while a store accepts requests but answers nothing.
//!
//! The engine's import loads only the items of the filter keys that are queried, and leaves no stream records. The page
//! index is filled and marked ready like in a rebuild.

pub(crate) mod callers;
mod process;
mod stalled;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::Context;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    binaries,
    dataset::Dataset,
    listing::Listing,
    options::Effort,
    report::{Figure, Limit, Report, count as number},
    statistics::{Latencies, Rounds, as_f64, median, timed},
};
use callers::{Caller, HttpCaller, ReaderCaller, SdkCaller, Show, ask_all, compare};
pub(crate) use process::resident_bytes;
use process::{ApiProcess, processor_time};

const CALLERS: usize = 16;
/// A half of a round takes half a second.
const FULL: Effort = Effort { rounds: 5, a_half: 2_000 };
/// More rounds, because each is short.
const QUICK: Effort = Effort { rounds: 9, a_half: 500 };
/// Size of the product in a check.
const QUICK_COMMENTS: u32 = 10_000;
/// Blocks of requests for the last page and page 2 in turn. The figures are the medians over the blocks.
const BLOCKS: usize = 5;
/// Requests for each of the two pages per block, so that 10 of them lie beyond the 99th percentile.
const A_BLOCK: usize = 1_000;
/// Number of requests before the memory is watched, then while it is watched.
const MEMORY_WARM_UP: u32 = 10_000;
const MEMORY_REQUESTS: u32 = 50_000;
/// Size of the product for throughput and memory.
const THROUGHPUT_COMMENTS: u32 = 100_000;
/// Sizes of the products whose last page is measured.
const SIZES: [u32; 3] = [10_000, THROUGHPUT_COMMENTS, 1_000_000];
const SAMPLES: u32 = 20;
const MIB: f64 = 1_048_576.0;

/// Measures with up to `comments_max` comments. Without `binary`, cargo builds the API.
pub(crate) async fn measure(
    report: &mut Report,
    comments_max: u32,
    binary: Option<&Path>,
    is_quick: bool,
) -> anyhow::Result<()> {
    let binary = given_or_built(binary)?;
    let effort = if is_quick { QUICK } else { FULL };
    let mut ratios = Vec::new();
    let smaller = SIZES.into_iter().filter(|comments| *comments < comments_max);
    for comments in smaller.chain([comments_max]) {
        let is_main = comments == THROUGHPUT_COMMENTS.min(comments_max);
        let mut subject = Subject::reported(report, &binary, comments, is_main).await?;
        if is_main {
            if !is_quick {
                subject.memory(report).await?;
                subject.stalled_stores(report, &binary).await?;
            }
            for kind in subject.kinds()?.into_iter().chain(subject.stable_kind()) {
                subject.throughput(report, &kind, effort).await?;
            }
        }
        ratios.push(subject.last_page(report).await?);
        subject.stop().await;
    }
    let (p50s, p99s): (Vec<f64>, Vec<f64>) = ratios.into_iter().unzip();
    let worst = |ratios: Vec<f64>| ratios.into_iter().fold(0.0, f64::max);
    report.ratio_noted("last_page_vs_page_2_p50", worst(p50s), Limit::AtMost(1.15), "at each size");
    report.ratio_noted("last_page_vs_page_2_p99", worst(p99s), Limit::AtMost(1.5), "at each size");
    Ok(())
}

pub(crate) async fn overheads(binary: Option<&Path>) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let binary = given_or_built(binary)?;
    let mut subject = Subject::start(&binary, QUICK_COMMENTS, true).await?;
    let mut ratios = Vec::new();
    for kind in subject.kinds()? {
        ratios.push((kind.ratio, subject.rounds(&kind, QUICK).await?.rounds.ratio()));
    }
    subject.stop().await;
    Ok(ratios)
}

/// The API's binary.
fn given_or_built(binary: Option<&Path>) -> anyhow::Result<PathBuf> {
    binary.map_or_else(|| binaries::binary("api"), |binary| Ok(binary.to_owned()))
}

struct Subject {
    comments: u32,
    dataset: Dataset,
    api: ApiProcess,
    rng: StdRng,
}

/// A kind of request.
struct Kind {
    ratio: &'static str,
    limit: Limit,
    listing: Arc<Listing>,
    show: Show,
}

/// Durations of the rounds of one kind, and the processor time of each.
struct Throughput {
    rounds: Rounds,
    /// The API beside an SDK with the API's reader.
    against_reader: Rounds,
    of_api: Vec<Spent>,
    of_sdk: Vec<Spent>,
}

impl Subject {
    /// Fills the stores, starts the API, and compares sample pages.
    async fn start(binary: &Path, comments: u32, with_union: bool) -> anyhow::Result<Self> {
        let dataset = Dataset::fill(comments, with_union).await?;
        let (engine_url, redis_url) = (dataset.stores.engine.endpoint_url(), dataset.stores.redis.url());
        let api = ApiProcess::start(binary, &dataset, &engine_url, &redis_url).await?;
        let mut subject = Self { comments, dataset, api, rng: StdRng::seed_from_u64(7) };
        subject.compare_samples().await?;
        Ok(subject)
    }

    async fn reported(report: &mut Report, binary: &Path, comments: u32, with_union: bool) -> anyhow::Result<Self> {
        let text = number(comments);
        report.step(&format!("loading {text} comments"));
        let (subject, took) = timed(Self::start(binary, comments, with_union)).await?;
        report.add(
            &format!("api: {text} comments loaded"),
            "sample pages are the same by API, SDK and listing",
            &[
                ("items", as_f64(subject.dataset.stores.items as u64), ""),
                ("until loaded and compared", took.as_secs_f64(), "s"),
            ],
        );
        Ok(subject)
    }

    /// Compares the first pages, the last one, and some random ones of every listing.
    async fn compare_samples(&mut self) -> anyhow::Result<()> {
        for listing in self.dataset.listings() {
            let mut pages = vec![1, 2, listing.pages()];
            pages.extend(self.draw(&listing, SAMPLES));
            let sdk = SdkCaller::several(&self.dataset.stores, &listing, 1).pop().context("a caller")?;
            let stable = listing.is_even().then_some(Show::Stable);
            for show in [Show::Json, Show::Html].into_iter().chain(stable) {
                let mut http = HttpCaller::open(&self.api, &listing, show).await?;
                for page in &pages {
                    compare(&mut http, &sdk, &listing, *page).await?;
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self, listing: &Listing, count: u32) -> Vec<u64> {
        (0..count).map(|_| self.rng.random_range(1..=listing.pages())).collect()
    }

    async fn open(&self, listing: &Arc<Listing>, show: Show) -> anyhow::Result<Vec<HttpCaller>> {
        let mut callers = Vec::with_capacity(CALLERS);
        for _ in 0..CALLERS {
            callers.push(HttpCaller::open(&self.api, listing, show).await?);
        }
        Ok(callers)
    }

    /// Sends requests of every kind, one part after another.
    async fn memory(&mut self, report: &mut Report) -> anyhow::Result<()> {
        report.step(&format!("{} requests for the memory", number(MEMORY_REQUESTS)));
        let kinds = self.kinds()?;
        let mut resident = Vec::new();
        let began = Instant::now();
        for requests in [MEMORY_WARM_UP, MEMORY_REQUESTS / 2, MEMORY_REQUESTS / 2] {
            for Kind { listing, show, .. } in &kinds {
                let pages = self.draw(listing, requests.div_ceil(u32::try_from(kinds.len())?));
                ask_all(self.open(listing, *show).await?, pages).await?;
            }
            resident.push(as_f64(resident_bytes(self.api.pid())?) / MIB);
        }
        let names = ["after the warm-up", "in the middle", "at the end"];
        let mut figures: Vec<Figure> =
            names.into_iter().zip(&resident).map(|(name, mib)| (name, *mib, "MiB")).collect();
        figures.push(("it all took", began.elapsed().as_secs_f64(), "s"));
        figures.push(("answers 503, asked again", self.unavailable(), ""));
        let about = format!("resident memory of the API over {MEMORY_REQUESTS} requests, {MEMORY_WARM_UP} before them");
        report.add("api: memory", &about, &figures);
        if let [after_warm_up, .., at_the_end] = resident[..] {
            report.ratio("api_memory_growth", at_the_end / after_warm_up, Limit::AtMost(1.1));
        }
        Ok(())
    }

    /// Measures the delay that a stalled store causes for callers.
    async fn stalled_stores(&self, report: &mut Report, binary: &Path) -> anyhow::Result<()> {
        report.step("requests while a store is stalled");
        let longest = stalled::measure(binary, &self.dataset).await?;
        let figures = longest.map(|(what, longest)| (what, longest.as_secs_f64(), "s"));
        let about = format!("{CALLERS} callers; page 1 is 200 without the page index, all else 503");
        report.add("api: a stalled store", &about, &figures);
        let worst = figures.iter().map(|(_, longest_s, _)| *longest_s).fold(0.0, f64::max);
        let share = worst / api::REQUEST_TIMEOUT.as_secs_f64();
        report.ratio("stalled_store_vs_time_out", share, Limit::AtMost(1.0));
        Ok(())
    }

    /// Number of 503 answers of the API since the last call.
    fn unavailable(&self) -> f64 {
        as_f64(self.api.unavailable.swap(0, Ordering::Relaxed))
    }

    /// Pages counted from the oldest comment. Their numbers fit the listing only if all pages are full.
    fn stable_kind(&self) -> Option<Kind> {
        let listing = self.dataset.all.clone();
        let ratio = "api_stable_json_vs_sdk";
        listing.is_even().then_some(Kind { ratio, limit: Limit::None, listing, show: Show::Stable })
    }

    fn kinds(&self) -> anyhow::Result<[Kind; 4]> {
        let (all, union) = (&self.dataset.all, self.dataset.union()?);
        let kind = |ratio, listing: &Arc<Listing>, show, limit| Kind { ratio, limit, listing: listing.clone(), show };
        Ok([
            kind("api_json_vs_sdk", all, Show::Json, Limit::AtLeast(0.7)),
            kind("api_union_vs_sdk", union, Show::Json, Limit::AtLeast(0.7)),
            kind("api_html_vs_sdk", all, Show::Html, Limit::AtLeast(0.6)),
            kind("api_packed_html_vs_sdk", all, Show::Packed, Limit::None),
        ])
    }

    async fn rounds(&mut self, kind: &Kind, effort: Effort) -> anyhow::Result<Throughput> {
        let Kind { listing, show, .. } = kind;
        // Their connections stay open between rounds, like the API's.
        let bare_callers = SdkCaller::several(&self.dataset.stores, listing, CALLERS);
        let readers: Vec<_> = bare_callers.iter().cloned().map(ReaderCaller).collect();
        let (mut spent, mut times) = (Vec::new(), Vec::new());
        let rounds = Rounds::run(effort.rounds, async || {
            let callers = self.open(listing, *show).await?;
            let pages = self.draw(listing, effort.a_half);
            let (ours, spent_by_api) = self.timed(callers, pages).await?;
            let pages = self.draw(listing, effort.a_half);
            let (bare, spent_by_sdk) = self.timed(bare_callers.clone(), pages).await?;
            let pages = self.draw(listing, effort.a_half);
            let (read, _) = self.timed(readers.clone(), pages).await?;
            spent.push((spent_by_api, spent_by_sdk));
            times.push((ours, read));
            Ok((ours, bare))
        });
        let rounds = rounds.await?;
        // The first round warms up.
        let (of_api, of_sdk): (Vec<Spent>, Vec<Spent>) = spent.into_iter().skip(1).unzip();
        let mut against_reader = Rounds::default();
        times.into_iter().skip(1).for_each(|(ours, read)| against_reader.add(ours, read));
        Ok(Throughput { rounds, against_reader, of_api, of_sdk })
    }

    async fn throughput(&mut self, report: &mut Report, kind: &Kind, effort: Effort) -> anyhow::Result<()> {
        let name = kind.ratio.trim_end_matches("_vs_sdk");
        report.step(&format!("{} rounds of {name}", effort.rounds));
        self.unavailable();
        let Throughput { rounds, against_reader, of_api, of_sdk } = self.rounds(kind, effort).await?;
        let count = u64::from(effort.a_half);
        let (lowest, highest) = rounds.ratio_range();
        let unavailable = self.unavailable();
        let us = |spent: &[Spent], of: fn(&Spent) -> Duration| {
            spent.iter().map(of).sum::<Duration>().as_secs_f64() * 1e6 / as_f64(count * u64::from(effort.rounds))
        };
        report.add(
            &format!("api: {name}"),
            &format!(
                "{} rounds of {} pages of {} each way, {CALLERS} callers, {} comments",
                effort.rounds,
                number(count),
                kind.listing.key.filter,
                number(self.comments)
            ),
            &[
                ("API", rounds.our_rate(count), "requests/s"),
                ("bare SDK", rounds.bare_rate(count), "queries/s"),
                ("SDK with the API's reader", against_reader.bare_rate(count), "queries/s"),
                ("ratio, lowest of the rounds", lowest, ""),
                ("ratio, highest of the rounds", highest, ""),
                ("answers 503, asked again", unavailable, ""),
                ("processor time of a request: API", us(&of_api, |spent| spent.api), "us"),
                ("processor time of a request: Redis", us(&of_api, |spent| spent.redis), "us"),
                ("processor time of a request: the rest", us(&of_api, |spent| spent.rest), "us"),
                ("processor time of a bare query", us(&of_sdk, |spent| spent.rest), "us"),
            ],
        );
        report.ratio(kind.ratio, rounds.ratio(), kind.limit);
        report.ratio(&format!("{name}_vs_reader"), against_reader.ratio(), Limit::None);
        Ok(())
    }

    async fn timed<C: Caller>(&self, callers: Vec<C>, pages: Vec<u64>) -> anyhow::Result<(Duration, Spent)> {
        let before = self.spent()?;
        let took = ask_all(callers, pages).await?;
        let after = self.spent()?;
        let spent =
            Spent { api: after.api - before.api, redis: after.redis - before.redis, rest: after.rest - before.rest };
        Ok((took, spent))
    }

    fn spent(&self) -> anyhow::Result<Spent> {
        Ok(Spent {
            api: processor_time(self.api.pid())?,
            redis: processor_time(self.dataset.stores.redis.pid()?)?,
            rest: processor_time(std::process::id())?,
        })
    }

    /// Returns the last page's latency as a multiple of page 2's: p50 and p99.
    async fn last_page(&mut self, report: &mut Report) -> anyhow::Result<(f64, f64)> {
        report.step(&format!("last page and page 2 of {} comments", number(self.comments)));
        let listing = self.dataset.all.clone();
        let mut http = HttpCaller::open(&self.api, &listing, Show::Json).await?;
        let mut blocks = Vec::new();
        for _ in 0..=BLOCKS {
            let mut times = [Latencies::new()?, Latencies::new()?];
            for _ in 0..A_BLOCK {
                for (times, page) in times.iter_mut().zip([2, listing.pages()]) {
                    times.record(timed(http.ask(page)).await?.1);
                }
            }
            blocks.push(times);
        }
        // The first block warms up.
        let of_blocks =
            |figure: fn(&[Latencies; 2]) -> f64| median(&blocks.iter().skip(1).map(figure).collect::<Vec<_>>());
        let p50 = of_blocks(|[page_2, last]| last.p50_us() / page_2.p50_us());
        let p99 = of_blocks(|[page_2, last]| last.p99_us() / page_2.p99_us());
        let unavailable = self.unavailable();
        report.add(
            &format!("api: last page of {}", number(self.comments)),
            &format!("page {} and page 2, {BLOCKS} blocks of {A_BLOCK} requests each in turn", listing.pages()),
            &[
                ("page 2, p50", of_blocks(|[page_2, _]| page_2.p50_us()), "us"),
                ("last page, p50", of_blocks(|[_, last]| last.p50_us()), "us"),
                ("page 2, p99", of_blocks(|[page_2, _]| page_2.p99_us()), "us"),
                ("last page, p99", of_blocks(|[_, last]| last.p99_us()), "us"),
                ("last page by page 2, p50", p50, ""),
                ("last page by page 2, p99", p99, ""),
                ("answers 503, asked again", unavailable, ""),
            ],
        );
        Ok((p50, p99))
    }

    async fn stop(self) {
        drop(self.api);
        self.dataset.stores.stop().await;
    }
}

struct Spent {
    api: Duration,
    redis: Duration,
    /// Engine and callers.
    rest: Duration,
}
