//! Plots as SVG: a few lines over a logarithmic axis of powers of two, or many points over a linear one, and a
//! logarithmic y axis.
//!
//! The text is self-contained (no scripts, no style sheets, no fonts to fetch) and takes its foreground colour from the
//! surrounding page.

use std::fmt::Write;

use crate::table::escape;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
/// Colours that are distinct with any colour vision (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with a dot at each point.
    Line,
    /// A dashed line with a dot at each point.
    Dashed,
    /// Crosses only, for figures from other sources.
    Crosses,
    /// Many small points: a plot with such a series has a linear x axis.
    Points,
}

/// Named points.
#[derive(Clone, Debug)]
pub struct PlotSeries {
    /// Its name in the legend.
    pub name: String,
    /// Points by x, all coordinates above zero.
    pub points: Vec<(f64, f64)>,
    /// Its style.
    pub style: Style,
    /// Index of its colour in the palette.
    pub colour: usize,
}

/// A plot with two logarithmic axes, except for the x axis of a scatter plot (see [`Style::Points`]).
#[derive(Clone, Debug)]
pub struct Plot {
    /// Title above the plot.
    pub title: String,
    /// Label of the x axis.
    pub x_label: String,
    /// Label of the y axis.
    pub y_label: String,
    /// The lines, drawn in order.
    pub series: Vec<PlotSeries>,
}

/// An axis from one value to another, on a range of the picture.
struct Axis {
    linear: bool,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = if self.linear {
            (value - self.low) / (self.high - self.low)
        } else {
            (value / self.low).ln() / (self.high / self.low).ln()
        };
        self.start + share * (self.end - self.start)
    }
}

impl Plot {
    /// Renders the plot as an `<svg>` element. Points without a place on a logarithmic axis are left out.
    pub fn svg(&self) -> String {
        let points: Vec<(f64, f64)> = self.visible().flat_map(|(_, points)| points).collect();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" font-family=\"sans-serif\" \
             font-size=\"12\" fill=\"currentColor\">\n<title>{0}</title>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{0}</text>\n",
            escape(&self.title)
        );
        if points.is_empty() {
            let _ = write!(
                svg,
                "<text x=\"{LEFT}\" y=\"80\">nothing was measured</text>\n</svg>\n"
            );
            return svg;
        }
        let is_scatter = self.series.iter().any(|s| s.style == Style::Points);
        let xs = points.iter().map(|p| p.0);
        let x_ticks = if is_scatter {
            even_steps(xs)
        } else {
            powers_of_two(xs)
        };
        let y_ticks = steps_1_2_5(points.iter().map(|p| p.1));
        let x = axis(is_scatter, &x_ticks, LEFT + 14.0, WIDTH - RIGHT - 14.0);
        let y = axis(false, &y_ticks, HEIGHT - BOTTOM, TOP);
        self.draw_axes(&mut svg, (&x, &x_ticks), (&y, &y_ticks));
        for (series, points) in self.visible() {
            draw_series(&mut svg, series, &points, &x, &y);
        }
        self.draw_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn visible(&self) -> impl Iterator<Item = (&PlotSeries, Vec<(f64, f64)>)> {
        self.series.iter().map(|series| {
            let fits = |(x, y): &(f64, f64)| x.is_normal() && y.is_normal() && *x > 0.0 && *y > 0.0;
            (series, series.points.iter().copied().filter(fits).collect())
        })
    }

