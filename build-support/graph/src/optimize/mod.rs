//! Passes that replace the nodes of a model with faster equivalents, and pack its weights.
//!
//! [`PASSES`] is the list of the passes in their order. [`run`] is the driver: it runs them on the
//! graph of a model and on the graphs inside it, and drops dead values in between. It also keeps
//! the text of the graph after each pass, if that is requested, and verifies the graph in builds
//! with debug assertions.
//!
//! A new pass is a file with a method of [`Graph`], a row of [`PASSES`], and a row of the table in
//! `docs/slow-models.md`.
//!
//! Two steps are not passes over a finished graph. Constants are folded while nodes are added
//! (`infer`, with `fold_layout_moves` for large weights), and operators are fused when the graph is
//! lowered (`fuse`).

mod byte_products;
mod dead_values;
mod flush_weights;
mod narrow_weights;
mod one_hot_to_gather;
mod pack_conv_weights;
mod pack_matmul_weights;
mod transpose_weights;
mod verify;

use std::sync::Arc;

use crate::dynamic::{Hidden, same_nodes};
use crate::error::Result;
use crate::graph::{Graph, Parts, Ranges, Sizes};
use crate::options::ModelOptions;
use crate::print::print;

/// A pass over a graph.
struct Pass {
    name: &'static str,
    /// Returns true if the pass runs with these options.
    applies: fn(&ModelOptions) -> bool,
    run: fn(&mut Graph, &ModelOptions) -> Result<()>,
    /// True if the pass leaves known values without readers, which the driver drops then.
    leaves_dead_values: bool,
}

/// The passes in the order in which they run.
const PASSES: &[Pass] = &[
    // The first one, because the others copy weights: to tables, to panels, to other types.
    Pass {
        name: "flush_weights",
        applies: replaces_nodes,
        run: |graph, _| {
            graph.flush_weights();
            Ok(())
        },
        leaves_dead_values: false,
    },
    // Before all passes that change products: it looks for a `MatMul` with the matrix of the model.
    Pass {
        name: "one_hot_to_gather",
        applies: replaces_nodes,
        run: |graph, _| graph.one_hot_to_gather(),
        leaves_dead_values: true,
    },
    // Before the passes on float weights: the weights of its products are bytes afterwards. It
    // packs transposed bytes itself.
    Pass {
        name: "byte_products",
        applies: replaces_nodes,
        run: |graph, _| graph.byte_products(),
        leaves_dead_values: true,
    },
    // Before weights are narrowed and packed, because both skip `Gemm` with `transB`.
    Pass {
        name: "transpose_weights",
        applies: replaces_nodes,
        run: |graph, _| graph.transpose_weights(),
        leaves_dead_values: false,
    },
    // Before packing, which keeps the type of the weights.
    Pass {
        name: "narrow_weights",
        applies: |options| options.weights.is_some(),
        run: |graph, options| options.weights.map_or(Ok(()), |dtype| graph.narrow_weights(dtype)),
        leaves_dead_values: false,
    },
    // After all passes that read the matrix of a product, because panels are not a matrix. It also
    // runs with `plain`, because it keeps the nodes.
    Pass {
        name: "pack_matmul_weights",
        applies: |_| true,
        run: |graph, _| graph.pack_matmul_weights(),
        leaves_dead_values: false,
    },
    // After narrowing, because filters are packed only in single precision.
    Pass {
        name: "pack_conv_weights",
        applies: replaces_nodes,
        run: |graph, _| graph.pack_conv_weights(),
        leaves_dead_values: false,
    },
];

/// The name of the first dump: the graph before all passes.
const IMPORTED: &str = "import";

fn replaces_nodes(options: &ModelOptions) -> bool {
    !options.plain
}

/// The text of a graph after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The name of the pass, or `import` for the graph before all passes.
    pub pass: &'static str,
    /// The graph in the model: empty for the graph of the model itself, otherwise the extents of
    /// its dynamic dimensions, or the node that contains the graph.
    pub place: String,
    /// The nodes of the graph.
    pub text: String,
}

