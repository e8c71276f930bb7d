//! Outcomes as one page that needs nothing else: no scripts, no fonts, no pictures from elsewhere.

use super::escape::escape;
use super::story::{differences, story};
use super::svg::{COLOURS, Classes, svg};
use super::{
    DIFFERS, bounds, freedom, headline, outside, published, reasons, sameness, spread, values,
    verdict,
};
use crate::digits::figure;
use crate::outcome::{Chart, Outcome, Tally, tallies};
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
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
.place, figcaption, caption { color: var(--soft); } .meaning { font-size: 1.1rem; }
.scroll { overflow-x: auto; margin: 1rem 0;
  background: linear-gradient(to left, var(--bg) 40%, transparent) 100% 0 / 3rem 100% no-repeat
  local, linear-gradient(to left, var(--soft), transparent) 100% 0 / .8rem 100% no-repeat; }
table { border-collapse: collapse; }
th, td { padding: .15rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; min-width: 14rem; max-width: 22rem; }
td { white-space: nowrap; } td:first-child, td.words { white-space: normal; }
td.seeds { white-space: nowrap; color: var(--soft); } th { font-weight: 600; }
.no { color: var(--bad); font-weight: 700; } .yes { color: var(--good); }
.headline { font-size: 1.3rem; font-weight: 600; } .words { text-align: left; }
pre { overflow-x: auto; padding: .8rem; border: 1px solid var(--line); font-size: .85rem; }
figure { margin: 1.5rem 0; } svg { width: 100%; max-width: 44rem; height: auto; display: block;
  overflow: visible; }
