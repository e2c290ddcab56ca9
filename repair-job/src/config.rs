//! The settings and commands of the repair job.

use std::{fmt, time::Duration};

use clap::{Args, Parser, Subcommand};
use functions::{MetricsArgs, QuarantineArgs, quarantine::QuarantinePlace};
use model::{CommentId, ProductId, Timestamp};
use page_index::PageIndexArgs;
use table::{TableArgs, capacity::Meter};

use crate::{
    audit_plan::{AT_ONCE, AuditOptions, SEGMENTS, Which},
    settings::{JobSettings, LEASE, SETTLE_DELAY},
};

/// The meaning of the exit codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit code, a sum of bits:
   0  in order, and everything was done
   1  failed; what was done by then is reported
   2  the command line is wrong
   4  differences were found
   8  differences are left (in a dry run, all of them)
  16  unresolved: a person has to look
  32  some work was not done: the time was up, or the page index could not be checked
  64  another run is in progress; nothing was done";

/// Finds and repairs differences between comments and the data derived from them.
#[derive(Debug, Clone, Parser)]
#[command(name = "repair-job", version, after_help = EXIT_CODES)]
pub struct Config {
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where the page index is.
    #[command(flatten)]
    pub page_index: PageIndexArgs,
    /// The command and its options.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What a run does, whichever stores it works on.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Its limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Repair. Without it, a command only looks, and writes nothing at all.
    #[arg(long, global = true)]
    pub apply: bool,
    /// Describe what would be read and written, and do nothing.
    #[arg(long, global = true)]
    pub explain: bool,
    /// Print the report as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Stop cleanly after this time, such as 90s, 15m or 2h, and say where the next run resumes.
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    pub max_run_time: Option<Duration>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The limits of a run.
#[derive(Debug, Clone, Args)]
pub struct LimitArgs {
    /// Maximum read units of the table per second.
    #[arg(long, global = true, env = "PAGEMARK_REPAIR_MAX_READ_UNITS", value_name = "N")]
    pub max_read_units: Option<u32>,
    /// Maximum write units of the table and its indexes per second.
    #[arg(long, global = true, env = "PAGEMARK_REPAIR_MAX_WRITE_UNITS", value_name = "N")]
    pub max_write_units: Option<u32>,
    /// Number of comments repaired in parallel.
    #[arg(long, global = true, env = "PAGEMARK_REPAIR_CONCURRENCY", value_name = "N", default_value_t = 8)]
    pub concurrency: usize,
    /// How long a run that was killed keeps the next one away.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_REPAIR_LEASE",
        value_name = "TIME",
        default_value = "60s",
        value_parser = parse_duration
    )]
    pub lease: Duration,
    /// Minimum age of the journal entries that are reconciled. Must exceed the time that a write may take to arrive (30 s)
    /// plus the difference of writers' clocks.
    #[arg(
        long,
        global = true,
        env = "PAGEMARK_REPAIR_SETTLE",
        value_name = "TIME",
        default_value_t = Seconds(SETTLE_DELAY),
        value_parser = |text: &str| parse_duration(text).map(Seconds)
    )]
    pub settle: Seconds,
}

/// A time that is shown in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs())
    }
}

impl LimitArgs {
    /// A meter with these limits.
    pub fn meter(&self) -> Meter {
        Meter::new(self.max_read_units, self.max_write_units)
    }

    /// The settings of a job.
    pub fn settings(&self, apply: bool) -> JobSettings {
        JobSettings {
            apply,
            concurrency: self.concurrency,
            lease: if self.lease.is_zero() { LEASE } else { self.lease },
            settle: self.settle.0,
            ..JobSettings::default()
        }
    }
}

/// What the repair job can do.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Repair every comment that has changed since the last run: what the hourly run does first.
    Recent {
        /// Check again what has changed since this time, such as 2024-01-31T06:00:00Z.
        #[arg(long, value_name = "TIME")]
        #[arg(value_parser = |text: &str| Timestamp::parse(text).map_err(|error| error.to_string()))]
        since: Option<Timestamp>,
    },
    /// Compare the whole table with itself and with the page index, segment by segment, then sweep the page index.
    ///
    /// It resumes where a run with --apply was interrupted in the last six hours.
    Audit(AuditArgs),
    /// Repair every comment that batches in quarantine name, and remove the batches that are done.
    Quarantine(QuarantineArgs),
    /// Empty the page index, fill it from the table, and mark it ready.
    ///
    /// Live writes may go on. Until it is done, page 1 and cursors answer without totals, numbered pages answer 503.
    Rebuild {
        /// Number of shards of the index `primaries` read in parallel.
        #[arg(long, value_name = "N", default_value_t = 4)]
        segments: u32,
    },
    /// Check one comment: what is there, and what should be.
    Check {
        /// The comment.
        #[arg(value_parser = |text: &str| CommentId::parse(text).map_err(|error| error.to_string()))]
        id: CommentId,
        /// Where to look when the table has no items of it any more.
        #[arg(long, value_parser = |text: &str| ProductId::parse(text).map_err(|error| error.to_string()))]
        product: Option<ProductId>,
    },
    /// Readiness, watermarks, last runs, coverage of the audit, open quarantine.
    Status {
        /// Number of segments into which the audit divides the table.
        #[arg(long, env = "PAGEMARK_AUDIT_SEGMENTS", value_name = "N", default_value_t = SEGMENTS)]
        segments: u32,
        /// Where the quarantine is. Without it, its batches are not counted.
        #[arg(long, env = "PAGEMARK_QUARANTINE", value_name = "PLACE")]
        quarantine: Option<QuarantinePlace>,
        /// Endpoint of a local S3.
        #[arg(long, env = "PAGEMARK_S3_URL", value_name = "URL")]
        s3_url: Option<String>,
    },
}

