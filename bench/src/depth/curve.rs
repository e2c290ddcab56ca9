//! Latency by depth, and the crossing of two such curves.

use anyhow::ensure;

/// The measured pages: 1, 2, 5, 10, 20, 50 and so on, and the last.
pub(super) fn depths(last: u64) -> Vec<u64> {
    let powers = (0..).map_while(|power| 10_u64.checked_pow(power));
    let steps = powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |step| power.checked_mul(step)));
    steps.take_while(|page| *page < last).chain([last]).collect()
}

/// A contestant's latencies: page and median in microseconds, by page.
pub(super) type Curve = Vec<(u64, f64)>;

/// The first measured page from which `ours` stays below `theirs`, within their common range; `None` if it is not below
/// at the last page.
///
/// # Errors
/// When they have no page in common.
pub(super) fn crossing(ours: &Curve, theirs: &Curve) -> anyhow::Result<Option<u64>> {
    let latency = |of: &u64| theirs.iter().find(|(page, _)| page == of).map(|(_, latency)| *latency);
    let both: Vec<(u64, bool)> =
        ours.iter().filter_map(|(page, latency_us)| Some((*page, *latency_us < latency(page)?))).collect();
    ensure!(!both.is_empty(), "the curves have no page in common");
    Ok(both.iter().rev().take_while(|(_, is_below)| *is_below).last().map(|(page, _)| *page))
}

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

    #[test]
    fn curves_cross_where_one_stays_below() {
        let ours = vec![(1, 5.0), (2, 5.0), (5, 5.0), (10, 5.0)];
        for (theirs, from) in [
            (&[9.0, 9.0, 9.0, 9.0][..], Some(1)),
            (&[1.0, 9.0, 1.0, 9.0], Some(10)),
            (&[1.0, 2.0, 9.0, 9.0], Some(5)),
            (&[9.0, 9.0, 9.0, 5.0], None),
            // A curve that ends early is judged as far as it goes.
            (&[1.0, 9.0], Some(2)),
        ] {
            let theirs: Curve = [1, 2, 5, 10].into_iter().zip(theirs.iter().copied()).collect();
            assert_eq!(crossing(&ours, &theirs).unwrap(), from, "{theirs:?}");
        }
        assert!(crossing(&ours, &Curve::new()).is_err());
    }
}