svg text { font: 12px system-ui, sans-serif; fill: var(--fg); } svg .label { font-size: 13px; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg polyline { fill: none; stroke-width: 2; }
svg polyline.study { stroke-dasharray: 6 5; }
.lstudy { stroke: var(--soft); } .bstudy { fill: var(--soft); background: var(--soft); }
.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; }
.key.study { height: .2rem; vertical-align: middle; } .nw { display: inline-block; }
dt { font-weight: 600; float: left; clear: left; margin-right: .5rem; } dd { margin: 0 0 .3rem; }
dd::before { content: \"\"; } td { font-variant-numeric: tabular-nums; }
@media (max-width: 40rem) { body { font-size: 15px; margin: 1rem auto; } h2 { margin-top: 2rem; }
  table { font-size: .85rem; } th, td { padding: .15rem .4rem; }
  .scroll th:first-child, .scroll td:first-child { position: sticky; left: 0;
    background: var(--bg); min-width: 7rem; max-width: 9rem; } svg text { font-size: 16px; }
  .kinds th:first-child, .kinds td:first-child { min-width: 0; }
  svg .label { font-size: 17px; } }
@media print { :root { --fg: #000; --bg: #fff; --soft: #444; --line: #bbb; }
  body { font-size: 10pt; max-width: none; margin: 0; } .scroll { overflow: visible; }
  table { font-size: 6.5pt; width: 100%; } th, td { padding: .1rem .2rem; }
  td, td.seeds { white-space: normal; overflow-wrap: normal; word-break: normal; }
  .scroll { background: none; } th:first-child, td:first-child { min-width: 0; }
  thead { display: table-header-group; }
  tr, figure { break-inside: avoid; } h2, h3 { break-after: avoid; } pre { white-space: pre-wrap; }
  svg { max-width: 30rem; } }
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
    // A page without a study has nothing to sum up.
    if outcomes.iter().flat_map(|outcome| &outcome.rows).any(|row| row.compared().is_some()) {
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

/// The headline, and how many rows of each kind there are.
fn summary(outcomes: &[Outcome], out: &mut String) {
    let _ = writeln!(out, "<p class=\"headline\">{}</p>", escape(&headline(outcomes)));
    kinds(&tallies(outcomes.iter().flat_map(|outcome| &outcome.rows)), out);
    out.push_str("<div class=\"scroll\"><table>\n<tr><th>experiment</th><th>predicted</th>");
    out.push_str("<th>judged</th><th>within</th></tr>\n");
    for outcome in outcomes {
        let name = escape(outcome.experiment);
        let Some(tally) = outcome.tallies().into_iter().next() else { continue };
        let class = if tally.within == tally.judged { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td>{}</td>\
             <td class=\"{class}\">{}</td></tr>",
            tally.rows, tally.judged, tally.within,
        );
    }
    out.push_str("</table></div>\n");
}

fn kinds(tallies: &[Tally], out: &mut String) {
    out.push_str(
        "<div class=\"scroll kinds\"><table>\n<tr><th>kind</th><th>rows</th><th>judged</th>",
    );
    out.push_str("<th>within</th><th class=\"words\">what it is</th></tr>\n");
    for tally in tallies.iter().filter(|tally| tally.rows > 0) {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td></tr>",
            tally.kind.name(),
            tally.rows,
            tally.judged,
            tally.within,
            escape(tally.kind.about()),
        );
    }
    out.push_str("</table></div>\n");
}

fn section(outcome: &Outcome, out: &mut String) {
    let name = escape(outcome.experiment);
    let _ = writeln!(out, "<h2 id=\"{name}\">{name}</h2>");
    let _ = writeln!(out, "<p class=\"place\">{}</p>", escape(&outcome.place));
    if outcome.seeds.len() > 1 {
        let seeds: Vec<String> = outcome.seeds.iter().map(u64::to_string).collect();
        let seeds = seeds.join(", ");
        let _ = writeln!(
            out,
            "<p class=\"place\">Seeds {seeds}. Measured is the median; charts and texts are of the \
             first seed.</p>",
        );
    }
    let _ = writeln!(out, "<p class=\"meaning\">{}</p>", escape(&outcome.says()));
    let story = story(outcome.experiment);
    if let Some(story) = story {
        out.push_str("<dl>\n");
        let parts = [
            ("The study", story.study),
            ("The machine", story.machine),
            ("What this cannot say", story.limits),
        ];
        for (what, text) in parts {
            let _ = writeln!(out, "<dt>{what}</dt><dd>{}</dd>", escape(text));
        }
        out.push_str("</dl>\n");
    }
    let classes = Classes::of(&outcome.charts);
    for chart in &outcome.charts {
        figure_of(chart, &classes, out);
    }
    let differences = differences(outcome);
    if !differences.is_empty() {
        let _ = writeln!(out, "<h3>{DIFFERS}</h3>\n<ul>");
        for (why, rows) in differences {
            let (rows, why) = (escape(&outside(&rows)), escape(why));
            let _ = writeln!(out, "<li><span class=\"no\">{rows}.</span> {why}</li>");
        }
        out.push_str("</ul>\n");
    }
    if !outcome.rows.is_empty() {
        table(outcome, out);
    }
    if !outcome.parameters.is_empty() {
        parameters(outcome, out);
    }
    for (title, body) in &outcome.texts {
        let _ = writeln!(out, "<h3>{}</h3>\n<pre>{}</pre>", escape(title), escape(body));
    }
}

fn figure_of(chart: &Chart, classes: &Classes, out: &mut String) {
    let _ = writeln!(out, "<figure>\n<figcaption><strong>{}</strong>", escape(&chart.title));
    for series in &chart.series {
        let (class, study) = classes.class(&series.name);
        let (name, dashed) = (escape(&series.name), if study { " study" } else { "" });
        let _ = writeln!(
            out,
            "<span class=\"nw\"><span class=\"key b{class}{dashed}\"></span>{name}</span>"
        );
    }
    out.push_str("</figcaption>\n");
    out.push_str(&svg(chart, classes));
    out.push_str("</figure>\n");
}

fn table(outcome: &Outcome, out: &mut String) {
    let several = outcome.seeds.len() > 1;
    out.push_str("<div class=\"scroll\"><table>\n<tr><th></th><th>unit</th><th>kind</th>");
    out.push_str("<th>published</th><th>bounds</th><th>measured</th>");
    out.push_str(if several { "<th>range</th>" } else { "" });
    out.push_str("<th>ratio</th><th>verdict</th>");
    out.push_str(if several { "<th class=\"words\">of each seed</th></tr>\n" } else { "</tr>\n" });
    for row in &outcome.rows {
        let verdict = verdict(row);
        let class = match verdict {
            "within" => "yes",
            "OUTSIDE" => "no",
            _ => "",
        };
        let cell = |text: String| format!("<td>{}</td>", escape(&text));
        out.push_str("<tr>");
        for text in [row.row.clone(), row.unit.to_owned(), row.kind().name().to_owned()] {
            out.push_str(&cell(text));
        }
        for text in [published(row), bounds(row), figure(row.measured())] {
            out.push_str(&cell(text));
        }
        if several {
            out.push_str(&cell(spread(row)));
        }
        out.push_str(&cell(row.ratio().map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"))));
        let _ = write!(out, "<td class=\"{class}\">{verdict}</td>");
        if several {
            let _ = write!(out, "<td class=\"words seeds\">{}</td>", escape(&values(row)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    kinds(&outcome.tallies(), out);
    for text in reasons(outcome).into_iter().chain(sameness(outcome)) {
        let _ = writeln!(out, "<p>{}</p>", escape(&text));
    }
}

fn parameters(outcome: &Outcome, out: &mut String) {
    let _ = writeln!(out, "<h3>Parameters</h3>\n<p>{}</p>", escape(&freedom(outcome)));
    out.push_str("<div class=\"scroll\"><table>\n<tr><th></th><th>value</th><th>unit</th>");
    out.push_str("<th class=\"words\">where from</th></tr>\n");
    for p in &outcome.parameters {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td></tr>",
            escape(&p.name),
            escape(&p.value),
            escape(p.unit),
            escape(&p.origin.text()),
        );
    }
    out.push_str("</table></div>\n");
}
