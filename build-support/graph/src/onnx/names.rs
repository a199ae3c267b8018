//! Names of the attributes of the operators of ONNX.
//!
//! Operators of domains that are neither of ONNX nor of onnxruntime are not listed; their
//! attributes are not checked.

use std::collections::{BTreeMap, BTreeSet};

use super::proto::{Model, Node, OpsetId};
use super::twice::label;
use super::versions::all_graphs;
use crate::error::{GraphError, Result, full_name};

/// The operators of all domains of ONNX 1.23.2 and their attributes, one operator a line:
/// `domain:Operator attribute attribute:since..until`. An attribute with a range is of the versions
/// of the domain in it. `tests/onnx/attributes.py` writes the file.
const TABLE: &str = include_str!("attributes.txt");

/// The operators of onnxruntime 1.32 that the importer knows, and their attributes, in the same
/// form.
const CONTRIBUTED: &str = include_str!("contributed.txt");

/// An attribute of an operator, and the versions that have it.
#[derive(Clone, Copy)]
struct Known {
    name: &'static str,
    since: Option<i64>,
    until: Option<i64>,
}

impl Known {
    /// Reads `name` or `name:since..until`.
    fn read(word: &'static str) -> Self {
        let (name, range) = word.split_once(':').unwrap_or((word, ".."));
        let (since, until) = range.split_once("..").unwrap_or_default();
        Self { name, since: since.parse().ok(), until: until.parse().ok() }
    }

    /// Tells whether a version has the attribute; a model that does not say its version may have
    /// it.
    fn is_of(self, version: Option<i64>) -> bool {
        let Some(version) = version else { return true };
        self.since.is_none_or(|since| version >= since) && self.until.is_none_or(|until| version < until)
    }
}

/// Reads the lines of the tables.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    [TABLE, CONTRIBUTED].into_iter().flat_map(str::lines).map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// Returns the attributes that any version of an operator of ONNX has, `None` if ONNX does not
/// have the operator. The domain of ONNX's own operators is "".
pub fn attribute_names(domain: &str, operator: &str) -> Option<impl Iterator<Item = &'static str> + use<>> {
    let is_wanted = |key: &str| key.rsplit_once(':') == Some((domain, operator));
    let (_, names) = lines().find(|(key, _)| is_wanted(key))?;
    Some(names.split_whitespace().map(|word| Known::read(word).name))
}

/// Checks that nodes have only attributes that their operator has in the version of the model.
/// Nodes of bodies and of functions are checked too. Calls of functions, operators for which
/// `is_custom` is true and those of other domains are not: their attributes are not those of ONNX.
///
/// # Errors
/// All other attributes, each with the node, the operator and the attributes that exist.
pub(crate) fn check_attribute_names(model: &Model<'_>, is_custom: impl Fn(&Node<'_>) -> bool) -> Result<()> {
    let table: BTreeMap<&str, &str> = lines().collect();
    let functions: BTreeSet<[&str; 3]> =
        model.functions.iter().map(|function| [&*function.name, &*function.domain, &*function.overload]).collect();
    // A function of the model may have the name of an operator.
    let is_call = |node: &Node<'_>| functions.contains(&[&*node.op_type, &*node.domain, &*node.overload]);
    let mut problems = Vec::new();
    for (opsets, nodes) in all_graphs(model) {
        for node in nodes.iter().filter(|node| !node.attributes.is_empty() && !is_call(node)) {
            let Some(names) = table.get(&*format!("{}:{}", node.domain, node.op_type)) else { continue };
            if is_custom(node) {
                continue;
            }
            let version = version_in(opsets, &node.domain).or_else(|| version_in(&model.opsets, &node.domain));
            let known: Vec<Known> = names.split_whitespace().map(Known::read).collect();
            let wrong = node.attributes.iter().filter_map(|attribute| problem(&attribute.name, &known, version));
            let place = format!("node '{}' ({})", label(node), full_name(&node.domain, &node.op_type));
            problems.extend(wrong.map(|wrong| GraphError::new(wrong).within(&place)));
        }
    }
    GraphError::all(problems).map_or(Ok(()), Err)
}

/// Returns the version of a domain.
fn version_in(opsets: &[OpsetId], domain: &str) -> Option<i64> {
    opsets.iter().find(|opset| opset.domain == domain).map(|opset| opset.version)
}

/// Describes the problem of an attribute that an operator does not have in a version. A name that
/// begins with two underscores is a note of the program that wrote the model: `onnx.checker` and
/// onnxruntime accept it for each operator.
fn problem(name: &str, known: &[Known], version: Option<i64>) -> Option<String> {
    let found = known.iter().find(|known| known.name == name);
    // A note for memory that old exporters also wrote in newer models; it does not change results.
    let is_note = name.starts_with("__") || (name == "consumed_inputs" && found.is_some());
    if is_note || found.is_some_and(|found| found.is_of(version)) {
        return None;
    }
    let of_version: Vec<&str> = known.iter().filter(|known| known.is_of(version)).map(|known| known.name).collect();
    let rest = match of_version[..] {
        [] => "the operator does not have attributes".to_owned(),
        _ => format!("known: {}", of_version.join(", ")),
    };
    let model = version.map(|version| format!(" of the operators, and the model uses version {version}; {rest}"));
    let model = model.unwrap_or_default();
    Some(match found {
        Some(Known { since: Some(since), .. }) if version.is_some_and(|version| version < *since) => {
            format!("attribute `{name}` is of versions from {since}{model}")
        }
        Some(Known { until: Some(until), .. }) => format!("attribute `{name}` is of versions before {until}{model}"),
        _ => {
            let close = of_version.iter().find(|known| is_close(name, known));
            let close = close.map(|close| format!("; did you mean `{close}`?")).unwrap_or_default();
            format!("attribute `{name}` is unknown; {rest}{close}")
        }
    })
}

