//! The repair job: finds differences between comments and the data derived from them, and repairs them.
//!
//! - `reconcile`: the only code that repairs comments. Callers say where to look, never what to conclude.
//! - `recent`, `audit` (with `pass`, `segment`, `sweep` and `sweeper`), `quarantine`, `rebuild`, `check`: the ways of
//!   finding differences.
//! - `changed`: reconciles what the journal names, for `recent`, `rebuild` and `vouch`.
//! - `follow`: the partitions of the page index that a run keeps up to date.
//! - `vouch`: confirms which of them readers may believe. `continuity`: whether they are still those of the last vouch.
//! - `unresolved`: remembers the comments that need a person, and counts them until they are in order.
//! - `status`: the state of everything.
//! - `job`, `report`, `counted`, `stop`, `progress`: a run, its totals, its end, and its progress.
//! - `config`, `explain`, `command_line`: the command line, which `pagemark repair` shares.
//! - `function`: the same jobs, called by Lambda every five minutes and every hour.
//!
//! **Invariant:** only this crate marks index partitions ready, vouches for them, and advances watermarks.
//!
//! **Invariant:** a dry run (without `--apply`) writes nothing at all.

mod audit;
mod changed;
mod check;
mod command_line;
mod config;
mod continuity;
mod counted;
mod error;
mod explain;
mod follow;
mod function;
mod job;
mod pass;
mod progress;
mod quarantine;
mod rebuild;
mod recent;
mod reconcile;
mod report;
mod segment;
mod status;
mod stop;
mod sweep;
mod sweeper;
mod unresolved;
mod vouch;

pub use audit::{AT_ONCE, AuditOptions, EVERY, SEGMENTS, Which};
pub use check::{Checked, CheckedRow};
pub use command_line::run_command;
pub use config::{Command, Config, EXIT_CODES, FunctionConfig, RunArgs};
pub use error::RepairError;
pub use explain::explain;
pub use function::{Asked, FUNCTION, Invoked, invoked, metrics_line};
pub use job::{INDEXER_LAG, Job, JobSettings, LEASE, OVERLAP, SETTLE_DELAY, VOUCH_EVERY};
pub use progress::{Display, Progress};
pub use rebuild::{RebuildReport, rebuild};
pub use report::{Report, Stopped, exit};
pub use status::{IndexStatus, LastRun, Status};
pub use stop::{Stop, StopReason};
