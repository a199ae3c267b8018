//! Attributes of older operator versions together with the inputs that replaced them.

use crate::attrs::Attrs;
use crate::error::{Result, require};

/// Returns the attributes of an operator that are equivalent to an input, with the index of the
/// input.
fn pairs(name: &str) -> &'static [(&'static str, usize)] {
    match name {
        "Clip" => &[("min", 1), ("max", 2)],
        "DFT" => &[("axis", 2)],
        "Dropout" => &[("ratio", 1)],
        "Pad" => &[("pads", 1), ("value", 2)],
        "Reshape" => &[("shape", 1)],
        "Slice" => &[("starts", 1), ("ends", 2), ("axes", 3)],
        "Split" => &[("split", 1), ("num_outputs", 1)],
        "Squeeze" | "Unsqueeze" => &[("axes", 1)],
        "TopK" => &[("k", 1)],
        "Upsample" => &[("scales", 1)],
        name if name.starts_with("Reduce") => &[("axes", 1)],
        _ => &[],
    }
}

/// Checks that a node does not have both an attribute and the equivalent input.
///
/// # Errors
/// Returns an error if it has both.
pub(crate) fn check<T>(name: &str, attrs: &Attrs, inputs: &[Option<T>]) -> Result<()> {
    for (attribute, input) in pairs(name) {
        let has_both = attrs.get(attribute).is_some() && inputs.get(*input).is_some_and(Option::is_some);
        require!(!has_both, "attribute `{attribute}` and input {input} give the same: expected one of them, got both");
    }
    Ok(())
}
