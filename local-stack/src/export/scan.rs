//! Reads every comment from the table's indexes: the products in each shard of `primaries`, and their comments; and the
//! comments that are not published, from `moderation`.

use std::cell::Cell;

use futures_util::future::try_join_all;
use model::{
    Comment, ProductId, Status,
    primaries::{PRIMARIES_SHARDS, PrimariesKey},
};
use table::{CommentsPosition, InvalidEntry, PrimariesPosition};

use super::{Export, ExportError, staging::Scanned};

/// Number of shards that are read in parallel: few, because the embedded engine answers one call at a time.
const READERS: u32 = 4;

/// Maximum number of comments in one answer. An answer also ends after a megabyte.
const COMMENTS_MAX: u16 = 500;

/// Scans what has not been scanned yet.
pub(super) async fn scan(export: &Export<'_>) -> Result<(), ExportError> {
    let next = Cell::new(0);
    let readers = (0..READERS).map(async |_| {
        while next.get() < PRIMARIES_SHARDS {
            let shard = next.replace(next.get() + 1);
            scan_shard(export, shard).await?;
            export.progress.end_shard();
        }
        Ok::<(), ExportError>(())
    });
    try_join_all(readers).await?;
    // The lists of comments that are not published follow the shards.
    for (number, status) in (PRIMARIES_SHARDS..).zip(Status::UNPUBLISHED) {
        let scanned = export.staging.borrow().scanned(number)?;
        if scanned != Scanned::All {
            scan_unpublished(export, status).await?;
            export.staging.borrow_mut().end_shard(number)?;
        }
    }
    Ok(())
}

/// Scans the comments of a status that readers do not see. An export that ended within the list reads it from the start.
async fn scan_unpublished(export: &Export<'_>, status: Status) -> Result<(), ExportError> {
    let mut from = None;
    loop {
        let part = export.table.moderation_part(status, from, COMMENTS_MAX).await?;
        let mut read = Vec::with_capacity(part.comments.len());
        for comment in part.comments {
            match comment {
                Ok(comment) => read.push(comment),
                Err(InvalidEntry { key, problem }) => {
                    export.staging.borrow_mut().add_problem(&key.pk, &key.sk, &problem.to_string())?;
                }
            }
        }
        read.retain(|comment: &Comment| export.subject.includes(&comment.product));
        export.progress.add_comments(u64::try_from(read.len()).unwrap_or(u64::MAX));
        export.staging.borrow_mut().add_unpublished(read)?;
        from = part.next;
        if from.is_none() {
            return Ok(());
        }
    }
}

async fn scan_shard(export: &Export<'_>, shard: u32) -> Result<(), ExportError> {
    let scanned = export.staging.borrow().scanned(shard)?;
    let after = match scanned {
        Scanned::All => return Ok(()),
        Scanned::Nothing => None,
        Scanned::Product(product) => Some(product),
        Scanned::Within(product, cd) => {
            let from = CommentsPosition::after(&product, &cd);
            scan_product(export, shard, &product, Some(from)).await?;
            Some(product)
        }
    };
    if export.subject.products.is_empty() {
        scan_products(export, shard, after.as_ref().map(PrimariesPosition::after)).await?;
    } else {
        for product in chosen(&export.subject.products, shard, after.as_ref()) {
            scan_product(export, shard, product, None).await?;
        }
    }
    export.staging.borrow_mut().end_shard(shard)
}

/// Scans the products of a shard from a position.
async fn scan_products(
    export: &Export<'_>,
    shard: u32,
    mut from: Option<PrimariesPosition>,
) -> Result<(), ExportError> {
    loop {
        let part = export.table.products_part(shard, from).await?;
        for InvalidEntry { key, problem } in part.invalid {
            export.staging.borrow_mut().add_problem(&key.pk, &key.sk, &problem.to_string())?;
        }
        for product in &part.products {
            scan_product(export, shard, product, None).await?;
        }
        from = part.next;
        if from.is_none() {
            return Ok(());
        }
    }
}

/// The chosen products of a shard after one of them. A scan takes the products of a shard in one order, so it can resume.
fn chosen<'all>(
    products: &'all [ProductId],
    shard: u32,
    after: Option<&'all ProductId>,
) -> impl Iterator<Item = &'all ProductId> {
    let is_left = move |product: &&ProductId| {
        PrimariesKey::shard_of(product) == shard && after.is_none_or(|after| *product > after)
    };
    products.iter().filter(is_left)
}

/// Scans the comments of a product from a position.
async fn scan_product(
    export: &Export<'_>,
    shard: u32,
    product: &ProductId,
    mut from: Option<CommentsPosition>,
) -> Result<(), ExportError> {
    loop {
        let part = export.table.comments_part(product, from, COMMENTS_MAX).await?;
        from = part.next.clone();
        let added = export.staging.borrow_mut().add(shard, product, part)?;
        export.progress.add_comments(added);
        if from.is_none() {
            return Ok(());
        }
    }
}
