//! `cargo xtask bench plots`: the plots of the book's page on performance.
//!
//! A plot shows the table behind it: for each image `plots/NAME.svg` of the page, the next table is
//! drawn into that file. `cargo xtask book` checks that page and plots agree.

use crate::Result;
use crate::workspace::Workspace;
use std::fs;
use std::path::Path;
use svg::Document;
use svg::node::element::{Line, Rectangle, Text};

/// The page whose tables are drawn, and the folder of its images.
const PAGE: &str = "docs/performance.md";
const FOLDER: &str = "docs";

/// Pixels.
const WIDTH: f64 = 860.0;
const LABELS: f64 = 390.0;
const VALUES: f64 = 60.0;
const ROW: f64 = 22.0;
const HEAD: f64 = 40.0;
const FOOT: f64 = 12.0;

const OURS: &str = "#2563eb";
const PEER: &str = "#9ca3af";
const SLOWER: &str = "#ea580c";
const INK: &str = "#1f2937";
const GRID: &str = "#e5e7eb";

/// One bar.
#[derive(Debug, PartialEq)]
struct Bar {
    label: String,
    value: f64,
    /// The value, as it stands in the table.
    shown: String,
    color: &'static str,
}

/// A table as bars: times on a logarithmic axis, ratios on a linear one.
#[derive(Debug, PartialEq)]
struct Plot {
    title: String,
    bars: Vec<Bar>,
    axis: Axis,
}

/// Draws the plots of the page.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    for (file, picture) in pictures(workspace.root())? {
        let path = workspace.root().join(FOLDER).join(&file);
        fs::write(&path, picture).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("written to {}", path.display());
    }
    Ok(())
}

/// Compares the plots in the checkout with the tables of the page.
///
/// # Errors
/// The plots that are missing or show other figures than their tables.
pub(crate) fn check(root: &Path) -> Result {
    let stale: Vec<String> = pictures(root)?
        .into_iter()
        .filter(|(file, picture)| fs::read_to_string(root.join(FOLDER).join(file)).ok().as_ref() != Some(picture))
        .map(|(file, _)| file)
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("{PAGE}: not drawn from its tables: {}; run `cargo xtask bench plots`", stale.join(", ")).into())
}

/// Each plot's file, from `docs/`, and its text.
fn pictures(root: &Path) -> Result<Vec<(String, String)>> {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("cannot read {PAGE}: {error}"))?;
    let plots = plots(&page)?;
    Ok(plots.into_iter().map(|(file, plot)| (file, draw(&plot))).collect())
}

/// The plots of a page: the file of each, and its contents.
fn plots(page: &str) -> Result<Vec<(String, Plot)>> {
    let mut plots = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some((title, file)) = image(line) else { continue };
        let table: Vec<&str> =
            lines.by_ref().skip_while(|line| line.is_empty()).take_while(|line| line.starts_with('|')).collect();
        let plot = Plot::of_table(title, &table).map_err(|problem| format!("{PAGE}: {file}: {problem}"))?;
        plots.push((file.to_string(), plot));
    }
    Ok(plots)
}

/// Title and file of a line `![title](plots/file.svg)`.
fn image(line: &str) -> Option<(&str, &str)> {
    let (title, file) = line.strip_prefix("![")?.strip_suffix(')')?.split_once("](")?;
    (file.starts_with("plots/") && file.ends_with(".svg")).then_some((title, file))
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Axis {
    /// Nanoseconds, starting at a power of ten.
    Times { lowest: f64, highest: f64 },
    /// Ratios, starting at 0; a line at 1 means "the same".
    Ratios { highest: f64 },
}

impl Axis {
    /// The position of a value along the axis, from 0 to 1.
    fn part(self, value: f64) -> f64 {
        match self {
            Self::Times { lowest, highest } => (value / lowest).log10() / (highest / lowest).log10(),
            Self::Ratios { highest } => value / highest,
        }
    }

    /// The values that have a line and a number.
    fn marks(self) -> Vec<f64> {
        match self {
            Self::Times { lowest, highest } => {
                (lowest.log10() as i32..=highest.log10().floor() as i32).map(|power| 10_f64.powi(power)).collect()
            }
            Self::Ratios { .. } => vec![0.0, 0.25, 0.5, 0.75, 1.0],
        }
    }
}

impl Plot {
    /// Cells that are aligned to the left are labels. The bars are the column `ns`, else the first
    /// one of ratios, `a / b`, else the last one.
    fn of_table(title: &str, table: &[&str]) -> std::result::Result<Self, String> {
        let [header, alignment, rows @ ..] = table else { return Err("no table behind the image".to_string()) };
        let header = cells(header);
        let labels: Vec<bool> = cells(alignment).iter().map(|cell| !cell.ends_with(':')).collect();
        let times = header.iter().position(|cell| cell == "ns");
        let ratios = || header.iter().position(|cell| cell.contains(" / "));
        let column = times.or_else(ratios).unwrap_or(header.len() - 1);
        let bars = rows.iter().map(|row| {
            let row = cells(row);
            let names: Vec<&str> =
                row.iter().zip(&labels).filter(|(_, label)| **label).map(|(cell, _)| &**cell).collect();
            let text = row.get(column).ok_or_else(|| format!("a row without '{}'", header[column]))?;
            let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
            let color = match times {
                Some(_) if names.last().is_some_and(|library| library.contains("Kernpack")) => OURS,
                Some(_) => PEER,
                None if value > 1.0 => SLOWER,
                None => OURS,
            };
            Ok(Bar { label: names.join(" → ").replace('`', ""), value, shown: text.clone(), color })
        });
        let bars = bars.collect::<std::result::Result<Vec<Bar>, String>>()?;
        let values = || bars.iter().map(|bar| bar.value);
        let highest = values().fold(1.0, f64::max);
        let (unit, axis) = match times {
            Some(_) => {
                let lowest = 10_f64.powf(values().fold(f64::INFINITY, f64::min).log10().floor());
                (" (ns, logarithmic)", Axis::Times { lowest, highest: highest.max(lowest * 10.0) })
            }
            None => ("", Axis::Ratios { highest }),
        };
        Ok(Self { title: format!("{title}{unit}"), bars, axis })
    }
}

fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
}

