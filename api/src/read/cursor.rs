//! Cursors: sealed positions where a page starts or ends.
//!
//! A cursor is AES-SIV (RFC 5297) over a direction, an instant and a comment id, in base64url. The
//! seal also covers the product, filter, order and page size, so a cursor of a different listing
//! does not open. AES-SIV is deterministic and needs no nonce. So one position always has one
//! cursor, and no nonce can be reused by mistake.
//!
//! Keys can be changed without breaking cursors: one key seals, and any of several keys opens.
//!
//! The sealed content is as short as possible; the seal takes 16 bytes of each cursor:
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | the layout's version, the direction, and how the rest is written |
//! | 0 or 1 | the rating, in a listing that is ordered by rating |
//! | 0 to 8 | the instant in milliseconds since 1970, as postcard writes it: 6 in our time; none when it is the ULID's own |
//! | 1 to 64 | the id; 16 when it is a ULID |

use aes_siv::{KeyInit, siv::Aes128Siv};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{Cd, CommentId, Rating, Timestamp};
use ulid::Ulid;

use super::ListingQuery;
use crate::{error::ApiError, secrets::CursorKey};

/// The longest sealed cursor: 16 bytes of seal, 1 of head, 1 of rating, 8 of instant, 64 of id, in base64.
pub(crate) const SEALED_MAX_LEN: usize = (16 + 1 + 1 + 8 + CommentId::MAX_LEN) * 4 / 3 + 1;

/// Identifies the use of the seal: one more part of the sealed data.
const PURPOSE: &[u8] = b"pagemark cursor";

/// The first byte: the version in its high half, and these bits.
const VERSION: u8 = 0x10;
const BACKWARD: u8 = 1;
/// The id is a ULID, in its 16 bytes.
const ULID_ID: u8 = 2;
const ULID_INSTANT: u8 = 4;
const RATING: u8 = 8;

/// The direction in which a cursor leads from its comment, in the listing's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// A position just after, or just before, a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) direction: Direction,
    /// The rating of the comment, in a listing that is ordered by rating.
    pub(crate) rating: Option<Rating>,
    pub(crate) at: Cd,
}

impl ListingQuery {
    /// What identifies the listing in its cursors.
    pub(crate) fn parts(&self) -> Vec<Vec<u8>> {
        vec![
            self.product.as_str().as_bytes().to_vec(),
            self.filter.to_string().into_bytes(),
            self.order.to_string().into_bytes(),
            vec![self.page_size.get()],
        ]
    }
}

impl Cursor {
    /// A cursor of a listing that is ordered by time.
    pub(crate) fn new(direction: Direction, at: Cd) -> Self {
        Self {
            direction,
            rating: None,
            at,
        }
    }

