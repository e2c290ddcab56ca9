//! Months and days that readers jump to.

use std::fmt;

use time::{Date, Month, OffsetDateTime, Time};

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
        let refuse = || {
            let problem = format!(
                "{} is not a month or a day, such as 2024-05 or 2024-05-17",
                quoted(text)
            );
            InvalidInput::new("date", problem)
        };
        let mut parts = text.split('-');
        let mut number = |digits: usize| {
            let part = parts.next()?;
            let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u16>().ok().filter(|_| is_number)
        };
        let small = |number: u16| u8::try_from(number).ok();
        let year = number(4).ok_or_else(refuse)?;
        let month = number(2)
            .and_then(small)
            .and_then(|month| Month::try_from(month).ok())
            .ok_or_else(refuse)?;
        let day = match text.len() {
            7 => None,
            _ => Some(
                number(2)
                    .and_then(small)
                    .filter(|day| (1..=31).contains(day))
                    .ok_or_else(refuse)?,
            ),
        };
        if parts.next().is_some() {
            Err(refuse())
        } else {
            Ok(Self { year, month, day })
        }
    }

    pub fn end(self) -> Timestamp {
        let Self { year, month, day } = self;
        let year = i32::from(year);
        let last = month.length(year);
        let date = Date::from_calendar_date(year, month, day.map_or(last, |day| day.min(last)));
        let next = date
            .ok()
            .and_then(Date::next_day)
            .map(|next| next.with_time(Time::MIDNIGHT).assume_utc());
        let seconds = next.map_or(i64::MAX, OffsetDateTime::unix_timestamp);
        // Year 0 ends before time begins, and the last day has no next one.
        let end = seconds.saturating_mul(1_000).saturating_sub(1);
        Timestamp::from_epoch_ms(end.clamp(Timestamp::MIN.epoch_ms(), Timestamp::MAX.epoch_ms()))
            .unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, u8::from(self.month))?;
        self.day.map_or(Ok(()), |day| write!(f, "-{day:02}"))
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