/// Runs the passes on a graph, and on the graphs inside it. Adds the dumps, those of inner graphs
/// first. If a pass fails, the last one is its input.
///
/// # Errors
/// Returns the errors of the passes.
pub(crate) fn run(graph: &mut Graph, options: &ModelOptions, dumps: &mut Vec<Dump>) -> Result<()> {
    let mut driver = Driver { passes: PASSES, options, dumps };
    let Some(mut ranges) = graph.ranges.take() else { return driver.run(graph, "") };
    let hidden = Hidden::new(graph, &mut ranges);
    graph.mark_any_extents(Arc::make_mut(&mut ranges));
    graph.ranges = Some(ranges);
    driver.run(graph, "")?;
    let Some(mut ranges) = graph.ranges.take() else { return Ok(()) };
    hidden.show(graph, &mut ranges);
    for (_, other) in &mut Arc::make_mut(&mut ranges).others {
        other.share_known(graph);
    }
    for (extents, other) in &ranges.others {
        same_nodes(&ranges, (graph, &ranges.extents), (other, extents))?;
    }
    graph.ranges = Some(ranges);
    Ok(())
}

/// The driver of the passes.
struct Driver<'a> {
    passes: &'a [Pass],
    options: &'a ModelOptions,
    dumps: &'a mut Vec<Dump>,
}

impl Driver<'_> {
    fn run(&mut self, graph: &mut Graph, place: &str) -> Result<()> {
        self.run_inside(graph, place)?;
        graph.drop_dead_values();
        self.leave(graph, IMPORTED, place)?;
        let (passes, options) = (self.passes, self.options);
        for pass in passes.iter().filter(|pass| (pass.applies)(options)) {
            (pass.run)(graph, options)?;
            if pass.leaves_dead_values {
                graph.drop_dead_values();
            }
            self.leave(graph, pass.name, place)?;
        }
        Ok(())
    }

    /// Runs the passes on the graphs for other extents, and on those of loops and conditionals.
    fn run_inside(&mut self, graph: &mut Graph, place: &str) -> Result<()> {
        if let Some(Parts { dim, smaller, .. }) = graph.parts.as_mut().map(Arc::make_mut) {
            for (size, smaller) in smaller {
                self.run(smaller, &inside(place, &format!("{dim} = {size}")))?;
            }
        }
        if let Some(Sizes { dim, others, .. }) = graph.sizes.as_mut().map(Arc::make_mut) {
            for (size, other) in others {
                self.run(other, &inside(place, &format!("{dim} = {size}")))?;
                graph.warnings.append(&mut other.warnings);
            }
            graph.warnings.sort();
            graph.warnings.dedup();
        }
        if let Some(Ranges { dims, others, .. }) = graph.ranges.as_mut().map(Arc::make_mut) {
            for (extents, other) in others {
                let pairs = dims.iter().zip(extents.iter()).map(|(dim, extent)| format!("{} = {extent}", dim.name));
                self.run(other, &inside(place, &pairs.collect::<Vec<_>>().join(", ")))?;
                graph.warnings.append(&mut other.warnings);
            }
            graph.warnings.sort();
            graph.warnings.dedup();
        }
        for node in graph.nodes.iter_mut().filter(|node| node.body.is_some()) {
            let place = inside(place, &node.place());
            let Some(body) = node.body.as_mut().map(Arc::make_mut) else { continue };
            for body in body.graphs_mut() {
                self.run(body, &place)?;
                graph.warnings.append(&mut body.warnings);
            }
        }
        Ok(())
    }

    /// Verifies and dumps a graph after a pass.
    fn leave(&mut self, graph: &Graph, pass: &'static str, place: &str) -> Result<()> {
        if cfg!(debug_assertions) {
            graph.verify().map_err(|error| error.within(&format!("after the pass {pass}")))?;
        }
        if self.options.dump {
            self.dumps.push(Dump { pass, place: place.to_owned(), text: print(graph) });
        }
        Ok(())
    }
}

