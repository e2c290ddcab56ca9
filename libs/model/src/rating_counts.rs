use crate::rating::{Rating, RatingSet};

/// The number of comments with each rating.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RatingCounts([u64; Rating::ALL.len()]);

impl RatingCounts {
    /// From the counts of the ratings in ascending order.
    pub fn new(ascending: [u64; Rating::ALL.len()]) -> Self {
        Self(ascending)
    }

    pub fn add(&mut self, rating: Rating, comments: u64) {
        if let Some(count) = self.0.get_mut(usize::from(rating.get()).saturating_sub(1)) {
            *count = count.saturating_add(comments);
        }
    }

    /// All five ratings in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Rating, u64)> + use<> {
        Rating::ALL.into_iter().zip(self.0)
    }

    pub fn total(&self) -> u64 {
        self.of_set(None)
    }

    /// The number of comments with a rating of the set, or with any rating.
    pub fn of_set(&self, set: Option<RatingSet>) -> u64 {
        let chosen = self
            .iter()
            .filter(|(rating, _)| set.is_none_or(|set| set.contains(*rating)));
        chosen.fold(0, |total, (_, count)| total.saturating_add(count))
    }

    /// The average rating in hundredths, rounded half up; `None` without comments.
    pub fn average_hundredths(&self) -> Option<u16> {
        let total = self
            .iter()
            .map(|(_, count)| u128::from(count))
            .sum::<u128>();
        let stars: u128 = self
            .iter()
            .map(|(rating, count)| u128::from(rating.get()) * u128::from(count))
            .sum();
        u16::try_from((stars * 200 + total).checked_div(total * 2)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn average(counts: [u64; 5]) -> Option<u16> {
        RatingCounts::new(counts).average_hundredths()
    }

    #[test]
    fn the_average_is_rounded_to_two_decimals() {
        assert_eq!(average([0, 0, 0, 0, 0]), None);
        assert_eq!(average([0, 0, 0, 0, 7]), Some(500));
        assert_eq!(average([1, 0, 0, 0, 2]), Some(367));
        assert_eq!(average([1, 2, 0, 0, 0]), Some(167));
        assert_eq!(average([u64::MAX; 5]), Some(300));
    }
}
