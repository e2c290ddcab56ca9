//! The commands of the job, each as one run.

pub(crate) mod audit;
pub(crate) mod audit_plan;
pub(crate) mod big_repair;
pub(crate) mod check;
pub(crate) mod erase;
pub(crate) mod quarantine;
pub(crate) mod rebuild;
pub(crate) mod recent;
pub(crate) mod status;

use std::time::Duration;

use functions::Quarantine;
use model::{CommentId, ProductId, Timestamp};
use process::StoreError;

use crate::{
    commands::{
        audit::audit,
        audit_plan::{AuditOptions, Which, state_name},
        check::{Checked, check},
        quarantine::work_off,
        rebuild::{LEASE, is_ready, rebuild_index},
        recent::recent,
        status::{Status, status},
    },
    run::{Job, Run, report::Report},
    state::filling::Wanted,
};

/// Pause between two looks at a lease that another run holds.
const LEASE_PAUSE: Duration = Duration::from_secs(1);

impl Job {
    pub async fn recent(&self) -> Report {
        self.recent_since(None).await
    }

    /// Like [`Self::recent`], but begins at `since` if that is earlier than the watermarks. The run checks again the
    /// changes reconciled since then, and does not move the watermarks back.
    pub async fn recent_since(&self, since: Option<Timestamp>) -> Report {
        self.run("recent", Some("recent"), async |run| Box::pin(recent(run, since)).await).await
    }

    pub async fn audit(&self, options: AuditOptions) -> Report {
        let scope = match options.which {
            Which::One(segment) => format!("audit {}", state_name(segment, options.segments)),
            Which::NoneOfThem => "audit of the page index".to_owned(),
            Which::All | Which::Due => "audit".to_owned(),
        };
        self.run("audit", Some(&scope), async |run| Box::pin(audit(run, options)).await).await
    }

    pub async fn quarantine(&self, quarantine: &Quarantine) -> Report {
        self.run("quarantine", Some("quarantine"), async |run| Box::pin(work_off(run, quarantine)).await).await
    }

    /// Rebuilds the page index. Reads `segments` shards of the table's index in parallel. Without `--apply`, it only
    /// counts the comments that it would index.
    ///
    /// While another rebuild is under way, it waits for that one. If the page index is ready then, nothing is left to do.
    pub async fn rebuild(&self, segments: u32) -> Report {
        let mut has_waited = false;
        loop {
            let work = async |run: &Run<'_>| {
                if has_waited && is_ready(self).await? {
                    run.ledger.add_note("another rebuild has made the page index ready meanwhile".to_owned());
                    return Ok(());
                }
                Box::pin(rebuild_index(run, segments, Wanted::All)).await
            };
            let report = self.run("rebuild", Some(LEASE), work).await;
            if report.held_by.is_none() || self.stop.reason().is_some() {
                return report;
            }
            has_waited = true;
            tokio::time::sleep(LEASE_PAUSE).await;
        }
    }

    /// Rebuilds the partitions of the page index without any marker, and resumes an earlier rebuild of them. `None`
    /// when there are none, or the page index does not answer.
    pub async fn rebuild_missing(&self, segments: u32) -> Option<Report> {
        match self.index.unmarked().await {
            Ok(missing) if missing.is_empty() => None,
            Ok(_) => {
                let work = async |run: &Run<'_>| Box::pin(rebuild_index(run, segments, Wanted::Missing)).await;
                Some(self.run("rebuild", Some(LEASE), work).await)
            }
            Err(error) => {
                tracing::warn!(%error, "whether the page index lacks partitions is unknown");
                None
            }
        }
    }

    /// Checks one comment. `product` names another product to look in. It needs no lease, because its writes are
    /// conditional.
    pub async fn check(&self, id: &CommentId, product: Option<&ProductId>) -> Checked {
        check(self, id, product).await
    }

    /// The state of everything. `segments` is the number with which the audit runs.
    pub async fn status(&self, segments: u32, quarantine: Option<&Quarantine>) -> Result<Status, StoreError> {
        status(self, segments, quarantine).await
    }
}