/// Tells whether a name could be another one with a slip: one letter is other, missing or too much,
/// or the case of letters and underscores differ.
fn is_close(name: &str, known: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase().into_bytes();
    let (one, other) = (plain(name), plain(known));
    let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[same..], &other[same..]);
    let behind = |rest: &[u8]| rest.get(1..).unwrap_or_default().to_vec();
    one == other || behind(one) == behind(other) || behind(one) == other || one == behind(other)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::op;

    /// Returns all attributes of the table.
    fn all_known() -> Vec<Known> {
        lines().flat_map(|(_, names)| names.split(' ').filter(|name| !name.is_empty()).map(Known::read)).collect()
    }

    #[test]
    fn the_table_can_be_read() {
        for table in [TABLE, CONTRIBUTED] {
            let keys = table.lines().filter_map(|line| line.split(' ').next()?.rsplit_once(':'));
            assert!(keys.is_sorted_by(|one, next| one < next));
        }
        for (operator, names) in lines() {
            let names: Vec<Known> = names.split_whitespace().map(Known::read).collect();
            assert!(names.is_sorted_by(|one, next| one.name < next.name), "{operator}");
        }
        let ranges =
            [TABLE, CONTRIBUTED].into_iter().flat_map(str::split_whitespace).filter(|word| word.contains("..")).count();
        assert_eq!(all_known().iter().filter(|known| known.since.is_some() || known.until.is_some()).count(), ranges);
        assert_eq!((lines().count(), all_known().len()), (227 + 29, 558 + 91));
    }

    fn is_known(operator: &str, attribute: &str) -> bool {
        attribute.starts_with("__")
            || attribute_names("", operator).is_none_or(|mut names| names.any(|name| name == attribute))
    }

    /// Operators of the compiler itself, which ONNX does not have.
    const NOT_OF_ONNX: &[&str] = &["Exp2", "Expm1", "Log1p", "Log2", "Rsqrt", "Trunc"];

    #[test]
    fn every_operator_is_listed() {
        let listed = |name: &str| attribute_names(op::domain_of(name), name).is_some();
        let missing: Vec<&str> =
            op::names().into_iter().filter(|name| !listed(name) && !NOT_OF_ONNX.contains(name)).collect();
        assert!(missing.is_empty(), "no line of the table has {missing:?}");
    }

    #[test]
    fn attributes_of_old_versions_are_known() {
        for (operator, attributes) in [
            ("Relu", &["consumed_inputs"][..]),
            ("Dropout", &["is_test", "ratio", "consumed_inputs"]),
            ("BatchNormalization", &["spatial", "is_test", "consumed_inputs", "momentum"]),
            ("Add", &["axis", "broadcast"]),
            ("Gemm", &["broadcast"]),
            ("Pad", &["paddings", "pads", "value"]),
            ("LSTM", &["output_sequence"]),
            ("Upsample", &["height_scale", "scales"]),
            ("TopK", &["k"]),
            ("Softmax", &["__note"]),
            ("Frobnicate", &["anything"]),
        ] {
            for attribute in attributes {
                assert!(is_known(operator, attribute), "{operator} {attribute}");
            }
        }
        for (operator, attribute) in [("Softmax", "axes"), ("Relu", "alpha"), ("Not", ""), ("MatMul", "_axis")] {
            assert!(!is_known(operator, attribute), "{operator} {attribute}");
        }
    }

    /// Returns the names behind `attrs.method(` and `attrs, ` in a source.
    fn names_read(source: &str) -> Vec<&str> {
        let reads = source.split("attrs").skip(1).filter_map(|rest| {
            let argument = match rest.strip_prefix('.') {
                Some(method) => method.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_'),
                None => rest,
            };
            let name = argument.strip_prefix(['(', ',']).map(str::trim_start)?.strip_prefix('"')?;
            name.split_once('"').map(|(name, _)| name)
        });
        reads.collect()
    }

    /// The attributes that the importer and the operators read have to be listed: a model that has
    /// them would be refused.
    #[test]
    fn what_is_read_is_listed() {
        assert_eq!(names_read(r#"attrs.int("a", 0) size(call.attrs, "b") attrs.set(name, "c") Attrs"#), ["a", "b"]);
        let listed: BTreeSet<&str> = all_known().iter().map(|known| known.name).collect();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut count = 0;
        for folder in ["import", "import/microsoft", "import/ml", "op", "op/ml"] {
            for file in std::fs::read_dir(sources.join(folder)).unwrap() {
                let path = file.unwrap().path();
                // It has an example with an operator of the user's own.
                if path.ends_with("custom.rs") || path.is_dir() {
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                for name in names_read(&source) {
                    count += 1;
                    assert!(listed.contains(name), "{}: no operator has `{name}`", path.display());
                }
            }
        }
        assert!(count > 100, "only {count} reads are found");
    }
}
