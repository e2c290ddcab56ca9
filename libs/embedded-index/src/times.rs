//! The creation times of comments whose ids do not hold them.
//!
//! An edit names the comment that leaves by its id. The tree finds an entry by creation time and
//! id. Pagemark's own ids are ULIDs, which begin with the creation time. All other comments have
//! their times here.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use model::{Cd, CommentId, Timestamp};

/// A map from ids to creation times. It stores the hash of an id instead of the id. The tree has
/// the id, and decides which of several times belongs to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    hasher: DefaultHashBuilder,
    times: HashTable<(u64, Timestamp)>,
}

impl Times {
    /// What the comment with this id may be in the tree.
    pub(crate) fn candidates(&self, id: &CommentId) -> impl Iterator<Item = Cd> {
        let hash = self.hasher.hash_one(id);
        let stored = self
            .times
            .iter_hash(hash)
            .filter(move |(stored, _)| *stored == hash)
            .map(|(_, time)| *time);
        stored.chain(id.time()).map(|created_at| Cd {
            created_at,
            id: id.clone(),
        })
    }

    /// Stores a comment's time, unless its id holds it.
    pub(crate) fn insert(&mut self, cd: &Cd) {
        if cd.id.time() != Some(cd.created_at) {
            let hash = self.hasher.hash_one(&cd.id);
            self.times
                .insert_unique(hash, (hash, cd.created_at), |(hash, _)| *hash);
        }
    }

    pub(crate) fn remove(&mut self, cd: &Cd) {
        let hash = self.hasher.hash_one(&cd.id);
        if let Ok(entry) = self
            .times
            .find_entry(hash, |stored| *stored == (hash, cd.created_at))
        {
            entry.remove();
            if self.times.capacity() > 4 * self.times.len() {
                self.times.shrink_to_fit(|(hash, _)| *hash);
            }
        }
    }
}
