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

use functions::Quarantine;
use model::{CommentId, ProductId, Timestamp};
use process::StoreError;

use crate::{
    commands::{
        audit::audit,
        audit_plan::{AuditOptions, Which, state_name},
        check::{Checked, check},
        quarantine::work_off,
        recent::recent,
        status::{Status, status},
    },
    run::{Job, report::Report},
};

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
