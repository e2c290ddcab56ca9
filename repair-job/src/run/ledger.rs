//! What a run has found and done so far: its report, and the differences already counted, so that a difference found in
//! two ways counts once.
//!
//! Memory is bounded, even when everything is wrong and nothing is repaired, as in a dry run over a table without
//! duplicates. A difference takes four bytes, a comment about sixty more.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash},
};

use model::{
    CommentId, ProductId,
    plan::reconcile::{Drift, DriftKind, Places},
};
use parking_lot::{Mutex, MutexGuard};
use process::StoreError;

use crate::{
    repair::suspect::{Differences, State},
    run::report::{Report, TEXTS_MAX},
};

/// Maximum number of comments remembered as counted. 200,000 comments with all 37 entries wrong take about 60 MB.
/// Beyond it, a difference that is found twice counts twice.
const COUNTED_MAX: usize = 200_000;

/// Maximum number of unresolved comments whose reason is kept.
pub(crate) const UNRESOLVED_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Ledger {
    report: Mutex<Report>,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// The remaining differences of each comment, as hashes. The key is the hash of the comment's id.
    left: HashMap<u64, Box<[u32]>>,
    /// The remaining differences of names, as hashes. A name belongs to all comments of its product.
    names_left: HashSet<u64>,
    unresolved_ids: HashSet<u64>,
    unresolved: BTreeMap<CommentId, (String, Places)>,
    /// Products whose keys in the page index hold values of the wrong type.
    unreadable_products: BTreeSet<ProductId>,
    has_left_out: bool,
}

impl Ledger {
    pub(crate) fn new(command: &str, apply: bool) -> Self {
        let report = Report { command: command.to_owned(), apply, ..Report::default() };
        Self { report: Mutex::new(report), counted: Mutex::default() }
    }

    pub(crate) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock()
    }

    pub(crate) fn into_report(self) -> Report {
        self.report.into_inner()
    }

    pub(crate) fn add_unresolved(&self, what: String) {
        tracing::error!(what, "unresolved: a person has to look");
        let mut report = self.report();
        report.unresolved_count += 1;
        if report.unresolved.len() < TEXTS_MAX {
            report.unresolved.push(what);
        }
    }

    pub(crate) fn add_skipped(&self, what: String) {
        let mut report = self.report();
        report.skipped_count += 1;
        if report.skipped.len() < TEXTS_MAX {
            report.skipped.push(what);
        }
    }

    pub(crate) fn add_note(&self, what: String) {
        self.report().notes.push(what);
    }

    /// Reports, once, a product whose keys in the page index hold values of the wrong type.
    pub(crate) fn add_unreadable_product(&self, product: &ProductId, error: &StoreError) {
        if self.counted.lock().unreadable_products.insert(product.clone()) {
            self.add_unresolved(format!(
                "product {product} in the page index: {error}: repair-job rebuild --apply removes what is wrong"
            ));
        }
    }

    /// Counts a difference that belongs to no comment. A run that repairs has repaired it.
    pub(crate) fn add_drift(&self, kind: DriftKind) {
        let mut report = self.report();
        *report.drifted.entry(kind).or_default() += 1;
        match report.apply {
            true => report.repaired += 1,
            false => report.left += 1,
        }
    }

    pub(crate) fn forget_drift(&self) {
        let mut report = self.report();
        report.drifted.clear();
        (report.drifted_comments, report.repaired) = (0, 0);
    }

    /// The unresolved comments with their reasons and places. At most [`UNRESOLVED_MAX`] of them are kept.
    pub(crate) fn unresolved_comments(&self) -> Vec<(CommentId, String, Places)> {
        let counted = self.counted.lock();
        counted.unresolved.iter().map(|(id, (what, places))| (id.clone(), what.clone(), places.clone())).collect()
    }

    pub(crate) fn has_left_out(&self) -> bool {
        self.counted.lock().has_left_out
    }

    /// Adds the result for a comment; `state` is `None` when a store failed. A remaining difference counts once, even
    /// when it is found in two ways; in a dry run, all differences remain. A comment that needs a person also counts
    /// once.
    pub(crate) fn add_repaired(
        &self,
        id: &CommentId,
        places: &Places,
        Differences { repaired, left }: &Differences,
        state: Option<&State>,
        is_stopping: bool,
    ) {
        let (left, was_counted) = self.counted.lock().add_left(id, left);
        let count = |drift: &[Drift]| u64::try_from(drift.len()).unwrap_or(u64::MAX);
        {
            let mut report = self.report();
            report.drifted_comments += u64::from(!was_counted && (!repaired.is_empty() || !left.is_empty()));
            for drift in repaired.iter().chain(&left) {
                *report.drifted.entry(drift.kind()).or_default() += 1;
            }
            report.repaired += count(repaired);
            report.left += count(&left);
        }
        repaired.iter().for_each(|drift| tracing::info!(comment = %id, %drift, "repaired"));
        left.iter().for_each(|drift| tracing::info!(comment = %id, %drift, "found"));
        match state {
            None | Some(State::Settled) => {}
            Some(State::Unresolved(what)) => {
                if self.counted.lock().add_unresolved(id, what, places) {
                    self.add_unresolved(what.clone());
                }
            }
            Some(State::KeepsChanging) => {
                self.add_skipped(format!("comment {id} keeps changing; its last change is in the journal"));
            }
            // The run says so when it ends.
            Some(State::LeftOut(_)) if is_stopping => self.counted.lock().has_left_out = true,
            Some(State::LeftOut(why)) => self.add_skipped(format!("comment {id}: {why}")),
            Some(State::IndexAway(error)) => {
                self.add_skipped(format!("comment {id}: its entries in the page index, because {error}"));
            }
        }
    }
}

