//! The export of products' records: the lines that an import reads, ordered by product.
//!
//! Each shard is read strongly consistent, after all comments. The lines are put into order in memory: a few hundred bytes
//! a product.

use std::collections::BTreeMap;

use model::{ProductId, product::RECORD_SHARDS};
use table::{InvalidEntry, Table};

use super::{ExportError, target::Target};
use crate::import::to_product_line;

/// The outcome of an export of records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedProducts {
    /// Number of records written.
    pub records: usize,
    /// The items that are no records, and are left out.
    pub problems: Vec<String>,
}

/// Exports the records of these products, or of all if there are none. An existing file is replaced as a whole when
/// everything is read; a pipe or a device is written to.
///
/// # Errors
/// The table's; the target cannot be written.
pub async fn export_products(
    table: &Table,
    products: &[ProductId],
    target: &Target,
) -> Result<ExportedProducts, ExportError> {
    let (mut lines, mut problems) = (BTreeMap::new(), Vec::new());
    for shard in 0..RECORD_SHARDS {
        let mut from = None;
        loop {
            let part = table.records_part(shard, from).await?;
            for record in part.records {
                match record {
                    Ok(record) if products.is_empty() || products.contains(&record.product) => {
                        let line = to_product_line(record.clone()).map_err(ExportError::Line)?;
                        lines.insert(record.product, line);
                    }
                    Ok(_) => {}
                    Err(InvalidEntry { problem, .. }) => problems.push(problem.to_string()),
                }
            }
            from = part.next;
            if from.is_none() {
                break;
            }
        }
    }
    target.write_lines(lines.values()).map_err(|error| ExportError::Target(target.name(), error))?;
    Ok(ExportedProducts { records: lines.len(), problems })
}
