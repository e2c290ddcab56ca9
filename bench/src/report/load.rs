//! Waits for a quiet machine. Nothing else may run beside a measurement.

use std::{fs, time::Duration};

use tokio::time::{Instant, sleep};

use super::machine::load_average;

/// Highest load at which a measurement may begin if its results are to be published.
pub(crate) const LOAD_MAX: f64 = 0.5;
const WAITED_MAX: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(2);
/// The fields of `/proc/stat` that add up to all time. Time of guests is contained in them.
const FIELDS: usize = 8;

/// The load before a measurement. Waits at most five minutes until it is low.
///
/// Before the first measurement of a program it is the load average of the last minute. Later that average still
/// contains the previous measurement's own work, and waiting for it would double the duration of a run. So it is the
/// number of cores that are busy for two seconds while this program does nothing.
pub(crate) async fn quiet(is_first: bool) -> Option<f64> {
    let began = Instant::now();
    loop {
        let load = if is_first { load_average() } else { busy_cores().await };
        if load.is_none_or(|load| load <= LOAD_MAX) || began.elapsed() > WAITED_MAX {
            return load;
        }
        eprintln!("waiting for a quiet machine: its load is {:.2}", load.unwrap_or_default());
        sleep(PAUSE).await;
    }
}

async fn busy_cores() -> Option<f64> {
    let cores = f64::from(u32::try_from(std::thread::available_parallelism().ok()?.get()).ok()?);
    let before = fs::read_to_string("/proc/stat").ok()?;
    sleep(PAUSE).await;
    Some(cores * busy_share(&before, &fs::read_to_string("/proc/stat").ok()?)?)
}

/// The share of all cores' time between two readings of `/proc/stat` in which they were neither idle nor waiting for a
/// disk.
fn busy_share(before: &str, after: &str) -> Option<f64> {
    let times = |text: &str| -> Option<Vec<f64>> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(FIELDS);
        fields.map(|field| field.parse().ok()).collect()
    };
    let passed: Vec<f64> = times(before)?.iter().zip(times(after)?).map(|(before, after)| after - before).collect();
    let [_user, _nice, _system, idle, waiting, ..] = passed[..] else { return None };
    let all: f64 = passed.iter().sum();
    (all > 0.0).then(|| (all - idle - waiting) / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let before = "cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 ...";
        for (after, share) in [
            // 10 user, 5 system, 5 stolen, 60 idle, 20 waiting.
            ("cpu  110 0 105 860 20 0 0 5 99 0\n", Some(0.2)),
            ("cpu  100 0 100 900 0 0 0 0 50 0\n", Some(0.0)),
            ("cpu  300 0 100 800 0 0 0 0 50 0\n", Some(1.0)),
            // No time has passed, or the file is different.
            (before, None),
            ("cpu  1 2 3\n", None),
            ("", None),
        ] {
            assert_eq!(busy_share(before, after), share, "{after}");
        }
    }
}
