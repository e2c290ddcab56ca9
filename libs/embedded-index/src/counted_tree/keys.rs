//! How a leaf packs its keys: into slots of equal width.
//!
//! A comment that Pagemark creates has a ULID as its id, and the ULID begins with the comment's
//! creation time. Such a key *carries its time*, and its 16 bytes are the whole key. A leaf stores
//! these 16 bytes as long as all its keys carry their time. One other key turns the leaf into slots
//! of creation time and id text.

use std::cmp::Ordering;

use model::{Cd, CommentId, Timestamp};
use ulid::Ulid;

const ULID_BYTES: usize = 16;
const ULID_TEXT_BYTES: u8 = 26;
const _: () = assert!(ULID_TEXT_BYTES as usize == ulid::ULID_LEN);
const TIME_BYTES: usize = 8;

/// Fills the end of a slot whose id is shorter than the longest. The byte is less than every
/// character of ids, so padded slots keep the order of ids.
const PADDING: u8 = 0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'cd> {
    cd: &'cd Cd,
    ulid: Option<[u8; ULID_BYTES]>,
}

impl<'cd> Probe<'cd> {
    pub(crate) fn new(cd: &'cd Cd) -> Self {
        Self {
            cd,
            ulid: ulid_with_time(cd),
        }
    }

    pub(crate) fn cd(&self) -> &'cd Cd {
        self.cd
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotLayout {
    Ulid,
    /// The time in milliseconds and the text of the id, padded to this many bytes.
    Text {
        id_bytes: u8,
    },
}

impl SlotLayout {
    pub(crate) fn of(probe: &Probe<'_>) -> Self {
        if probe.ulid.is_some() {
            return Self::Ulid;
        }
        // Ids are shorter than 255 bytes.
        let id_bytes = u8::try_from(probe.cd.id.as_str().len()).unwrap_or(u8::MAX);
        Self::Text { id_bytes }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Ulid, Self::Ulid) => Self::Ulid,
            (_, _) => Self::Text {
                id_bytes: self.longest_id().max(other.longest_id()),
            },
        }
    }

    pub(crate) fn width(self) -> usize {
        match self {
            Self::Ulid => ULID_BYTES,
            Self::Text { id_bytes } => TIME_BYTES + usize::from(id_bytes),
        }
    }

    /// The index of a key among ascending slots, or the index at which it would be inserted.
    pub(crate) fn search(self, slots: &[u8], probe: &Probe<'_>) -> Result<usize, usize> {
        let width = self.width();
        let mut low = 0;
        let mut high = slots.len() / width;
        while low < high {
            let middle = usize::midpoint(low, high);
            let slot = slots
                .get(middle * width..(middle + 1) * width)
                .unwrap_or_default();
            match self.compare(slot, probe) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub(crate) fn read(self, slot: &[u8]) -> Option<Cd> {
        match self {
            Self::Ulid => cd_of_ulid(slot.try_into().ok()?),
            Self::Text { .. } => {
                let (ms, id) = split_text(slot)?;
                let id = CommentId::parse(std::str::from_utf8(id).ok()?).ok()?;
                Some(Cd {
                    created_at: Timestamp::from_epoch_ms(ms).ok()?,
                    id,
                })
            }
        }
    }

    pub(crate) fn write(self, slot: &mut [u8], probe: &Probe<'_>) {
        match (self, probe.ulid) {
            (Self::Ulid, Some(ulid)) => slot.copy_from_slice(&ulid),
            (Self::Ulid | Self::Text { .. }, _) => {
                let time = probe.cd.created_at.epoch_ms().to_be_bytes();
                let text = time.into_iter().chain(probe.cd.id.as_str().bytes());
                slot.iter_mut()
                    .zip(text.chain(std::iter::repeat(PADDING)))
                    .for_each(|(to, byte)| *to = byte);
            }
        }
    }

    fn compare(self, slot: &[u8], probe: &Probe<'_>) -> Ordering {
        let probe_time = probe.cd.created_at.epoch_ms();
        match (self, &probe.ulid) {
            (Self::Ulid, Some(ulid)) => slot.cmp(ulid),
            (Self::Ulid, None) => self.read(slot).as_ref().cmp(&Some(probe.cd)),
            (Self::Text { .. }, _) => {
                split_text(slot).cmp(&Some((probe_time, probe.cd.id.as_str().as_bytes())))
            }
        }
    }

    /// The length of the longest id that fits, in bytes.
    fn longest_id(self) -> u8 {
        match self {
            Self::Ulid => ULID_TEXT_BYTES,
            Self::Text { id_bytes } => id_bytes,
        }
    }
}

fn split_text(slot: &[u8]) -> Option<(i64, &[u8])> {
    let (time, id) = slot.split_first_chunk()?;
    let id_bytes = id
        .iter()
        .position(|byte| *byte == PADDING)
        .unwrap_or(id.len());
    Some((i64::from_be_bytes(*time), id.get(..id_bytes)?))
}

/// The ULID of a key that carries its time. Ids in other spellings of the same ULID do not count.
pub(crate) fn ulid_with_time(cd: &Cd) -> Option<[u8; ULID_BYTES]> {
    let text = cd.id.as_str();
    if text.len() != ulid::ULID_LEN {
        return None;
    }
    let ulid = Ulid::from_string(text).ok()?;
    let is_time = i64::try_from(ulid.timestamp_ms()) == Ok(cd.created_at.epoch_ms());
    let is_spelled_so = *ulid.array_to_str(&mut [0; ulid::ULID_LEN]) == *text;
    (is_time && is_spelled_so).then(|| ulid.to_bytes())
}

/// The key that carries its time as this ULID.
pub(crate) fn cd_of_ulid(bytes: [u8; ULID_BYTES]) -> Option<Cd> {
    let ulid = Ulid::from_bytes(bytes);
    let created_at = Timestamp::from_epoch_ms(i64::try_from(ulid.timestamp_ms()).ok()?).ok()?;
    Some(Cd {
        created_at,
        id: CommentId::parse(ulid.array_to_str(&mut [0; ulid::ULID_LEN])).ok()?,
    })
}
