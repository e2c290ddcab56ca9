//! Latency by depth.

/// The measured pages: 1, 2, 5, 10, 20, 50 and so on, and the last.
pub(super) fn depths(last: u64) -> Vec<u64> {
    let powers = (0..).map_while(|power| 10_u64.checked_pow(power));
    let steps = powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |step| power.checked_mul(step)));
    steps.take_while(|page| *page < last).chain([last]).collect()
}

/// A contestant's latencies: page and median in microseconds, by page.
pub(super) type Curve = Vec<(u64, f64)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_spaced_evenly_on_a_logarithmic_axis_and_end_on_the_last_page() {
        assert_eq!(depths(1), [1]);
        assert_eq!(depths(2), [1, 2]);
        assert_eq!(depths(1_000), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]);
        assert_eq!(depths(60), [1, 2, 5, 10, 20, 50, 60]);
        assert_eq!(depths(50_000).len(), 15);
    }
}
