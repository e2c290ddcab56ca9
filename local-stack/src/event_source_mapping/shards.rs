//! Which shards of a stream are read, and when everything in them has been. No I/O, no clock.
//!
//! The rules are the service's (Amazon DynamoDB Developer Guide, "Change data capture for DynamoDB Streams"; API
//! reference, `GetRecords`): shards come and go; a shard's parent is read to its end before the shard itself, so that the
//! records of an item stay in order; a shard that was closed has been read to its end when there is no next iterator.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// A shard as `DescribeStream` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) id: String,
    pub(super) parent: Option<String>,
}

/// The shards of a stream, as far as they have been heard of.
#[derive(Debug, Default)]
pub(super) struct Shards {
    known: BTreeMap<String, Shard>,
    /// When the last look at the stream began; `None` when a shard has ended since, because it may have children that
    /// nobody has heard of.
    described_at: Option<Instant>,
}

#[derive(Debug)]
struct Shard {
    parent: Option<String>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// For its parent's end.
    Waiting,
    /// With the beginning of the last poll that found nothing new.
    Reading(Option<Instant>),
    /// Everything in it is done, and nothing will be added.
    Ended,
}

impl Shards {
    /// Takes over a look at the stream that began at `began`. Returns the shards to read from now on.
    ///
    /// A shard that the stream has forgotten is forgotten too, unless it is being read: that ends by itself.
    pub(super) fn describe(&mut self, described: Vec<Described>, began: Instant) -> Vec<String> {
        self.known.retain(|id, shard| {
            matches!(shard.progress, Progress::Reading(_)) || described.iter().any(|described| described.id == *id)
        });
        for Described { id, parent } in described {
            self.known.entry(id).or_insert(Shard { parent, progress: Progress::Waiting });
        }
        self.described_at = Some(began);
        // A parent that is not known any more is older than the stream's memory.
        let is_open = |id: &String| self.known.get(id).is_some_and(|shard| shard.progress != Progress::Ended);
        let waiting = self.known.iter().filter(|(_, shard)| shard.progress == Progress::Waiting);
        let ready: Vec<String> = waiting
            .filter(|(_, shard)| !shard.parent.as_ref().is_some_and(is_open))
            .map(|(id, _)| id.clone())
            .collect();
        for id in &ready {
            self.set(id, Progress::Reading(None));
        }
        ready
    }

    /// Notes that a poll of a shard that began at `began` found nothing new.
    pub(super) fn caught_up(&mut self, id: &str, began: Instant) {
        self.set(id, Progress::Reading(Some(began)));
    }

    /// Notes that a shard has been read to its end.
    pub(super) fn ended(&mut self, id: &str) {
        self.set(id, Progress::Ended);
        self.described_at = None;
    }

    /// Whether there is none to read.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The instant before which every record that was written is done; `None` while that is not known.
    ///
    /// A child is made when its parent is closed, and the poll of an open shard says that it is open. So what was written
    /// before that poll stands in no shard that nobody has heard of, however long ago the stream was looked at.
    pub(super) fn caught_up_at(&self) -> Option<Instant> {
        let mut earliest = None;
        for shard in self.known.values() {
            match shard.progress {
                Progress::Ended => {}
                Progress::Reading(Some(began)) => earliest = Some(earliest.map_or(began, |at: Instant| at.min(began))),
                Progress::Waiting | Progress::Reading(None) => return None,
            }
        }
        self.described_at.map(|described_at| earliest.unwrap_or(described_at))
    }

    fn set(&mut self, id: &str, progress: Progress) {
        if let Some(shard) = self.known.get_mut(id) {
            shard.progress = progress;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Shards as `child<parent`.
    fn described(shards: &[&str]) -> Vec<Described> {
        let shard = |text: &&str| match text.split_once('<') {
            Some((id, parent)) => Described { id: id.to_owned(), parent: Some(parent.to_owned()) },
            None => Described { id: (*text).to_owned(), parent: None },
        };
        shards.iter().map(shard).collect()
    }

    #[test]
    fn a_shard_is_read_when_its_parent_has_been_read_to_its_end() {
        let (mut shards, now) = (Shards::default(), Instant::now());
        let all = ["a", "b<a", "c<b", "d<a", "e<forgotten"];
        assert_eq!(shards.describe(described(&all), now), ["a", "e"]);
        assert_eq!(shards.describe(described(&all), now), [""; 0], "they are being read");
        shards.ended("a");
        assert_eq!(shards.describe(described(&all), now), ["b", "d"]);
        shards.ended("b");
        assert_eq!(shards.describe(described(&all), now), ["c"]);
        shards.ended("c");
        assert_eq!(shards.describe(described(&all), now), [""; 0], "none is read a second time");
    }

    #[test]
    fn a_shard_that_the_stream_has_forgotten_holds_up_no_child() {
        let (mut shards, now) = (Shards::default(), Instant::now());
        assert_eq!(shards.describe(described(&["a"]), now), ["a"]);
        assert_eq!(shards.describe(described(&["b<a"]), now), [""; 0], "it is still being read");
        shards.ended("a");
        assert_eq!(shards.describe(described(&["b<a"]), now), ["b"]);
    }

    #[test]
    fn caught_up_means_with_every_shard_there_may_be() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut shards = Shards::default();
        assert_eq!(shards.caught_up_at(), None, "nobody has looked");
        shards.describe(described(&[]), at(1));
        assert_eq!(shards.caught_up_at(), Some(at(1)), "no shards, no records");
        shards.describe(described(&["a", "b"]), at(2));
        shards.caught_up("a", at(4));
        assert_eq!(shards.caught_up_at(), None, "nothing is known of b");
        shards.caught_up("b", at(3));
        assert_eq!(shards.caught_up_at(), Some(at(3)));
        shards.caught_up("b", at(5));
        assert_eq!(shards.caught_up_at(), Some(at(4)));
        shards.ended("a");
        assert_eq!(shards.caught_up_at(), None, "it may have children");
        shards.describe(described(&["a", "b", "c<a"]), at(6));
        assert_eq!(shards.caught_up_at(), None, "nothing is known of c");
        shards.caught_up("c", at(7));
        assert_eq!(shards.caught_up_at(), Some(at(5)));
        shards.ended("b");
        shards.ended("c");
        shards.describe(described(&["a", "b", "c<a"]), at(8));
        assert_eq!(shards.caught_up_at(), Some(at(8)), "the stream is closed");
    }
}
