//! Draws plots as SVG.
//!
//! Colours come from the style sheet (`plot.css`), so that a plot is light or dark as its reader prefers. Text stays
//! text. Series also differ by dashes and markers. docs/adr/0028 says why no library draws the plots.

use askama::Template;

use super::{
    axis::Scale,
    number::figure,
    plot::{Plot, Series},
};

/// Width of the picture in its own units, then the approximate width of a character.
const WIDTH: f64 = 480.0;
const CHARACTER: f64 = 7.3;
/// Height of the area between the axes.
const HEIGHT: f64 = 270.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 30.0;
/// Height for tick labels and the name of the axis, below the plot.
const BELOW: f64 = 44.0;
const LEGEND_LINE: f64 = 20.0;
const LEGEND_SAMPLE: f64 = 34.0;
/// Number of series after which colours, markers and dashes repeat.
const COLOURS: usize = 10;
const MARKERS: usize = 4;
/// Maximum number of marked points of a series.
const MARKED_MAX: usize = 30;

/// The layout of a plot.
#[derive(Template)]
#[template(path = "plot.svg", escape = "html")]
struct Chart<'plot> {
    plot: &'plot Plot,
    id: String,
    description: String,
    /// Whether it includes its style, which a separate file needs.
    is_file: bool,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_ticks: Vec<(f64, &'plot str)>,
    y_ticks: Vec<(f64, &'plot str)>,
    x_minor: Vec<f64>,
    y_minor: Vec<f64>,
    lines: Vec<Line<'plot>>,
}

/// The layout of a series.
struct Line<'plot> {
    name: &'plot str,
    /// The index of its colour and dashes.
    look: usize,
    points: String,
    markers: String,
    /// The start of its legend entry.
    legend: (f64, f64),
    legend_marker: String,
}

/// Renders the plot, as a separate file or for embedding in a page.
pub(super) fn svg(plot: &Plot, is_file: bool) -> anyhow::Result<String> {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let (x, y) =
        (Scale::of(points().map(|(x, _)| *x), plot.x.is_log), Scale::of(points().map(|(_, y)| *y), plot.y.is_log));
    let widest = y.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
    let left = 14.0 + as_width(widest);
    let (right, bottom) = (WIDTH - RIGHT, TOP + HEIGHT);
    let at_x = |value: f64| round(left + x.place(value) * (right - left));
    let at_y = |value: f64| round(bottom - y.place(value) * HEIGHT);
    let shown = |series: &Series| -> Vec<(f64, f64)> {
        let points = series.points.iter().filter(|(px, py)| x.shows(*px) && y.shows(*py));
        points.map(|(px, py)| (at_x(*px), at_y(*py))).collect()
    };
    let mut legend = (left, bottom + BELOW + LEGEND_LINE / 2.0);
    let mut lines = Vec::new();
    for (place, series) in plot.series.iter().enumerate() {
        let width = LEGEND_SAMPLE + as_width(series.name.chars().count()) + 18.0;
        if legend.0 > left && legend.0 + width > WIDTH {
            legend = (left, legend.1 + LEGEND_LINE);
        }
        let points = shown(series);
        let every = points.len().div_ceil(MARKED_MAX).max(1);
        let marked = points.iter().step_by(every).map(|point| marker(place, *point));
        lines.push(Line {
            name: &series.name,
            look: place % COLOURS,
            points: points.iter().map(|(px, py)| format!("{px},{py}")).collect::<Vec<_>>().join(" "),
            markers: marked.collect(),
            legend: (round(legend.0), round(legend.1)),
            legend_marker: marker(place, (round(legend.0 + 14.0), round(legend.1 - 4.0))),
        });
        legend.0 += width;
    }
    let chart = Chart {
        plot,
        id: format!("plot-{}", super::anchor(&plot.name)),
        description: description(plot),
        is_file,
        height: round(legend.1 + LEGEND_LINE / 2.0),
        left: round(left),
        right: round(right),
        top: TOP,
        bottom,
        x_ticks: apart(x.ticks.iter().map(|(value, label)| (at_x(*value), label.as_str()))),
        y_ticks: y.ticks.iter().map(|(value, label)| (at_y(*value), label.as_str())).collect(),
        x_minor: x.minor.iter().map(|value| at_x(*value)).collect(),
        y_minor: y.minor.iter().map(|value| at_y(*value)).collect(),
        lines,
    };
    Ok(chart.render()?)
}

