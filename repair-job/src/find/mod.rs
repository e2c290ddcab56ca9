//! The finders. They differ only in where they look and in what a position is. The finders of
//! `primaries` and of the quarantine stand beside their only users.
//!
//! | finder | looks at | position |
//! | --- | --- | --- |
//! | `journal` | the comments that the change journal names | an instant |
//! | `table_scan` | the items of one segment of the table, and the scores of their comments | an item's key |
//! | `index_scan` | every member and name of the page index | a cursor |
//! | `primaries` | the entries of the table's index `primaries` | a shard's key |
//! | `quarantine` | the comments that batches in quarantine name | a batch |

pub(crate) mod index_scan;
pub(crate) mod journal;
pub(crate) mod spellings;
pub(crate) mod table_scan;

use std::collections::{BTreeMap, BTreeSet};

use model::{BaseSet, CommentId};
use page_index::PageIndex;
use process::StoreError;

pub(crate) const ITEMS_PER_COMMENT: u64 = 32;

async fn scores_of<'wanted>(
    index: &PageIndex,
    wanted: &'wanted BTreeMap<BaseSet, BTreeSet<&'wanted CommentId>>,
) -> Result<BTreeMap<(&'wanted BaseSet, &'wanted CommentId), f64>, StoreError> {
    let mut asked = Vec::new();
    for (set, ids) in wanted {
        asked.push((set, ids.iter().map(|id| id.as_str()).collect()));
    }
    let mut found = BTreeMap::new();
    for ((set, ids), scores) in wanted.iter().zip(index.scores(&asked).await?) {
        for (id, score) in ids.iter().zip(scores) {
            if let Some(score) = score {
                found.insert((set, *id), score);
            }
        }
    }
    Ok(found)
}
