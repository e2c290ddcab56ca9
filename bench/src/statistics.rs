//! Medians, percentiles and rates.

use std::time::Duration;

/// The value that `share` (0 to 1) of the values do not exceed; 0 of none.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * as_f64(sorted.len() as u64)).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank among the values")]
    let place = (rank as usize).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0.0)
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// Interleaved rounds of two ways to do the same: how long each round took.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    times_s: Vec<(f64, f64)>,
}

impl Rounds {
    /// Keeps a round: ours and the bare one, one right after the other.
    pub(crate) fn add(&mut self, ours: Duration, bare: Duration) {
        self.times_s.push((ours.as_secs_f64(), bare.as_secs_f64()));
    }

    /// The median of our rates, of `count` a round.
    pub(crate) fn our_rate(&self, count: u64) -> f64 {
        as_f64(count) / median(&self.times_s.iter().map(|(ours, _)| *ours).collect::<Vec<_>>())
    }

    /// The median of the bare rates.
    pub(crate) fn bare_rate(&self, count: u64) -> f64 {
        as_f64(count) / median(&self.times_s.iter().map(|(_, bare)| *bare).collect::<Vec<_>>())
    }

    /// The median of the rounds' ratios of our rate to the bare one: whatever else the machine does, it does it to
    /// both halves of a round.
    pub(crate) fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The lowest and the highest of the rounds' ratios.
    pub(crate) fn ratio_range(&self) -> (f64, f64) {
        let ratios = self.ratios();
        (percentile(&ratios, 0.0), percentile(&ratios, 1.0))
    }

    fn ratios(&self) -> Vec<f64> {
        self.times_s.iter().map(|(ours, bare)| bare / ours).collect()
    }
}

/// A count as a measured figure.
#[expect(clippy::cast_precision_loss, reason = "a measured figure")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}
