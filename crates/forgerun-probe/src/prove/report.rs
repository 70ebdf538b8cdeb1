//! A run as text, and as a self-contained page with a time line.

use std::fmt::Write;

use super::history::Event;
use super::judge::{Figures, Rule};
use super::{Progress, Summary};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const ROW: f64 = 26.0;
const PLOT: f64 = 140.0;

impl Summary {
    /// Violations, figures and the verdict, a line each.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for violation in &self.verdict.violations {
            let _ = writeln!(text, "{}: {}", violation.rule.name(), violation.detail);
        }
        for (name, value) in figures(&self.verdict.figures) {
            let _ = writeln!(text, "{value:>10}  {name}");
        }
        let _ = writeln!(text, "seed {}, history {}", self.options.seed, self.options.history.display());
        let _ = match self.verdict.n_violations {
            0 => writeln!(text, "every promise was kept"),
            n => writeln!(text, "{n} promises were broken"),
        };
        text
    }

    pub fn to_html(&self) -> String {
        let mut page = String::new();
        let _ = self.write_html(&mut page);
        page
    }

    fn write_html(&self, page: &mut String) -> std::fmt::Result {
        let is_ok = self.verdict.is_ok();
        let (class, verdict) =
            if is_ok { ("good", "every promise was kept") } else { ("bad", "promises were broken") };
        writeln!(page, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
        writeln!(
            page,
            "<meta name=\"viewport\" content=\"width=device-width\"><title>forgerun prove: {verdict}</title>"
        )?;
        writeln!(page, "<style>{STYLE}</style></head><body>")?;
        writeln!(page, "<h1>forgerun prove <span class=\"{class}\">{verdict}</span></h1>")?;
        let options = &self.options;
        writeln!(
            page,
            "<p>{} nodes on {}, {} s of faults, seed {}.</p>",
            options.n_nodes,
            escaped(&options.store),
            options.duration.as_secs(),
            options.seed
        )?;
        self.write_time_line(page)?;
        writeln!(page, "<h2>Figures</h2><table>")?;
        for (name, value) in figures(&self.verdict.figures) {
            writeln!(page, "<tr><td>{name}</td><td class=\"n\">{value}</td></tr>")?;
        }
        writeln!(page, "</table><h2>Promises</h2><table>")?;
        for rule in Rule::ALL {
            let n = self.verdict.violations.iter().filter(|violation| violation.rule == *rule).count();
            let (class, word) =
                if n == 0 { ("good", "kept".to_owned()) } else { ("bad", format!("broken, {n}")) };
            let (name, promise) = (rule.name(), rule.promise());
            writeln!(
                page,
                "<tr><td>{promise}</td><td><code>{name}</code></td><td class=\"{class}\">{word}</td></tr>"
            )?;
        }
        writeln!(page, "</table>")?;
        for violation in &self.verdict.violations {
            writeln!(page, "<p><code>{}</code> {}</p>", violation.rule.name(), escaped(&violation.detail))?;
        }
        writeln!(page, "</body></html>")
    }

    /// A row of faults per node, and below it how work went on.
    fn write_time_line(&self, page: &mut String) -> std::fmt::Result {
        let n_seconds = self.seconds.last().map_or(1, |last| last.at_s.max(1)) as f64;
        let x = |seconds: f64| LEFT + (WIDTH - LEFT - 10.0) * (seconds / n_seconds).min(1.0);
        let rows = self.options.n_nodes as f64 * ROW;
        let height = rows + PLOT + 40.0;
        writeln!(
            page,
            "<h2>Time line</h2><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"faults and work over time\">"
        )?;
        for node in 0..self.options.n_nodes {
            let y = node as f64 * ROW + 18.0;
            writeln!(page, "<text x=\"0\" y=\"{y}\">node {node}</text>")?;
            writeln!(
                page,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
                WIDTH - 10.0,
                y - 5.0,
                y - 5.0
            )?;
        }
        for event in &self.faults {
            let Event::Fault { fault, node, from_ms, at_ms } = event else { continue };
            let (from, to) = (x(from_ms / 1e3), x(at_ms / 1e3));
            let y = *node as f64 * ROW + 6.0;
            let width = (to - from).max(2.0);
            writeln!(
                page,
                "<rect class=\"{fault}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"14\"><title>{fault}, {:.1} s to {:.1} s</title></rect>",
                from_ms / 1e3,
                at_ms / 1e3
            )?;
        }
        let most = self.seconds.last().map_or(1, |last| last.delivered.max(last.acknowledged).max(1)) as f64;
        let y = |n: u64| rows + 20.0 + PLOT * (1.0 - n as f64 / most);
        for (n, name) in ["acknowledged", "claimed", "delivered"].into_iter().enumerate() {
            let point = |second: &Progress| {
                let value = [second.acknowledged, second.claimed, second.delivered][n];
                format!("{:.1},{:.1}", x(second.at_s as f64), y(value))
            };
            let points: Vec<String> = self.seconds.iter().map(point).collect();
            writeln!(page, "<polyline class=\"line{n}\" points=\"{}\"/>", points.join(" "))?;
            let top = rows + 30.0 + n as f64 * 16.0;
            writeln!(page, "<text class=\"line{n}\" x=\"{}\" y=\"{top}\">{name}</text>", LEFT + 8.0)?;
        }
        writeln!(page, "<text x=\"{LEFT}\" y=\"{}\">0 s</text>", height - 4.0)?;
        writeln!(
            page,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{n_seconds} s</text></svg>",
            WIDTH - 10.0,
            height - 4.0
        )?;
        writeln!(
            page,
            "<p><span class=\"key kill\"></span> killed <span class=\"key freeze\"></span> frozen <span class=\"key restart\"></span> stopped and started</p>"
        )
    }
}

fn figures(figures: &Figures) -> [(&'static str, u64); 15] {
    [
        ("faults", figures.faults),
        ("kills among them", figures.kills),
        ("submissions sent", figures.submitted),
        ("jobs acknowledged", figures.acknowledged),
        ("submissions refused", figures.refused),
        ("claims by workers", figures.claims),
        ("acknowledgements by workers", figures.acks),
        ("acknowledgements after the lease", figures.zombies),
        ("cancels", figures.cancels),
        ("ticks of schedules", figures.ticks),
        ("submissions of workflows", figures.workflows),
        ("signals sent", figures.signals),
        ("events delivered", figures.deliveries),
        ("jobs at the end", figures.jobs),
        ("events of these jobs", figures.events),
    ]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const STYLE: &str = "
:root{color-scheme:light dark;--bad:#b3261e;--good:#1b7f3b;--soft:#8888}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
.good{color:var(--good)}.bad{color:var(--bad)}h1 span{font-size:1rem;margin-left:.5rem}
table{border-collapse:collapse}td{padding:.15rem .8rem .15rem 0;border-bottom:1px solid var(--soft)}.n{text-align:right}
svg{width:100%;height:auto}text{font-size:12px;fill:currentColor}line{stroke:var(--soft)}
polyline{fill:none;stroke-width:2}.kill{fill:#b3261e;background:#b3261e}.freeze{fill:#1769aa;background:#1769aa}.restart{fill:#9a6b00;background:#9a6b00}
.line0{stroke:#1b7f3b}.line1{stroke:#9a6b00}.line2{stroke:#1769aa}text.line0{fill:#1b7f3b;stroke:none}text.line1{fill:#9a6b00;stroke:none}text.line2{fill:#1769aa;stroke:none}
.key{display:inline-block;width:.8em;height:.8em;margin-left:1em}
";
