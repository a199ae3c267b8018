//! The import tree as an SVG picture: one box for each module, a row for each distance from the
//! root.

use std::fmt::Write;

use super::report::summary;
use crate::library::inspection::Inspection;
use crate::library::tree::Tree;

const WIDTH: usize = 260;
const HEIGHT: usize = 44;
const GAP_X: usize = 20;
const GAP_Y: usize = 46;
/// Longer texts are truncated.
const LETTERS: usize = 38;

pub(crate) fn svg(inspection: &Inspection<'_>) -> String {
    let places = inspection.tree.as_ref().map_or_else(|| vec![(0, 0)], places);
    let columns = places.iter().map(|place| place.0 + 1).max().unwrap_or(1);
    let rows = places.iter().map(|place| place.1 + 1).max().unwrap_or(1);
    let (width, height) = (GAP_X + columns * (WIDTH + GAP_X), GAP_X + rows * (HEIGHT + GAP_Y));
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
    );
    let corner = |(column, row): (usize, usize)| (GAP_X + column * (WIDTH + GAP_X), GAP_X + row * (HEIGHT + GAP_Y));
    let modules = inspection.tree.as_ref().map(|tree| tree.modules.as_slice()).unwrap_or_default();
    for (module, &place) in modules.iter().zip(&places) {
        let (x, y) = corner(place);
        for &child in &module.imports {
            let (child_x, child_y) = corner(places[child]);
            let _ = writeln!(
                out,
                "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{child_y}\" stroke=\"#555\"/>",
                x + WIDTH / 2,
                y + HEIGHT,
                child_x + WIDTH / 2
            );
        }
    }
    for (index, &place) in places.iter().enumerate() {
        let (x, y) = corner(place);
        let module = modules.get(index);
        let is_library = module.is_none_or(|module| module.payload.is_none());
        let fill = if is_library { "#dbe9f6" } else { "#f6ecd2" };
        let text = match module {
            Some(module) => summary(module),
            None => "the library itself".to_owned(),
        };
        let title = escaped(&text);
        let label = escaped(&text.chars().take(LETTERS).collect::<String>());
        let second = match module.filter(|module| module.image.is_some()) {
            Some(module) => format!("{} kernels", module.image.as_ref().map_or(0, |image| image.kernels().len())),
            None if is_library => format!("{} functions", inspection.functions.len()),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "<g><title>{title}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\" fill=\"{fill}\" \
             stroke=\"#555\"/><text x=\"{0}\" y=\"{1}\">{index} {label}</text><text x=\"{0}\" y=\"{2}\">{second}</text></g>",
            x + 8,
            y + 18,
            y + 35
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Returns column and row of each module. Imports come after their importer, so one pass gives each
/// its longest path from the root.
fn places(tree: &Tree<'_>) -> Vec<(usize, usize)> {
    let mut rows = vec![0; tree.modules.len()];
    for (index, module) in tree.modules.iter().enumerate() {
        for &child in &module.imports {
            rows[child] = rows[child].max(rows[index] + 1);
        }
    }
    let mut used = vec![0; tree.modules.len()];
    let place = |row: usize| {
        used[row] += 1;
        (used[row] - 1, row)
    };
    rows.into_iter().map(place).collect()
}

/// Escapes text for XML, which does not allow control characters, not even escaped ones.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