    fn draw_axes(&self, svg: &mut String, x: (&Axis, &[f64]), y: (&Axis, &[f64])) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.1 {
            let at = y.0.place(*tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" \
                 stroke=\"currentColor\" stroke-opacity=\"0.15\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                label(*tick)
            );
        }
        for tick in x.1 {
            let at = x.0.place(*tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" \
                 stroke=\"currentColor\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 20.0,
                label(*tick)
            );
        }
        let (centre, middle) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"currentColor\"/>\n\
             <text x=\"{centre}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 14.0,
            escape(&self.x_label),
            escape(&self.y_label)
        );
    }

    fn draw_legend(&self, svg: &mut String) {
        let left = WIDTH - RIGHT + 14.0;
        for (row, series) in self.series.iter().enumerate() {
            let y = TOP + 10.0 + row as f64 * 20.0;
            let colour = COLOURS[series.colour % COLOURS.len()];
            match series.style {
                Style::Crosses => draw_cross(svg, left + 11.0, y, colour),
                style => {
                    let _ = writeln!(
                        svg,
                        "<path d=\"M{left} {y}h22\" stroke=\"{colour}\" stroke-width=\"2\"{}/>",
                        dashes(style)
                    );
                }
            }
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\">{}</text>",
                left + 30.0,
                y + 4.0,
                escape(&series.name)
            );
        }
    }
}

fn draw_series(svg: &mut String, series: &PlotSeries, points: &[(f64, f64)], x: &Axis, y: &Axis) {
    let colour = COLOURS[series.colour % COLOURS.len()];
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|(px, py)| (x.place(*px), y.place(*py)))
        .collect();
    if series.style == Style::Points {
        draw_points(svg, &places, colour);
        return;
    }
    if series.style == Style::Crosses {
        for (px, py) in places {
            draw_cross(svg, px, py, colour);
        }
        return;
    }
    let path: Vec<String> = places
        .iter()
        .map(|(px, py)| format!("{px:.1},{py:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{}/>",
        path.join(" "),
        dashes(series.style)
    );
    for ((px, py), (value_x, value_y)) in places.iter().zip(points) {
        let _ = writeln!(
            svg,
            "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\" fill=\"{colour}\">\
             <title>{}: {} at {}</title></circle>",
            escape(&series.name),
            label(*value_y),
            label(*value_x)
        );
    }
}

/// Draws thousands of points as one path of strokes without length.
fn draw_points(svg: &mut String, places: &[(f64, f64)], colour: &str) {
    let dots: String = places
        .iter()
        .map(|(x, y)| format!("M{x:.1} {y:.1}h0"))
        .collect();
    let _ = writeln!(
        svg,
        "<path d=\"{dots}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.5\" \
         stroke-width=\"2\" stroke-linecap=\"round\"/>"
    );
}

fn draw_cross(svg: &mut String, x: f64, y: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<path d=\"M{:.1} {:.1}l10 10m0 -10l-10 10\" stroke=\"{colour}\" stroke-width=\"2.5\"/>",
        x - 5.0,
        y - 5.0
    );
}

fn dashes(style: Style) -> &'static str {
    match style {
        Style::Dashed => " stroke-dasharray=\"5 4\"",
        Style::Line | Style::Crosses | Style::Points => "",
    }
}

fn axis(linear: bool, ticks: &[f64], start: f64, end: f64) -> Axis {
    let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
    Axis {
        linear,
        low,
        high,
        start,
        end,
    }
}

/// Returns five to ten even steps of 1, 2 or 5 times a power of ten, from 0 past the largest value.
fn even_steps(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let high = values.fold(1.0, f64::max);
    let decade = 10_f64.powf((high / 5.0).log10().floor());
    let step = [5.0, 2.0, 1.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|step| high / step >= 4.0)
        .unwrap_or(decade);
    let count = (high / step).ceil() as u32;
    (0..=count).map(|i| f64::from(i) * step).collect()
}

/// Returns at least two powers of two that enclose the values.
fn powers_of_two(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min).log2().floor();
    let high = values.fold(0.0, f64::max).log2().ceil().max(low + 1.0);
    (low as i32..=high as i32)
        .map(|power| 2_f64.powi(power))
        .collect()
}

