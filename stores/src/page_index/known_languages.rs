//! Which languages products had when they were last asked for. It is a guess, which saves `stats` a call when it is right:
//! the answer of that call names the languages that there are, so a wrong guess costs a call and misleads nobody
//! (`tests/selection` changes languages under it).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use model::{Language, ProductId};

/// How many products are known; then all are forgotten. With [`LANGUAGES_MAX`] each that is some 40 MB, usually a tenth.
const PRODUCTS_MAX: usize = 10_000;

/// Products of more languages than this are not worth the room.
const LANGUAGES_MAX: usize = 64;

#[derive(Clone, Default)]
pub(super) struct KnownLanguages(Arc<Mutex<HashMap<ProductId, Vec<Language>>>>);

impl KnownLanguages {
    /// The languages that a product had, none when that is unknown.
    pub(super) fn of(&self, product: &ProductId) -> Vec<Language> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(product).cloned().unwrap_or_default()
    }

    /// Keeps the languages of a product.
    pub(super) fn keep(&self, product: &ProductId, languages: &[Language]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if languages.is_empty() || languages.len() > LANGUAGES_MAX {
            known.remove(product);
            return;
        }
        if known.len() >= PRODUCTS_MAX {
            known.clear();
        }
        known.insert(product.clone(), languages.to_vec());
    }
}
