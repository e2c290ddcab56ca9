//! Dates in other programs' forms.

use jiff::{
    Timestamp as Instant,
    civil::{DateTime, Time, date},
    fmt::strtime,
    tz::TimeZone,
};
use model::{InvalidInput, Timestamp};

/// Milliseconds since 1970.
const UNIX_MS: &str = "unix-ms";

/// Reads a date in the form of an export.
pub(super) fn rfc_3339(text: &str) -> Result<Timestamp, InvalidInput> {
    Timestamp::parse(text).map_err(|mut error| {
        error
            .problem
            .push_str("; `pagemark import --date-format` reads other forms");
        error
    })
}

/// Reads a date in a form that [`date_format`] accepts, and drops any part below a millisecond. A
/// date without an offset is in `zone`, one without a time of day at its midnight. The years are 1
/// to 9999.
pub(super) fn read_date(
    form: &str,
    text: &str,
    zone: &TimeZone,
) -> Result<Timestamp, InvalidInput> {
    // Programs of some countries write other spaces, such as U+202F before AM.
    let text = text.trim().replace(char::is_whitespace, " ");
    let text = text.as_str();
    let epoch_ms = if form == UNIX_MS {
        text.parse().ok()
    } else {
        let instant = instant(form, text, zone).map_err(|_| not_a_date(form, text))?;
        instant
            .as_nanosecond()
            .div_euclid(1_000_000)
            .try_into()
            .ok()
    };
    Timestamp::from_epoch_ms(epoch_ms.ok_or_else(|| not_a_date(form, text))?)
}

fn not_a_date(form: &str, text: &str) -> InvalidInput {
    InvalidInput::new(
        "created_at",
        format!("{text:?} is not a date of the form {form}"),
    )
}

/// The instant of a text. An offset may be written in every way: `+0200`, `+02:00`, `+02` or `Z`.
fn instant(format: &str, text: &str, zone: &TimeZone) -> Result<Instant, String> {
    let digits = format
        .replace("%:z", "%z")
        .replace(char::is_whitespace, " ");
    let spelled = match text.strip_suffix('Z') {
        Some(local) if digits.ends_with("%z") => format!("{local}+0000"),
        _ => text.to_owned(),
    };
    let parsed = strtime::parse(&digits, &spelled).or_else(|error| {
        // The directive for an offset with colons, whose minutes may be missing.
        strtime::parse(digits.replace("%z", "%:::z"), &spelled).map_err(|_| error.to_string())
    })?;
    if parsed.meridiem().is_some() && parsed.hour().is_none() {
        return Err("%p needs an hour".to_owned());
    }
    if let Some(zone) = parsed.iana_time_zone() {
        time_zone(zone)?;
    }
    // The directive for years also takes fewer digits, and then 24 is a year of the Romans.
    if let Some(year) = parsed.year()
        && year < 1000
        && !spelled.contains(&format!("{year:04}"))
    {
        return Err("%Y needs four digits".to_owned());
    }
    let has_zone = parsed.iana_time_zone().is_some()
        || parsed.offset().is_some()
        || parsed.timestamp().is_some();
    let instant = if has_zone {
        parsed.to_zoned_datetime().map(|zoned| zoned.timestamp())
    } else {
        parsed
            .to_datetime()
            .and_then(|local| zone.to_timestamp(local))
    };
    instant.map_err(|error| error.to_string())
}

/// A form of dates: [`UNIX_MS`], or as in strptime.
pub(super) fn date_format(text: &str) -> Result<String, String> {
    match text {
        "unix" => Ok("%s".to_owned()),
        UNIX_MS => Ok(text.to_owned()),
        _ if !text.contains('%') => {
            Err("is neither unix nor unix-ms, and has no % as strptime".to_owned())
        }
        _ => check(text).map(|()| text.to_owned()),
    }
}

/// Refuses a format that cannot say an instant: a sample must read back as itself, or cut off at a
/// minute, an hour or a day. Its hour is an afternoon's, which 12 hours without `%p` lose.
fn check(format: &str) -> Result<(), String> {
    let day = date(2016, 11, 5);
    let sample = day
        .at(15, 4, 7, 0)
        .to_zoned_datetime(TimeZone::UTC)
        .map_err(|error| error.to_string())?;
    let text = strtime::format(format, &sample).map_err(|error| error.to_string())?;
    let found = instant(format, &text, &TimeZone::UTC)
        .map_err(|error| format!("cannot say an instant: {error}"))?;
    let found = TimeZone::UTC.to_datetime(found);
    let times = [
        Time::constant(15, 4, 7, 0),
        Time::constant(15, 4, 0, 0),
        Time::constant(15, 0, 0, 0),
        Time::MIN,
    ];
    if times
        .iter()
        .any(|time| DateTime::from_parts(day, *time) == found)
    {
        Ok(())
    } else {
        let sample = sample.datetime();
        Err(format!(
            "cannot say an instant: it writes {sample} as {text:?}, and reads {found}; %I needs %p"
        ))
    }
}

