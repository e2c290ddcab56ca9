//! The repair job: finds differences between comments and the data derived from them, and repairs them.
//!
//! Every command that repairs is a pipeline (`pipeline`): finder → suspects → repair → checkpoint. In reading order:
//!
//! - `config`, `command_line`, `explain`: the command line, which `pagemark repair` shares. `function`: the same
//!   commands, called by Lambda every five minutes and every hour.
//! - `commands`: the commands, each as one run. `runner`: a run, with its lease (`lease`), its end (`stop`), its totals
//!   (`ledger`, `report`) and its `progress`.
//! - `recent`, `audit`, `quarantine`, `rebuild`, `check`: what a command does, in order. `audit_plan`: which segments
//!   an audit checks. `erase`: deletes the comments of an author. `status`: the state of everything.
//! - `index_snapshot`: the page index as the run found it. `confirm`: confirms which partitions readers may believe.
//!   `continuity`: whether they are still those of the last confirmation.
//! - `find`: the four finders. `suspect`: what they hand over, and what becomes of it. `repair`: the only code that
//!   repairs comments. `unresolved`: remembers the comments that need a person.
//! - `changes`: what changed while the whole table is read, for a rebuild and for an export.
//! - `big_repair`: an audit in parts, for a state machine that invokes the function for each.
//! - `watermarks`, `checkpoint`, `filling`: how far `recent`, an audit and a rebuild have come.
//!
//! **Invariant:** only this crate marks index partitions ready, confirms them, and advances watermarks.
//!
//! **Invariant:** a dry run (without `--apply`) writes nothing at all.

mod audit;
mod audit_plan;
mod big_repair;
mod changes;
mod check;
mod checkpoint;
mod command_line;
mod commands;
mod config;
mod confirm;
mod continuity;
mod erase;
mod error;
mod explain;
mod filling;
mod find;
mod function;
mod index_snapshot;
mod lease;
mod ledger;
mod pipeline;
mod progress;
mod quarantine;
mod rebuild;
mod recent;
mod repair;
mod report;
mod runner;
mod settings;
mod status;
mod stop;
mod suspect;
mod unresolved;
mod watermarks;

pub use audit_plan::{AuditOptions, Which};
pub use big_repair::{BigRepair, Step};
pub use changes::{
    Changed, Changes, PASS_MS_SHORT, PASSES_MAX, journal_again_from, journal_from, journal_to, reaches_back_to,
    unresolved_comments,
};
pub use check::{Checked, CheckedRow};
pub use command_line::{Outcome, run_command, run_on, stop_on_signals};
pub use config::{Command, Config, EXIT_CODES, FunctionConfig, RunArgs};
pub use erase::{Beyond, Erasure};
pub use function::{Asked, FUNCTION, Invoked, invoked, metrics_line};
pub use progress::{Display, Progress};
pub use rebuild::rebuild;
pub use report::{LastRun, Report, Stopped, exit};
pub use runner::Job;
pub use settings::JobSettings;
pub use status::{IndexStatus, Status};
pub use stop::{Stop, StopReason};
