//! Names that all languages can write.

use crate::graph::Graph;

/// A name that all languages can write, of one that a model has: `input.1` becomes `input_1`.
pub fn identifier(name: &str) -> String {
    let mut text: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .collect();
    if text.is_empty() || text.starts_with(|letter: char| letter.is_ascii_digit()) {
        text.insert(0, 'm');
    }
    text
}

/// The names of the arguments of the entry, inputs first: identifiers, and no two alike.
pub fn argument_names(graph: &Graph) -> Vec<String> {
    let inputs = graph.inputs.iter().map(|id| graph.values[*id].name.as_str());
    let outputs = graph.outputs.iter().map(|(name, _)| name.as_str());
    let mut names: Vec<String> = Vec::new();
    for name in inputs.chain(outputs) {
        let plain = identifier(name);
        let mut unique = plain.clone();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{plain}_{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}