/// A zone of the time zone database, such as `Europe/Berlin`. Two of its names say that the zone is
/// not known.
pub(super) fn time_zone(name: &str) -> Result<TimeZone, String> {
    let is_unknown = ["Etc/Unknown", "Factory"]
        .iter()
        .any(|unknown| name.eq_ignore_ascii_case(unknown));
    if is_unknown {
        return Err("says that the time zone is not known; name the one of the dates".to_owned());
    }
    TimeZone::get(name).map_err(|_| "is not a time zone such as Europe/Berlin".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &str, text: &str, zone: &str) -> Result<String, String> {
        let read = read_date(&date_format(format)?, text, &time_zone(zone)?);
        read.map(|instant| instant.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn dates_are_read_in_the_form_of_the_file() {
        for (format, text, expected) in [
            ("unix", "1709208000", "2024-02-29T12:00:00.000Z"),
            ("unix-ms", " 1709208000123 ", "2024-02-29T12:00:00.123Z"),
            ("%m/%d/%Y", "02/29/2024", "2024-02-29T00:00:00.000Z"),
            (
                "%Y-%m-%d %H:%M:%S %z",
                "2024-02-29 12:00:00 +0200",
                "2024-02-29T10:00:00.000Z",
            ),
            (
                "%Y-%m-%d %H:%M:%S%z",
                "2024-02-29 12:00:00+02:00",
                "2024-02-29T10:00:00.000Z",
            ),
            (
                "%Y-%m-%d %H:%M:%S%z",
                "2024-02-29 12:00:00-03",
                "2024-02-29T15:00:00.000Z",
            ),
            (
                "%Y-%m-%dT%H:%M:%S%:z",
                "2024-02-29T12:00:00Z",
                "2024-02-29T12:00:00.000Z",
            ),
            (
                "%z %Y-%m-%d",
                "+05:30 2024-02-29",
                "2024-02-28T18:30:00.000Z",
            ),
            ("%D", "2/9/24", "2024-02-09T00:00:00.000Z"),
            (
                "%e.%m.%Y %k:%M",
                "9.2.2024 7:05",
                "2024-02-09T07:05:00.000Z",
            ),
            (
                "%m/%d/%y, %I:%M %p",
                "02/29/24, 03:15 PM",
                "2024-02-29T15:15:00.000Z",
            ),
            (
                "%Y-%m-%d %H:%M:%S%.f",
                "1969-12-31 23:59:59.9999",
                "1969-12-31T23:59:59.999Z",
            ),
            (
                "%m/%d/%Y, %I:%M %p",
                "7/29/2024, 3:04\u{202f}PM",
                "2024-07-29T15:04:00.000Z",
            ),
            ("%d.%m.%y", "05.09.24", "2024-09-05T00:00:00.000Z"),
            ("%d.%m.%Y", "05.09.0124", "0124-09-05T00:00:00.000Z"),
            (
                "%Y-%m-%d %H:%M:%S",
                "2016-12-31 23:59:60",
                "2016-12-31T23:59:59.000Z",
            ),
        ] {
            assert_eq!(
                read(format, text, "UTC").as_deref(),
                Ok(expected),
                "{format}"
            );
        }
    }

    #[test]
    fn a_date_without_an_offset_is_in_the_time_zone_that_is_named() {
        for (format, text, expected) in [
            (
                "%d.%m.%Y %H:%M",
                "29.07.2024 12:00",
                "2024-07-29T10:00:00.000Z",
            ),
            ("%d.%m.%Y", "29.01.2024", "2024-01-28T23:00:00.000Z"),
            (
                "%d.%m.%Y %H:%M %z",
                "29.07.2024 12:00 -0500",
                "2024-07-29T17:00:00.000Z",
            ),
        ] {
            assert_eq!(
                read(format, text, "Europe/Berlin").as_deref(),
                Ok(expected),
                "{format}"
            );
        }
        for unknown in ["Berlin", "Etc/Unknown", "factory"] {
            assert!(time_zone(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn what_is_no_such_date_is_refused() {
        for (format, text) in [
            ("unix", "yesterday"),
            ("unix", "9223372036854775807"),
            ("unix-ms", "9223372036854775807"),
            ("%d.%m.%Y", "30.02.2024"),
            ("%d.%m.%Y", "05.09.24"),
            ("%F", "24-09-05"),
            ("%Y-%m-%d %H:%M %Q", "2024-09-05 12:00 Etc/Unknown"),
            ("%d.%m.%Y", "29.02.2024 12:00"),
            ("%d.%m.%Y %H:%M", "29.02.2024"),
        ] {
            assert!(read(format, text, "UTC").is_err(), "{format}: {text}");
        }
    }

    #[test]
    fn a_format_that_cannot_say_an_instant_is_refused_at_once() {
        for format in [
            "iso",
            "%",
            "%!",
            "%H:%M",
            "%Y-%m",
            "%d.%m. %H:%M",
            "%m/%d/%Y %I:%M",
            "%Y-%m-%d %M:%S",
            "%Y-%m-%d %p",
        ] {
            assert!(date_format(format).is_err(), "{format}");
        }
    }
}
