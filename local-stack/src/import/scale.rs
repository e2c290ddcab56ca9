//! Ratings on another scale.

use std::str::FromStr;

/// A scale of ratings: the lowest and the highest. Written `1-10`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    min: f64,
    max: f64,
}

impl Scale {
    /// The rating from 1 to 5 that is nearest to a number of this scale; the higher of two.
    ///
    /// # Errors
    /// The number lies outside the scale.
    pub(super) fn rating(self, number: f64) -> Result<u8, String> {
        let Self { min, max } = self;
        if !(min..=max).contains(&number) {
            return Err(format!("{number} is outside the scale {min}-{max}"));
        }
        let place = (number - min) / (max - min) * 4.0;
        Ok(match place {
            ..0.5 => 1,
            ..1.5 => 2,
            ..2.5 => 3,
            ..3.5 => 4,
            _ => 5,
        })
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let ends = text.split_once('-').and_then(|(min, max)| Some((number(min)?, number(max)?)));
        match ends {
            Some((min, max)) if min < max => Ok(Self { min, max }),
            _ => Err("is not a scale, such as 1-10: the lowest rating, a hyphen, the highest".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_become_ends_and_numbers_between_the_nearest() {
        for (scale, numbers, ratings) in [
            ("1-10", vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], vec![1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
            ("0-100", vec![0.0, 12.4, 12.5, 50.0, 87.5, 100.0], vec![1, 1, 2, 3, 5, 5]),
            ("1-5", vec![1.0, 1.5, 3.0, 4.4, 5.0], vec![1, 2, 3, 4, 5]),
            ("0-1", vec![0.0, 1.0], vec![1, 5]),
        ] {
            let scale: Scale = scale.parse().unwrap();
            let made: Vec<u8> = numbers.into_iter().map(|number| scale.rating(number).unwrap()).collect();
            assert_eq!(made, ratings, "{scale:?}");
        }
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let scale: Scale = "1-10".parse().unwrap();
        assert!(scale.rating(0.0).is_err() && scale.rating(10.5).is_err() && scale.rating(f64::NAN).is_err());
        for text in ["", "10", "10-1", "1-1", "a-b", "1-inf"] {
            assert!(text.parse::<Scale>().is_err(), "{text}");
        }
    }
}
