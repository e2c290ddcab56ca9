//! Plots of a result: up to five lines, drawn by plotters.

use std::ops::Range;

use anyhow::{anyhow, ensure};
use cost::MILLION;
use plotters::{
    coord::{
        ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter},
        types::RangedCoordf64,
    },
    prelude::*,
};
use serde::{Deserialize, Serialize};

use super::{FOUR_INDEXES, PAGEMARK, text};

/// A phone of 390 pixels shows it at four fifths of this width, so its texts stay readable.
const WIDTH: u32 = 480;
const CHART_HEIGHT: u32 = 390;
const LEFT: u32 = 100;
/// For half of the last number of an axis.
const RIGHT: u32 = 32;
const BELOW: u32 = 52;
const MARGIN: u32 = 12;
const FONT: (&str, u32) = ("sans-serif", 17);
/// Of the name of a line. The names stand below the chart, in the order in which the lines end.
const NAME_HEIGHT: u32 = 21;
const GAP: i32 = 6;
const POINT: u32 = 3;
const MARK: u32 = 6;
const LINE_WIDTH: u32 = 2;
const OUR_LINE_WIDTH: u32 = 4;
/// A reader cannot distinguish more.
const LINES_MAX: usize = 5;
/// About how many numbers stand at a linear axis.
const TICKS: f64 = 7.0;

