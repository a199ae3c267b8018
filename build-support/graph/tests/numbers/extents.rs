//! Extents of 0, and numbers of a model that are larger than any extent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use kernpack_compiler::codegen::Target;
use kernpack_compiler::{PassContext, TargetDescription};
use kernpack_graph::{Attr, Constant, Graph, LowerOptions, Threads, Value, lower, op};

use super::program::{attributes, run_graph};
use super::table::{Given, Row, rows};

/// Returns a graph of the operator with its outputs.
pub(crate) fn graph(row: &Row, is_known: bool) -> Result<Graph, String> {
    let mut graph = Graph::default();
    add(&mut graph, row, is_known, "")?;
    Ok(graph)
}

/// Adds the operator to a graph, with its inputs and outputs, whose names start with a prefix.
fn add(graph: &mut Graph, row: &Row, is_known: bool, prefix: &str) -> Result<(), String> {
    let mut ids = Vec::new();
    for (number, input) in row.inputs.iter().enumerate() {
        let name = format!("{prefix}x{number}");
        ids.push(input.as_ref().map(|input| match input {
            Given::Known(constant) => graph.add_known(&name, constant.clone()),
            Given::Argument(dtype, shape) if is_known => {
                let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
                let bytes = vec![0; count * usize::from(dtype.bits()).div_ceil(8)];
                graph.add_known(&name, Constant::new(*dtype, shape, bytes).unwrap())
            }
            Given::Argument(dtype, shape) => {
                let value = Value { name, dtype: *dtype, shape: shape.clone(), known: None, producer: None };
                let id = graph.add_value(value);
                graph.inputs.push(id);
                id
            }
        }));
    }
    let names: Vec<String> = (0..row.outputs).map(|number| format!("{prefix}y{number}")).collect();
    let attrs: Vec<(&str, Attr)> = row.attrs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let operator = op::find(&row.name).unwrap();
    let made =
        graph.add_node(operator, "tested", attributes(&attrs), 28, &ids, &names).map_err(|error| error.to_string())?;
    graph.outputs.extend(names.into_iter().zip(made).filter_map(|(name, id)| Some((name, id?))));
    Ok(())
}

fn shapes(row: &Row, is_known: bool) -> Result<Vec<Vec<i64>>, String> {
    let graph = graph(row, is_known)?;
    Ok(graph.outputs.iter().map(|(_, id)| graph.values[*id].shape.clone()).collect())
}

/// Operators whose attributes do not fit in a line.
const WITHOUT_A_ROW: &[&str] = &["TreeEnsemble"];

#[test]
fn every_operator_has_a_row() {
    let all = rows(2);
    let missing: Vec<&str> = op::names()
        .into_iter()
        .filter(|name| !WITHOUT_A_ROW.contains(name) && !all.iter().any(|row| row.name == *name))
        .collect();
    assert!(missing.is_empty(), "add a row to the table for {missing:?}");
}

