//! The settings and commands of the repair job.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use deployed_index::PageIndexSettings;
use functions::{MetricsArgs, QuarantineArgs, quarantine::QuarantineLocation};
use model::{AuthorId, CommentId, ProductId, Timestamp};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use table::TableArgs;

use crate::{
    commands::audit_plan::{AuditOptions, SEGMENTS},
    run::settings::{JobSettings, TIME_MAX, parse_duration},
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

/// What the help says below the exit codes.
const MORE_HELP: &str = "
Environment:
  PAGEMARK_LOG  what the log says, such as info, debug, or warn,repair_job=info (by default warn)

Examples:
  repair-job status
  repair-job audit --apply";

/// Finds and repairs differences between comments and the data derived from them.
#[derive(Debug, Clone, Parser)]
#[command(name = "repair-job", version, after_help = format!("{EXIT_CODES}
{MORE_HELP}"))]
pub struct RepairConfig {
    #[command(flatten)]
    pub table: TableArgs,
    #[command(flatten)]
    pub page_index: PageIndexSettings,
    #[command(flatten)]
    pub run: RunArgs,
}

/// What a run does, whichever stores it works on. As JSON, it can be sent to the process that has
/// the stores.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// What to do.
    #[command(subcommand)]
    pub command: RepairCommand,
}

/// How a run is done, whatever it does.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOptions {
    #[command(flatten)]
    pub settings: JobSettings,
    /// Print the report as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Stop cleanly after this time, such as 90s, 15m or 2h, and say where the next run resumes.
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    pub max_run_time: Option<Duration>,
}

impl RunArgs {
    /// Checks what no single flag shows.
    ///
    /// # Errors
    /// The segment does not exist, a time is too long to be added to an instant, or a command that
    /// only looks is asked to repair.
    pub fn validate(&self) -> Result<(), String> {
        let JobSettings {
            lease,
            min_age,
            overlap,
            indexer_lag,
            confirm_every,
            ..
        } = self.options.settings;
        let times = [lease, min_age, overlap, indexer_lag, confirm_every]
            .into_iter()
            .chain(self.options.max_run_time);
        if let Some(time) = times.max()
            && time > TIME_MAX
        {
            return Err(format!("a time of {} s is too long", time.as_secs()));
        }
        if self.options.settings.apply && matches!(self.command, RepairCommand::Status { .. }) {
            return Err("--apply: `status` changes nothing".to_owned());
        }
        if let RepairCommand::Audit(AuditOptions {
            segment: Some(segment),
            segments,
            ..
        }) = self.command
            && segment >= segments
        {
            return Err(format!(
                "--segment {segment}: there are the segments 0 to {}",
                segments.max(1) - 1
            ));
        }
        Ok(())
    }

    /// Makes this the place of the quarantine, for a command that uses it.
    pub fn set_quarantine(&mut self, place: QuarantineLocation) {
        if let RepairCommand::Quarantine(args) = &mut self.command {
            args.quarantine = place;
        } else if let RepairCommand::Status { quarantine, .. } = &mut self.command {
            *quarantine = Some(place);
        }
    }

    /// Says whether the table's disk is full, for the status.
    pub fn set_disk_is_full(&mut self, is_full: bool) {
        if let RepairCommand::Status { disk_is_full, .. } = &mut self.command {
            *disk_is_full = is_full;
        }
    }
}

