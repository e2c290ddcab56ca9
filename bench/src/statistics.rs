//! Medians, percentiles and rates.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Significant digits kept of a latency.
const LATENCY_DIGITS: u8 = 3;
/// One hour; longer latencies are stored as one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Durations below which a 99th percentile says nothing: ten lie beyond it.
const P99_FROM: u64 = 1_000;

/// The value that a fraction `share` (0 to 1) of the values does not exceed; 0 without values.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * as_f64(sorted.len() as u64)).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank among the values")]
    let place = (rank as usize).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0.0)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// Durations by frequency. Each is kept to three digits, so that any number of them takes little memory.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)?))
    }

    pub(crate) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The microseconds that a fraction `share` (0 to 1) of the durations does not exceed; 0 without durations.
    pub(crate) fn percentile_us(&self, share: f64) -> f64 {
        as_f64(self.0.value_at_quantile(share)) / 1e3
    }

    pub(crate) fn p50_us(&self) -> f64 {
        self.percentile_us(0.5)
    }

    pub(crate) fn mean_us(&self) -> f64 {
        self.0.mean() / 1e3
    }

    /// The 99th percentile in microseconds; NaN, which reports print as "-", for fewer than 1,000 durations.
    pub(crate) fn p99_us(&self) -> f64 {
        if self.count() < P99_FROM { f64::NAN } else { self.percentile_us(0.99) }
    }

    pub(crate) fn max_us(&self) -> f64 {
        as_f64(self.0.max()) / 1e3
    }
}

/// Runs a call. Returns its result and its duration.
pub(crate) async fn timed<T>(call: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<(T, Duration)> {
    let began = Instant::now();
    let result = call.await?;
    Ok((result, began.elapsed()))
}

/// Durations of alternating rounds of two ways to do the same work.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    times_s: Vec<(f64, f64)>,
}

impl Rounds {
    /// Runs one round that warms up and then `count` rounds. A round returns the durations of ours and of the bare one.
    pub(crate) async fn run(
        count: u32,
        mut round: impl AsyncFnMut() -> anyhow::Result<(Duration, Duration)>,
    ) -> anyhow::Result<Self> {
        round().await?;
        let mut rounds = Self::default();
        for _ in 0..count {
            let (ours, bare) = round().await?;
            rounds.add(ours, bare);
        }
        Ok(rounds)
    }

    /// Adds a round: ours and the bare one, run directly one after the other.
    pub(crate) fn add(&mut self, ours: Duration, bare: Duration) {
        self.times_s.push((ours.as_secs_f64(), bare.as_secs_f64()));
    }

    /// The median of our rates, with `count` operations per round.
    pub(crate) fn our_rate(&self, count: u64) -> f64 {
        as_f64(count) / median(&self.times_s.iter().map(|(ours, _)| *ours).collect::<Vec<_>>())
    }

    /// The median of the bare rates.
    pub(crate) fn bare_rate(&self, count: u64) -> f64 {
        as_f64(count) / median(&self.times_s.iter().map(|(_, bare)| *bare).collect::<Vec<_>>())
    }

    /// The median of the rounds' ratios of our rate to the bare one. Other load on the machine affects both halves of a
    /// round.
    pub(crate) fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The lowest and the highest ratio of the rounds.
    pub(crate) fn ratio_range(&self) -> (f64, f64) {
        let ratios = self.ratios();
        (percentile(&ratios, 0.0), percentile(&ratios, 1.0))
    }

    fn ratios(&self) -> Vec<f64> {
        self.times_s.iter().map(|(ours, bare)| bare / ours).collect()
    }
}

/// Converts a count to a figure.
#[expect(clippy::cast_precision_loss, reason = "a measured figure")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_kept_to_three_digits() {
        let mut latencies = Latencies::new().unwrap();
        assert_eq!((latencies.count(), latencies.p50_us(), latencies.max_us()), (0, 0.0, 0.0));
        (1..=1_000).for_each(|us| latencies.record(Duration::from_micros(us)));
        assert_eq!(latencies.count(), 1_000);
        for (share, us) in [(0.001, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = latencies.percentile_us(share);
            assert!((found / us - 1.0).abs() < 0.001, "{share}: {found} instead of {us}");
        }
    }

    #[test]
    fn a_99th_percentile_needs_a_thousand_durations() {
        let mut latencies = Latencies::new().unwrap();
        (1..=999).for_each(|us| latencies.record(Duration::from_micros(us)));
        assert!(latencies.p99_us().is_nan());
        latencies.record(Duration::from_micros(1_000));
        assert!((latencies.p99_us() / 990.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_round_is_compared_with_itself_only() {
        let mut rounds = Rounds::default();
        for (ours, bare) in [(2, 1), (20, 10), (30, 24)] {
            rounds.add(Duration::from_secs(ours), Duration::from_secs(bare));
        }
        assert_eq!((rounds.ratio(), rounds.ratio_range()), (0.5, (0.5, 0.8)));
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
