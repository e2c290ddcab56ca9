//! What a caller asks that compares the index with the table.
//!
//! **Invariant:** a missing entry proves nothing in an index that was lost or is being rebuilt.
//! Both remove the markers before, or together with, the first entry. A server that was restored
//! from a snapshot, or that took over, has another identity. So a caller that checks markers and
//! identity after reading entries knows that those entries were not lost (`tests/repair/lost.rs`).

use std::collections::BTreeSet;

use futures_util::future::try_join;
use model::{
    BaseSet, CommentId, Filter, Language, ProductId, Rating, Timestamp,
    plan::reconcile::{Names, Places, Ranks},
};
use process::{Store, StoreError};

use crate::{IndexPartition, PageIndex, ServerIdentity, Sought};

/// A name in the page index: of a product (`None`), or of one of its languages.
pub type Name = (ProductId, Option<Language>);

impl PageIndex {
    /// A comment's entries in the products of `places`, with the creation times named there. Also
    /// lists the names from `places` that have no members.
    pub async fn ranks(&self, id: &CommentId, places: &Places) -> Result<Ranks, StoreError> {
        let products: BTreeSet<&ProductId> = places.products().collect();
        let mut names = self.names(&products).await?;
        let mut sought = Vec::new();
        for product in places.products() {
            let times = places.times_in(product).cloned();
            sought.push(Sought { product, id, times });
        }
        let mut named: Vec<Name> = Vec::new();
        for (product, expected) in places.iter() {
            if let Some(names) = names.get(product) {
                named.extend(expected_names(product, expected, names));
            }
        }
        let (found, without_members) =
            try_join(self.entries(&sought), self.without_members(named)).await?;
        for (product, language) in without_members {
            names
                .entry(product)
                .or_default()
                .without_members
                .insert(language);
        }
        Ok(Ranks::new(names, found.into_iter().flatten()))
    }

    /// The names whose five sets are all empty.
    pub async fn without_members(&self, names: Vec<Name>) -> Result<Vec<Name>, StoreError> {
        let sets: Vec<BaseSet> = names
            .iter()
            .flat_map(|(product, language)| Filter::new(language.clone(), None).base_sets(product))
            .collect();
        let sizes = self.sizes(&sets).await?;
        let of_names = sizes.chunks(Rating::ALL.len());
        let empty = names
            .into_iter()
            .zip(of_names)
            .filter(|(_, sizes)| sizes.iter().all(|size| *size == 0));
        Ok(empty.map(|(name, _)| name).collect())
    }

    /// Checks that the index that has just answered for partitions is up to date. Its servers must
    /// be those of before. Its markers must belong to this table, and must not be older than
    /// before.
    ///
    /// # Errors
    /// [`StoreError::unavailable`] when the check fails: the index was lost or restored, another
    /// server took over, or a rebuild began.
    pub async fn assert_up_to_date(
        &self,
        table_id: &str,
        since: &[(IndexPartition, Timestamp)],
        servers: &ServerIdentity,
    ) -> Result<(), StoreError> {
        let owner = self.owner(table_id);
        let partitions: Vec<IndexPartition> =
            since.iter().map(|(partition, _)| *partition).collect();
        let (markers, present) =
            try_join(self.markers(&partitions), self.server_identity()).await?;
        let is_up_to_date = since.iter().zip(markers).all(|((_, before), marker)| {
            marker
                .of_owner(&owner)
                .is_some_and(|mark| mark.watermark >= *before)
        });
        if is_up_to_date && present == *servers {
            return Ok(());
        }
        let detail =
            "it was lost, or its servers have changed, or a rebuild has begun, since the run began";
        Err(StoreError::unavailable(Store::PageIndex, detail))
    }
}

/// The names that are both in `expected` and in the index. The comment did not cause other names;
/// the index scan checks those.
fn expected_names(product: &ProductId, expected: &BTreeSet<Language>, names: &Names) -> Vec<Name> {
    let languages = names.languages.intersection(expected);
    let mut expected_names: Vec<Name> = languages
        .map(|language| (product.clone(), Some(language.clone())))
        .collect();
    if names.is_named {
        expected_names.push((product.clone(), None));
    }
    expected_names
}
