//! Dates in the form of another program.

use std::str::FromStr;

use model::Timestamp;
use time::{
    Date, OffsetDateTime, PrimitiveDateTime,
    format_description::{OwnedFormatItem, parse_strftime_owned},
};

/// The form of dates in a file.
#[derive(Debug, Clone, PartialEq)]
pub enum DateFormat {
    /// Seconds since 1970.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMilliseconds,
    /// As the C function `strftime` writes them. Without an offset they are in UTC, without a time of day at midnight.
    Strftime {
        /// As it was given.
        text: String,
        /// Parsed.
        items: OwnedFormatItem,
    },
}

impl DateFormat {
    /// Reads a date, and drops any part below a millisecond.
    ///
    /// # Errors
    /// It is none of this form, or lies outside the years 1 to 9999.
    pub(super) fn parse(&self, text: &str) -> Result<Timestamp, String> {
        let text = text.trim();
        let refused = |form: &str| format!("{text:?} is not a date of the form {form}");
        let epoch_ms = match self {
            Self::UnixSeconds => text.parse::<i64>().ok().and_then(|seconds| seconds.checked_mul(1_000)),
            Self::UnixMilliseconds => text.parse::<i64>().ok(),
            Self::Strftime { items, .. } => strftime(text, items),
        };
        let epoch_ms = epoch_ms.ok_or_else(|| match self {
            Self::UnixSeconds => refused("unix: seconds since 1970"),
            Self::UnixMilliseconds => refused("unix-ms: milliseconds since 1970"),
            Self::Strftime { text, .. } => refused(text),
        })?;
        Timestamp::from_epoch_ms(epoch_ms).map_err(|error| error.problem)
    }
}

/// The milliseconds since 1970.
fn strftime(text: &str, items: &OwnedFormatItem) -> Option<i64> {
    let with_offset = || OffsetDateTime::parse(text, items).ok();
    let without = || PrimitiveDateTime::parse(text, items).ok().map(PrimitiveDateTime::assume_utc);
    let day = || Date::parse(text, items).ok().map(|date| date.midnight().assume_utc());
    let instant = with_offset().or_else(without).or_else(day)?;
    i64::try_from(instant.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

impl FromStr for DateFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unix" => Ok(Self::UnixSeconds),
            "unix-ms" => Ok(Self::UnixMilliseconds),
            _ if !text.contains('%') => Err("is neither unix nor unix-ms, and has no % as strftime".to_owned()),
            _ => match parse_strftime_owned(text) {
                Ok(items) => Ok(Self::Strftime { text: text.to_owned(), items }),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_form_of_the_file() {
        for (format, text, expected) in [
            ("unix", "1709208000", "2024-02-29T12:00:00.000Z"),
            ("unix-ms", " 1709208000123 ", "2024-02-29T12:00:00.123Z"),
            ("%d.%m.%Y %H:%M", "29.02.2024 12:00", "2024-02-29T12:00:00.000Z"),
            ("%m/%d/%Y", "02/29/2024", "2024-02-29T00:00:00.000Z"),
            ("%Y-%m-%d %H:%M:%S %z", "2024-02-29 12:00:00 +0200", "2024-02-29T10:00:00.000Z"),
        ] {
            let format: DateFormat = format.parse().unwrap();
            assert_eq!(format.parse(text).map(|instant| instant.to_string()).as_deref(), Ok(expected), "{format:?}");
        }
    }

    #[test]
    fn what_is_no_such_date_is_refused() {
        for (format, text) in [
            ("unix", "yesterday"),
            ("unix", "9223372036854775807"),
            ("unix-ms", "9223372036854775807"),
            ("%d.%m.%Y", "30.02.2024"),
            ("%d.%m.%Y", "29.02.2024 12:00"),
        ] {
            assert!(format.parse::<DateFormat>().unwrap().parse(text).is_err(), "{format}: {text}");
        }
        for format in ["iso", "%", "%Q"] {
            assert!(format.parse::<DateFormat>().is_err(), "{format}");
        }
    }
}
