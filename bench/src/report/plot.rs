//! Plots of a result: lines over logarithmic axes, drawn by plotters.

use anyhow::anyhow;
use plotters::prelude::*;

use super::text;

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;
const LEGEND_LINE: u32 = 22;
const LEFT: i32 = 80;
const BELOW: u32 = 44;
const MARGIN: u32 = 12;
const FONT: (&str, u32) = ("sans-serif", 14);
const POINT: u32 = 3;

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
}

impl Plot {
    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| anyhow!("{} cannot be drawn: {error}", self.name))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let legend_height = LEGEND_LINE * u32::try_from(self.series.len())? + MARGIN;
        let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT + legend_height)).into_drawing_area();
        area.fill(&WHITE)?;
        let [x, y] = self.axes;
        let (above, legend) = area.split_vertically(HEIGHT);
        let points = || self.series.iter().flat_map(Series::drawn);
        let mut chart = ChartBuilder::on(&above)
            .margin(MARGIN)
            .margin_right(3 * MARGIN)
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
            .draw()?;
        for (place, series) in self.series.iter().enumerate() {
            let colour = Palette99::pick(place).to_rgba();
            chart.draw_series(LineSeries::new(series.drawn(), colour.stroke_width(2)).point_size(POINT))?;
            let y = i32::try_from(LEGEND_LINE)? * i32::try_from(place)?;
            legend.draw(&Rectangle::new([(LEFT, y + 6), (LEFT + 24, y + 10)], colour.filled()))?;
            legend.draw(&Text::new(series.name.as_str(), (LEFT + 32, y), FONT))?;
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
