//! Outcomes as one page that needs nothing else: no scripts, no fonts, no pictures from elsewhere.

use super::svg::{COLOURS, svg};
use super::{figure, verdict};
use crate::experiment::{Chart, Outcome};
use std::fmt::Write as _;

/// Colours of series: for light and for dark pages, told apart by lightness too.
const PALETTE: [(&str, &str); COLOURS] = [
    ("#0b62a8", "#6db3f2"),
    ("#c05000", "#ff9f56"),
    ("#2c7a2c", "#7fd07f"),
    ("#8a2be2", "#c79bff"),
    ("#a8005c", "#ff85c2"),
    ("#5a5a00", "#d6d65c"),
];

const STYLE: &str = "\
:root { color-scheme: light dark; --fg: #1c1c1c; --bg: #ffffff; --soft: #5c5c5c; --line: #d8d8d8;
  --bad: #b00020; --good: #1d6b2f; }
@media (prefers-color-scheme: dark) { :root { --fg: #e8e8e8; --bg: #161616; --soft: #a8a8a8;
  --line: #3a3a3a; --bad: #ff8a8a; --good: #8fdc9f; } }
body { color: var(--fg); background: var(--bg); font: 16px/1.5 system-ui, sans-serif;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
.place, figcaption, caption { color: var(--soft); } .meaning { font-size: 1.1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .15rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; }
.no { color: var(--bad); font-weight: 700; } .yes { color: var(--good); }
pre { overflow-x: auto; padding: .8rem; border: 1px solid var(--line); font-size: .85rem; }
figure { margin: 1.5rem 0; } svg { width: 100%; max-width: 44rem; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--fg); } svg .label { font-size: 13px; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg polyline { fill: none; stroke-width: 2; }
.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; }
";

/// One page with everything, headed by how it was made.
#[must_use]
pub fn page(outcomes: &[Outcome], how: &str) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n");
    out.push_str("<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<title>zinc lab</title>\n<style>\n");
    out.push_str(STYLE);
    colours(&mut out);
    out.push_str("</style>\n</head>\n<body>\n<h1>zinc lab</h1>\n");
    let _ = writeln!(out, "<p class=\"place\">{}</p>", escape(how));
    if outcomes.len() > 1 {
        summary(outcomes, &mut out);
    }
    for outcome in outcomes {
        section(outcome, &mut out);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn colours(out: &mut String) {
    let all = |out: &mut String, of: fn(&(&str, &str)) -> String| {
        for (index, pair) in PALETTE.iter().enumerate() {
            let colour = of(pair);
            let _ = writeln!(
                out,
                ".l{index} {{ stroke: {colour}; }} .b{index} {{ fill: {colour}; background: \
                 {colour}; }}",
            );
        }
    };
    all(out, |pair| pair.0.to_owned());
    out.push_str("@media (prefers-color-scheme: dark) {\n");
    all(out, |pair| pair.1.to_owned());
    out.push_str("}\n");
}

fn summary(outcomes: &[Outcome], out: &mut String) {
    out.push_str("<div class=\"scroll\"><table>\n<tr><th>experiment</th><th>figures</th>");
    out.push_str("<th>judged</th><th>within bounds</th></tr>\n");
    for outcome in outcomes {
        let judged = outcome.rows.iter().filter(|row| verdict(row) != "-").count();
        let within = outcome.rows.iter().filter(|row| verdict(row) == "yes").count();
        let class = if outcome.within_bounds() { "yes" } else { "no" };
        let name = escape(outcome.experiment);
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td>{judged}</td>\
             <td class=\"{class}\">{within}</td></tr>",
            outcome.rows.len(),
        );
    }
    out.push_str("</table></div>\n");
}

fn section(outcome: &Outcome, out: &mut String) {
    let name = escape(outcome.experiment);
    let _ = writeln!(out, "<h2 id=\"{name}\">{name}</h2>");
    let _ = writeln!(out, "<p class=\"place\">{}</p>", escape(&outcome.place));
    let _ = writeln!(out, "<p class=\"meaning\">{}</p>", escape(&outcome.meaning));
    for chart in &outcome.charts {
        figure_of(chart, out);
    }
    table(outcome, out);
    for (title, body) in &outcome.texts {
        let _ = writeln!(out, "<h3>{}</h3>\n<pre>{}</pre>", escape(title), escape(body));
    }
}

fn figure_of(chart: &Chart, out: &mut String) {
    let _ = writeln!(out, "<figure>\n<figcaption><strong>{}</strong>", escape(&chart.title));
    for (index, series) in chart.series.iter().enumerate() {
        let class = index % COLOURS;
        let name = escape(&series.name);
        let _ = writeln!(out, "<span class=\"key b{class}\"></span>{name}");
    }
    out.push_str("</figcaption>\n");
    out.push_str(&svg(chart));
    out.push_str("</figure>\n");
}

fn table(outcome: &Outcome, out: &mut String) {
    out.push_str("<div class=\"scroll\"><table>\n<tr><th></th><th>unit</th><th>published</th>");
    out.push_str("<th>measured</th><th>ratio</th><th>within</th></tr>\n");
    for row in &outcome.rows {
        let verdict = verdict(row);
        let class = match verdict {
            "yes" => "yes",
            "NO" => "no",
            _ => "",
        };
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"{class}\">{verdict}</td></tr>",
            escape(&row.row),
            escape(row.unit),
            optional(row.published.map(figure)),
            figure(row.measured),
            optional(row.ratio().map(|ratio| format!("{ratio:.2}"))),
        );
    }
    out.push_str("</table></div>\n");
}

/// Text as HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
