//! Finds the comments that batches in quarantine name: batches that the event source mappings and the functions gave
//! up on.

use std::collections::{BTreeMap, VecDeque};

use functions::{Quarantine, quarantine::QuarantinedBatch};
use model::{CommentId, plan::reconcile::Places};
use process::StoreError;

use crate::{
    repair::pipeline::{Finder, Found},
    run::Run,
};

const LIST_LIMIT: usize = 200;

pub(crate) struct QuarantineFinder<'run> {
    run: &'run Run<'run>,
    quarantine: &'run Quarantine,
    names: VecDeque<String>,
    /// The last name listed; `None` when all are listed.
    listed: Option<Option<String>>,
}

pub(crate) struct BatchRead {
    pub(crate) name: String,
    pub(crate) is_readable: bool,
}

impl<'run> QuarantineFinder<'run> {
    pub(crate) fn new(run: &'run Run<'run>, quarantine: &'run Quarantine) -> Self {
        Self { run, quarantine, names: VecDeque::new(), listed: Some(None) }
    }
}

impl Finder for QuarantineFinder<'_> {
    type Position = BatchRead;

    async fn find(&mut self) -> Result<Option<Found<BatchRead>>, StoreError> {
        loop {
            if let (true, Some(after)) = (self.names.is_empty(), &self.listed) {
                self.names = self.quarantine.list(after.as_deref(), LIST_LIMIT).await?.into();
                self.listed = self.names.back().cloned().map(Some);
            }
            let Some(name) = self.names.pop_front() else { return Ok(None) };
            let Some(document) = self.quarantine.get(&name).await? else { continue };
            let batch = QuarantinedBatch::read(&document);
            for what in &batch.unreadable {
                self.run.ledger.add_unresolved(format!("{name}: {what}"));
            }
            let mut comments: BTreeMap<CommentId, Places> = BTreeMap::new();
            for (id, places) in batch.comments {
                comments.entry(id).or_default().join(&places);
            }
            let position = BatchRead { name, is_readable: batch.unreadable.is_empty() };
            return Ok(Some(Found { checked: comments.len(), suspects: comments.into(), position, is_last: false }));
        }
    }

    fn resumes(&self) -> String {
        "the next run resumes with what is left".to_owned()
    }
}