/// The colour of a line whose name contains these words, in every plot. The first words count.
const COLOURS: [(&str, RGBColor); 7] = [
    (PAGEMARK, RGBColor(0, 87, 184)),
    ("with counters", RGBColor(214, 110, 0)),
    ("BatchGetItem", RGBColor(120, 150, 40)),
    ("with the page index", RGBColor(0, 128, 96)),
    (FOUR_INDEXES, RGBColor(190, 30, 45)),
    ("PostgreSQL", RGBColor(110, 70, 160)),
    ("SQLite", RGBColor(100, 100, 100)),
];
/// Colours of lines that do not stand for a design, in their order.
const OTHER_COLOURS: [RGBColor; LINES_MAX] = [
    RGBColor(0, 120, 140),
    RGBColor(150, 80, 20),
    RGBColor(170, 0, 120),
    RGBColor(95, 105, 0),
    RGBColor(70, 80, 95),
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plot {
    /// The name of its file, such as "depth".
    pub(crate) name: String,
    /// The quantities of x and y with their units.
    pub(crate) axes: [String; 2],
    pub(crate) series: Vec<PlotLine>,
    /// Points that are marked with the number of their x, such as break-evens.
    pub(crate) marks: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlotLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl PlotLine {
    /// A line through points of x and y, ordered by x. A point that is not a number is omitted.
    pub(crate) fn new(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points
            .into_iter()
            .filter(|(x, y)| x.is_finite() && y.is_finite());
        Self {
            name: name.into(),
            points: points.collect(),
        }
    }

    fn is_ours(&self) -> bool {
        self.name.starts_with(PAGEMARK)
    }

    /// Its colour if it is the line so many of a plot.
    fn colour(&self, number: usize) -> RGBAColor {
        let of_design = COLOURS
            .iter()
            .find(|(design, _)| self.name.contains(design))
            .map(|(_, colour)| colour);
        of_design
            .or(OTHER_COLOURS.get(number))
            .unwrap_or(&BLACK)
            .to_rgba()
    }
}

/// An axis that begins with 0, or a logarithmic one if values differ by more than a power of ten.
struct Axis {
    is_logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let is_logarithmic = low > 0.0 && high > 10.0 * low;
        let (first, last, step) = if is_logarithmic {
            (low.log10().floor(), high.log10().ceil(), 1.0)
        } else {
            let high = if high > 0.0 { high } else { 1.0 };
            let power = 10_f64.powf((high / TICKS).log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
            let step = steps
                .into_iter()
                .find(|step| high <= step * TICKS)
                .unwrap_or(high);
            (0.0, step * (high / step).ceil(), step)
        };
        let mut ticks = Vec::new();
        for number in 0..=u8::MAX {
            let tick = first + step * f64::from(number);
            if tick > last {
                break;
            }
            ticks.push(if is_logarithmic {
                10_f64.powf(tick)
            } else {
                tick
            });
        }
        Self {
            is_logarithmic,
            ticks,
        }
    }

    /// Where a value stands on a linear axis of the same length.
    fn linear(&self, value: f64) -> f64 {
        if self.is_logarithmic {
            value.log10()
        } else {
            value
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        let first = self.ticks.first().copied().unwrap_or_default();
        let last = self.ticks.last().copied().unwrap_or_default();
        first..last
    }

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        RangedCoordf64::from(self.linear(start)..self.linear(end)).map(&self.linear(*value), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        if *value < MILLION {
            text(*value)
        } else {
            format!("{} M", text(value / MILLION))
        }
    }
}

impl Plot {
    pub(crate) fn new(name: &str, axes: [&str; 2], series: Vec<PlotLine>) -> Self {
        Self {
            name: name.to_owned(),
            axes: axes.map(str::to_owned),
            series,
            marks: Vec::new(),
        }
    }

    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        ensure!(
            self.series.len() <= LINES_MAX,
            "{} has more than {LINES_MAX} lines",
            self.name
        );
        let mut svg = String::new();
        self.draw(&mut svg)
            .map_err(|error| anyhow!("{} cannot be drawn: {error}", self.name))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let names_height = NAME_HEIGHT * u32::try_from(self.series.len())? + MARGIN;
        let size = (WIDTH, CHART_HEIGHT + names_height);
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (chart_area, names_area) = area.split_vertically(CHART_HEIGHT);
        let points = self.series.iter().flat_map(|line| &line.points);
        let x = Axis::of(points.clone().map(|point| point.0));
        let y = Axis::of(points.map(|point| point.1));
        let mut chart = ChartBuilder::on(&chart_area)
            .margin(MARGIN)
            .margin_right(RIGHT)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(x, y)?;
        let [x, y] = &self.axes;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .label_style(FONT)
            .axis_desc_style(FONT)
            .draw()?;
        let mut names = Vec::new();
        // Pagemark is drawn last, above the others.
        let (ours, others): (Vec<_>, Vec<_>) =
            self.series.iter().partition(|series| series.is_ours());
        for (number, series) in others.into_iter().chain(ours).enumerate() {
            let colour = series.colour(number);
            let width = if series.is_ours() {
                OUR_LINE_WIDTH
            } else {
                LINE_WIDTH
            };
            chart.draw_series(
                LineSeries::new(series.points.iter().copied(), colour.stroke_width(width))
                    .point_size(POINT),
            )?;
            let end = series.points.last().map(|end| chart.backend_coord(end));
            names.extend(end.map(|(_, y)| (y, series, colour)));
        }
        for (x, y) in &self.marks {
            let (across, down) = chart.backend_coord(&(*x, *y));
            area.draw(&Circle::new(
                (across, down),
                MARK,
                BLACK.stroke_width(LINE_WIDTH),
            ))?;
            area.draw(&Text::new(
                text(*x),
                (across - GAP, down + 2 * GAP),
                FONT.into_font(),
            ))?;
        }
        names.sort_by_key(|(y, _, _)| *y);
        let rows = (0..).step_by(usize::try_from(NAME_HEIGHT)?);
        for (row, (_, series, colour)) in rows.zip(names) {
            names_area.draw(&Text::new(
                series.name.as_str(),
                (i32::try_from(LEFT)?, row),
                FONT.into_font().color(&colour),
            ))?;
        }
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        let series = vec![PlotLine::new("walk by <cursor>", points.iter().copied())];
        Plot {
            marks: vec![(321.0, 806.0)],
            ..Plot::new("depth", ["page number", "latency p50, us"], series)
        }
    }

    #[test]
    fn a_plot_shows_axes_points_and_the_name_of_each_line() {
        let svg = plot(&[(1.0, 800.0), (1_000.0, 812.0), (50_000.0, f64::NAN)])
            .svg()
            .unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter_map(|node| node.text())
            .map(str::trim)
            .collect();
        for text in [
            "page number",
            "latency p50, us",
            "walk by <cursor>",
            "1,000",
            "321",
        ] {
            assert!(texts.contains(&text), "{text} is missing: {texts:?}");
        }
        let circles = document
            .descendants()
            .filter(|node| node.has_tag_name("circle"));
        assert_eq!(circles.count(), 2 + 1, "two points and a mark");
        assert!(
            plot(&[]).svg().unwrap().contains("page number"),
            "no point at all"
        );
    }

    /// The numbers at the axis of these values.
    fn ticks(values: &[f64]) -> String {
        let axis = Axis::of(values.iter().copied());
        let texts: Vec<String> = axis
            .ticks
            .iter()
            .map(|tick| axis.format_ext(tick))
            .collect();
        texts.join(" ")
    }

    #[test]
    fn values_of_one_order_begin_with_zero_and_others_are_spaced_by_powers_of_ten() {
        assert_eq!(ticks(&[0.0, 4.0]), "0 1 2 3 4");
        assert_eq!(ticks(&[4.4, 6.5]), "0 1 2 3 4 5 6 7");
        assert_eq!(ticks(&[2.0, 3_000.0]), "1 10 100 1,000 10,000");
        assert_eq!(ticks(&[2e5, 3e6]), "100,000 1 M 10 M");
        let axis = Axis::of([2.0, 3_000.0].into_iter());
        assert_eq!(axis.map(&100.0, (0, 200)), 100);
    }
}
