//! The API as a separate process, and resource use of processes.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{dataset::Dataset, http, workload::folder};

/// Maximum time until the API is ready. An engine with a million items takes a second to describe its table. Until then
/// page 2 is not answered.
const READY_WITHIN: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(50);
/// Linux counts processor time in hundredths of a second, on any hardware clock.
const TICK: Duration = Duration::from_millis(10);

/// A running API. Dropping it ends it.
pub(super) struct ApiProcess {
    child: Child,
    address: SocketAddr,
    pub(super) unavailable: Arc<AtomicU64>,
    _folder: TempDir,
}

impl ApiProcess {
    /// Starts it on the dataset's stores, at these addresses, and waits until it answers page 2: once all required
    /// parts are up.
    pub(super) async fn start(
        binary: &Path,
        dataset: &Dataset,
        dynamodb_url: &str,
        redis_url: &str,
    ) -> anyhow::Result<Self> {
        let folder = folder()?;
        // A file takes less of the machine than a pipe that must be read.
        let log = folder.path().join("log");
        let child = Command::new(binary)
            .args(["--listen", "127.0.0.1:0", "--public-url", "https://comments.example.com"])
            .args(["--table", dataset.stores.table.name(), "--dynamodb-url", dynamodb_url, "--redis-url", redis_url])
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .spawn()
            .with_context(|| binary.display().to_string())?;
        // From here on, every path ends the process.
        let unknown = ([127, 0, 0, 1], 0).into();
        let mut api = Self { child, address: unknown, unavailable: Arc::default(), _folder: folder };
        let began = Instant::now();
        while !api.answers(&log, &dataset.all.json_path(2)).await? {
            ensure!(began.elapsed() < READY_WITHIN, "the API is not ready:\n{}", fs::read_to_string(&log)?);
            tokio::time::sleep(READY_POLL).await;
        }
        Ok(api)
    }

    async fn answers(&mut self, log: &Path, path: &str) -> anyhow::Result<bool> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the API has ended with {status}:\n{}", fs::read_to_string(log)?);
        }
        let Some(address) = fs::read_to_string(log)?.lines().find_map(logged_address) else { return Ok(false) };
        self.address = address;
        let (status, _) = http::get(address, path).await?;
        Ok(status.is_success())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ApiProcess {
    fn drop(&mut self) {
        // An error means that it has already ended.
        if self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}

/// The address in a log line with the API's listening address.
fn logged_address(line: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("fields")?.get("address")?.as_str()?.parse().ok()
}

/// The resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("this needs Linux")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
    Ok(kib.context("VmRSS")?.trim().parse::<u64>()? * 1024)
}

/// The processor time of a process, to the hundredth of a second.
pub(super) fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("this needs Linux")?;
    // The second field is the program's name in brackets, which may contain spaces. Fields 14 and 15 are user and
    // system time.
    let (_, fields) = stat.rsplit_once(')').context("a line of /proc")?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    let mut next = || ticks.next().context("a line of /proc")?.context("a number of ticks");
    Ok(TICK * (next()? + next()?))
}