/// The picture, as SVG.
fn draw(plot: &Plot) -> String {
    let room = WIDTH - LABELS - VALUES;
    let at = |value: f64| LABELS + plot.axis.part(value) * room;
    let height = HEAD + plot.bars.len() as f64 * ROW + FOOT;
    let bottom = height - FOOT;

    let background = Rectangle::new().set("width", WIDTH).set("height", height).set("fill", "white");
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("font-family", "system-ui, sans-serif")
        .set("font-size", 13)
        .set("role", "img")
        .add(background)
        .add(text(&plot.title, 8.0, 20.0, "start").set("font-weight", "bold"));
    for mark in plot.axis.marks() {
        let x = digits(at(mark));
        let number = Text::new(mark.to_string()).set("x", &*x).set("y", HEAD - 6.0).set("text-anchor", "middle");
        document = document.add(rule(&x, bottom, GRID)).add(number.set("font-size", 11).set("fill", PEER));
    }
    for (row, bar) in plot.bars.iter().enumerate() {
        let top = HEAD + row as f64 * ROW;
        let width = (at(bar.value) - LABELS).max(1.0);
        let rectangle = Rectangle::new()
            .set("x", LABELS)
            .set("y", top + 4.0)
            .set("width", digits(width))
            .set("height", ROW - 8.0)
            .set("fill", bar.color);
        document = document.add(text(&bar.label, LABELS - 8.0, top + 15.0, "end")).add(rectangle).add(text(
            &bar.shown,
            LABELS + width + 6.0,
            top + 15.0,
            "start",
        ));
    }
    if let Axis::Ratios { .. } = plot.axis {
        document = document.add(rule(&digits(at(1.0)), bottom, INK));
    }
    format!("{document}\n")
}

fn text(content: &str, x: f64, y: f64, anchor: &str) -> Text {
    Text::new(content).set("x", digits(x)).set("y", y).set("text-anchor", anchor).set("fill", INK)
}

fn rule(x: &str, bottom: f64, color: &str) -> Line {
    Line::new().set("x1", x).set("x2", x).set("y1", HEAD).set("y2", bottom).set("stroke", color)
}

/// A coordinate: a tenth of a pixel is enough.
fn digits(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n\n![Calls](plots/calls.svg)\n\n| caller | library | ns | ours / this |\n|---|---|---:|---:|\n\
        | `C` | a <b> | 20 | 0.50 |\n| Rust | Kernpack | 10.5 | 1.00 |\n\n![not ours](other.png)\n\n\
        ![Ratios](plots/r.svg)\n| From C | ours | stock | ours / stock |\n|---|---:|---:|---:|\n| x | 1 ns | 2 ns | 0.50 |\n| y | 3 ns | 2 ns | 1.50 |\n";

    #[test]
    fn tables_become_bars() {
        let plots = plots(PAGE).unwrap();
        let bar = |label: &str, shown: &str, color| Bar {
            label: label.to_string(),
            value: shown.parse().unwrap(),
            shown: shown.to_string(),
            color,
        };
        let calls = Plot {
            title: "Calls (ns, logarithmic)".to_string(),
            bars: vec![bar("C → a <b>", "20", PEER), bar("Rust → Kernpack", "10.5", OURS)],
            axis: Axis::Times { lowest: 10.0, highest: 100.0 },
        };
        let ratios = Plot {
            title: "Ratios".to_string(),
            bars: vec![bar("x", "0.50", OURS), bar("y", "1.50", SLOWER)],
            axis: Axis::Ratios { highest: 1.5 },
        };
        assert_eq!(plots, [("plots/calls.svg".to_string(), calls), ("plots/r.svg".to_string(), ratios)]);
    }

    #[test]
    fn pictures_escape_labels_and_keep_bars_inside() {
        let (_, plot) = &plots(PAGE).unwrap()[1];
        let with_text = draw(&plots(PAGE).unwrap()[0].1);
        assert!(with_text.starts_with("<svg ") && with_text.contains("C → a &lt;b&gt;"), "{with_text}");
        let picture = draw(plot);
        let longest = format!("width=\"{}\"", digits(WIDTH - LABELS - VALUES));
        assert_eq!(picture.matches(&longest).count(), 1, "{picture}");
    }

    #[test]
    fn what_is_not_a_table_of_numbers_is_an_error() {
        for (page, expected) in [
            ("![a](plots/a.svg)\n\ntext\n", "no table behind the image"),
            ("![a](plots/a.svg)\n| a | ns |\n|---|---:|\n| b | fast |\n", "'fast' is not a number"),
        ] {
            let error = plots(page).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn the_pages_plots_show_its_tables() {
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    }
}
