//! The settings of a job, from flags and `PAGEMARK_*` variables.

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

const LEASE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSettings {
    /// Repair. Without it, a command only looks, and writes nothing at all.
    #[arg(long, global = true)]
    pub apply: bool,
    /// Maximum read units of the table per second.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_REPAIR_MAX_READ_UNITS",
        value_name = "N"
    )]
    pub max_read_units: Option<u32>,
    /// Maximum write units of the table and its indexes per second.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_REPAIR_MAX_WRITE_UNITS",
        value_name = "N"
    )]
    pub max_write_units: Option<u32>,
    /// Number of comments repaired in parallel.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_REPAIR_CONCURRENCY",
        value_name = "N",
        default_value_t = 8
    )]
    pub concurrency: usize,
    /// How long a run that was killed keeps the next one away.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_REPAIR_LEASE",
        value_name = "TIME",
        default_value = "60s",
        value_parser = parse_lease
    )]
    pub lease: Duration,
    /// Minimum age of the journal entries that are reconciled. Must exceed the time that a write
    /// may take to arrive (30 s) plus the difference of writers' clocks and the delay of an edit of
    /// the page index (10 s).
    #[arg(
        long = "settle",
        global = true,
        value_name = "TIME",
        default_value = "60s",
        value_parser = parse_duration
    )]
    #[serde(rename = "settle")]
    pub min_age: Duration,
    /// How much of the time already reconciled is reconciled again.
    #[arg(skip = Duration::from_secs(300))]
    pub overlap: Duration,
    /// Maximum lag of the page indexer at which the job still confirms the page index. The lag's
    /// alarm comes first: it fires when records are 20 s old for five minutes.
    #[arg(skip = Duration::from_secs(900))]
    pub indexer_lag: Duration,
    /// Interval between two confirmations of a run for the page index. The run notices within this
    /// time that Redis was restored or taken over.
    #[arg(skip = Duration::from_secs(60))]
    pub confirm_every: Duration,
}

impl Default for JobSettings {
    fn default() -> Self {
        process::defaults(&[])
    }
}

pub(crate) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Maximum time that a setting accepts: a year. A time by which an instant cannot be moved would
/// end the run in a panic.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Parses the time of a lease: 0 stands for the default.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    Ok(if time.is_zero() { LEASE } else { time })
}

/// Parses a time: a number with `s`, `m` or `h`. Without a unit, the number is in seconds. The
/// maximum is [`TIME_MAX`].
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut number = text;
    let mut seconds = 1;
    for (unit, seconds_of_unit) in [('s', 1), ('m', 60), ('h', 3_600)] {
        if let Some(before) = text.strip_suffix(unit) {
            number = before;
            seconds = seconds_of_unit;
        }
    }
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no time such as 90s, 15m or 2h"))?;
    let time = Duration::from_secs(number.saturating_mul(seconds));
    if time > TIME_MAX {
        return Err(format!(
            "{text:?} is longer than {}h",
            TIME_MAX.as_secs() / 3_600
        ));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("15m", 900),
            ("2h", 7_200),
            ("0", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "1d",
            "-1",
            "1.5h",
            "m15",
            "8785h",
            "18446744073709551615",
            "18446744073709551616",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_accepted_time_can_be_added_to_an_instant(text in r"[+-]?[0-9]{0,21}[smhd]?|.{0,9}") {
            if let Ok(time) = parse_duration(&text) {
                prop_assert!(tokio::time::Instant::now().checked_add(time).is_some());
                let ms = i64::try_from(time.as_millis()).unwrap();
                prop_assert!(Timestamp::MAX.epoch_ms().checked_add(ms).is_some());
            }
        }
    }
}