/// Labels of the horizontal axis that do not touch the previous one. The other ticks have no label.
fn apart<'label>(ticks: impl Iterator<Item = (f64, &'label str)>) -> Vec<(f64, &'label str)> {
    let mut end = f64::NEG_INFINITY;
    ticks
        .map(|(at, label)| {
            let half = as_width(label.chars().count()) / 2.0;
            if at - half < end + CHARACTER {
                return (at, "");
            }
            end = at + half;
            (at, label)
        })
        .collect()
}

/// A description of the plot for readers who cannot see it.
fn description(plot: &Plot) -> String {
    let end = |(x, y): &(f64, f64)| format!("{} at {}", figure(*y), figure(*x));
    let shown = |series: &Series| -> Vec<(f64, f64)> {
        series.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    };
    let series = plot.series.iter().map(|series| match shown(series).as_slice() {
        [] => format!("{}: nothing", series.name),
        [one] => format!("{}: {}", series.name, end(one)),
        [first, .., last] => format!("{}: from {} to {}", series.name, end(first), end(last)),
    });
    let series: Vec<String> = series.collect();
    format!("{} by {}. {}.", plot.y.label, plot.x.label, series.join("; "))
}

/// The marker of a series by its index: circle, square, triangle or diamond.
fn marker(place: usize, (x, y): (f64, f64)) -> String {
    match place % MARKERS {
        0 => format!("M{x} {y}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z"),
        1 => format!("M{x} {y}m-3.2 -3.2h6.4v6.4h-6.4z"),
        2 => format!("M{x} {y}m0 -4.2l4 7.2h-8z"),
        _ => format!("M{x} {y}m0 -4.6l4.6 4.6l-4.6 4.6l-4.6 -4.6z"),
    }
}

fn as_width(characters: usize) -> f64 {
    f64::from(u32::try_from(characters).unwrap_or(u32::MAX)) * CHARACTER
}

