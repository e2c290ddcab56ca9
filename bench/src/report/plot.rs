//! Plots of a result: lines over logarithmic axes, drawn by plotters.

use anyhow::anyhow;
use plotters::prelude::*;

use super::{FOUR_INDEXES, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_PAGE_INDEX, PAGEMARK, text};

const SIZE: (u32, u32) = (720, 360);
const LEFT: i32 = 70;
/// For the names of the lines, which stand at their ends.
const RIGHT: i32 = 230;
const BELOW: u32 = 44;
const MARGIN: u32 = 12;
const FONT: (&str, u32) = ("sans-serif", 14);
const NAME_HEIGHT: i32 = 18;
const GAP: i32 = 6;
const POINT: u32 = 3;
const WIDTH: u32 = 2;
const OUR_WIDTH: u32 = 4;

/// The colour of a line whose name begins so, in every plot. The first name counts.
const COLOURS: [(&str, RGBColor); 6] = [
    (PAGEMARK, RGBColor(0, 87, 184)),
    (FOUR_INDEXES_COUNTERS, RGBColor(214, 110, 0)),
    (FOUR_INDEXES_PAGE_INDEX, RGBColor(0, 128, 96)),
    (FOUR_INDEXES, RGBColor(190, 30, 45)),
    ("PostgreSQL", RGBColor(110, 70, 160)),
    ("SQLite", RGBColor(100, 100, 100)),
];

pub(crate) struct Plot {
    /// The name of its file, such as "depth".
    pub(crate) name: &'static str,
    /// The quantities of x and y with their units.
    pub(crate) axes: [&'static str; 2],
    pub(crate) series: Vec<Series>,
}

pub(crate) struct Series {
    pub(crate) name: String,
    /// x and y, ordered by x. A point without a place on a logarithmic axis is not drawn.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    fn drawn(&self) -> impl Iterator<Item = (f64, f64)> {
        let has_place = |value: &f64| *value > 0.0 && value.is_finite();
        self.points.iter().copied().filter(move |(x, y)| has_place(x) && has_place(y))
    }

    fn is_ours(&self) -> bool {
        self.name.starts_with(PAGEMARK)
    }

    fn colour(&self, place: usize) -> RGBAColor {
        let of_design = COLOURS.iter().find(|(design, _)| self.name.starts_with(design));
        of_design.map_or_else(|| Palette99::pick(place).to_rgba(), |(_, colour)| colour.to_rgba())
    }
}

impl Plot {
    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| anyhow!("{} cannot be drawn: {error}", self.name))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let [x, y] = self.axes;
        let points = || self.series.iter().flat_map(Series::drawn);
        let mut chart = ChartBuilder::on(&area)
            .margin(MARGIN)
            .margin_right(RIGHT)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(
                decades(points().map(|(x, _)| x)).log_scale(),
                decades(points().map(|(_, y)| y)).log_scale(),
            )?;
        let label = |value: &f64| text(*value);
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        let mut names = Vec::new();
        // Pagemark is drawn last, above the others.
        let (ours, others): (Vec<_>, Vec<_>) = self.series.iter().partition(|series| series.is_ours());
        for (place, series) in others.into_iter().chain(ours).enumerate() {
            let colour = series.colour(place);
            let width = if series.is_ours() { OUR_WIDTH } else { WIDTH };
            chart.draw_series(LineSeries::new(series.drawn(), colour.stroke_width(width)).point_size(POINT))?;
            let end = series.drawn().last().map(|end| chart.backend_coord(&end));
            names.extend(end.map(|(_, y)| (y, series, colour)));
        }
        names.sort_by_key(|(y, _, _)| *y);
        let (right, mut free) = (i32::try_from(SIZE.0)? - RIGHT, 0);
        for (y, series, colour) in names {
            free = free.max(y - NAME_HEIGHT / 2);
            area.draw(&Text::new(series.name.as_str(), (right + GAP, free), FONT.into_font().color(&colour)))?;
            free += NAME_HEIGHT;
        }
        area.present()?;
        Ok(())
    }
}

/// The whole powers of ten around values; one decade without any.
fn decades(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return 1.0..10.0;
    }
    let power = |value: f64| 10_f64.powf(value);
    let first = low.log10().floor();
    power(first)..power(high.log10().ceil().max(first + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        let series = vec![Series { name: "walk by <cursor>".to_owned(), points: points.to_vec() }];
        Plot { name: "depth", axes: ["page number", "latency p50, us"], series }
    }

    #[test]
    fn a_plot_shows_axes_points_and_the_name_of_each_line() {
        let svg = plot(&[(1.0, 800.0), (1_000.0, 812.0), (50_000.0, f64::NAN)]).svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        for text in ["page number", "latency p50, us", "walk by <cursor>", "1,000"] {
            assert!(texts.contains(&text), "{text} is missing: {texts:?}");
        }
        let circles = document.descendants().filter(|node| node.has_tag_name("circle"));
        assert_eq!(circles.count(), 2, "a point without a place");
        assert!(plot(&[]).svg().unwrap().contains("page number"), "no point at all");
    }
}
