//! A sweep as a page with charts: a line for each value of the first option, over those of the
//! second.

use super::Answer;
use crate::outcome::{Chart, Outcome, Series};
use crate::pios::parse_bytes;
use crate::report;
use crate::row::Row;

/// A combination of a sweep: the options that differ, with their values, and what came out.
pub struct Point {
    /// Options, by name, in the order in which they were swept.
    pub options: Vec<(String, String)>,
    /// What came out.
    pub answer: Answer,
}

impl Point {
    fn name(&self) -> String {
        let option = |(name, value): &(String, String)| format!("{name} {value}");
        self.options.iter().map(option).collect::<Vec<_>>().join(", ")
    }

    /// The value that has a line of its own, and that along the line.
    fn place(&self) -> (&str, &str) {
        let value = |n: usize| self.options.get(n).map_or("", |option| option.1.as_str());
        match self.options.len() {
            0 | 1 => ("", value(0)),
            _ => (value(0), value(1)),
        }
    }
}

/// The page. `how` is the command.
#[must_use]
pub fn picture(points: &[Point], how: &str) -> String {
    let mut rows = Vec::new();
    for point in points {
        let name = point.name();
        let all = if name.is_empty() { String::new() } else { format!("{name}: ") };
        let answer = &point.answer;
        rows.push(Row::own(format!("{all}throughput"), "MiB/s", answer.mib_per_second));
        rows.push(Row::own(format!("{all}requests"), "/s", answer.per_second));
        rows.push(Row::own(format!("{all}half of them"), "ms", answer.latency.p50));
        rows.push(Row::own(format!("{all}99 of a hundred"), "ms", answer.latency.p99));
        rows.push(Row::own(format!("{all}disks busy"), "%", answer.busy_percent));
    }
    let charts = match points.len() {
        0 | 1 => Vec::new(),
        _ => vec![
            chart(points, "Throughput", "MiB/s", |a| a.mib_per_second),
            chart(points, "99 of a hundred requests", "ms", |a| a.latency.p99),
        ],
    };
    let outcome = Outcome { rows, charts, ..Outcome::new("what-if", "simulated".to_owned()) };
    report::page(&[outcome], how)
}

fn chart(points: &[Point], title: &str, y: &str, of: fn(&Answer) -> f64) -> Chart {
    let mut values: Vec<&str> = Vec::new();
    for point in points {
        let (_, value) = point.place();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
    let name = points.first().and_then(|point| point.options.last()).map_or("", |o| o.0.as_str());
    let x = match &numbers {
        Some(_) => name.to_owned(),
        None => {
            let named = (1..).zip(&values).map(|(n, value)| format!("{n} {value}"));
            format!("{name}: {}", named.collect::<Vec<_>>().join(", "))
        }
    };
    let at = |value: &str| {
        let n = values.iter().position(|v| *v == value).unwrap_or(0);
        numbers.as_ref().map_or(n as f64 + 1.0, |numbers| numbers[n])
    };
    let mut series: Vec<Series> = Vec::new();
    for point in points {
        let (line, value) = point.place();
        let line = if line.is_empty() { title } else { line };
        let new = (at(value), of(&point.answer));
        match series.iter_mut().find(|series| series.name == line) {
            Some(series) => series.points.push(new),
            None => series.push(Series { name: line.to_owned(), points: vec![new] }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Chart {
        title: title.to_owned(),
        x,
        y: y.to_owned(),
        x_log: numbers.is_some_and(|all| all.iter().all(|n| *n > 0.0)),
        bars: false,
        series,
    }
}

/// A count or a size.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| parse_bytes(text).ok().map(|bytes| bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::{Latency, Limit};

    fn point(layout: &str, threads: &str, rate: f64) -> Point {
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let answer = Answer {
            mib_per_second: rate,
            per_second: rate,
            latency: Latency::default(),
            reads: None,
            writes: None,
            busy_percent: 50.0,
            limit: Limit::Threads,
        };
        Point { options: vec![option("layout", layout), option("threads", threads)], answer }
    }

    #[test]
    fn a_line_for_each_value_of_the_first_option() {
        let points = [("stripe", "8", 2.0), ("stripe", "1", 1.0), ("mirror:2", "1", 3.0)]
            .map(|(l, t, r)| point(l, t, r));
        let chart = chart(&points, "Throughput", "MiB/s", |a| a.mib_per_second);
        assert_eq!((chart.x.as_str(), chart.x_log, chart.series.len()), ("threads", true, 2));
        assert_eq!(chart.series[0].points, [(1.0, 1.0), (8.0, 2.0)]);
        let page = picture(&points, "zinc lab what-if");
        assert!(page.contains("layout mirror:2, threads 1: throughput"), "{page}");
        assert_eq!(page.matches("<svg").count(), 2);
        // Values that are not numbers stand in their order.
        let mut turned = points;
        turned.iter_mut().for_each(|point| point.options.reverse());
        let chart = super::chart(&turned, "", "MiB/s", |a| a.mib_per_second);
        assert_eq!((chart.x.as_str(), chart.x_log), ("layout: 1 stripe, 2 mirror:2", false));
    }
}
