//! One partition of the index: its marker, and its products. Everything here is in memory and pure.

use std::collections::BTreeMap;

use model::{BaseSet, ProductId, plan::IndexEdit};
use page_index::MarkerState;

use crate::{codes::Languages, product::ProductComments};

#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    pub(crate) state: MarkerState,
    pub(crate) languages: Languages,
    pub(crate) products: BTreeMap<ProductId, ProductComments>,
}

impl Partition {
    /// Makes one comment's entry match an edit. A product exists as long as it has comments.
    pub(crate) fn apply(&mut self, edit: &IndexEdit) {
        let Self {
            languages,
            products,
            ..
        } = self;
        match products.get_mut(&edit.product) {
            Some(product) => {
                product.apply(edit, languages);
                if product.is_empty() {
                    products.remove(&edit.product);
                }
            }
            None if edit.add.is_empty() => {}
            None => products
                .entry(edit.product.clone())
                .or_default()
                .apply(edit, languages),
        }
    }

    pub(crate) fn size(&self, set: &BaseSet) -> u64 {
        match self.products.get(&set.product) {
            Some(product) => product.count(self.languages.codes_in(set)),
            None => 0,
        }
    }

    pub(crate) fn begin_rebuild(&mut self, token: &str) {
        *self = Self::default();
        self.state.rebuild = Some(token.to_owned());
    }

    pub(crate) fn clear(&mut self) {
        let rebuild = self.state.rebuild.take();
        *self = Self::default();
        self.state.rebuild = rebuild;
    }
}
