//! Reports the results of comparisons as text or JSON.

use std::fmt::Write;

use kernpack_graph::diff::{Comparison, Difference};
use serde_json::{Value, json};

use crate::Result;
use crate::text::shown;

/// Returns the report, or an error that names the first difference greater than the tolerance.
pub(super) fn write(reports: &[(&str, Comparison)], tolerance: f64, is_json: bool) -> Result<String> {
    if is_json {
        let reports = reports.iter().map(|(what, found)| {
            json!({
                "what": what,
                "compared": found.compared,
                "first": found.first.as_ref().map(json_of),
                "largest": found.largest.as_ref().map(json_of),
            })
        });
        return Ok(format!(
            "{:#}\n",
            json!({ "schema": 1, "tolerance": tolerance, "comparisons": reports.collect::<Vec<_>>() })
        ));
    }
    let mut out = String::new();
    for (what, found) in reports {
        if let Some(first) = &found.first {
            return Err(format!(
                "{what}: the first of {} values that differs by more than {tolerance} is\n  {}",
                found.compared,
                text(first)
            ));
        }
        let _ = writeln!(out, "{what}: {} values are equal within {tolerance}", found.compared);
        if let Some(largest) = &found.largest {
            let _ = writeln!(out, "  the largest difference: {}", text(largest));
        }
    }
    Ok(out)
}

/// Formats `'y' of node 'third' (MatMul), kernel 2: 0.5 in place of 0.25 at [1, 3], 3.1e-2 of the
/// largest number`.
fn text(difference: &Difference) -> String {
    let Difference { value, kernel: (kernel, nodes), position, got, expected, relative } = difference;
    format!(
        "'{}' of {}, kernel {kernel}: {got} in place of {expected} at {position:?}, {relative:.1e} of the largest number",
        shown(value),
        shown(nodes)
    )
}

fn json_of(difference: &Difference) -> Value {
    let Difference { value, kernel: (kernel, nodes), position, got, expected, relative } = difference;
    json!({
        "value": value, "kernel": kernel, "nodes": nodes, "position": position, "got": got, "expected": expected, "relative": relative,
    })
}