/// Returns at least two steps of 1, 2 and 5 times powers of ten that enclose the values; only powers of ten if there
/// would be too many to read.
fn steps_1_2_5(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(0.0, f64::max);
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all: Vec<f64> = decades
        .flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)))
        .collect();
    let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let last = all
        .iter()
        .position(|tick| *tick >= high)
        .unwrap_or(all.len() - 1);
    let last = last.max(first + 1).min(all.len() - 1);
    let ticks = &all[first.min(last - 1)..=last];
    if ticks.len() <= 12 {
        return ticks.to_vec();
    }
    let low = 10_f64.powf(low.log10().floor());
    let decades = (high / low).log10().ceil().max(1.0) as i32;
    (0..=decades)
        .map(|power| low * 10_f64.powi(power))
        .collect()
}

/// Formats a tick: 0.05, 20, 5k, 2M.
fn label(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let mut digits = format!("{value:.4}");
    if value >= 100.0 {
        digits = format!("{value:.0}");
    } else if value >= 1.0 {
        digits = format!("{value:.2}");
    }
    if digits.contains('.') {
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    digits + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        Plot {
            title: "a < b".to_owned(),
            x_label: "clients".to_owned(),
            y_label: "queries/s".to_owned(),
            series: [Style::Line, Style::Dashed, Style::Crosses]
                .map(|style| PlotSeries {
                    name: format!("{style:?}"),
                    points: points.to_vec(),
                    style,
                    colour: 0,
                })
                .to_vec(),
        }
    }

    /// Asserts that every tag that opens also closes, in order.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let tag = tag.split('>').next().expect("a tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().expect("a name"));
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn points_lie_within_the_axes() {
        let svg = plot(&[(1.0, 900.0), (2.0, 1700.0), (32.0, 12_345.0)]).svg();
        assert_well_formed(&svg);
        assert!(svg.contains("a &lt; b"));
        for tick in [">500<", ">1k<", ">20k<", ">32<"] {
            assert!(svg.contains(tick), "{tick} in {svg}");
        }
        for coordinate in svg.split("cx=\"").skip(1) {
            let x: f64 = coordinate
                .split('"')
                .next()
                .expect("a number")
                .parse()
                .expect("a number");
            assert!((LEFT..WIDTH - RIGHT).contains(&x));
        }
        for coordinate in svg.split("cy=\"").skip(1) {
            let y: f64 = coordinate
                .split('"')
                .next()
                .expect("a number")
                .parse()
                .expect("a number");
            assert!((TOP..=HEIGHT - BOTTOM).contains(&y));
        }
    }

    #[test]
    fn single_zero_and_no_points_make_a_plot() {
        assert_well_formed(&plot(&[(4.0, 100.0)]).svg());
        assert_well_formed(&plot(&[(4.0, 0.0), (8.0, 3.0)]).svg());
        assert!(plot(&[(1.0, 0.0)]).svg().contains("nothing was measured"));
        assert!(plot(&[]).svg().contains("nothing was measured"));
    }

    #[test]
    fn scatter_plots_have_an_even_x_axis() {
        let mut plot = plot(&[]);
        plot.series[0].style = Style::Points;
        plot.series[0].points = (1..=9_990_u32).map(|i| (f64::from(i), 72.0)).collect();
        let svg = plot.svg();
        assert_well_formed(&svg);
        for tick in [">0<", ">2k<", ">10k<"] {
            assert!(svg.contains(tick), "{tick} in {svg}");
        }
        assert_eq!(svg.matches("h0").count(), 9_990);
    }

    #[test]
    fn wide_ranges_get_ticks_at_powers_of_ten() {
        let ticks = steps_1_2_5([0.02, 50_000.0].into_iter());
        assert_eq!(ticks.first().map(|t| label(*t)), Some("0.01".to_owned()));
        assert_eq!(ticks.last().map(|t| label(*t)), Some("100k".to_owned()));
        assert!(ticks.len() <= 12);
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> = [0.05, 1.0, 20.0, 512.0, 5000.0, 2e6].map(label).into();
        assert_eq!(labels, ["0.05", "1", "20", "512", "5k", "2M"]);
    }
}