/// An empty batch gives empty results.
#[test]
fn batches_may_be_empty() {
    let target = TargetDescription::of(&Target::host());
    let mut wrong = Vec::new();
    for ((none, two), three) in rows(0).iter().zip(&rows(2)).zip(&rows(3)) {
        if !none.has_batch {
            // It has no batch, but must match the operator for the tests of its attributes.
            if let Err(error) = shapes(none, false) {
                wrong.push(format!("{}: {error}", none.text));
            }
            continue;
        }
        let (two, three) = match (shapes(two, false), shapes(three, false)) {
            (Ok(two), Ok(three)) => (two, three),
            (two, three) => {
                wrong.push(format!("{}: {two:?} {three:?}", none.text));
                continue;
            }
        };
        let expected: Vec<Vec<i64>> = two
            .iter()
            .zip(&three)
            .map(|(two, three)| two.iter().zip(three).map(|(two, three)| two - 2 * (three - two)).collect())
            .collect();
        for is_known in [false, true] {
            let found = shapes(none, is_known);
            if found.as_ref() != Ok(&expected) {
                wrong.push(format!("{} (known: {is_known}): {found:?}, expected {expected:?}", none.text));
            }
        }
        let lowered = graph(none, false).and_then(|graph| {
            let context = PassContext::default();
            lower(&graph, "tested", &target, &context, LowerOptions::default()).map_err(|error| error.to_string())
        });
        if let Err(error) = lowered {
            wrong.push(format!("{} lowered: {error}", none.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kernels of empty batches, in one program: their results equal the known values.
#[test]
fn kernels_of_empty_batches() {
    let mut all = Graph::default();
    let mut expected = Vec::new();
    for (number, row) in rows(0).iter().enumerate().filter(|(_, row)| row.has_batch) {
        add(&mut all, row, false, &format!("{number} ")).unwrap();
        let known = graph(row, true).unwrap();
        expected
            .extend(known.outputs.iter().map(|(_, id)| (row.text.clone(), known.values[*id].known.clone().unwrap())));
    }
    // A known value is not an output of a program.
    let ids: Vec<_> = all.outputs.iter().map(|(_, id)| *id).collect();
    assert_eq!(ids.len(), expected.len());
    for (id, (text, expected)) in ids.iter().zip(&expected) {
        if let Some(known) = &all.values[*id].known {
            assert_eq!(known, expected, "{text}");
        }
    }
    let kept: Vec<bool> = ids.iter().map(|id| all.values[*id].known.is_none()).collect();
    let mut keep = kept.iter();
    all.outputs.retain(|_| *keep.next().unwrap());
    let results = run_graph(&all, |_, shape, dtype| {
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
        Constant::new(dtype, shape, vec![0; count * usize::from(dtype.bits()).div_ceil(8)]).unwrap()
    });
    let expected = expected.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(expected, _)| expected);
    let mut filled = 0;
    for ((text, expected), result) in expected.zip(results) {
        assert_eq!((result.dtype(), result.shape()), (expected.dtype(), expected.shape()), "{text}");
        // NaN counts as equal to NaN here.
        assert_eq!(result.bytes(), expected.bytes(), "{text}");
        filled += usize::from(!result.is_empty());
    }
    assert!(filled > 0, "{filled} results have elements");
}

const LIMITS: [i64; 12] =
    [i64::MIN, i64::MIN + 1, -(1 << 62), -(1 << 32), -1, 0, 1 << 31, 1 << 32, 1 << 40, 1 << 62, i64::MAX - 1, i64::MAX];

/// Returns the row with each of its integers in turn, and all integers of a list, at a limit.
fn at_limits(row: &Row) -> Vec<(String, Row)> {
    let mut all = Vec::new();
    for value in LIMITS {
        let changed = |values: &[i64]| -> Vec<Vec<i64>> {
            let one = |place: usize| {
                let mut own = values.to_vec();
                own[place] = value;
                own
            };
            let mut lists: Vec<Vec<i64>> = (0..values.len()).map(one).collect();
            lists.push(vec![value; values.len()]);
            lists
        };
        for (index, (name, attr)) in row.attrs.iter().enumerate() {
            let attrs = match attr {
                Attr::Int(_) => vec![Attr::Int(value)],
                Attr::Ints(values) => changed(values).into_iter().map(Attr::Ints).collect(),
                _ => Vec::new(),
            };
            for attr in attrs {
                let mut own = row.clone();
                let place = format!("{name} = {attr:?}");
                own.attrs[index].1 = attr;
                all.push((place, own));
            }
        }
        for (index, input) in row.inputs.iter().enumerate() {
            let Some(Given::Known(known)) = input else { continue };
            let Ok(values) = known.to_ints() else { continue };
            for values in changed(&values) {
                let mut own = row.clone();
                let constant = Constant::of_ints(&values).reshaped(known.shape()).unwrap();
                own.inputs[index] = Some(Given::Known(constant));
                all.push((format!("input {index} = {values:?}"), own));
            }
        }
    }
    all
}

/// Returns the outcome of a closure, without printing its panic.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> std::thread::Result<T> {
    thread_local!(static IS_QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                shown(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(false);
    outcome
}

pub(crate) fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// A number of a model that is too large for arithmetic is an error, not a panic, a wrapped extent
/// or an endless build.
#[test]
fn numbers_at_the_limits_of_their_type() {
    let (mut wrong, mut count, mut refused, mut lowered) = (Vec::new(), 0, 0, 0);
    let target = TargetDescription::of(&Target::host());
    // Kernels of accepted rows, without schedules, which would take longer.
    let plain = LowerOptions { fuse: false, schedule: false, threads: Threads::Single };
    for row in rows(2) {
        for (place, changed) in at_limits(&row) {
            for is_known in [false, true] {
                let begin = Instant::now();
                let outcome = quietly(|| {
                    let graph = graph(&changed, is_known)?;
                    if !is_known {
                        lowered += 1;
                        // It may be rejected here, too.
                        let _ = lower(&graph, "tested", &target, &PassContext::default(), plain);
                    }
                    Ok::<Graph, String>(graph)
                });
                let time = begin.elapsed();
                count += 1;
                match outcome {
                    Err(panic) => wrong.push(format!("{}: {place}: panics: {}", row.text, message(panic))),
                    Ok(Err(error)) => {
                        refused += 1;
                        if !error.contains("node 'tested'") {
                            wrong.push(format!("{}: {place}: {error}", row.text));
                        }
                    }
                    Ok(Ok(graph)) => {
                        for (_, id) in &graph.outputs {
                            let shape = &graph.values[*id].shape;
                            if shape.iter().any(|extent| !(0..=1 << 40).contains(extent)) {
                                wrong.push(format!("{}: {place}: gives {shape:?}", row.text));
                            }
                        }
                    }
                }
                if time.as_secs() >= 10 {
                    wrong.push(format!("{}: {place}: takes {time:?}", row.text));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > count / 2 && lowered > 100, "{refused} of {count} refused, {lowered} lowered");
    println!("{refused} of {count} refused, {lowered} lowered");
}
