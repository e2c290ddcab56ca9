//! Writes to the page index.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::{Language, ProductId, Rating, plan::IndexEdit};
use page_index::{Edits, IndexPartition};
use process::StoreError;

use crate::{RedisIndex, connection::Routed, keys::home_text};

/// How many edits of a product one script call applies. It blocks the server for about a
/// millisecond.
const EDITS_OF_A_CALL: usize = 64;

#[async_trait]
impl Edits for RedisIndex {
    async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        let mut by_product: BTreeMap<&ProductId, Vec<&IndexEdit>> = BTreeMap::new();
        for edit in edits {
            by_product.entry(&edit.product).or_default().push(edit);
        }
        let mut calls = Vec::with_capacity(by_product.len());
        for (product, edits) in by_product {
            for together in edits.chunks(EDITS_OF_A_CALL) {
                calls.push(self.edit_call(product, together));
            }
        }
        self.ask_all::<()>(calls).await.map(drop)
    }

    /// Only the product has a name of its own. Its languages follow from its totals.
    async fn forget_if_empty(
        &self,
        product: &ProductId,
        _language: Option<&Language>,
    ) -> Result<(), StoreError> {
        self.ask(self.edit_call(product, &[])).await
    }

    async fn forget_stray(&self, partition: IndexPartition, name: &str) -> Result<(), StoreError> {
        self.ask(Routed::new("SREM", &self.keys.products(partition)).arg(name))
            .await
    }

    async fn recount(&self, product: &ProductId) -> Result<(), StoreError> {
        self.repair_counts(product).await
    }
}

impl RedisIndex {
    fn edit_call(&self, product: &ProductId, edits: &[&IndexEdit]) -> Routed<'_> {
        let keys = [
            self.keys.products(self.keys.partition_of(product)),
            self.keys.totals(product),
        ];
        let mut call = Routed::call(&self.scripts.edit, &keys).arg(product.escaped());
        for edit in edits {
            call = call.arg(edit.id.as_str()).arg(home_text(&edit.id));
            call = match (placement_of(edit), edit.created_at) {
                (Some((language, rating)), Some(created_at)) => call
                    .arg(created_at.epoch_ms())
                    .arg(language.as_str())
                    .arg(rating.as_str()),
                (None, _) | (_, None) => call.arg("").arg("").arg(""),
            };
            call = call.arg(u8::from(!edit.remove.is_empty()));
        }
        call
    }
}

/// The language and the rating that an edit gives a comment. Two sets hold it; the one of its
/// language says everything.
fn placement_of(edit: &IndexEdit) -> Option<(&Language, Rating)> {
    for set in &edit.add {
        if let Some(language) = &set.language {
            return Some((language, set.rating));
        }
    }
    None
}
