//! ApacheBench, the load generator of the articles.

use anyhow::{Context, ensure};
use tokio::process::Command;

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) requests: u32,
    pub(super) clients: u32,
}

/// Requests a page. Returns how many requests were answered in a second.
///
/// # Errors
/// When `ab` cannot run, or a request was not answered by 200.
pub(super) async fn requests_per_s(url: &str, load: Load) -> anyhow::Result<f64> {
    let mut ab = Command::new("ab");
    ab.args(["-q", "-n", &load.requests.to_string(), "-c", &load.clients.to_string(), url]).kill_on_drop(true);
    let output = ab.output().await.context("ab, of the package apache2-utils, cannot run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "ab fails: {}", String::from_utf8_lossy(&output.stderr));
    rate_in(&text, load.requests).with_context(|| format!("ab prints:\n{text}"))
}

/// The rate in what `ab` prints, if every request was answered by 200.
fn rate_in(text: &str, requests: u32) -> anyhow::Result<f64> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        value.with_context(|| format!("no {name}"))
    };
    ensure!(field("Complete requests:")?.parse() == Ok(requests), "incomplete");
    ensure!(field("Failed requests:")? == "0" && !text.contains("Non-2xx responses"), "failed requests");
    Ok(field("Requests per second:")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Concurrency Level:      20\nComplete requests:      1000\nFailed requests:        0\n\
                           Requests per second:    782.96 [#/sec] (mean)\n";

    #[test]
    fn a_rate_counts_only_if_every_request_was_answered_by_200() {
        assert!((rate_in(PRINTED, 1_000).unwrap() - 782.96).abs() < 1e-9);
        for (part, by, requests) in [
            ("Failed requests:        0", "Failed requests:        3", 1_000),
            ("Failed requests:        0\n", "Failed requests:        0\nNon-2xx responses:      2\n", 1_000),
            ("", "", 1_001),
            ("Requests per second:    782.96 [#/sec] (mean)", "", 1_000),
        ] {
            assert!(rate_in(&PRINTED.replace(part, by), requests).is_err(), "{part} {by}");
        }
    }
}
