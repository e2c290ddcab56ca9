//! The languages that products had when they were last looked up.
//!
//! A caller must name the sets of the languages to a script. These are a guess, which saves a call
//! if it is right. The answer of the call names the actual languages, so a wrong guess costs one
//! call but never gives a wrong answer (`tests/reading/selection` changes languages meanwhile).

use std::{collections::HashMap, sync::Arc};

use model::{Language, ProductId};
use parking_lot::Mutex;

/// Maximum number of cached products; beyond it the cache is cleared. With [`LANGUAGES_MAX`]
/// languages each, this takes about 40 MB, usually a tenth of that.
const PRODUCTS_MAX: usize = 10_000;

/// Products with more languages than this are not cached.
const LANGUAGES_MAX: usize = 64;

#[derive(Clone, Default)]
pub(super) struct KnownLanguages(Arc<Mutex<HashMap<ProductId, Vec<Language>>>>);

impl KnownLanguages {
    pub(super) fn of(&self, product: &ProductId) -> Vec<Language> {
        self.0.lock().get(product).cloned().unwrap_or_default()
    }

    pub(super) fn keep(&self, product: &ProductId, languages: &[Language]) {
        let mut known = self.0.lock();
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
