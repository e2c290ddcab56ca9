//! Reads every comment again that changed while the scan ran.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use model::{CommentId, ProductId, Timestamp, item::comment_of_primary, plan::reconcile::Places};
use process::{StoreError, now};
use repair_job::{
    Changes, JobSettings, PASS_MS_SHORT, PASSES_MAX, journal_again_from, journal_to, reaches_back_to,
    unresolved_comments,
};

use super::{Export, ExportError, staging::ReadAgain};

/// Number of comments that are read again in parallel.
const READS: usize = 16;

/// The time of what an export holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Every change that was acknowledged before is in the export.
    pub holds: Timestamp,
    /// No change that was sent later is in the export.
    pub ends: Timestamp,
}

/// Reads the changed comments again until a pass over the journal is short.
///
/// A change that was acknowledged before a pass has its entry in the journal, which is read strongly consistent. The
/// pass names it, unless an earlier pass has named it already. So an export holds every change up to the beginning of
/// its last pass.
pub(super) async fn catch_up(export: &Export<'_>, journal_from: Timestamp) -> Result<Bounds, ExportError> {
    let settings = JobSettings::default();
    // An item without its keys is in no index. The repair job remembers those that it has met.
    read_again(export, unresolved_comments(export.table).await?).await?;
    let mut from = journal_from;
    let mut passes = 0;
    loop {
        let began = now();
        let mut changes = Changes::between(export.table, from, journal_to(began, &settings));
        while let Some(changed) = changes.next().await? {
            read_again(export, changed.comments).await?;
            for what in changed.unreadable {
                export.staging.borrow_mut().add_problem("CHANGE", &what, &what)?;
            }
        }
        // Entries expire while the export reads.
        if !reaches_back_to(from) {
            return Err(ExportError::TooOld);
        }
        from = journal_again_from(began, &settings);
        export.staging.borrow_mut().set_journal_from(from)?;
        let ended = now();
        passes += 1;
        if passes >= PASSES_MAX || ended.epoch_ms() - began.epoch_ms() <= PASS_MS_SHORT {
            return Ok(Bounds { holds: began, ends: ended });
        }
    }
}

async fn read_again(export: &Export<'_>, comments: BTreeMap<CommentId, Places>) -> Result<(), ExportError> {
    let places = comments.iter().flat_map(|(id, places)| places.products().map(move |product| (id, product)));
    let places: Vec<_> = places.filter(|(_, product)| export.subject.includes(product)).collect();
    let reads = stream::iter(places).map(|(id, product)| read(export, id, product)).buffer_unordered(READS);
    let comments = reads.try_collect().await?;
    export.staging.borrow_mut().replace(comments)
}

/// Reads a comment in one product, strongly consistent.
async fn read(export: &Export<'_>, id: &CommentId, product: &ProductId) -> Result<ReadAgain, StoreError> {
    let item = export.table.primary_item_in(id, product).await?;
    let comment = |item| comment_of_primary(&item).map_err(|error| error.to_string());
    Ok(ReadAgain { id: id.clone(), product: product.clone(), found: item.map(comment) })
}
