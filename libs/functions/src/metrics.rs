//! Metrics of the stream handlers, in the CloudWatch embedded metric format. A handler prints a
//! line of JSON on standard output; CloudWatch Logs turns it into metrics (Amazon CloudWatch,
//! "Specification: Embedded metric format").
//!
//! [`Metric`] is the only list of metric names.

use std::collections::BTreeMap;

pub use process::emf::{DIMENSION, NAMESPACE, line};
use strum::{IntoStaticStr, VariantArray};

/// A metric of an invocation. Lines print them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, VariantArray, IntoStaticStr)]
pub enum Metric {
    /// Records in the batch, including records that are not about a comment.
    Records,
    CommentsChanged,
    /// Writes that are known to have happened: duplicates put or deleted, or edits of the page
    /// index. When a part of a pipeline fails, none of its edits counts.
    Writes,
    Retries,
    /// Writes that DynamoDB returned as unprocessed, counted each time.
    Unprocessed,
    ReportedForRetry,
    Quarantined,
    /// Age of the batch's last record when the invocation began.
    IteratorAge,
    Duration,
}

impl Metric {
    pub const ALL: &[Self] = Self::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its unit in CloudWatch (Amazon CloudWatch API reference: `MetricDatum`).
    pub fn unit(self) -> &'static str {
        if matches!(self, Self::IteratorAge | Self::Duration) {
            "Milliseconds"
        } else {
            "Count"
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvocationMetrics {
    values: BTreeMap<Metric, u64>,
}

impl InvocationMetrics {
    pub fn add(&mut self, metric: Metric, count: impl TryInto<u64>) {
        let value = self.values.entry(metric).or_default();
        *value = value.saturating_add(count.try_into().unwrap_or(u64::MAX));
    }

    pub fn get(&self, metric: Metric) -> u64 {
        self.values.get(&metric).copied().unwrap_or(0)
    }

    /// The metrics as a line of JSON, without a line feed.
    pub fn line(&self, namespace: &str, function: &str, at_epoch_ms: i64) -> String {
        let values = Metric::ALL
            .iter()
            .map(|metric| (metric.name(), metric.unit(), self.get(*metric).into()));
        line(
            namespace,
            function,
            at_epoch_ms,
            &values.collect::<Vec<_>>(),
        )
    }

    /// Prints the line to standard output, where Lambda reads it.
    pub fn print(&self, namespace: &str, function: &str) {
        println!(
            "{}",
            self.line(namespace, function, process::now().epoch_ms())
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_line_names_each_metric_once_and_gives_its_value_at_the_root() {
        let mut metrics = InvocationMetrics::default();
        metrics.add(Metric::Records, 3_u64);
        metrics.add(Metric::Records, 4_u64);
        let line: Value =
            serde_json::from_str(&metrics.line("Pagemark/one", "stream-writer", 1_700_000_000_123))
                .unwrap();
        assert_eq!(line["_aws"]["Timestamp"], 1_700_000_000_123_i64);
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(
            (&directive["Namespace"], &directive["Dimensions"]),
            (&json!("Pagemark/one"), &json!([["Function"]]))
        );
        assert_eq!(line["Function"], "stream-writer");
        let named: Vec<&str> = directive["Metrics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|metric| metric["Name"].as_str().unwrap())
            .collect();
        assert_eq!(
            named,
            Metric::ALL
                .iter()
                .map(|metric| metric.name())
                .collect::<Vec<_>>()
        );
        assert!(named.iter().all(|name| line[name].is_u64()), "{line}");
        assert_eq!(line["Records"], 7);
    }
}