    /// From the same position back.
    pub(crate) fn reversed(&self) -> Self {
        Self {
            direction: self.direction.reversed(),
            ..self.clone()
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Cd { created_at, id } = &self.at;
        let ulid = Ulid::from_string(id.as_str())
            .ok()
            .filter(|ulid| ulid.to_string() == id.as_str());
        let is_of_ulid = ulid
            .is_some_and(|ulid| i64::try_from(ulid.timestamp_ms()) == Ok(created_at.epoch_ms()));
        let mut head = VERSION;
        if self.direction == Direction::Backward {
            head |= BACKWARD;
        }
        if ulid.is_some() {
            head |= ULID_ID;
        }
        if is_of_ulid {
            head |= ULID_INSTANT;
        }
        if self.rating.is_some() {
            head |= RATING;
        }
        let mut bytes = vec![head];
        bytes.extend(self.rating.map(Rating::get));
        if !is_of_ulid {
            // Writing to memory does not fail.
            bytes.extend(postcard::to_stdvec(&created_at.epoch_ms()).unwrap_or_default());
        }
        match ulid {
            Some(ulid) => bytes.extend(ulid.to_bytes()),
            None => bytes.extend(id.as_str().as_bytes()),
        }
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (&head, rest) = bytes.split_first()?;
        if head & !(BACKWARD | ULID_ID | ULID_INSTANT | RATING) != VERSION {
            return None;
        }
        let (rating, rest) = if head & RATING == 0 {
            (None, rest)
        } else {
            let (&rating, rest) = rest.split_first()?;
            (Some(Rating::new(rating.into()).ok()?), rest)
        };
        let (written, rest) = if head & ULID_INSTANT == 0 {
            let (ms, rest) = postcard::take_from_bytes(rest).ok()?;
            (Some(ms), rest)
        } else {
            (None, rest)
        };
        let (id, of_ulid) = if head & ULID_ID == 0 {
            (std::str::from_utf8(rest).ok()?.to_owned(), None)
        } else {
            let ulid = Ulid::from_bytes(rest.try_into().ok()?);
            (ulid.to_string(), i64::try_from(ulid.timestamp_ms()).ok())
        };
        let created_at = Timestamp::from_epoch_ms(written.or(of_ulid)?).ok()?;
        let direction = if head & BACKWARD == 0 {
            Direction::Forward
        } else {
            Direction::Backward
        };
        Some(Self {
            direction,
            rating,
            at: Cd {
                created_at,
                id: CommentId::parse(&id).ok()?,
            },
        })
    }
}

pub(crate) struct CursorSealer {
    sealing: CursorKey,
    /// Cursors that were sealed with them are opened too.
    others: Vec<CursorKey>,
}

impl CursorSealer {
    /// The first key seals. Without any, a random one does, and cursors are good for this process
    /// only.
    pub(crate) fn new(keys: &[CursorKey]) -> Self {
        match keys.split_first() {
            Some((sealing, others)) => Self {
                sealing: sealing.clone(),
                others: others.to_vec(),
            },
            None => Self {
                sealing: CursorKey(rand::random()),
                others: Vec::new(),
            },
        }
    }

    /// Seals a cursor of the listing that these parts identify.
    pub(crate) fn seal(&self, listing: &[Vec<u8>], cursor: &Cursor) -> String {
        let sealed = siv(&self.sealing).encrypt(associated_data(listing), &cursor.to_bytes());
        // Sealing fails only for more than 126 parts. No listing has more than four.
        BASE64_URL_SAFE_NO_PAD.encode(sealed.unwrap_or_default())
    }

    /// Opens a cursor that a client sent back.
    ///
    /// # Errors
    /// The cursor is broken, tampered with, made for another listing, or sealed with another key.
    /// These cases cannot be distinguished.
    pub(crate) fn open(&self, listing: &[Vec<u8>], text: &str) -> Result<Cursor, ApiError> {
        self.try_open(listing, text).ok_or_else(|| {
            let problem = "is not a cursor of this listing: it must come from an earlier answer to the same request, with \
                           the same product, language, ratings, order, status and page_size";
            ApiError::invalid("cursor", problem)
        })
    }

