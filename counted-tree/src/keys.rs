//! The keys of a leaf: ascending, packed into slots of equal width.
//!
//! A comment that Pagemark creates has a ULID as its id, and the ULID begins with the comment's creation time. Such a
//! key *carries its time*, and its 16 bytes are the whole key. A leaf stores these 16 bytes as long as all its keys
//! carry their time. One other key turns the leaf into slots of creation time and id text.

use std::cmp::Ordering;

use model::{Cd, CommentId, Timestamp};
use ulid::Ulid;

const ULID_BYTES: usize = 16;
const TIME_BYTES: usize = 8;

/// Fills the end of a slot whose id is shorter than the longest. It is less than every character of ids, so padded
/// slots keep the order of ids.
const PADDING: u8 = 0;

/// A key in the form that is compared with slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'cd> {
    cd: &'cd Cd,
    /// The key as a ULID, if it carries its time.
    ulid: Option<[u8; ULID_BYTES]>,
}

impl<'cd> Probe<'cd> {
    pub(crate) fn new(cd: &'cd Cd) -> Self {
        Self { cd, ulid: ulid_with_time(cd) }
    }

    pub(crate) fn cd(&self) -> &'cd Cd {
        self.cd
    }
}

/// How slots hold keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// ULIDs that carry their time.
    Ulid,
    /// The time in milliseconds and the text of the id, padded to this many bytes.
    Text { id_bytes: usize },
}

/// The keys of a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self { layout: Layout::Ulid, bytes: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.width()
    }

    /// The index of a key, or the index at which it would be inserted.
    pub(crate) fn search(&self, probe: &Probe<'_>) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.compare(middle, probe) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub(crate) fn get(&self, index: usize) -> Option<Cd> {
        let slot = self.slot(index);
        let (ms, id) = match self.layout {
            Layout::Ulid => {
                let ulid = Ulid::from_bytes(slot.try_into().ok()?);
                let id = CommentId::parse(ulid.array_to_str(&mut [0; ulid::ULID_LEN]));
                (i64::try_from(ulid.timestamp_ms()).ok()?, id)
            }
            Layout::Text { .. } => {
                let (ms, id) = split_text(slot)?;
                (ms, CommentId::parse(std::str::from_utf8(id).ok()?))
            }
        };
        Some(Cd { created_at: Timestamp::from_epoch_ms(ms).ok()?, id: id.ok()? })
    }

    pub(crate) fn insert(&mut self, index: usize, probe: &Probe<'_>) {
        self.make_room_for(probe);
        let width = self.width();
        reserve_little(&mut self.bytes, width);
        self.write(index, probe);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let width = self.width();
        self.bytes.drain(index * width..(index + 1) * width);
        if self.bytes.capacity() > 2 * self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
    }

    /// Moves the keys from an index on.
    pub(crate) fn split_off(&mut self, index: usize) -> Self {
        let bytes = self.bytes.split_off(index * self.width());
        self.bytes.shrink_to_fit();
        // New comments may follow imported ones. So an empty leaf may have another layout than the one before it.
        if bytes.is_empty() { Self::new() } else { Self { layout: self.layout, bytes } }
    }

    /// Appends greater keys.
    pub(crate) fn append(&mut self, mut other: Self) {
        let layout = match (self.layout, other.layout) {
            (Layout::Ulid, Layout::Ulid) => Layout::Ulid,
            (_, _) => Layout::Text { id_bytes: self.longest_id().max(other.longest_id()) },
        };
        self.change_layout(layout);
        other.change_layout(layout);
        self.bytes.append(&mut other.bytes);
    }

    /// The memory that the keys occupy outside of this value, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn width(&self) -> usize {
        match self.layout {
            Layout::Ulid => ULID_BYTES,
            Layout::Text { id_bytes } => TIME_BYTES + id_bytes,
        }
    }

    fn slot(&self, index: usize) -> &[u8] {
        let width = self.width();
        self.bytes.get(index * width..(index + 1) * width).unwrap_or_default()
    }

    /// The order of the key at an index and another key.
    fn compare(&self, index: usize, probe: &Probe<'_>) -> Ordering {
        let slot = self.slot(index);
        let probe_time = probe.cd.created_at.epoch_ms();
        match (self.layout, &probe.ulid) {
            (Layout::Ulid, Some(ulid)) => slot.cmp(ulid),
            (Layout::Ulid, None) => self.get(index).as_ref().cmp(&Some(probe.cd)),
            (Layout::Text { .. }, _) => split_text(slot).cmp(&Some((probe_time, probe.cd.id.as_str().as_bytes()))),
        }
    }

    /// Changes the layout if the key does not fit into it.
    fn make_room_for(&mut self, probe: &Probe<'_>) {
        let id_bytes = probe.cd.id.as_str().len().max(self.longest_id());
        let is_text = self.layout != Layout::Ulid || probe.ulid.is_none();
        if is_text {
            self.change_layout(Layout::Text { id_bytes });
        }
    }

    /// The length of the longest id, or an upper bound, in bytes.
    fn longest_id(&self) -> usize {
        match self.layout {
            Layout::Ulid if self.bytes.is_empty() => 0,
            Layout::Ulid => ulid::ULID_LEN,
            Layout::Text { id_bytes } => id_bytes,
        }
    }

    /// Writes all keys again. The caller knows that they fit.
    fn change_layout(&mut self, layout: Layout) {
        if layout == self.layout {
            return;
        }
        let cds: Vec<Cd> = (0..self.len()).filter_map(|index| self.get(index)).collect();
        *self = Self { layout, bytes: Vec::new() };
        self.bytes.reserve_exact(cds.len() * self.width());
        for (index, cd) in cds.iter().enumerate() {
            self.write(index, &Probe::new(cd));
        }
    }

    fn write(&mut self, index: usize, probe: &Probe<'_>) {
        let width = self.width();
        let at = index * width;
        match (self.layout, probe.ulid) {
            (Layout::Ulid, Some(ulid)) => {
                self.bytes.splice(at..at, ulid);
            }
            (Layout::Ulid | Layout::Text { .. }, _) => {
                let time = probe.cd.created_at.epoch_ms().to_be_bytes();
                let text = time.into_iter().chain(probe.cd.id.as_str().bytes());
                self.bytes.splice(at..at, text.chain(std::iter::repeat(PADDING)).take(width));
            }
        }
    }
}

/// The time and the id of a text slot.
fn split_text(slot: &[u8]) -> Option<(i64, &[u8])> {
    let (time, id) = slot.split_first_chunk()?;
    let id_bytes = id.iter().position(|byte| *byte == PADDING).unwrap_or(id.len());
    Some((i64::from_be_bytes(*time), id.get(..id_bytes)?))
}

/// The ULID of a key that carries its time. Ids in other spellings of the same ULID do not count.
fn ulid_with_time(cd: &Cd) -> Option<[u8; ULID_BYTES]> {
    let text = cd.id.as_str();
    if text.len() != ulid::ULID_LEN {
        return None;
    }
    let ulid = Ulid::from_string(text).ok()?;
    let is_time = i64::try_from(ulid.timestamp_ms()) == Ok(cd.created_at.epoch_ms());
    (is_time && *ulid.array_to_str(&mut [0; ulid::ULID_LEN]) == *text).then(|| ulid.to_bytes())
}

/// Makes room for a few more bytes. Doubling would leave a third of the memory unused.
pub(crate) fn reserve_little(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        bytes.reserve_exact(more.max(bytes.len() / 8));
    }
}
