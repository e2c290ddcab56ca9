//! `erase`: deletes all comments of an author, each like any other deletion.
//!
//! The index `authors` is all that it remembers: a run that ended early left it as it was, so the
//! same command resumes.

use futures_util::{StreamExt, stream};
use model::{
    AuthorId, Comment, Malformed,
    planted::{self, Bug},
};
use process::StoreError;
use table::WriteError;

use crate::{
    find::spellings::other_spellings,
    run::{Job, Run, report::Report},
    state::checkpoint::said_of_indexes,
};

const PART: u16 = 100;

const AT_ONCE: usize = 8;

/// How often the index is read again until nothing is left in it. It lags behind by well under a
/// second (AWS: "Using Global Secondary Indexes"), and a pass takes longer than that or finds
/// little.
const PASSES_MAX: u32 = 3;

impl Job {
    /// Deletes all comments of an author; without `apply`, only counts them. Each is a difference,
    /// which a deletion repairs. It needs no lease: each deletion is conditional.
    pub async fn erase(&self, author: &AuthorId) -> Report {
        self.run("erase", None, async |run| erase(run, author).await)
            .await
    }
}

async fn erase(run: &Run<'_>, author: &AuthorId) -> Result<(), StoreError> {
    let mut deleted = 0;
    for _ in 0..PASSES_MAX {
        erase_pass(run, author).await?;
        let before = deleted;
        deleted = run.ledger.report().repaired;
        if deleted == before {
            break;
        }
    }
    let note = if run.job.settings.apply {
        format!(
            "{deleted} comments of the author deleted; copies elsewhere stay for a while: \"Erasing an author\" in \
             docs/operate.md lists them"
        )
    } else {
        let left = run.ledger.report().left;
        format!("{left} comments of the author would be deleted")
    };
    run.ledger.add_note(note);
    run.ledger.add_note(said_of_indexes(&run.job.table).await?);
    for spelling in other_spellings(&run.job.table, author).await? {
        run.ledger.add_note(format!(
            "there are comments of {:?}, another spelling of the id: they are not erased",
            spelling.as_str()
        ));
    }
    Ok(())
}

async fn erase_pass(run: &Run<'_>, author: &AuthorId) -> Result<(), StoreError> {
    let mut after = None;
    while !run.must_stop("the same command resumes") {
        let part = run
            .job
            .table
            .comments_of_author(author, after.as_ref(), PART)
            .await?;
        let erased: Vec<Result<(), StoreError>> = stream::iter(part.rows)
            .map(|comment| erase_one(run, author, comment))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        erased.into_iter().collect::<Result<(), StoreError>>()?;
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

async fn erase_one(
    run: &Run<'_>,
    author: &AuthorId,
    comment: Result<Comment, Malformed>,
) -> Result<(), StoreError> {
    let comment = match comment {
        Ok(comment) => comment,
        Err(malformed) => {
            run.ledger.add_unresolved_once(malformed.to_string());
            return Ok(());
        }
    };
    if planted::has(Bug::HiddenIsNotErased) && !comment.status.is_published() {
        return Ok(());
    }
    let id = comment.id;
    if run.job.settings.apply {
        let table = run.job.table.written_by("repair erase");
        let deleted = table
            .delete_comment(&id, |comment| {
                comment.site.author_id.as_ref() == Some(author)
            })
            .await;
        match deleted {
            Ok(()) => {}
            // A writer deleted it, or gave it to another author.
            Err(WriteError::NotFound | WriteError::RevisionMismatch { .. }) => return Ok(()),
            Err(WriteError::Store(error @ StoreError::Call { .. })) => return Err(error),
            Err(contended @ WriteError::Contended) => {
                run.ledger.add_skipped(format!(
                    "comment {id}: {contended}; the same command tries again"
                ));
                return Ok(());
            }
            Err(other) => {
                run.ledger
                    .add_unresolved_once(format!("comment {id}: {other}"));
                return Ok(());
            }
        }
    }
    run.add_checked(1);
    run.ledger.add_erased();
    Ok(())
}
