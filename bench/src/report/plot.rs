//! Plots of a result.

use serde::{Deserialize, Serialize};

/// A plot of lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plot {
    /// Unique in the report, as in "depth".
    pub(crate) name: String,
    /// What it shows.
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// What it measures, with its unit, as in "page number", "latency p50, us".
    pub(crate) label: String,
    /// Whether it is logarithmic; then all values are positive.
    pub(crate) is_log: bool,
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// As in "four indexes, walk by cursor".
    pub(crate) name: String,
    /// x and y, by x.
    pub(crate) points: Vec<(f64, f64)>,
}
