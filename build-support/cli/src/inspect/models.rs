//! Models of a library: their inputs and outputs, their kernels with operation counts and times,
//! and their memory; as text, and as a picture of all kernels and of memory over time.

use std::fmt::{self, Write};

use serde_json::Value;

use super::picture::escaped;
use crate::text::{shown, size};

/// Writes the models as text.
pub(super) fn write(out: &mut String, models: &[Value]) -> fmt::Result {
    if models.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nmodels ({})", models.len())?;
    for model in models {
        writeln!(out, "  {}({}) -> {}", text(model, "name"), arguments(model, "inputs"), arguments(model, "outputs"))?;
        if model["parts"].is_object() {
            let sizes: Vec<String> = list(&model["parts"], "sizes").iter().map(Value::to_string).collect();
            let (dimension, most) = (text(&model["parts"], "dimension"), number(&model["parts"], "most"));
            writeln!(out, "    {dimension} is 1 to {most}, in parts of {}; of the largest:", sizes.join(", "))?;
        }
        if model["sizes"].is_object() {
            let extents: Vec<String> = list(&model["sizes"], "extents").iter().map(Value::to_string).collect();
            let dimension = text(&model["sizes"], "dimension");
            writeln!(out, "    {dimension} is one of {}; of the largest:", extents.join(", "))?;
        }
        for range in list(model, "ranges") {
            let (least, most) = (number(range, "least"), number(range, "most"));
            writeln!(out, "    {} is {least} to {most}; of the largest:", text(range, "dimension"))?;
        }
        if let Some(extents) = model["timed"].as_object() {
            let extents: Vec<String> =
                extents.iter().map(|(name, extent)| format!("{} {extent}", shown(name))).collect();
            writeln!(out, "    timed with {}", extents.join(", "))?;
        }
        let kernels = list(model, "kernels");
        let work: u64 = kernels.iter().map(|kernel| number(kernel, "operations")).sum();
        let region = if model["region"] == true { " in one parallel region" } else { "" };
        writeln!(
            out,
            "    {} kernels{region}, {} operations, {} of temporary memory, {} of weights{}",
            kernels.len(),
            amount(work),
            bytes(model, "arena"),
            bytes(model, "weights"),
            time(model).map_or(String::new(), |time| format!(", {time}"))
        )?;
        if let Some(problem) = model["problem"].as_str() {
            writeln!(out, "    no times: {}", shown(problem))?;
        }
        for (number_of_kernel, kernel) in kernels.iter().enumerate() {
            let parallel = if kernel["parallel"] == true { ", on several threads" } else { "" };
            writeln!(
                out,
                "    {number_of_kernel:>3} {}: {} operations{}{parallel}",
                operators(kernel),
                amount(number(kernel, "operations")),
                speed(model, kernel).map_or(String::new(), |speed| format!(", {speed}"))
            )?;
        }
    }
    Ok(())
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn text(value: &Value, key: &str) -> String {
    shown(value[key].as_str().unwrap_or_default())
}

fn bytes(value: &Value, key: &str) -> String {
    size(usize::try_from(number(value, key)).unwrap_or(usize::MAX))
}

/// Formats the inputs or outputs of a model.
fn arguments(model: &Value, key: &str) -> String {
    list(model, key).iter().map(argument).collect::<Vec<_>>().join(", ")
}

/// Formats an argument as `x: float32[2, 4]`, or `x: float32[batch, 4]` for an argument with a
/// dynamic dimension.
fn argument(argument: &Value) -> String {
    let mut shape: Vec<String> = list(argument, "shape").iter().map(Value::to_string).collect();
    if argument["extents"].is_array() {
        shape = list(argument, "extents").iter().map(|extent| shown(extent.as_str().unwrap_or_default())).collect();
    }
    format!("{}: {}[{}]", text(argument, "name"), text(argument, "dtype"), shape.join(", "))
}

/// Formats the operators of a kernel as `Conv + Relu`.
fn operators(kernel: &Value) -> String {
    let names: Vec<String> =
        list(kernel, "operators").iter().map(|name| shown(name.as_str().unwrap_or_default())).collect();
    names.join(" + ")
}

/// Formats a number as `1.5 M`.
fn amount(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["", " k", " M", " G"] {
        if value < 1000.0 || unit == " G" {
            let digits = usize::from(!unit.is_empty());
            return format!("{value:.digits$}{unit}");
        }
        value /= 1000.0;
    }
    unreachable!("the last unit returns")
}

/// Formats a time as `12.5 us`.
fn time(value: &Value) -> Option<String> {
    let nanoseconds = value["time"].as_u64()? as f64;
    Some(match nanoseconds {
        small if small < 1e3 => format!("{small:.0} ns"),
        middle if middle < 1e6 => format!("{:.1} us", middle / 1e3),
        large => format!("{:.2} ms", large / 1e6),
    })
}

/// Formats the time of a kernel, and its operations per second if they are those of the time.
fn speed(model: &Value, kernel: &Value) -> Option<String> {
    let nanoseconds = kernel["time"].as_u64()?.max(1);
    let time = time(kernel)?;
    if model["timed"].is_object() {
        return Some(time);
    }
    Some(format!("{time}, {:.1} G/s", number(kernel, "operations") as f64 / nanoseconds as f64))
}

const ROW: usize = 34;
const LEFT: usize = 60;
const BOX: usize = 380;
const MEMORY: usize = 520;
const TOP: usize = 70;
/// Longer texts are truncated.
const LETTERS: usize = 56;

/// Draws a picture: from top to bottom the kernels in the order in which they run, with lines from
/// each value's writer to its readers; next to them the temporary memory, where each value is a
/// block from the kernel that writes it to the last one that reads it.
pub(super) fn svg(model: &Value) -> String {
    let kernels = list(model, "kernels");
    let arena = number(model, "arena").max(1) as f64;
    let (width, height) = (LEFT + BOX + 60 + MEMORY + 20, TOP + kernels.len() * ROW + 30);
    let memory_left = LEFT + BOX + 60;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\"><rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
    );
    let (inputs, outputs) = (arguments(model, "inputs"), arguments(model, "outputs"));
    let title = format!("{}({inputs}) -> {outputs}", text(model, "name"));
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>", cut(&title, 120));
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"50\">{} kernels, {} of weights</text><text x=\"{memory_left}\" y=\"50\">temporary memory: {}, from \
         left to right; time from top to bottom</text>",
        kernels.len(),
        bytes(model, "weights"),
        bytes(model, "arena")
    );
    let middle = |row: usize| TOP + row * ROW + ROW / 2;
    // The kernel that writes each value.
    let mut writer = std::collections::HashMap::new();
    for (row, kernel) in kernels.iter().enumerate() {
        writer.extend(list(kernel, "writes").iter().filter_map(|value| Some((value.as_u64()?, row))));
    }
    for (row, kernel) in kernels.iter().enumerate() {
        for from in list(kernel, "reads").iter().filter_map(|value| writer.get(&value.as_u64()?)) {
            // A value that the next kernel reads is a short line; one that is read later is an arc
            // at the left.
            let (begin, end) = (middle(*from), middle(row));
            if row == from + 1 {
                let x = LEFT + BOX / 2;
                let (begin, end) = (begin + ROW / 2 - 4, end - ROW / 2 + 4);
                let _ = writeln!(out, "<line x1=\"{x}\" y1=\"{begin}\" x2=\"{x}\" y2=\"{end}\" stroke=\"#555\"/>");
            } else if row > *from {
                let reach = LEFT.saturating_sub(10 + (row - from).min(20) * 2);
                let _ = writeln!(
                    out,
                    "<path d=\"M {LEFT} {begin} C {reach} {begin}, {reach} {end}, {LEFT} {end}\" fill=\"none\" stroke=\"#b55\"/>"
                );
            }
        }
    }
    let most = kernels.iter().map(weight).fold(1.0, f64::max);
    for (row, kernel) in kernels.iter().enumerate() {
        let y = TOP + row * ROW + 4;
        let share = (weight(kernel) / most * BOX as f64).max(2.0);
        let label = format!("{row} {}", operators(kernel));
        let figures = match speed(model, kernel) {
            Some(speed) => format!("{} operations, {speed}", amount(number(kernel, "operations"))),
            None => format!("{} operations", amount(number(kernel, "operations"))),
        };
        let nodes: Vec<&str> = list(kernel, "nodes").iter().filter_map(Value::as_str).collect();
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect x=\"{LEFT}\" y=\"{y}\" width=\"{BOX}\" height=\"{height}\" rx=\"3\" fill=\"#f4f6f8\" stroke=\"#789\"/>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{share:.1}\" height=\"{height}\" rx=\"3\" fill=\"#cfe0f0\"/><text x=\"{x}\" y=\"{first}\">{}</text>\
             <text x=\"{x}\" y=\"{second}\" fill=\"#555\" font-size=\"9\">{}</text></g>",
            cut(&nodes.join(", "), 400),
            cut(&label, LETTERS),
            cut(&figures, 70),
            height = ROW - 8,
            x = LEFT + 6,
            first = y + 12,
            second = y + 23
        );
    }
    let _ = writeln!(
        out,
        "<rect x=\"{memory_left}\" y=\"{TOP}\" width=\"{MEMORY}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>",
        kernels.len() * ROW
    );
    for value in list(model, "values").iter().filter(|value| value["place"] == "arena") {
        let (first, last) = (number(value, "first") as usize, number(value, "last") as usize);
        let scale = |bytes: u64| bytes as f64 / arena * MEMORY as f64;
        let (x, wide) = (memory_left as f64 + scale(number(value, "at")), scale(number(value, "bytes")).max(1.0));
        let (y, tall) = (TOP + first * ROW + 2, ((last.max(first) - first + 1) * ROW).saturating_sub(4));
        let shape: Vec<String> = list(value, "shape").iter().map(Value::to_string).collect();
        let name = format!("{} {}[{}]", text(value, "name"), text(value, "dtype"), shape.join(", "));
        let _ = writeln!(
            out,
            "<g><title>{}, {}, kernels {first} to {last}</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{wide:.1}\" height=\"{tall}\" \
             fill=\"#e3d5b0\" stroke=\"#a83\"/>",
            cut(&name, 200),
            bytes(value, "bytes")
        );
        // If there is space for letters.
        let letters = (wide / 6.5) as usize;
        if letters >= 6 {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{}</text>",
                x + 3.0,
                y + 12,
                cut(&name, letters)
            );
        }
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// The length of a kernel's bar: its time, or its number of operations if times are not available.
fn weight(kernel: &Value) -> f64 {
    kernel["time"].as_u64().unwrap_or_else(|| number(kernel, "operations")) as f64
}

