//! Instants with the millisecond precision that keys and scores share.

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};
use time::{Date, Month, OffsetDateTime, Time, format_description::well_known::Rfc3339};

use crate::error::{InvalidInput, quoted};

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z, between the years 1 and 9999.
///
/// Its text is always `YYYY-MM-DDTHH:MM:SS.mmmZ`, so that the order of texts is the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    /// 0001-01-01T00:00:00.000Z: before it, the text would not sort.
    pub const MIN: Self = Self(-62_135_596_800_000);
    /// 9999-12-31T23:59:59.999Z: after it, the text would not sort.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The instant this many milliseconds after 1970 (before, when negative).
    pub fn from_epoch_ms(epoch_ms: i64) -> Result<Self, InvalidInput> {
        if (Self::MIN.0..=Self::MAX.0).contains(&epoch_ms) {
            Ok(Self(epoch_ms))
        } else {
            Err(InvalidInput::new(
                "created_at",
                format!("{epoch_ms} ms is outside the years 1 to 9999"),
            ))
        }
    }

    /// Whether programs that know only Unix time take it for the date of something that has
    /// happened.
    pub fn is_between_1970_and(self, now: Self) -> bool {
        (0..=now.0).contains(&self.0)
    }

    /// The instant of a clock's reading; clocks outside the years 1 to 9999 are clamped.
    pub fn from_system_time(reading: std::time::SystemTime) -> Self {
        let epoch_ms = match reading.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Self(epoch_ms.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Parses a date and time with offset (RFC 3339), and drops any part below a millisecond.
    /// Between date and time is a `T` or a blank.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        // The parser takes any character there.
        if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
            return Err(no_date_and_time(text));
        }
        // Not `to_offset(UTC)`: it panics where the offset leads out of the years that a date can
        // have.
        let nanoseconds = OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| no_date_and_time(text))?
            .unix_timestamp_nanos();
        let epoch_ms =
            i64::try_from(nanoseconds.div_euclid(1_000_000)).map_err(|_| no_date_and_time(text))?;
        Self::from_epoch_ms(epoch_ms).map_err(|_| {
            InvalidInput::new(
                "created_at",
                format!("{} is outside the years 1 to 9999 of UTC", quoted(text)),
            )
        })
    }

    /// Parses an instant's own text, `YYYY-MM-DDTHH:MM:SS.mmmZ`; `None` for any other. Much cheaper
    /// than [`Timestamp::parse`], for keys.
    pub(crate) fn parse_text(text: &str) -> Option<Self> {
        let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
        let separators = [
            (4, b'-'),
            (7, b'-'),
            (10, b'T'),
            (13, b':'),
            (16, b':'),
            (19, b'.'),
            (23, b'Z'),
        ];
        if !separators
            .iter()
            .all(|(at, separator)| bytes.get(*at) == Some(separator))
        {
            return None;
        }
        let date = Date::from_calendar_date(
            number_in(bytes, 0..4)?.into(),
            Month::try_from(two_digits_at(bytes, 5)?).ok()?,
            two_digits_at(bytes, 8)?,
        );
        let time = Time::from_hms_milli(
            two_digits_at(bytes, 11)?,
            two_digits_at(bytes, 14)?,
            two_digits_at(bytes, 17)?,
            number_in(bytes, 20..23)?,
        );
        let nanoseconds = date
            .ok()?
            .with_time(time.ok()?)
            .assume_utc()
            .unix_timestamp_nanos();
        Self::from_epoch_ms(i64::try_from(nanoseconds.div_euclid(1_000_000)).ok()?).ok()
    }

    pub fn epoch_ms(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, as DynamoDB's TTL wants them.
    pub fn epoch_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This instant moved by `ms` milliseconds, clamped to the years 1 to 9999.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms).clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Refuses a creation time that is further ahead than clocks differ. Such a comment would be
    /// the newest until its time has come, so pages and totals up to the present would lack it.
    pub fn not_ahead_of(self, now: Self) -> Result<Self, InvalidInput> {
        const MINUTES: i64 = 5;
        if self <= now.plus_ms(MINUTES * 60_000) {
            return Ok(self);
        }
        let problem = format!(
            "{self} is more than {MINUTES} minutes ahead of the present; a local time needs its offset or zone"
        );
        Err(InvalidInput::new("created_at", problem))
    }

    /// The hour of the instant, `YYYY-MM-DDTHH`: the part of the text that names a window of the
    /// change journal.
    pub fn hour(self) -> String {
        let mut text = self.to_string();
        text.truncate("YYYY-MM-DDTHH".len());
        text
    }
}

