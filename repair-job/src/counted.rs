//! Remembers the differences already counted, so that a difference found in two ways counts once.
//!
//! Memory is bounded, even when everything is wrong and nothing is repaired, as in a dry run over a table without
//! duplicates. A difference takes four bytes, a comment about sixty more.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use model::{
    CommentId,
    plan::reconcile::{Drift, Places},
};

/// Maximum number of comments remembered as counted. 200,000 comments with all 37 entries wrong take about 60 MB.
/// Beyond it, a difference that is found twice counts twice.
const COUNTED_MAX: usize = 200_000;

/// Maximum number of unresolved comments whose reason is kept.
pub(crate) const UNRESOLVED_MAX: usize = 1_000;

/// Differences and unresolved comments counted so far.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The remaining differences of each comment, as hashes. The key is the hash of the comment's id.
    left: HashMap<u64, Box<[u32]>>,
    /// The hashes of the ids of unresolved comments.
    need_person: HashSet<u64>,
    unresolved: BTreeMap<CommentId, (String, Places)>,
}

impl Counted {
    /// Counts remaining differences. Returns the new ones, and whether the comment already had counted ones.
    pub(crate) fn add_left(&mut self, id: &CommentId, left: &[Drift]) -> (Vec<Drift>, bool) {
        if left.is_empty() {
            return (Vec::new(), false);
        }
        let name = hash_of(id);
        let before = self.left.get(&name).map(|before| before.to_vec());
        let was_counted = before.is_some();
        let mut hashes = before.unwrap_or_default();
        let mut new = Vec::new();
        for drift in left {
            let hash = short_hash_of(drift);
            if !hashes.contains(&hash) {
                hashes.push(hash);
                new.push(drift.clone());
            }
        }
        if was_counted || self.left.len() < COUNTED_MAX {
            self.left.insert(name, hashes.into_boxed_slice());
        }
        (new, was_counted)
    }

    /// Counts an unresolved comment and the places where it was looked for. Returns `false` when it was counted before.
    pub(crate) fn add_unresolved(&mut self, id: &CommentId, what: &str, places: &Places) -> bool {
        let name = hash_of(id);
        if self.need_person.contains(&name) {
            if let Some((_, before)) = self.unresolved.get_mut(id) {
                before.join(places);
            }
            return false;
        }
        if self.need_person.len() < COUNTED_MAX {
            self.need_person.insert(name);
        }
        if self.unresolved.len() < UNRESOLVED_MAX {
            self.unresolved.insert(id.clone(), (what.to_owned(), places.clone()));
        }
        true
    }

    /// The unresolved comments with their reasons and places. At most [`UNRESOLVED_MAX`] of them are kept.
    pub(crate) fn unresolved(&self) -> Vec<(CommentId, String, Places)> {
        self.unresolved.iter().map(|(id, (what, places))| (id.clone(), what.clone(), places.clone())).collect()
    }
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The chance that two of one comment's few dozen differences share a hash is one in millions.
fn short_hash_of(drift: &Drift) -> u32 {
    u32::try_from(hash_of(&drift.to_string()) >> 32).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use model::{FilterKey, Language, ProductId};

    use super::*;

    #[test]
    fn what_is_found_twice_counts_once() {
        let id = CommentId::parse("c1").unwrap();
        let key = |text: &str| FilterKey::parse(text).unwrap();
        let one = Drift::MissingDuplicate(key("PRODUCT#p/en/~"));
        let another = Drift::ExtraDuplicate(key("PRODUCT#p/en/~"));
        let mut counted = Counted::default();
        assert_eq!(counted.add_left(&id, &[]), (Vec::new(), false));
        assert_eq!(counted.add_left(&id, std::slice::from_ref(&one)), (vec![one.clone()], false));
        assert_eq!(counted.add_left(&id, &[one.clone(), another.clone()]), (vec![another], true));
        assert_eq!(counted.add_left(&CommentId::parse("c2").unwrap(), std::slice::from_ref(&one)), (vec![one], false));
        let mut places = Places::default();
        assert!(counted.add_unresolved(&id, "why", &places));
        places.add(&ProductId::parse("p").unwrap(), None);
        assert!(!counted.add_unresolved(&id, "why else", &places));
        assert_eq!(counted.unresolved(), [(id, "why".to_owned(), places)]);
    }

    #[test]
    fn of_many_comments_with_everything_wrong_little_is_kept() {
        let product = ProductId::parse("p").unwrap();
        let drift: Vec<Drift> = (0..37)
            .map(|number| Language::parse(&format!("x-{number}")).unwrap())
            .map(|language| Drift::MissingName(product.clone(), Some(language)))
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
