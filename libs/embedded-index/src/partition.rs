//! One partition of the index: its marker, and its products. Everything here is in memory and pure.
//!
//! **Invariant:** only the last rebuild that began gives a partition a marker. Until it does,
//! nothing else changes there but comments.

use std::collections::BTreeMap;

use model::{
    BaseSet, ProductId, Timestamp,
    plan::IndexEdit,
    planted::{self, Bug},
};
use page_index::{Advance, ConfirmationTime, Marker};

use crate::{codes::Languages, product::ProductComments};

#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    pub(crate) marker: Marker,
    /// Left in the marker by the caller that prepares to advance the watermark.
    nonce: Option<String>,
    rebuild: Option<String>,
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
        *self = Self {
            rebuild: Some(token.to_owned()),
            ..Self::default()
        };
    }

    /// Whether the rebuild with this token is the last that began, and has not ended.
    pub(crate) fn is_filled_by(&self, token: &str) -> bool {
        self.rebuild.as_deref() == Some(token)
    }

    /// Marks the partition ready, as of the watermark, if this rebuild is the last that began. The
    /// rebuild's token becomes the confirmation's. Returns whether the partition is marked so, also
    /// when an earlier call did it.
    pub(crate) fn finish_rebuild(
        &mut self,
        token: &str,
        owner: &str,
        watermark: Timestamp,
    ) -> bool {
        let marked = Marker {
            owner: Some(owner.to_owned()),
            watermark: Some(watermark),
            confirmed: Some(watermark),
            token: Some(token.to_owned()),
        };
        if self.may_mark(token) {
            self.marker = marked.clone();
            self.rebuild = None;
        }
        self.marker == marked
    }

    /// Only the last rebuild that began may mark the partition.
    fn may_mark(&self, token: &str) -> bool {
        self.is_filled_by(token) || planted::has(Bug::MarkedRestored)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self {
            rebuild: self.rebuild.take(),
            ..Self::default()
        };
    }

    /// Whether the marker belongs to this owner, and no rebuild is filling the partition.
    fn is_marked_by(&self, owner: &str) -> bool {
        self.rebuild.is_none() && self.marker.owner.as_deref() == Some(owner)
    }

    /// Leaves a nonce if the watermark is still `from`, or advances it `to` an instant if the nonce
    /// is still there.
    pub(crate) fn advance_step(
        &mut self,
        advance: &Advance,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> bool {
        let is_mine = match to {
            None => self.marker.watermark == Some(from),
            Some(_) => self.nonce.as_ref() == Some(&advance.nonce),
        };
        let is_done = is_mine && self.is_marked_by(&advance.owner);
        if is_done {
            if to.is_some() {
                self.nonce = None;
                self.marker.watermark = to;
            } else {
                self.nonce = Some(advance.nonce.clone());
            }
        }
        is_done
    }

    /// Leaves the token of a confirmation if the marker still has the token that was read.
    pub(crate) fn leave_token(
        &mut self,
        owner: &str,
        read: &str,
        token: &str,
        time: ConfirmationTime,
    ) -> bool {
        let is_same =
            self.is_marked_by(owner) && self.marker.token.as_deref().unwrap_or_default() == read;
        if is_same {
            self.marker.token = Some(token.to_owned());
            match time {
                ConfirmationTime::Unchanged => {}
                ConfirmationTime::TakenAway => self.marker.confirmed = None,
                ConfirmationTime::At(at) => self.marker.confirmed = Some(at),
            }
        }
        is_same
    }
}
