//! Plots of a result.

use serde::{Deserialize, Serialize};

/// A plot of lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plot {
    /// A name that is unique in the report, such as "depth".
    pub(crate) name: String,
    /// The title of the plot.
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// The measured quantity with its unit, such as "page number", "latency p50, us".
    pub(crate) label: String,
    /// Whether the axis is logarithmic. Then all values are positive.
    pub(crate) is_log: bool,
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// The name of the line, such as "four indexes, walk by cursor".
    pub(crate) name: String,
    /// x and y, ordered by x.
    pub(crate) points: Vec<(f64, f64)>,
}