    fn try_open(&self, listing: &[Vec<u8>], text: &str) -> Option<Cursor> {
        if text.len() > SEALED_MAX_LEN {
            return None;
        }
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let keys = std::iter::once(&self.sealing).chain(&self.others);
        let plain = keys
            .map(siv)
            .find_map(|mut siv| siv.decrypt(associated_data(listing), &sealed).ok())?;
        Cursor::of_bytes(&plain)
    }
}

/// AES-SIV separates the parts of its associated data, so two different listings never have equal
/// data.
fn associated_data(listing: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    [PURPOSE]
        .into_iter()
        .chain(listing.iter().map(Vec::as_slice))
}

fn siv(key: &CursorKey) -> Aes128Siv {
    Aes128Siv::new((&key.0).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Filter, ListingOrder, PageSize, ProductId};
    use proptest::prelude::*;

    fn sealer() -> CursorSealer {
        CursorSealer::new(&[CursorKey([7; 32])])
    }

    fn cursor(direction: Direction, ms: i64, id: &str) -> Cursor {
        let at = Cd {
            created_at: Timestamp::from_epoch_ms(ms).unwrap(),
            id: CommentId::parse(id).unwrap(),
        };
        Cursor::new(direction, at)
    }

    fn listing() -> Vec<Vec<u8>> {
        ListingQuery {
            product: ProductId::parse("p/☕").unwrap(),
            filter: Filter::ANY,
            order: ListingOrder::Oldest,
            page_size: PageSize::MAX,
        }
        .parts()
    }

    #[test]
    fn a_cursor_outlives_a_change_of_the_key() {
        let [before, after] = [7, 8].map(|byte| CursorKey([byte; 32]));
        let listing = listing();
        let given = cursor(Direction::Forward, 1_700_000_000_000, "c1");
        let old = CursorSealer::new(std::slice::from_ref(&before));
        let preparing = CursorSealer::new(&[before.clone(), after.clone()]);
        let changed = CursorSealer::new(&[after.clone(), before]);
        let done = CursorSealer::new(&[after]);
        let first = old.seal(&listing, &given);
        let second = changed.seal(&listing, &given);
        assert_ne!(first, second);
        assert_eq!(preparing.seal(&listing, &given), first);
        for sealer in [&preparing, &changed] {
            assert_eq!(sealer.open(&listing, &first).unwrap(), given);
            assert_eq!(sealer.open(&listing, &second).unwrap(), given);
        }
        assert!(old.open(&listing, &second).is_err() && done.open(&listing, &first).is_err());
    }

    #[test]
    fn cursors_are_short() {
        for (what, ms, id, characters) in [
            (
                "a ULID of its own instant",
                1_700_000_000_000,
                "01HF7YAT000000000000000000",
                44,
            ),
            (
                "a ULID of another",
                1_700_000_000_001,
                "01HF7YAT000000000000000000",
                52,
            ),
            ("ten characters", 1_700_000_000_000, "1234567890", 44),
            (
                "a UUID",
                1_700_000_000_000,
                "67e55044-10b1-426f-9247-bb680e5fe0c8",
                79,
            ),
            ("the longest", -1, &"x".repeat(64), 110),
        ] {
            let sealed = sealer().seal(&listing(), &cursor(Direction::Forward, ms, id));
            assert_eq!(sealed.len(), characters, "{what}");
        }
    }

    #[test]
    fn unsealed_bytes_are_no_cursor() {
        for bytes in [
            &[][..],
            &[VERSION],
            &[VERSION, 0x80],
            &[0x20, 1, b'c'],
            &[VERSION | ULID_ID, 1, 2, 3],
        ] {
            assert_eq!(Cursor::of_bytes(bytes), None, "{bytes:?}");
        }
        assert_eq!(
            Cursor::of_bytes(&[[VERSION].as_slice(), &[0xFF; 12], b"c"].concat()),
            None
        );
        assert_eq!(
            Cursor::of_bytes(&[VERSION | ULID_INSTANT, b'c']),
            None,
            "no instant anywhere"
        );
    }

    proptest! {
        #[test]
        fn a_text_opens_or_is_refused(text in "[A-Za-z0-9_=-]{0,160}|.{0,40}") {
            prop_assert!(sealer().open(&listing(), &text).is_err());
        }

        #[test]
        fn bytes_are_a_cursor_or_none(head in 0x10..0x20_u8, bytes in prop::collection::vec(any::<u8>(), 0..40), id in "[a-z.]{0,3}") {
            for rest in [bytes.clone(), [bytes.get(..6).unwrap_or(&[]), id.as_bytes()].concat(), [&[0xFF; 9][..], &[1], id.as_bytes()].concat()] {
                if let Some(cursor) = Cursor::of_bytes(&[&[head], rest.as_slice()].concat()) {
                    prop_assert_eq!(Cursor::of_bytes(&cursor.to_bytes()), Some(cursor));
                }
            }
        }

        #[test]
        fn every_cursor_opens_again(
            ms in Timestamp::MIN.epoch_ms()..=Timestamp::MAX.epoch_ms(),
            id in "[A-Za-z0-9._-]{3,64}|[A-Za-z0-9_-]{1,2}|[0-7][0-9A-HJKMNP-TV-Z]{25}",
            forward in any::<bool>(),
            rating in prop::option::of(1..=5_u64),
        ) {
            let direction = if forward { Direction::Forward } else { Direction::Backward };
            let rating = rating.map(|rating| Rating::new(rating).unwrap());
            let given = Cursor { rating, ..cursor(direction, ms, &id) };
            let text = sealer().seal(&listing(), &given);
            prop_assert!(text.len() <= SEALED_MAX_LEN);
            prop_assert_eq!(&sealer().open(&listing(), &text).unwrap(), &given);
            prop_assert_eq!(sealer().seal(&listing(), &given), text);
        }
    }
}
