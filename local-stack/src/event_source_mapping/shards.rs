//! Selects the shards of a stream to read, and determines when everything in them is done. No I/O,
//! no clock.
//!
//! The rules are the service's (Amazon DynamoDB Developer Guide, "Change data capture for DynamoDB
//! Streams"; API reference, `GetRecords`):
//!
//! - Shards come and go.
//! - A parent shard is read to its end before its child, so that the records of an item stay in
//!   order.
//! - A closed shard has been read to its end when it returns no next iterator.

use std::collections::BTreeMap;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Shards {
    known: BTreeMap<String, Shard>,
    /// When the last description of the stream was requested. `None` after a shard has ended,
    /// because that shard may have unknown children.
    described_at: Option<Instant>,
}

#[derive(Debug)]
struct Shard {
    parent: Option<String>,
    progress: ShardProgress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShardProgress {
    Waiting,
    /// Is being read. Holds the start of the last poll that found nothing new.
    Reading(Option<Instant>),
    /// Everything in it is done, and nothing will be added.
    Ended,
}

impl Shards {
    /// Applies a description of the stream that was requested at `began`: each shard, and its
    /// parent if it has one. Returns the shards to start reading.
    ///
    /// A shard that the stream no longer lists is removed, unless it is being read: then it ends
    /// normally.
    pub(super) fn describe(
        &mut self,
        described: BTreeMap<String, Option<String>>,
        began: Instant,
    ) -> Vec<String> {
        self.known.retain(|id, shard| {
            matches!(shard.progress, ShardProgress::Reading(_)) || described.contains_key(id)
        });
        for (id, parent) in described {
            self.known.entry(id).or_insert(Shard {
                parent,
                progress: ShardProgress::Waiting,
            });
        }
        self.described_at = Some(began);
        let mut ready = Vec::new();
        for (id, shard) in &self.known {
            let is_waiting = shard.progress == ShardProgress::Waiting;
            if is_waiting && !shard.parent.as_deref().is_some_and(|id| self.is_open(id)) {
                ready.push(id.clone());
            }
        }
        for id in &ready {
            self.set(id, ShardProgress::Reading(None));
        }
        ready
    }

    /// Whether a shard may still have records. An unknown one is older than the stream's retention.
    fn is_open(&self, id: &str) -> bool {
        let shard = self.known.get(id);
        shard.is_some_and(|shard| shard.progress != ShardProgress::Ended)
    }

    /// Records that a poll of a shard, started at `began`, found nothing new.
    pub(super) fn caught_up(&mut self, id: &str, began: Instant) {
        self.set(id, ShardProgress::Reading(Some(began)));
    }

    pub(super) fn ended(&mut self, id: &str) {
        self.set(id, ShardProgress::Ended);
        self.described_at = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The instant before which every written record is done; `None` while that is unknown.
    ///
    /// A child shard is created when its parent is closed, and a poll of an open shard shows that
    /// it is open. So no unknown shard can hold records from before that poll, however old the
    /// stream's description is.
    pub(super) fn caught_up_at(&self) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        for shard in self.known.values() {
            match shard.progress {
                ShardProgress::Ended => {}
                ShardProgress::Reading(Some(began)) => {
                    earliest = match earliest {
                        Some(at) => Some(at.min(began)),
                        None => Some(began),
                    };
                }
                ShardProgress::Waiting | ShardProgress::Reading(None) => return None,
            }
        }
        self.described_at
            .map(|described_at| earliest.unwrap_or(described_at))
    }

    fn set(&mut self, id: &str, progress: ShardProgress) {
        if let Some(shard) = self.known.get_mut(id) {
            shard.progress = progress;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Parses shards written as `child<parent`.
    fn described(shards: &[&str]) -> BTreeMap<String, Option<String>> {
        let mut described = BTreeMap::new();
        for shard in shards {
            match shard.split_once('<') {
                Some((id, parent)) => described.insert(id.to_owned(), Some(parent.to_owned())),
                None => described.insert((*shard).to_owned(), None),
            };
        }
        described
    }

    #[test]
    fn a_shard_is_read_when_its_parent_has_been_read_to_its_end() {
        let mut shards = Shards::default();
        let now = Instant::now();
        let all = ["a", "b<a", "c<b", "d<a", "e<forgotten"];
        assert_eq!(shards.describe(described(&all), now), ["a", "e"]);
        assert_eq!(
            shards.describe(described(&all), now),
            [""; 0],
            "they are being read"
        );
        shards.ended("a");
        assert_eq!(shards.describe(described(&all), now), ["b", "d"]);
        shards.ended("b");
        assert_eq!(shards.describe(described(&all), now), ["c"]);
        shards.ended("c");
        assert_eq!(
            shards.describe(described(&all), now),
            [""; 0],
            "none is read a second time"
        );
    }

    #[test]
    fn a_shard_that_the_stream_has_forgotten_holds_up_no_child() {
        let mut shards = Shards::default();
        let now = Instant::now();
        assert_eq!(shards.describe(described(&["a"]), now), ["a"]);
        assert_eq!(
            shards.describe(described(&["b<a"]), now),
            [""; 0],
            "it is still being read"
        );
        shards.ended("a");
        assert_eq!(shards.describe(described(&["b<a"]), now), ["b"]);
    }

    #[test]
    fn caught_up_means_with_every_shard_there_may_be() {
        let start = Instant::now();
        let at: Vec<Instant> = (0..=8)
            .map(|seconds| start + Duration::from_secs(seconds))
            .collect();
        let mut shards = Shards::default();
        assert_eq!(shards.caught_up_at(), None, "nobody has looked");
        shards.describe(described(&[]), at[1]);
        assert_eq!(shards.caught_up_at(), Some(at[1]), "no shards, no records");
        shards.describe(described(&["a", "b"]), at[2]);
        shards.caught_up("a", at[4]);
        assert_eq!(shards.caught_up_at(), None, "nothing is known of b");
        shards.caught_up("b", at[3]);
        assert_eq!(shards.caught_up_at(), Some(at[3]));
        shards.caught_up("b", at[5]);
        assert_eq!(shards.caught_up_at(), Some(at[4]));
        shards.ended("a");
        assert_eq!(shards.caught_up_at(), None, "it may have children");
        shards.describe(described(&["a", "b", "c<a"]), at[6]);
        assert_eq!(shards.caught_up_at(), None, "nothing is known of c");
        shards.caught_up("c", at[7]);
        assert_eq!(shards.caught_up_at(), Some(at[5]));
        shards.ended("b");
        shards.ended("c");
        shards.describe(described(&["a", "b", "c<a"]), at[8]);
        assert_eq!(shards.caught_up_at(), Some(at[8]), "the stream is closed");
    }
}
