//! Attributes of older versions of operators beside the inputs that took their place.

use crate::attrs::Attrs;
use crate::error::{Result, require};

/// The attributes of an operator that give the same as an input, with the number of the input.
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

/// Checks that a node does not have both an attribute and the input that gives the same.
///
/// # Errors
/// It has both.
pub(crate) fn check<T>(name: &str, attrs: &Attrs, inputs: &[Option<T>]) -> Result<()> {
    for (attribute, input) in pairs(name) {
        let has_both = attrs.get(attribute).is_some() && inputs.get(*input).is_some_and(Option::is_some);
        require!(!has_both, "attribute `{attribute}` and input {input} give the same: expected one of them, got both");
    }
    Ok(())
}