impl Counted {
    /// Counts remaining differences. Returns the new ones, and whether the comment already had counted ones.
    fn add_left(&mut self, id: &CommentId, left: &[Drift]) -> (Vec<Drift>, bool) {
        if left.is_empty() {
            return (Vec::new(), false);
        }
        let name = hash_of(id);
        let was_counted = self.left.contains_key(&name);
        let mut hashes = self.left.get(&name).map_or(Vec::new(), |before| before.to_vec());
        let mut new = Vec::new();
        for drift in left {
            let hash = short_hash_of(drift);
            if !hashes.contains(&hash) {
                hashes.push(hash);
                if self.is_new_name(drift) {
                    new.push(drift.clone());
                }
            }
        }
        if was_counted || self.left.len() < COUNTED_MAX {
            self.left.insert(name, hashes.into_boxed_slice());
        }
        (new, was_counted)
    }

    /// `false` for a name that another comment has counted: the first repair would add it for both.
    fn is_new_name(&mut self, drift: &Drift) -> bool {
        let is_of_name = matches!(drift.kind(), DriftKind::MissingName | DriftKind::ExtraName);
        if !is_of_name || self.names_left.len() >= COUNTED_MAX {
            return true;
        }
        self.names_left.insert(hash_of(&drift.to_string()))
    }

    /// Counts an unresolved comment and the places where it was looked for. Returns `false` when it was counted before.
    fn add_unresolved(&mut self, id: &CommentId, what: &str, places: &Places) -> bool {
        let name = hash_of(id);
        if self.unresolved_ids.contains(&name) {
            if let Some((_, before)) = self.unresolved.get_mut(id) {
                before.join(places);
            }
            return false;
        }
        if self.unresolved_ids.len() < COUNTED_MAX {
            self.unresolved_ids.insert(name);
        }
        if self.unresolved.len() < UNRESOLVED_MAX {
            self.unresolved.insert(id.clone(), (what.to_owned(), places.clone()));
        }
        true
    }
}

fn hash_of(what: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(what)
}

/// The chance that two of one comment's few dozen differences share a hash is one in millions.
fn short_hash_of(drift: &Drift) -> u32 {
    u32::try_from(hash_of(&drift.to_string()) >> 32).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use model::{FilterKey, Language};

    use super::*;

    #[test]
    fn a_difference_that_is_found_twice_counts_once() {
        let id = CommentId::parse("c1").unwrap();
        let key = |text: &str| FilterKey::parse(text).unwrap();
        let one = Drift::MissingDuplicate(key("PRODUCT#p/en/~"));
        let another = Drift::ExtraDuplicate(key("PRODUCT#p/en/~"));
        let mut counted = Counted::default();
        assert_eq!(counted.add_left(&id, &[]), (Vec::new(), false));
        assert_eq!(counted.add_left(&id, std::slice::from_ref(&one)), (vec![one.clone()], false));
        assert_eq!(counted.add_left(&id, &[one.clone(), another.clone()]), (vec![another], true));
        assert_eq!(counted.add_left(&CommentId::parse("c2").unwrap(), std::slice::from_ref(&one)), (vec![one], false));
        // A name is missing for all comments of its product, and the first repair adds it for all.
        let name = |language: Option<&str>| {
            let language = language.map(|tag| Language::parse(tag).unwrap());
            Drift::MissingName(ProductId::parse("p").unwrap(), language)
        };
        for (comment, drift, is_new) in
            [("c3", name(None), true), ("c4", name(None), false), ("c4", name(Some("en")), true)]
        {
            let (new, _) = counted.add_left(&CommentId::parse(comment).unwrap(), std::slice::from_ref(&drift));
            assert_eq!(new, if is_new { vec![drift] } else { vec![] }, "{comment}");
        }
        let mut places = Places::default();
        assert!(counted.add_unresolved(&id, "why", &places));
        places.add(&ProductId::parse("p").unwrap(), None);
        assert!(!counted.add_unresolved(&id, "why else", &places));
        assert_eq!(counted.unresolved, [(id, ("why".to_owned(), places))].into());
    }

    #[test]
    fn many_comments_with_everything_wrong_take_little_memory() {
        let product = ProductId::parse("p").unwrap();
        let drift: Vec<Drift> = (0..37)
            .map(|number| FilterKey::parse(&format!("PRODUCT#{product}/x-{number}/~")).unwrap())
            .map(Drift::MissingDuplicate)
            .collect();
        let mut counted = Counted::default();
        for number in 0..COUNTED_MAX / 100 {
            let id = CommentId::parse(&format!("c{number}")).unwrap();
            assert_eq!(counted.add_left(&id, &drift).0.len(), drift.len());
        }
        let kept: usize = counted.left.values().map(|hashes| size_of_val(&**hashes) + size_of_val(hashes)).sum();
        assert!(kept <= COUNTED_MAX / 100 * (37 * 4 + 16), "{kept}");
    }
}
