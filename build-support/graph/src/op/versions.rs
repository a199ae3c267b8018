//! Attributes that operators have from a version on. A model of an older version with such an
//! attribute would have an unintended meaning.

use crate::attrs::Attrs;
use crate::error::{Result, require};

/// The operator, the attribute, and the first version that has it.
const NEWER: [(&str, &str, i64); 6] = [
    ("Attention", "left_window_size", 25),
    ("Attention", "right_window_size", 25),
    ("Cast", "round_mode", 24),
    ("CastLike", "round_mode", 24),
    ("Range", "stash_type", 27),
    ("SpaceToDepth", "mode", 28),
];

/// Checks that a node has no attribute that is newer than the version of the model.
///
/// # Errors
/// Returns an error if it has one.
pub(crate) fn check(name: &str, attrs: &Attrs, version: i64) -> Result<()> {
    for (_, attribute, since) in NEWER.iter().filter(|(operator, ..)| *operator == name) {
        require!(
            version >= *since || attrs.get(attribute).is_none(),
            "attribute `{attribute}` is of version {since} of the operators and newer, and the model uses version {version}"
        );
    }
    Ok(())
}
