//! Writes to the page index.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::{Cd, Language, ProductId, Rating, plan::IndexEdit};
use page_index::{Edits, IndexPartition};
use process::StoreError;

use crate::{RedisIndex, connection::Routed, member::member_of};

/// How many edits of a product one script call applies. It blocks the server for about a
/// millisecond.
const EDITS_OF_A_CALL: usize = 64;

/// How many edits are grouped by product, at most. `ask_all` sends at most `TOGETHER_MAX` of their calls
/// together: some ten milliseconds of the server's time.
const EDITS_TOGETHER: usize = 1024;

#[async_trait]
impl Edits for RedisIndex {
    async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        for together in edits.chunks(EDITS_TOGETHER) {
            self.ask_all::<()>(self.edit_calls(together)).await?;
        }
        Ok(())
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
    fn edit_calls(&self, edits: &[IndexEdit]) -> Vec<Routed<'_>> {
        // Separate those that a full server also accepts.
        let mut by_product: BTreeMap<(&ProductId, bool), Vec<&IndexEdit>> = BTreeMap::new();
        for edit in edits {
            let together = (&edit.product, edit.add.is_empty());
            by_product.entry(together).or_default().push(edit);
        }
        let mut calls = Vec::with_capacity(by_product.len());
        for ((product, _), edits) in by_product {
            for edits in edits.chunks(EDITS_OF_A_CALL) {
                calls.push(self.edit_call(product, edits));
            }
        }
        calls
    }

    fn edit_call(&self, product: &ProductId, edits: &[&IndexEdit]) -> Routed<'_> {
        let keys = [
            self.keys.products(self.keys.partition_of(product)),
            self.keys.totals(product),
        ];
        let script = if edits.iter().all(|edit| edit.add.is_empty()) {
            &self.scripts.remove
        } else {
            &self.scripts.edit
        };
        let mut call = Routed::call(script, &keys).arg(product.escaped());
        for edit in edits {
            call = call.arg(edit.id.as_str());
            call = match (placement_of(edit), edit.created_at) {
                (Some((language, rating)), Some(created_at)) => {
                    let id = edit.id.clone();
                    let member = member_of(&Cd { created_at, id }, language, rating);
                    call.arg(created_at.epoch_ms()).arg(member)
                }
                (None, _) | (_, None) => call.arg("").arg(""),
            };
            call = call.arg(edit.remove_at.len());
            for time in &edit.remove_at {
                call = call.arg(time.epoch_ms());
            }
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
