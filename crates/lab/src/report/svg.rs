//! Charts as SVG inside a page: colours come from the page's style, by class.

use super::escape::escape;
use super::{log_ticks, ticks, ticks_of};
use crate::digits::figure;
use crate::outcome::Chart;
use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 56.0;
/// Classes of lines in the page's style.
pub(super) const COLOURS: usize = 6;

/// What a study says in a chart, beside what was measured under the same name.
const STUDY: [&str; 2] = ["study", "published"];

/// The classes of the charts' lines: the same for the same thing in all of them, and another
/// one for what a study says.
pub(super) struct Classes(Vec<String>);

impl Classes {
    /// Those of these charts.
    pub(super) fn of<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> Self {
        let mut names = Vec::new();
        for series in charts.into_iter().flat_map(|chart| &chart.series) {
            let thing = thing(&series.name);
            if !is_of_study(thing) && !names.iter().any(|name| name == thing) {
                names.push(thing.to_owned());
            }
        }
        Self(names)
    }

    /// The number of a series' colour, and whether it is what a study says. A study's line alone
    /// has a colour of its own.
    pub(super) fn class(&self, series: &str) -> (String, bool) {
        let number = self.0.iter().position(|name| name == thing(series));
        let study = thing(series) != series && series.ends_with(STUDY[1]);
        match number {
            Some(number) => ((number % COLOURS).to_string(), study),
            None => ("study".to_owned(), true),
        }
    }
}

/// Whether a line is a study's alone.
fn is_of_study(name: &str) -> bool {
    STUDY.contains(&name) || name.starts_with("published: ")
}

/// What a series is of, whatever its source.
fn thing(series: &str) -> &str {
    let of = |who: &str| series.strip_suffix(who).and_then(|rest| rest.strip_suffix(", "));
    of("published").or_else(|| of("measured")).unwrap_or(series)
}

/// The chart as an `svg` element.
pub(super) fn svg(chart: &Chart, classes: &Classes) -> String {
    let area = Area::new(chart);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" \
         xmlns=\"http://www.w3.org/2000/svg\">",
        escape(&chart.title),
    );
    area.axes(chart, &mut out);
    for (index, series) in chart.series.iter().enumerate() {
        let points = series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (class, study) = classes.class(&series.name);
        if chart.bars {
            let wide = area.bar_width(chart);
            for (x, y) in points {
                let left = area.x(*x) + wide * (index as f64 - chart.series.len() as f64 / 2.0);
                let top = area.y(*y);
                let _ = writeln!(
                    out,
                    "<rect class=\"b{class}\" x=\"{left:.1}\" y=\"{top:.1}\" \
                     width=\"{wide:.1}\" height=\"{:.1}\"><title>{}: {} at {}</title></rect>",
                    (area.y(0.0) - top).max(0.0),
                    escape(&series.name),
                    figure(*y),
                    figure(*x),
                );
            }
            continue;
        }
        let path: Vec<String> =
            points.clone().map(|(x, y)| format!("{:.1},{:.1}", area.x(*x), area.y(*y))).collect();
        let dashed = if study { " study" } else { "" };
        let _ =
            writeln!(out, "<polyline class=\"l{class}{dashed}\" points=\"{}\"/>", path.join(" "));
        for (x, y) in points {
            let _ = writeln!(
                out,
                "<circle class=\"b{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\">\
                 <title>{}: {} at {}</title></circle>",
                area.x(*x),
                area.y(*y),
                escape(&series.name),
                figure(*y),
                figure(*x),
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// The part of the picture that shows values.
struct Area {
    low: f64,
    high: f64,
    top: f64,
    log: bool,
}

impl Area {
    fn new(chart: &Chart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let finite = |values: &mut dyn Iterator<Item = f64>| {
            values.filter(|value| value.is_finite()).collect::<Vec<_>>()
        };
        let xs = finite(&mut points().map(|p| p.0));
        let ys = finite(&mut points().map(|p| p.1));
        let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut low, mut high) = if xs.is_empty() { (0.0, 1.0) } else { (least, most) };
        let log = chart.x_log && low > 0.0;
        if chart.bars {
            // Half a bar's room on both sides.
            let gap = gap(&xs).unwrap_or(1.0);
            (low, high) = (low - gap * 0.6, high + gap * 0.6);
        } else if low == high {
            high = low + 1.0;
        }
        let top = ys.iter().copied().fold(0.0, f64::max);
        Self { low, high, top: if top > 0.0 { top * 1.05 } else { 1.0 }, log: log && !chart.bars }
    }

    fn x(&self, x: f64) -> f64 {
        let part = if self.log {
            (x.max(1e-9) / self.low).log2() / (self.high / self.low).log2()
        } else {
            (x - self.low) / (self.high - self.low)
        };
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.top * (HEIGHT - TOP - BOTTOM)
    }

    fn bar_width(&self, chart: &Chart) -> f64 {
        let xs: Vec<f64> = chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        let gap = gap(&xs).unwrap_or(1.0);
        let wide = (self.x(self.low + gap) - LEFT) * 0.8 / chart.series.len().max(1) as f64;
        wide.clamp(1.0, 60.0)
    }

    fn axes(&self, chart: &Chart, out: &mut String) {
        for tick in ticks(0.0, self.top) {
            let y = self.y(tick);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                figure(tick),
            );
        }
        let xs = chart.series.iter().flat_map(|series| series.points.iter().map(|p| p.0));
        let marks = match self.log {
            true => log_ticks(self.low, self.high),
            false => ticks_of(xs, self.low, self.high),
        };
        let base = HEIGHT - BOTTOM;
        for tick in marks {
            let x = self.x(tick);
            let _ = writeln!(
                out,
                "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{base:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                base + 5.0,
                base + 18.0,
                figure(tick),
            );
        }
        let (middle, right) = ((LEFT + WIDTH - RIGHT) / 2.0, WIDTH - RIGHT);
        let upright = f64::midpoint(TOP, base);
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{base}\" x2=\"{right}\" y2=\"{base}\"/>\
             <text class=\"label\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" x=\"14\" y=\"{upright:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {upright:.1})\">{}</text>",
            HEIGHT - 14.0,
            escape(&chart.x),
            escape(&chart.y),
        );
    }
}

/// The smallest distance between neighbours.
fn gap(xs: &[f64]) -> Option<f64> {
    let mut xs = xs.to_vec();
    xs.sort_by(f64::total_cmp);
    let gaps = xs.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
    gaps.min_by(f64::total_cmp)
}