impl Command {
    /// The command's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recent { .. } => "recent",
            Self::Audit(_) => "audit",
            Self::Quarantine(_) => "quarantine",
            Self::Rebuild { .. } => "rebuild",
            Self::Check { .. } => "check",
            Self::Status { .. } => "status",
        }
    }
}

/// Options of an audit.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Number of segments of the table. Another number starts anew.
    #[arg(long, env = "PAGEMARK_AUDIT_SEGMENTS", value_name = "N", default_value_t = SEGMENTS)]
    pub segments: u32,
    /// Check this one only, from 0 on, and do not sweep.
    #[arg(long, value_name = "K", conflicts_with = "rolling")]
    pub segment: Option<u32>,
    /// Check only what has not been checked for nearly a week, as the hourly run does.
    #[arg(long)]
    pub rolling: bool,
    /// Number of segments checked in parallel.
    #[arg(long, env = "PAGEMARK_AUDIT_AT_ONCE", value_name = "N", default_value_t = AT_ONCE)]
    pub at_once: usize,
    /// Do not sweep the page index.
    #[arg(long)]
    pub no_sweep: bool,
    /// Start anew instead of resuming an interrupted run.
    #[arg(long)]
    pub restart: bool,
    /// Resume an interrupted run of any age. What has changed since in the part it had checked is not checked again.
    #[arg(long, conflicts_with = "restart")]
    pub resume: bool,
}

impl AuditArgs {
    /// The options of the job's audit.
    ///
    /// # Errors
    /// The segment does not exist.
    pub fn options(&self) -> Result<AuditOptions, String> {
        let which = match (self.segment, self.rolling) {
            (Some(segment), _) if segment >= self.segments => {
                return Err(format!("--segment {segment}: there are the segments 0 to {}", self.segments.max(1) - 1));
            }
            (Some(segment), _) => Which::One(segment),
            (None, true) => Which::Due,
            (None, false) => Which::All,
        };
        Ok(AuditOptions {
            segments: self.segments,
            which,
            at_once: self.at_once,
            sweep: !self.no_sweep && self.segment.is_none(),
            restart: self.restart,
            resume: self.resume,
        })
    }
}

/// The settings of the Lambda function, from variables. It repairs, within its time limit.
#[derive(Debug, Clone, Parser)]
#[command(name = "repair-job", version)]
pub struct FunctionConfig {
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where the page index is.
    #[command(flatten)]
    pub page_index: PageIndexArgs,
    /// Where the quarantine is.
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    /// Where metrics go.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Its limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Number of segments into which the audit divides the table.
    #[arg(long, env = "PAGEMARK_AUDIT_SEGMENTS", value_name = "N", default_value_t = SEGMENTS)]
    pub audit_segments: u32,
    /// Number of segments that the audit checks in parallel.
    #[arg(long, env = "PAGEMARK_AUDIT_AT_ONCE", value_name = "N", default_value_t = AT_ONCE)]
    pub audit_at_once: usize,
}

impl FunctionConfig {
    /// The options of the function's audit: it checks what is due.
    pub fn audit_options(&self) -> AuditOptions {
        AuditOptions {
            segments: self.audit_segments,
            at_once: self.audit_at_once,
            which: Which::Due,
            ..AuditOptions::default()
        }
    }
}

/// Maximum time that a setting accepts: a year. A time by which an instant cannot be moved would end the run in a
/// panic.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Parses a time: a number with `s`, `m` or `h`. Without a unit, the number is in seconds. The maximum is [`TIME_MAX`].
fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.get(number.len()..).unwrap_or("s")),
        None => (text, "s"),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no time such as 90s, 15m or 2h"))?;
    let seconds = match unit {
        "h" => 3_600,
        "m" => 60,
        _ => 1,
    };
    let time = Duration::from_secs(number.saturating_mul(seconds));
    if time > TIME_MAX {
        return Err(format!("{text:?} is longer than {}h", TIME_MAX.as_secs() / 3_600));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_command_lines_are_consistent() {
        Config::command().debug_assert();
        FunctionConfig::command().debug_assert();
    }

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7_200), ("0", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "1d", "-1", "1.5h", "m15", "8785h", "18446744073709551615", "18446744073709551616"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_segment_outside_the_table_is_refused() {
        let args = |segment, segments| AuditArgs {
            segments,
            segment: Some(segment),
            rolling: false,
            at_once: 1,
            no_sweep: false,
            restart: false,
            resume: false,
        };
        assert_eq!(args(3, 4).options().map(|options| (options.which, options.sweep)), Ok((Which::One(3), false)));
        assert!(args(4, 4).options().is_err());
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