/// What the repair job can do.
#[derive(Debug, Clone, Subcommand, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RepairCommand {
    /// Repair every comment that has changed since the last run. `pagemark up` does it every minute, a
    /// deployment every five minutes.
    #[command(after_help = "Example:\n  repair-job recent --apply --since 2024-01-31T06:00:00Z")]
    Recent {
        /// Check again what has changed since this time, such as 2024-01-31T06:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
        since: Option<Timestamp>,
    },
    /// Compare the whole table with itself and with the page index, segment by segment, then scan
    /// the page index.
    #[command(
        after_help = "Examples:\n  repair-job audit\n  repair-job audit --apply --max-run-time 2h"
    )]
    Audit(AuditOptions),
    /// Repair every comment that batches in quarantine name, and remove the batches that are done.
    #[command(after_help = "Example:\n  repair-job quarantine --apply")]
    Quarantine(QuarantineArgs),
    /// Empty the page index, fill it from the table, and mark it ready. Without --apply, only say
    /// whether it is ready. It waits for another one under way, and has nothing to do if the page
    /// index is ready then. Nor has it if the page index is ready, and it or a part of it was rebuilt
    /// within the last minute, unless it is repeated.
    ///
    /// Writes may continue meanwhile. Until the rebuild ends, page 1 and cursors answer without
    /// totals, and numbered pages answer 503.
    #[command(after_help = "Examples:\n  repair-job rebuild\n  repair-job rebuild --apply")]
    Rebuild {
        /// Number of shards of the index `primaries` read in parallel.
        #[arg(long, value_name = "N", default_value_t = 4)]
        segments: u32,
    },
    /// Check one comment: what is there, and what should be.
    #[command(
        after_help = "Examples:\n  repair-job check 01JCP3D7W0K2V6H9QF1T8MZ4XB\n  repair-job check 01JCP3D7W0K2V6H9QF1T8MZ4XB --json"
    )]
    Check {
        /// The comment.
        #[arg(value_parser = CommentId::parse)]
        id: CommentId,
        /// Where to look when the table has no items of it any more.
        #[arg(long, value_parser = ProductId::parse_stored)]
        product: Option<ProductId>,
    },
    /// Delete all comments of an author. Without --apply, only count them.
    #[command(
        after_help = "Examples:\n  repair-job erase --author customer-4711\n  repair-job erase --author customer-4711 --apply"
    )]
    Erase {
        /// The author's id, as in the field `author_id` of comments.
        #[arg(long, value_parser = AuthorId::parse_stored)]
        author: AuthorId,
    },
    /// Readiness, watermarks, last runs, coverage of the audit, open quarantine.
    #[command(after_help = "Examples:\n  repair-job status\n  repair-job status --json")]
    Status {
        /// Number of segments into which the audit divides the table.
        #[arg(long, value_name = "N", default_value_t = SEGMENTS)]
        segments: u32,
        /// Where the quarantine is. Without it, its batches are not counted.
        #[arg(long, env = "PAGEMARK_QUARANTINE", value_name = "PLACE")]
        quarantine: Option<QuarantineLocation>,
        /// Endpoint of a local S3.
        #[arg(long, env = "PAGEMARK_S3_URL", value_name = "URL", value_parser = process::aws::parse_endpoint)]
        s3_url: Option<String>,
        /// Whether the table's disk is full, which only the stack knows that runs the command.
        #[arg(skip)]
        disk_is_full: bool,
    },
}

/// The settings of the Lambda function, from variables. It repairs, within its time limit.
#[derive(Debug, Clone, Parser)]
#[command(name = "repair-job", version)]
pub struct FunctionConfig {
    #[command(flatten)]
    pub table: TableArgs,
    #[command(flatten)]
    pub page_index: PageIndexSettings,
    #[command(flatten)]
    pub quarantine: QuarantineArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(flatten)]
    pub settings: JobSettings,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &[&str]) -> RepairConfig {
        let stores = ["repair-job", "--table=t", "--redis-url=redis://h"];
        RepairConfig::try_parse_from(stores.iter().chain(line)).unwrap()
    }

    #[test]
    fn the_command_lines_are_consistent() {
        RepairConfig::command().debug_assert();
        FunctionConfig::command().debug_assert();
    }

    #[test]
    fn the_status_needs_no_quarantine() {
        for (line, is_counted) in [
            (&["status"][..], false),
            (&["status", "--quarantine=folder:q"], true),
        ] {
            let config = parse(line);
            let RepairCommand::Status { quarantine, .. } = &config.run.command else {
                panic!("{config:?}")
            };
            assert_eq!(quarantine.is_some(), is_counted, "{line:?}");
        }
    }

    #[test]
    fn a_command_survives_as_json_with_what_has_no_flag() {
        for line in [
            &["status", "--quarantine=s3://b/p", "--s3-url=http://h"][..],
            &[
                "audit",
                "--apply",
                "--since=2024-01-31T06:00:00Z",
                "--max-run-time=15m",
                "--lease=5s",
            ],
            &[
                "recent",
                "--since=2024-01-31T06:00:00Z",
                "--max-read-units=7",
            ],
            &["check", "c1", "--product=p", "--json"],
            &["quarantine", "--quarantine=folder:/q"],
            &["erase", "--author=u 7/é", "--apply"],
            &["rebuild", "--segments=2"],
        ] {
            let mut run = parse(line).run;
            run.options.settings.overlap = Duration::from_millis(1_500);
            let json = serde_json::to_string(&run).unwrap();
            let back: RunArgs = serde_json::from_str(&json).unwrap();
            assert_eq!(format!("{back:?}"), format!("{run:?}"), "{json}");
            let unknown = json.replacen('{', r#"{"unknown":1,"#, 1);
            assert!(
                serde_json::from_str::<RunArgs>(&unknown).is_err(),
                "{unknown}"
            );
        }
    }

    #[test]
    fn a_status_is_not_asked_to_repair() {
        assert!(parse(&["status"]).run.validate().is_ok());
        let refused = parse(&["status", "--apply"]).run.validate();
        assert!(refused.is_err_and(|problem| problem.contains("--apply")));
    }

    #[test]
    fn a_segment_outside_the_table_is_refused() {
        for (segment, exists) in [("3", true), ("4", false)] {
            let run = parse(&["audit", "--segments=4", "--segment", segment]).run;
            assert_eq!(run.validate().is_ok(), exists, "{segment}");
        }
    }
}