/// Rounds to tenths, which are finer than the eye can see.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::Axis;

    fn plot() -> Plot {
        let axis = |label: &str| Axis { label: label.to_owned(), is_log: true };
        let series = |name: &str, points: &[(f64, f64)]| Series { name: name.to_owned(), points: points.to_vec() };
        Plot {
            name: "depth".to_owned(),
            title: "Latency by depth".to_owned(),
            x: axis("page number"),
            y: axis("latency p50, us"),
            series: vec![
                series("Pagemark", &[(1.0, 800.0), (1_000.0, 812.0), (50_000.0, 798.0)]),
                series("walk by <cursor>", &[(1.0, 900.0), (100.0, 90_000.0), (1_000.0, f64::NAN)]),
            ],
        }
    }

    #[test]
    fn a_small_plot_in_full() {
        expect![[r#"
            <svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 480 364" role="img" aria-labelledby="plot-depth-title plot-depth-description">
            <title id="plot-depth-title">Latency by depth</title>
            <desc id="plot-depth-description">latency p50, us by page number. Pagemark: from 800 at 1 to 798 at 50,000; walk by &#60;cursor&#62;: from 900 at 1 to 90,000 at 100.</desc>
            <g class="minor"><path d="M88.3 30V300"/><path d="M101.8 30V300"/><path d="M111.4 30V300"/><path d="M118.9 30V300"/><path d="M125 30V300"/><path d="M130.2 30V300"/><path d="M134.6 30V300"/><path d="M138.6 30V300"/><path d="M165.3 30V300"/><path d="M178.8 30V300"/><path d="M188.4 30V300"/><path d="M195.9 30V300"/><path d="M202 30V300"/><path d="M207.1 30V300"/><path d="M211.6 30V300"/><path d="M215.5 30V300"/><path d="M242.2 30V300"/><path d="M255.8 30V300"/><path d="M265.4 30V300"/><path d="M272.9 30V300"/><path d="M279 30V300"/><path d="M284.1 30V300"/><path d="M288.6 30V300"/><path d="M292.5 30V300"/><path d="M319.2 30V300"/><path d="M332.8 30V300"/><path d="M342.4 30V300"/><path d="M349.8 30V300"/><path d="M355.9 30V300"/><path d="M361.1 30V300"/><path d="M365.6 30V300"/><path d="M369.5 30V300"/><path d="M396.2 30V300"/><path d="M409.7 30V300"/><path d="M419.4 30V300"/><path d="M426.8 30V300"/><path d="M432.9 30V300"/><path d="M438.1 30V300"/><path d="M442.5 30V300"/><path d="M446.5 30V300"/><path d="M65.1 272.9H450"/><path d="M65.1 257.1H450"/><path d="M65.1 245.8H450"/><path d="M65.1 237.1H450"/><path d="M65.1 230H450"/><path d="M65.1 223.9H450"/><path d="M65.1 218.7H450"/><path d="M65.1 214.1H450"/><path d="M65.1 182.9H450"/><path d="M65.1 167.1H450"/><path d="M65.1 155.8H450"/><path d="M65.1 147.1H450"/><path d="M65.1 140H450"/><path d="M65.1 133.9H450"/><path d="M65.1 128.7H450"/><path d="M65.1 124.1H450"/><path d="M65.1 92.9H450"/><path d="M65.1 77.1H450"/><path d="M65.1 65.8H450"/><path d="M65.1 57.1H450"/><path d="M65.1 50H450"/><path d="M65.1 43.9H450"/><path d="M65.1 38.7H450"/><path d="M65.1 34.1H450"/>
            </g>
            <g class="grid"><path d="M65.1 30V300"/><path d="M142.1 30V300"/><path d="M219.1 30V300"/><path d="M296 30V300"/><path d="M373 30V300"/><path d="M450 30V300"/><path d="M65.1 300H450"/><path d="M65.1 210H450"/><path d="M65.1 120H450"/><path d="M65.1 30H450"/>
            </g>
            <path class="axis" d="M65.1 30V300H450"/>
            <g text-anchor="middle"><text x="65.1" y="316">1</text><text x="142.1" y="316">10</text><text x="219.1" y="316">100</text><text x="296" y="316">1,000</text><text x="373" y="316">10,000</text><text x="450" y="316">100,000</text>
            </g>
            <g text-anchor="end"><text x="59.099999999999994" y="304">100</text><text x="59.099999999999994" y="214">1,000</text><text x="59.099999999999994" y="124">10,000</text><text x="59.099999999999994" y="34">100,000</text>
            </g>
            <text class="name" x="450" y="334" text-anchor="end">page number (log)</text>
            <text class="name" x="2" y="14">latency p50, us (log)</text>
            <g class="series look-0">
            <polyline points="65.1,218.7 296,218.1 426.8,218.8"/><path class="marker" d="M65.1 218.7m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0zM296 218.1m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0zM426.8 218.8m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z"/>
            <path class="sample" d="M65.1 350h28"/><path class="marker" d="M79.1 350m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z"/>
            <text x="99.1" y="354">Pagemark</text>
            </g>
            <g class="series look-1">
            <polyline points="65.1,214.1 219.1,34.1"/><path class="marker" d="M65.1 214.1m-3.2 -3.2h6.4v6.4h-6.4zM219.1 34.1m-3.2 -3.2h6.4v6.4h-6.4z"/>
            <path class="sample" d="M175.5 350h28"/><path class="marker" d="M189.5 350m-3.2 -3.2h6.4v6.4h-6.4z"/>
            <text x="209.5" y="354">walk by &#60;cursor&#62;</text>
            </g>
            </svg>"#]].assert_eq(&svg(&plot(), false).unwrap());
    }

    #[test]
    fn a_plot_is_well_formed_and_says_what_it_shows() {
        for is_file in [false, true] {
            let text = svg(&plot(), is_file).unwrap();
            let document = roxmltree::Document::parse(&text).unwrap();
            let root = document.root_element();
            assert_eq!(root.attribute("role"), Some("img"));
            let labelled_by = root.attribute("aria-labelledby").unwrap().split(' ');
            let said: Vec<&str> = labelled_by
                .filter_map(|id| document.descendants().find(|node| node.attribute("id") == Some(id))?.text())
                .collect();
            assert_eq!(said[0], "Latency by depth");
            assert!(said[1].contains("Pagemark: from 800 at 1 to 798 at 50,000"), "{}", said[1]);
            assert_eq!(document.descendants().any(|node| node.has_tag_name("style")), is_file);
        }
    }

    #[test]
    fn no_label_of_the_horizontal_axis_touches_another() {
        let labels = apart([(100.0, "100,000"), (120.0, "200,000"), (180.0, "500,000")].into_iter());
        assert_eq!(labels, [(100.0, "100,000"), (120.0, ""), (180.0, "500,000")]);
    }
}
