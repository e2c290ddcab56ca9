//! Months and days that readers jump to.

use std::fmt;

use time::{Date, Month, Time};

use crate::{
    error::{InvalidInput, quoted},
    timestamp::Timestamp,
};

/// A month or a day of UTC, such as `2024-05` or `2024-05-17`.
///
/// A day that its month does not have stands for the month's last day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    year: u16,
    month: Month,
    day: Option<u8>,
}

impl Period {
    /// Parses `YYYY-MM` or `YYYY-MM-DD`.
    ///
    /// # Errors
    /// Any other text, a month above 12, or a day above 31.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        Self::parse_parts(text).ok_or_else(|| {
            let problem = format!(
                "{} is not a month or a day, such as 2024-05 or 2024-05-17",
                quoted(text)
            );
            InvalidInput::new("date", problem)
        })
    }

    fn parse_parts(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let year = number(parts.next()?, 4)?;
        let month = u8::try_from(number(parts.next()?, 2)?).ok()?;
        let month = Month::try_from(month).ok()?;
        let day = match parts.next() {
            None => None,
            Some(part) => Some(u8::try_from(number(part, 2)?).ok()?),
        };
        let is_day = day.is_none_or(|day| (1..=31).contains(&day));
        if !is_day || parts.next().is_some() {
            return None;
        }
        Some(Self { year, month, day })
    }

    pub fn end(self) -> Timestamp {
        let Self { year, month, day } = self;
        let year = i32::from(year);
        let last = month.length(year);
        let day = day.unwrap_or(last).min(last);
        let date = Date::from_calendar_date(year, month, day).ok();
        let seconds = match date.and_then(Date::next_day) {
            Some(next) => next.with_time(Time::MIDNIGHT).assume_utc().unix_timestamp(),
            // The last day of time has no next one.
            None => i64::MAX,
        };
        // Year 0 ends before time begins.
        let end = seconds.saturating_mul(1_000).saturating_sub(1);
        Timestamp::from_epoch_ms(end.clamp(Timestamp::MIN.epoch_ms(), Timestamp::MAX.epoch_ms()))
            .unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, u8::from(self.month))?;
        match self.day {
            Some(day) => write!(f, "-{day:02}"),
            None => Ok(()),
        }
    }
}

/// The number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u16> {
    if text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_period_ends_with_its_last_millisecond() {
        for (period, end) in [
            ("2024-02", "2024-02-29T23:59:59.999Z"),
            ("2023-12", "2023-12-31T23:59:59.999Z"),
            ("2024-05-17", "2024-05-17T23:59:59.999Z"),
            ("2023-02-31", "2023-02-28T23:59:59.999Z"),
            ("9999-12", "9999-12-31T23:59:59.999Z"),
            ("0000-07", "0001-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Period::parse(period).unwrap().end().to_string(), end);
        }
    }

    #[test]
    fn other_texts_are_no_periods() {
        for text in [
            "",
            "2024",
            "2024-",
            "2024-5",
            "2024-00",
            "2024-13",
            "2024-05-",
            "2024-05-0",
            "2024-05-32",
            "2024-05-00",
        ] {
            assert_eq!(Period::parse(text).unwrap_err().field, "date", "{text}");
        }
        for text in [
            "24-05-017",
            "2024-05-17-",
            "+024-05",
            "2024-05-1é",
            "2024/05",
            "2024-05-17T00:00:00Z",
        ] {
            assert!(Period::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_instant_is_in_its_month_and_after_the_one_before(ms in 0..253_402_300_799_999_i64) {
            let instant = Timestamp::from_epoch_ms(ms).unwrap();
            let text = instant.to_string();
            let month = Period::parse(&text[..7]).unwrap();
            prop_assert_eq!(month.to_string(), &text[..7]);
            prop_assert!(instant <= month.end());
            let number = text[5..7].parse::<u8>().unwrap();
            if number > 1 {
                let before = Period::parse(&format!("{}-{:02}", &text[..4], number - 1)).unwrap();
                prop_assert!(instant > before.end());
            }
        }
    }
}
