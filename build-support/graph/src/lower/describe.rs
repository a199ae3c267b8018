//! A lowered model as JSON, for tools.

use core::fmt::Write as _;

use kernpack::DataType;

use super::{Lowered, Place, argument_names, state_bytes};
use crate::constant::stored;
use crate::graph::{Graph, ValueId};

/// The version of the format of the description.
const SCHEMA: u32 = 1;

impl Lowered {
    /// Returns the model as JSON: arguments, memory, kernels with their work, and values with their
    /// places. `state` is the number of bytes that callers pass to `NAME_steps`.
    ///
    /// `{"schema": 1, "name", "graph", "inputs": [{"name", "dtype", "shape"}], "outputs", "arena",
    /// "state", "weights", "region", "values": [{"name", "dtype", "shape", "bytes", "place":
    /// "argument" | "arena" | "weights", "at": number or offset, "first", "last"}], "kernels":
    /// [{"function", "operators", "nodes", "operations", "parallel", "reads": [numbers of values],
    /// "writes"}]}`. With a dynamic dimension there is `"parts": {"dimension", "most", "sizes"}`,
    /// or `"sizes": {"dimension", "extents"}` if it has a list of extents, or both. Dimensions with
    /// ranges are `"ranges": [{"dimension", "least", "most", "step"}]`; a step of 1 is left out.
    /// Shapes, values and kernels are those of the largest extent, and an argument with varying
    /// extents has `"extents": ["batch", "16 | 32", "4"]`. If outputs were class names, there is
    /// `"labels": {"output": ["name"]}`: elements of these outputs are places in the lists, or
    /// their columns are. `first` and `last` are the kernels between which temporary memory is
    /// used.
    pub fn describe(&self, graph: &Graph, name: &str) -> String {
        let mut out = format!("{{\"schema\":{SCHEMA},\"name\":{},\"graph\":{}", text(name), text(&graph.name));
        let names = argument_names(graph);
        if let Some(parts) = &graph.parts {
            let sizes: Vec<i64> = parts.sizes().collect();
            let _ = write!(
                out,
                ",\"parts\":{{\"dimension\":{},\"most\":{},\"sizes\":{sizes:?}}}",
                text(&parts.dim),
                parts.most
            );
        }
        if let Some(sizes) = &graph.sizes {
            let extents: Vec<i64> = graph.variants().iter().map(|(size, _)| *size).collect();
            let _ = write!(out, ",\"sizes\":{{\"dimension\":{},\"extents\":{extents:?}}}", text(&sizes.dim));
        }
        if let Some(ranges) = &graph.ranges {
            let dims = ranges.dims.iter().map(|dim| {
                let step = if dim.step == 1 { String::new() } else { format!(",\"step\":{}", dim.step) };
                format!("{{\"dimension\":{},\"least\":{},\"most\":{}{step}}}", text(&dim.name), dim.least, dim.most)
            });
            let _ = write!(out, ",\"ranges\":{}", list(dims));
        }
        let (extents, texts) = (graph.argument_extents(), graph.argument_texts());
        let open = |number: usize| {
            let is_open = extents[number].iter().any(|extent| extent.fixed().is_none());
            is_open.then(|| list(texts[number].iter().map(|extent| text(extent))))
        };
        let (inputs, outputs) = names.split_at(graph.inputs.len());
        let taken = inputs.iter().zip(&graph.inputs).enumerate();
        // The graph with ranges may have larger extents than a call.
        let shape = |number: usize, id: ValueId| match &graph.ranges {
            Some(_) => extents[number].iter().map(|extent| extent.by_size[0]).collect(),
            None => graph.values[id].shape.clone(),
        };
        let argument = |number: usize, name: &str, id: ValueId| {
            argument(name, stored(graph.values[id].dtype), &shape(number, id), open(number))
        };
        let taken = taken.map(|(number, (name, id))| argument(number, name, *id));
        let _ = write!(out, ",\"inputs\":{}", list(taken));
        let given = outputs.iter().zip(&graph.outputs).enumerate();
        let given = given.map(|(number, (name, (_, id)))| argument(inputs.len() + number, name, *id));
        let _ = write!(out, ",\"outputs\":{}", list(given));
        let _ = write!(
            out,
            ",\"arena\":{},\"state\":{},\"weights\":{},\"region\":{}",
            self.arena,
            state_bytes(self.arena),
            self.weights,
            self.is_region
        );
        if !graph.labels.is_empty() {
            let labels = graph
                .labels
                .iter()
                .map(|(output, names)| format!("{}:{}", text(output), list(names.iter().map(|name| text(name)))));
            let _ = write!(out, ",\"labels\":{{{}}}", labels.collect::<Vec<_>>().join(","));
        }
        let values = self.values.iter().map(|value| {
            let (place, at) = match value.place {
                Place::Argument(number) => ("argument", number),
                Place::Arena(offset) => ("arena", offset),
                Place::Weights(offset) => ("weights", offset),
            };
            let known = &graph.values[value.id];
            let mut text = format!(
                "{{\"name\":{},\"dtype\":\"{}\",\"shape\":{:?},\"bytes\":{},\"place\":\"{place}\",\"at\":{at}",
                text(&known.name),
                known.dtype,
                known.shape,
                value.bytes
            );
            if let Some((first, last)) = value.life {
                let _ = write!(text, ",\"first\":{first},\"last\":{last}");
            }
            text.push('}');
            text
        });
        let _ = write!(out, ",\"values\":{}", list(values));
        let number = |id: &ValueId| {
            let memory = graph.memory_of(*id);
            self.values.iter().position(|value| value.id == memory).map(|place| place.to_string())
        };
        let kernels = self.kernels.iter().map(|kernel| {
            format!(
                "{{\"function\":{},\"operators\":{},\"nodes\":{},\"operations\":{},\"parallel\":{},\"reads\":{},\"writes\":{}}}",
                text(&kernel.function),
                list(kernel.operators.iter().map(|operator| text(operator))),
                list(kernel.nodes.iter().map(|node| text(node))),
                kernel.operations,
                kernel.is_parallel,
                list(kernel.inputs.iter().filter_map(number)),
                list(kernel.outputs.iter().filter_map(number))
            )
        });
        let _ = write!(out, ",\"kernels\":{}}}", list(kernels));
        out
    }
}

fn argument(name: &str, dtype: DataType, shape: &[i64], open: Option<String>) -> String {
    let extents = open.map_or(String::new(), |extents| format!(",\"extents\":{extents}"));
    format!("{{\"name\":{},\"dtype\":\"{}\",\"shape\":{shape:?}{extents}}}", text(name), dtype)
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Formats text in quotation marks.
fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => _ = write!(out, "\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_is_escaped() {
        assert_eq!(text("a\"\\\n\u{7f}é"), "\"a\\\"\\\\\\u000a\\u007fé\"");
    }
}
