//! Plots as SVG.
//!
//! Colours are the style sheet's (`plot.css`), so that a plot is light or dark as its reader prefers; text stays text. Series
//! differ by dashes and markers, too. Why no library draws it: docs/adr/0028.

use askama::Template;

use super::{
    axis::Scale,
    number::figure,
    plot::{Plot, Series},
};

/// The picture's width, in its own units; a character of its text is about so wide.
const WIDTH: f64 = 560.0;
const CHARACTER: f64 = 6.7;
/// The height of what lies between the axes.
const HEIGHT: f64 = 270.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 24.0;
/// Tick labels and the name of the axis, below.
const BELOW: f64 = 44.0;
const LEGEND_LINE: f64 = 20.0;
const LEGEND_SAMPLE: f64 = 34.0;
/// Colours, markers and dashes repeat after so many series.
const COLOURS: usize = 8;
const MARKERS: usize = 4;
/// Of a series of many points not all are marked.
const MARKED_MAX: usize = 30;

/// A plot, laid out.
#[derive(Template)]
#[template(path = "plot.svg", escape = "html")]
struct Chart<'plot> {
    plot: &'plot Plot,
    id: String,
    description: String,
    /// Whether it brings its style along: a file of its own does.
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

/// A series, laid out.
struct Line<'plot> {
    name: &'plot str,
    /// Which colour and dashes.
    look: usize,
    points: String,
    markers: String,
    /// Where its entry of the legend begins.
    legend: (f64, f64),
    legend_marker: String,
}

/// The plot as a file of its own, or to be put into a page.
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

/// Labels of the horizontal axis that do not touch the one before; the others' ticks stay, without a label.
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

/// What the plot shows, for those who do not see it.
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

/// A point of the series of this place: circle, square, triangle or diamond.
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

/// A tenth is finer than anybody sees.
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
            <svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 560 364" role="img" aria-labelledby="plot-depth-title plot-depth-description">
            <title id="plot-depth-title">Latency by depth</title>
            <desc id="plot-depth-description">latency p50, us by page number. Pagemark: from 800 at 1 to 798 at 50,000; walk by &#60;cursor&#62;: from 900 at 1 to 90,000 at 100.</desc>
            <g class="minor"><path d="M89.5 30V300"/><path d="M106.2 30V300"/><path d="M118.1 30V300"/><path d="M127.3 30V300"/><path d="M134.8 30V300"/><path d="M141.2 30V300"/><path d="M146.7 30V300"/><path d="M151.6 30V300"/><path d="M184.5 30V300"/><path d="M201.3 30V300"/><path d="M213.1 30V300"/><path d="M222.3 30V300"/><path d="M229.9 30V300"/><path d="M236.2 30V300"/><path d="M241.7 30V300"/><path d="M246.6 30V300"/><path d="M279.5 30V300"/><path d="M296.3 30V300"/><path d="M308.1 30V300"/><path d="M317.4 30V300"/><path d="M324.9 30V300"/><path d="M331.2 30V300"/><path d="M336.8 30V300"/><path d="M341.6 30V300"/><path d="M374.6 30V300"/><path d="M391.3 30V300"/><path d="M403.2 30V300"/><path d="M412.4 30V300"/><path d="M419.9 30V300"/><path d="M426.3 30V300"/><path d="M431.8 30V300"/><path d="M436.6 30V300"/><path d="M469.6 30V300"/><path d="M486.3 30V300"/><path d="M498.2 30V300"/><path d="M507.4 30V300"/><path d="M514.9 30V300"/><path d="M521.3 30V300"/><path d="M526.8 30V300"/><path d="M531.7 30V300"/><path d="M60.9 272.9H536"/><path d="M60.9 257.1H536"/><path d="M60.9 245.8H536"/><path d="M60.9 237.1H536"/><path d="M60.9 230H536"/><path d="M60.9 223.9H536"/><path d="M60.9 218.7H536"/><path d="M60.9 214.1H536"/><path d="M60.9 182.9H536"/><path d="M60.9 167.1H536"/><path d="M60.9 155.8H536"/><path d="M60.9 147.1H536"/><path d="M60.9 140H536"/><path d="M60.9 133.9H536"/><path d="M60.9 128.7H536"/><path d="M60.9 124.1H536"/><path d="M60.9 92.9H536"/><path d="M60.9 77.1H536"/><path d="M60.9 65.8H536"/><path d="M60.9 57.1H536"/><path d="M60.9 50H536"/><path d="M60.9 43.9H536"/><path d="M60.9 38.7H536"/><path d="M60.9 34.1H536"/>
            </g>
            <g class="grid"><path d="M60.9 30V300"/><path d="M155.9 30V300"/><path d="M250.9 30V300"/><path d="M346 30V300"/><path d="M441 30V300"/><path d="M536 30V300"/><path d="M60.9 300H536"/><path d="M60.9 210H536"/><path d="M60.9 120H536"/><path d="M60.9 30H536"/>
            </g>
            <path class="axis" d="M60.9 30V300H536"/>
            <g text-anchor="middle"><text x="60.9" y="316">1</text><text x="155.9" y="316">10</text><text x="250.9" y="316">100</text><text x="346" y="316">1,000</text><text x="441" y="316">10,000</text><text x="536" y="316">100,000</text>
            </g>
            <g text-anchor="end"><text x="54.9" y="304">100</text><text x="54.9" y="214">1,000</text><text x="54.9" y="124">10,000</text><text x="54.9" y="34">100,000</text>
            </g>
            <text class="name" x="536" y="334" text-anchor="end">page number (log)</text>
            <text class="name" x="2" y="14">latency p50, us (log)</text>
            <g class="series look-0">
            <polyline points="60.9,218.7 346,218.1 507.4,218.8"/><path class="marker" d="M60.9 218.7m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0zM346 218.1m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0zM507.4 218.8m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z"/>
            <path class="sample" d="M60.9 350h28"/><path class="marker" d="M74.9 350m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z"/>
            <text x="94.9" y="354">Pagemark</text>
            </g>
            <g class="series look-1">
            <polyline points="60.9,214.1 250.9,34.1"/><path class="marker" d="M60.9 214.1m-3.2 -3.2h6.4v6.4h-6.4zM250.9 34.1m-3.2 -3.2h6.4v6.4h-6.4z"/>
            <path class="sample" d="M166.5 350h28"/><path class="marker" d="M180.5 350m-3.2 -3.2h6.4v6.4h-6.4z"/>
            <text x="200.5" y="354">walk by &#60;cursor&#62;</text>
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
