//! The repair job: finds differences between comments and the data derived from them, and repairs
//! them.
//!
//! `recent`, `audit`, `quarantine` and `rebuild` are pipelines (`repair::pipeline`): finder →
//! suspects → repair → position. Each folder imports only from those below it:
//!
//! - `entry`: how a command begins, on a command line (which `pagemark repair` shares) or as a
//!   Lambda function.
//! - `commands`: what each command does, as one run.
//! - `state`: what runs remember. It says how far an audit and a rebuild have come, and whether
//!   readers may believe the page index.
//! - `find`: the finders. An export reads the journal in the same way.
//! - `repair`: the only code that repairs comments, and the page index as a run found it.
//! - `run`: a run, with its lease, its end, its report, its progress and its unresolved comments.
//!
//! **Invariant:** only this crate, and the start and stop of `pagemark up`, mark index partitions
//! ready, confirm them, and advance watermarks.
//!
//! **Invariant:** a dry run (without `--apply`) writes nothing at all.

mod commands;
mod entry;
mod find;
mod repair;
mod run;
mod state;

pub use commands::audit_plan::AuditOptions;
pub use commands::status::{IndexStatus, JobStatus};
pub use entry::command_line::{
    CommandOutput, Signals, on_signals, print_outcome, run_command, run_on,
};
pub use entry::config::{
    EXIT_CODES, FunctionConfig, RepairCommand, RepairConfig, RunArgs, RunOptions,
};
pub use entry::function::{
    FUNCTION, FunctionCommand, Invoked, SegmentAudit, invoked, metrics_line,
};
pub use find::journal::{Journal, Window, journal_from, journal_to, reaches_back_to};
pub use find::spellings::other_spellings;
pub use process::{Stop, StopReason};
pub use run::Job;
pub use run::progress::{Progress, ProgressMoment, per_second, time_left};
pub use run::report::{LastRun, Report, Stopped, exit};
pub use run::settings::JobSettings;
pub use run::unresolved::remembered as unresolved_comments;
pub use state::checkpoint::{indexes_compared, said_of_indexes};