/// Returns the place of a graph in another one.
fn inside(place: &str, inner: &str) -> String {
    if place.is_empty() { inner.to_owned() } else { format!("{place}, {inner}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::Attrs;
    use crate::constant::Constant;
    use crate::error::GraphError;
    use crate::graph::Value;
    use crate::op::find;
    use kernpack_compiler::ir::F32;

    /// `relu(x w)`, and a known value without readers.
    fn graph() -> Graph {
        let mut graph = Graph::default();
        let x = Value { name: "x".to_owned(), dtype: F32, shape: vec![1, 2], known: None, producer: None };
        let x = graph.add_value(x);
        graph.inputs.push(x);
        let w = graph.add_known("w", Constant::of_floats(&[1.0; 4]).reshaped(&[2, 2]).unwrap());
        graph.add_known("dead", Constant::of_floats(&[1.0]));
        let mut last = x;
        for (op, inputs) in [("MatMul", vec![Some(x), Some(w)]), ("Relu", vec![])] {
            let inputs = if inputs.is_empty() { vec![Some(last)] } else { inputs };
            let attrs = Arc::new(Attrs::default());
            last = graph.add_node(find(op).unwrap(), op, attrs, 17, &inputs, &[op.to_owned()]).unwrap()[0].unwrap();
        }
        graph.outputs.push(("y".to_owned(), last));
        graph
    }

    fn error_of(pass: fn(&mut Graph, &ModelOptions) -> Result<()>, leaves_dead_values: bool) -> String {
        let passes = [Pass { name: "broken", applies: |_| true, run: pass, leaves_dead_values }];
        let mut driver = Driver { passes: &passes, options: &ModelOptions::default(), dumps: &mut Vec::new() };
        driver.run(&mut graph(), "").err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn dumps_before_an_error_are_kept() {
        let pass = |name, run| Pass { name, applies: |_| true, run, leaves_dead_values: false };
        let passes = [pass("first", |_, _| Ok(())), pass("broken", |_, _| Err(GraphError::new("fails")))];
        let (options, mut dumps) = (ModelOptions { dump: true, ..ModelOptions::default() }, Vec::new());
        Driver { passes: &passes, options: &options, dumps: &mut dumps }.run(&mut graph(), "").unwrap_err();
        assert_eq!(dumps.iter().map(|dump| dump.pass).collect::<Vec<_>>(), [IMPORTED, "first"]);
    }

    #[test]
    fn broken_graphs_are_found_after_the_pass() {
        assert!(!graph().verify().unwrap_err().to_string().is_empty());
        assert_eq!(error_of(|_, _| Ok(()), false), "");
        let reversed = error_of(
            |graph, _| {
                graph.nodes.reverse();
                Ok(())
            },
            false,
        );
        assert!(reversed.contains("after the pass broken") && reversed.contains("no earlier node"), "{reversed}");
        let add_dead = |graph: &mut Graph, _: &ModelOptions| {
            graph.add_known("other", Constant::of_floats(&[2.0]));
            Ok(())
        };
        let dead = error_of(add_dead, false);
        assert!(dead.contains("('other') is known, and dead"), "{dead}");
        assert_eq!(error_of(add_dead, true), "");
        let dropped = error_of(
            |graph, _| {
                graph.nodes.pop();
                Ok(())
            },
            false,
        );
        assert!(dropped.contains("output 'y'"), "{dropped}");
        let unflagged = error_of(
            |graph, _| {
                graph.nodes[0].reads.pop();
                Ok(())
            },
            false,
        );
        assert!(unflagged.contains("node 'MatMul' (MatMul)"), "{unflagged}");
    }
}
