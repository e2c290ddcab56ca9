//! One way to measure: rounds in which contestants take turns, latencies, and a median with its
//! spread.

use std::time::{Duration, Instant};

pub(crate) use cost::as_f64;

/// Fewer durations have no 99th percentile: ten must lie beyond it.
const P99_FROM: usize = 1_000;

/// How much a comparison does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// One more round warms up.
    pub(crate) rounds: u32,
    /// Comments or requests of one contestant in a round.
    pub(crate) a_turn: u32,
}

impl Effort {
    pub(crate) fn new(rounds: u32, a_turn: u32) -> Self {
        Self { rounds, a_turn }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let [lower, lowest, highest] = [0.5, 0.0, 1.0].map(|share| percentile(values, share));
        // Between the two middle values of an even number.
        let negative: Vec<f64> = values.iter().map(|value| -value).collect();
        let median = (lower - percentile(&negative, 0.5)) / 2.0;
        Self {
            median,
            lowest,
            highest,
        }
    }
}

impl From<f64> for Spread {
    fn from(value: f64) -> Self {
        Self {
            median: value,
            lowest: value,
            highest: value,
        }
    }
}

/// The value that a fraction `share` of the values does not exceed; 0 without values.
fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * as_f64(sorted.len() as u64)).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among the values"
    )]
    let index = (rank as usize).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(0.0)
}

/// Durations in microseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies(Vec<f64>);

impl Latencies {
    /// Makes calls one after the other and times all but the first ones, which warm up.
    pub(crate) async fn of<T>(
        warm_up: u32,
        calls: u32,
        mut call: impl AsyncFnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<Self> {
        let mut latencies = Self::default();
        for number in 0..warm_up + calls {
            let (_, took) = timed(call()).await?;
            if number >= warm_up {
                latencies.record(took);
            }
        }
        Ok(latencies)
    }

    pub(crate) fn record(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1e6);
    }

    pub(crate) fn percentile_us(&self, share: f64) -> f64 {
        percentile(&self.0, share)
    }

    /// What reports show. Fewer than 1,000 durations have no 99th percentile: it is NaN, which a
    /// report leaves out.
    pub(crate) fn shown(&self) -> [(&'static str, f64); 2] {
        let p99_us = if self.0.len() < P99_FROM {
            f64::NAN
        } else {
            self.percentile_us(0.99)
        };
        [("p50", self.p50_us()), ("p99", p99_us)]
    }

    pub(crate) fn p50_us(&self) -> f64 {
        self.percentile_us(0.5)
    }
}

pub(crate) async fn timed<T>(
    call: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, Duration)> {
    let began = Instant::now();
    let result = call.await?;
    Ok((result, began.elapsed()))
}

/// Durations of rounds in which `N` contestants do the same work, one right after the other.
#[derive(Debug)]
pub(crate) struct Rounds<const N: usize>(Vec<[Duration; N]>);

impl<const N: usize> Rounds<N> {
    /// Runs one round that warms up and then `count` rounds.
    pub(crate) async fn run(
        count: u32,
        mut round: impl AsyncFnMut() -> anyhow::Result<[Duration; N]>,
    ) -> anyhow::Result<Self> {
        round().await?;
        let mut rounds = Vec::new();
        for _ in 0..count {
            rounds.push(round().await?);
        }
        Ok(Self(rounds))
    }

    /// Operations a second of a contestant that does `count` of them in a round.
    pub(crate) fn rate(&self, contestant: usize, count: u32) -> Spread {
        self.spread(|times| f64::from(count) / seconds(times, contestant))
    }

    /// One contestant's rate as a multiple of another's in the same round. Other load on the
    /// machine affects both.
    pub(crate) fn ratio(&self, contestant: usize, other: usize) -> Spread {
        self.spread(|times| seconds(times, other) / seconds(times, contestant))
    }

    fn spread(&self, of: impl Fn(&[Duration; N]) -> f64) -> Spread {
        Spread::of(&self.0.iter().map(of).collect::<Vec<_>>())
    }
}

fn seconds(times: &[Duration], contestant: usize) -> f64 {
    match times.get(contestant) {
        Some(time) => time.as_secs_f64(),
        None => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_99th_percentile_needs_a_thousand_durations() {
        let mut latencies = Latencies::default();
        for us in 1..=999 {
            latencies.record(Duration::from_micros(us));
        }
        assert!(latencies.shown()[1].1.is_nan());
        latencies.record(Duration::from_micros(1_000));
        assert_eq!(
            latencies.shown().map(|(share, us)| (share, us.round())),
            [("p50", 500.0), ("p99", 990.0)]
        );
    }

    #[tokio::test]
    async fn a_round_is_compared_with_itself_only_and_the_first_one_warms_up() {
        let mut times = [(9, 1), (2, 1), (20, 10), (30, 24)].into_iter();
        let rounds = Rounds::run(3, async || {
            let (ours, bare) = times.next().unwrap();
            Ok([Duration::from_secs(ours), Duration::from_secs(bare)])
        });
        let rounds = rounds.await.unwrap();
        assert_eq!(
            rounds.ratio(0, 1),
            Spread {
                median: 0.5,
                lowest: 0.5,
                highest: 0.8
            }
        );
        assert_eq!(
            rounds.rate(0, 60),
            Spread {
                median: 3.0,
                lowest: 2.0,
                highest: 30.0
            }
        );
        assert_eq!(Spread::of(&[]), 0.0.into());
        assert_eq!(
            Spread::of(&[4.0, 1.0]),
            Spread {
                median: 2.5,
                lowest: 1.0,
                highest: 4.0
            }
        );
    }
}
