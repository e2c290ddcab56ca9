//! `erase`: deletes all comments of an author, each like any other deletion.
//!
//! The index `authors` is all that it remembers: a run that ended early left it as it was, so the same command resumes.

use std::fmt;

use futures_util::{StreamExt, stream};
use model::{
    AuthorId, Comment, Malformed,
    planted::{self, Bug},
};
use process::{StopReason, StoreError};
use serde::Serialize;
use table::WriteError;

use crate::run::{Job, report::exit};

const PART: u16 = 100;

const AT_ONCE: usize = 8;

/// How often the index is read again until nothing is left in it. It lags behind by well under a second (AWS: "Using
/// Global Secondary Indexes"), and a pass takes longer than that or finds little.
const PASSES_MAX: u32 = 3;

/// How many comments that could not be deleted are named.
const NAMED_MAX: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Erasure {
    pub apply: bool,
    pub found: u64,
    pub deleted: u64,
    pub left: u64,
    /// The first hundred of those that remain although they were to be deleted, with the reason.
    pub problems: Vec<String>,
    pub stopped: Option<StopReason>,
    pub failure: Option<String>,
}

impl Job {
    /// Deletes all comments of an author; without `apply`, only counts them. It needs no lease: each deletion is
    /// conditional.
    pub async fn erase(&self, author: &AuthorId) -> Erasure {
        let mut erasure = Erasure { apply: self.settings.apply, ..Erasure::default() };
        for _ in 0..PASSES_MAX {
            let before = erasure.deleted;
            match erase_pass(self, author, &mut erasure).await {
                Err(error) => erasure.failure = Some(error.to_string()),
                Ok(()) if erasure.deleted > before && erasure.stopped.is_none() => continue,
                Ok(()) => {}
            }
            break;
        }
        self.progress.finish();
        erasure
    }
}

async fn erase_pass(job: &Job, author: &AuthorId, erasure: &mut Erasure) -> Result<(), StoreError> {
    erasure.begin_pass();
    let mut after = None;
    loop {
        if let Some(reason) = job.stop.reason() {
            erasure.stopped = Some(reason);
            return Ok(());
        }
        let part = job.table.comments_of_author(author, after.as_ref(), PART).await?;
        let results = stream::iter(part.rows).map(|comment| erase_one(job, author, comment));
        let results: Vec<Result<Erased, StoreError>> = results.buffer_unordered(AT_ONCE).collect().await;
        job.progress.add(u64::try_from(results.len()).unwrap_or(u64::MAX));
        for erased in results {
            erasure.add(erased?);
        }
        after = part.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

enum Erased {
    Found,
    Deleted,
    /// Somebody else deleted it, or gave it to another author.
    Gone,
    Problem(String),
}

async fn erase_one(job: &Job, author: &AuthorId, comment: Result<Comment, Malformed>) -> Result<Erased, StoreError> {
    let id = match comment {
        Ok(Comment { status, .. }) if planted::has(Bug::HiddenIsNotErased) && !status.is_published() => {
            return Ok(Erased::Gone);
        }
        Ok(Comment { id, .. }) => id,
        Err(malformed) => return Ok(Erased::Problem(malformed.to_string())),
    };
    if !job.settings.apply {
        return Ok(Erased::Found);
    }
    let is_of_author = |comment: &Comment| comment.site.author_id.as_ref() == Some(author);
    Ok(match job.table.delete_comment(&id, is_of_author).await {
        Ok(()) => Erased::Deleted,
        Err(WriteError::NotFound | WriteError::RevisionMismatch { .. }) => Erased::Gone,
        Err(WriteError::Store(StoreError::Malformed(malformed))) => Erased::Problem(malformed.to_string()),
        Err(WriteError::Store(error)) => return Err(error),
        Err(other) => Erased::Problem(format!("comment {id}: {other}")),
    })
}

impl Erasure {
    fn begin_pass(&mut self) {
        self.found -= self.left;
        self.left = 0;
        self.problems.clear();
    }

    fn add(&mut self, erased: Erased) {
        match erased {
            Erased::Gone => return,
            Erased::Deleted => self.deleted += 1,
            Erased::Found => self.left += 1,
            Erased::Problem(problem) => {
                self.left += 1;
                if self.problems.len() < NAMED_MAX {
                    self.problems.push(problem);
                }
            }
        }
        self.found += 1;
    }

    pub fn exit_code(&self) -> u8 {
        let bits = [
            (self.failure.is_some(), exit::FAILURE),
            (self.found > 0, exit::DRIFT_FOUND),
            (self.left > 0, exit::DRIFT_LEFT),
            (!self.problems.is_empty(), exit::UNRESOLVED),
            (self.stopped.is_some(), exit::SKIPPED),
        ];
        bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
    }
}

impl fmt::Display for Erasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dry = if self.apply { "" } else { "; without --apply nothing is deleted" };
        writeln!(f, "comments of the author: {} found, {} deleted, {} left{dry}", self.found, self.deleted, self.left)?;
        for problem in &self.problems {
            writeln!(f, "a person has to look: {problem}")?;
        }
        if let Some(reason) = self.stopped {
            writeln!(f, "it ended early, because {reason}; the same command resumes")?;
        }
        if let Some(failure) = &self.failure {
            writeln!(f, "it failed: {failure}; the same command resumes")?;
        }
        f.write_str("copies elsewhere stay for a while: \"Erasing an author\" in docs/operate.md lists them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_each_comment_once_over_its_passes() {
        let mut erasure = Erasure { apply: true, ..Erasure::default() };
        for pass in [vec![Erased::Deleted, Erased::Problem("broken".to_owned())], vec![Erased::Gone]] {
            erasure.begin_pass();
            pass.into_iter().for_each(|erased| erasure.add(erased));
        }
        assert_eq!((erasure.found, erasure.deleted, erasure.left, erasure.exit_code()), (1, 1, 0, exit::DRIFT_FOUND));
        erasure.begin_pass();
        erasure.add(Erased::Problem("broken".to_owned()));
        assert_eq!(erasure.exit_code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT | exit::UNRESOLVED);
        let text = erasure.to_string();
        assert!(text.contains("2 found, 1 deleted, 1 left\n") && text.contains("broken"), "{text}");
    }
}