fn cut(text: &str, letters: usize) -> String {
    escaped(&text.chars().take(letters).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model() -> Value {
        json!({
            "schema": 1, "name": "digits", "graph": "g<1>", "arena": 256, "state": 320, "weights": 2048, "region": true, "time": 12_345,
            "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4]}],
            "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 2]}],
            "values": [
                {"name": "x", "dtype": "float32", "shape": [1, 4], "bytes": 16, "place": "argument", "at": 0},
                {"name": "h<", "dtype": "float32", "shape": [1, 32], "bytes": 128, "place": "arena", "at": 128, "first": 0, "last": 2},
                {"name": "y", "dtype": "float32", "shape": [1, 2], "bytes": 8, "place": "argument", "at": 1},
            ],
            "kernels": [
                {"function": "k0", "operators": ["Gemm", "Relu"], "nodes": ["a", "b"], "operations": 2_500_000, "parallel": true, "reads": [0], "writes": [1], "time": 5000},
                {"function": "k1", "operators": ["Exp"], "nodes": ["c"], "operations": 999, "parallel": false, "reads": [1], "writes": [1], "time": 999},
                {"function": "k2", "operators": ["Gemm"], "nodes": ["d"], "operations": 64, "parallel": false, "reads": [1], "writes": [2]},
            ],
        })
    }

    #[test]
    fn a_report() {
        let mut out = String::new();
        write(&mut out, &[model()]).unwrap();
        assert_eq!(
            out,
            "\nmodels (1)\n  digits(x: float32[1, 4]) -> y: float32[1, 2]\n    3 kernels in one parallel region, 2.5 M operations, 256 bytes of temporary memory, 2.0 KiB \
             of weights, 12.3 us\n      0 Gemm + Relu: 2.5 M operations, 5.0 us, 500.0 G/s, on several threads\n      1 Exp: 999 operations, 999 ns, 1.0 G/s\n      2 Gemm: 64 operations\n"
        );
        out.clear();
        write(&mut out, &[]).unwrap();
        assert_eq!(out, "");
        // A library may report anything.
        write(&mut out, &[json!({"name": "\u{1b}[2J", "kernels": 7}), json!(null)]).unwrap();
        assert!(out.contains("  \\u{1b}[2J() -> \n    0 kernels, 0 operations"), "{out}");
    }

    #[test]
    fn a_dimension_that_each_call_tells() {
        let mut model = model();
        model["parts"] = json!({"dimension": "batch", "most": 64, "sizes": [64, 16, 4, 1]});
        model["sizes"] = json!({"dimension": "width", "extents": [8, 4]});
        model["inputs"][0]["extents"] = json!(["batch", "width"]);
        model["outputs"][0]["extents"] = json!(["2 * batch", "2"]);
        let mut out = String::new();
        write(&mut out, &[model]).unwrap();
        let expected = "  digits(x: float32[batch, width]) -> y: float32[2 * batch, 2]\n    batch is 1 to 64, in parts of 64, 16, 4, 1; of the largest:\n    width is one of 8, 4; of the largest:\n    3 kernels";
        assert!(out.contains(expected), "{out}");
    }

    #[test]
    fn dimensions_with_ranges() {
        let mut model = model();
        let range = |name: &str, most: u64| json!({"dimension": name, "least": 1, "most": most});
        model["ranges"] = json!([range("batch", 8), range("words", 512)]);
        let mut out = String::new();
        write(&mut out, &[model]).unwrap();
        let expected = "    batch is 1 to 8; of the largest:\n    words is 1 to 512; of the largest:\n    3 kernels";
        assert!(out.contains(expected), "{out}");
    }

    #[test]
    fn a_picture() {
        let svg = svg(&model());
        assert_eq!(svg.matches("<rect ").count(), 1 + 2 * 3 + 1 + 1);
        // Memory: from half of the width on, over three rows.
        assert!(svg.contains("<rect x=\"760.0\" y=\"72\" width=\"260.0\" height=\"98\""), "{svg}");
        assert!(svg.contains("h&lt; float32[1, 32], 128 bytes, kernels 0 to 2"), "{svg}");
        // One short line, and the last kernel reads the output of the second one again.
        assert!(svg.contains("<line ") && !svg.contains("h<"), "{svg}");
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        assert!(super::svg(&json!({"values": [{"place": "arena", "last": 3, "first": 9}]})).ends_with("</svg>\n"));
    }
}
