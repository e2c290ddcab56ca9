//! What was counted of comments that are not in order, so that what two ways of looking find counts once.
//!
//! Memory is bounded, also where everything is wrong and nothing is mended, as in a dry run over a table without
//! duplicates: of a difference four bytes are kept, of a comment about sixty more.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use model::{
    CommentId,
    plan::reconcile::{Drift, Places},
};

/// How many comments are remembered as counted: 200,000 of which all 37 entries are wrong take some 60 MB. What is found
/// twice of further ones counts twice.
const COUNTED_MAX: usize = 200_000;

/// Of so many comments that need a person it is kept what is wrong with them.
pub(crate) const UNRESOLVED_MAX: usize = 1_000;

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// By the hash of a comment's id, the hashes of its differences that are left.
    left: HashMap<u64, Box<[u32]>>,
    /// The hashes of ids of comments that need a person.
    need_person: HashSet<u64>,
    unresolved: BTreeMap<CommentId, (String, Places)>,
}

impl Counted {
    /// Counts differences that are left; returns those that were not counted before, and whether others of the comment
    /// were.
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

    /// Counts a comment that needs a person, and where it was looked for; `false` when it was counted before.
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

    /// The comments that need a person, why, and where each was looked for; of many, some.
    pub(crate) fn unresolved(&self) -> Vec<(CommentId, String, Places)> {
        self.unresolved.iter().map(|(id, (what, places))| (id.clone(), what.clone(), places.clone())).collect()
    }
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Of one comment's few dozen differences, two have the same by one chance in millions.
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
