//! Names that are valid in all languages.

use crate::graph::Graph;

/// Converts a name of a model to one that is valid in all languages: `input.1` becomes `input_1`.
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

/// Returns the names of the arguments of the entry, inputs first: unique identifiers.
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