fn no_date_and_time(text: &str) -> InvalidInput {
    let problem = format!(
        "{} is not a date and time (RFC 3339), such as 2024-02-29T12:00:00.000Z",
        quoted(text)
    );
    InvalidInput::new("created_at", problem)
}

/// The number that these digits are.
fn number_in(text: &[u8], digits: Range<usize>) -> Option<u16> {
    let mut number = 0;
    for digit in text.get(digits)? {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u16::from(digit - b'0');
    }
    Some(number)
}

fn two_digits_at(text: &[u8], at: usize) -> Option<u8> {
    u8::try_from(number_in(text, at..at + 2)?).ok()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at =
            OffsetDateTime::from_unix_timestamp(self.epoch_seconds()).map_err(|_| fmt::Error)?;
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second) = at.to_hms();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (digits, number) in [
            (0..4, i64::from(year)),
            (5..7, i64::from(u8::from(month))),
            (8..10, i64::from(day)),
            (11..13, i64::from(hour)),
            (14..16, i64::from(minute)),
            (17..19, i64::from(second)),
            (20..23, self.0.rem_euclid(1000)),
        ] {
            write_digits(text.get_mut(digits).unwrap_or_default(), number);
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// Writes the last digits of a number over zeros.
///
/// The formatters of `time` and of the standard library take three to four times as long. A page of
/// 20 comments formats 80 instants.
fn write_digits(zeros: &mut [u8], mut number: i64) {
    for digit in zeros.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

impl From<Timestamp> for String {
    fn from(instant: Timestamp) -> Self {
        instant.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_is_utc_with_three_digits() {
        for (given, normal) in [
            ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000Z"),
            ("2024-02-29T12:00:00.1239+02:00", "2024-02-29T10:00:00.123Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::parse(given).unwrap().to_string(), normal);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "yesterday",
            "2024-02-30T00:00:00Z",
            "2024-02-29",
            "2024-02-29T12:00:00",
            "2024-02-29_12:00:00Z",
            "2024-02-29\u{202f}12:00:00Z",
            "0000-12-31T00:00:00Z",
        ] {
            assert!(Timestamp::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_creation_time_may_be_five_minutes_ahead_and_no_more() {
        let now = Timestamp::parse("2024-02-29T12:00:00Z").unwrap();
        for (ahead_ms, is_right) in [(-1, true), (300_000, true), (300_001, false)] {
            assert_eq!(
                now.plus_ms(ahead_ms).not_ahead_of(now).is_ok(),
                is_right,
                "{ahead_ms}"
            );
        }
        assert_eq!(
            Timestamp::MAX.not_ahead_of(Timestamp::MAX),
            Ok(Timestamp::MAX)
        );
    }

    #[test]
    fn an_offset_that_leads_out_of_the_years_is_refused() {
        for text in [
            "9999-12-31T23:59:59-01:00",
            "9999-12-31T23:59:59.999-00:01",
            "0001-01-01T00:00:00+00:01",
        ] {
            assert!(
                Timestamp::parse(text)
                    .unwrap_err()
                    .problem
                    .contains("outside the years 1 to 9999"),
                "{text}"
            );
        }
        assert_eq!(
            Timestamp::parse("9999-12-31T23:59:59.999+00:00"),
            Ok(Timestamp::MAX)
        );
        assert_eq!(
            Timestamp::parse("0000-12-31T23:00:00-01:00"),
            Ok(Timestamp::MIN)
        );
    }

    proptest! {
        #[test]
        fn texts_sort_like_time(a in Timestamp::MIN.0..=Timestamp::MAX.0, b in Timestamp::MIN.0..=Timestamp::MAX.0) {
            let a = Timestamp(a);
            let b = Timestamp(b);
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
            prop_assert_eq!(Timestamp::parse(&a.to_string()).unwrap(), a);
            prop_assert_eq!(Timestamp::parse_text(&a.to_string()), Some(a));
        }
    }
}
