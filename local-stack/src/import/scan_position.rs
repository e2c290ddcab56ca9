//! How far the scan of another table has come, as a checkpoint keeps it.
//!
//! **Invariant:** a segment's position passes an answer of the scan only when all its items are done. A refused item does
//! not stop it: its key is kept, and the next import reads it again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use process::now;
use serde::{Deserialize, Serialize};
use serde_dynamo::Item;

/// How many refused items are kept. The first that is not kept stops the positions.
const REFUSED_MAX: usize = 10_000;

/// What is kept of the scan of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptScan {
    /// The table's identity, and the options of the import. With others, the scan begins anew.
    of: String,
    /// When the first import began, which is before the scan, as text of RFC 3339.
    pub(super) began: String,
    pub(super) segments: Vec<Segment>,
    /// The keys of items that were refused, as JSON.
    pub(super) refused: BTreeSet<String>,
}

/// How far the scan of a segment has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Segment {
    Unread,
    /// Read up to the item of this key.
    After(Item),
    Done,
}

impl KeptScan {
    /// A scan that begins now.
    pub(super) fn begin(of: String, segments: u32) -> Self {
        let segments = (0..segments).map(|_| Segment::Unread).collect();
        Self { of, began: now().to_string(), segments, refused: BTreeSet::new() }
    }

    /// Whether this is a scan of the same table, with the same options and in as many segments.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.of == other.of && self.segments.len() == other.segments.len()
    }
}

/// A scan under way: what is kept of it, and what is not done yet.
#[derive(Debug)]
pub(super) struct ScanUnderWay {
    pub(super) kept: KeptScan,
    /// The keys of the items that are not done, by their numbers.
    keys: BTreeMap<u64, String>,
    /// The answers that were read, in their order: the number of the last item so far, the segment, and its new position.
    answers: VecDeque<(u64, usize, Segment)>,
}

impl ScanUnderWay {
    pub(super) fn of(kept: KeptScan) -> Self {
        Self { kept, keys: BTreeMap::new(), answers: VecDeque::new() }
    }

    /// An item was read.
    pub(super) fn begin_item(&mut self, number: u64, key: String) {
        self.keys.insert(number, key);
    }

    /// An answer was read, and its last item has this number, unless it had none.
    pub(super) fn end_answer(&mut self, last: u64, segment: usize, position: Segment) {
        self.answers.push_back((last, segment, position));
    }

    /// An item is in the table.
    pub(super) fn end_item(&mut self, number: u64) {
        if let Some(key) = self.keys.remove(&number) {
            self.kept.refused.remove(&key);
        }
    }

    /// An item is refused. Returns whether its key is kept.
    pub(super) fn refuse_item(&mut self, number: u64) -> bool {
        let Some(key) = self.keys.remove(&number) else { return false };
        let is_kept = self.kept.refused.contains(&key) || self.kept.refused.len() < REFUSED_MAX;
        if is_kept {
            self.kept.refused.insert(key);
        } else {
            self.keys.insert(number, key);
        }
        is_kept
    }

    /// All items up to a number are done, apart from those that are not.
    pub(super) fn advance(&mut self) {
        let first_open = self.keys.keys().next().copied().unwrap_or(u64::MAX);
        while let Some((_, segment, position)) = self.answers.pop_front_if(|(last, ..)| *last < first_open) {
            if let Some(kept) = self.kept.segments.get_mut(segment) {
                *kept = position;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_dynamo::AttributeValue;

    use super::*;

    fn after(key: &str) -> Segment {
        Segment::After(Item::from(std::collections::HashMap::from([(
            "pk".to_owned(),
            AttributeValue::S(key.to_owned()),
        )])))
    }

    fn scan() -> ScanUnderWay {
        ScanUnderWay::of(KeptScan::begin("table".to_owned(), 2))
    }

    #[test]
    fn a_segment_advances_when_all_items_of_its_answers_are_done() {
        let mut scan = scan();
        (1..=2).for_each(|number| scan.begin_item(number, number.to_string()));
        scan.end_answer(2, 0, after("2"));
        scan.begin_item(3, "3".to_owned());
        scan.end_answer(3, 1, Segment::Done);
        // An answer without a comment.
        scan.end_answer(3, 0, Segment::Done);
        for (done, expected) in [
            (1, [Segment::Unread, Segment::Unread]),
            (3, [Segment::Unread, Segment::Unread]),
            (2, [Segment::Done, Segment::Done]),
        ] {
            scan.end_item(done);
            scan.advance();
            assert_eq!(scan.kept.segments, expected, "{done}");
        }
    }

    #[test]
    fn a_refused_item_is_passed_and_kept_until_it_is_imported() {
        let mut refusing = scan();
        refusing.begin_item(1, "a".to_owned());
        refusing.end_answer(1, 0, Segment::Done);
        assert!(refusing.refuse_item(1));
        refusing.advance();
        assert_eq!(refusing.kept.segments[0], Segment::Done);
        let mut again = ScanUnderWay::of(refusing.kept);
        assert!(again.kept.refused.contains("a"));
        again.begin_item(1, "a".to_owned());
        again.end_item(1);
        assert!(again.kept.refused.is_empty());
    }

    #[test]
    fn refused_items_are_bounded_and_the_next_stops_the_position() {
        let mut scan = scan();
        let many = u64::try_from(REFUSED_MAX).unwrap();
        for number in 1..=many + 1 {
            scan.begin_item(number, number.to_string());
            assert_eq!(scan.refuse_item(number), number <= many);
        }
        scan.end_answer(many + 1, 0, Segment::Done);
        scan.advance();
        assert_eq!(scan.kept.segments[0], Segment::Unread);
    }
}
