//! The ways in which a caller can fix a problem, in terms of the interface of each language.

/// The interface that the reader of an error uses.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    /// A build script, with the methods of `kernpack_build::Model`.
    BuildScript,
    /// A call of `kernpack.graph.from_onnx`, with Python keywords.
    Python,
}

/// Returns an operator with its domain, as messages and callers name it: `com.example.Swish`.
pub(crate) fn full_name(domain: &str, name: &str) -> String {
    if domain.is_empty() { name.to_owned() } else { format!("{domain}.{name}") }
}

/// A way in which a caller can fix a problem.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Set the extents of named dimensions, or of the whole input.
    Dims {
        /// The input.
        input: String,
        /// The name of an unknown dimension, if one has a name.
        dim: Option<String>,
    },
    /// Set the extents of an input.
    Shape(String),
    /// Set the tensors of a sequence input.
    Sequence(String),
    /// Set one extent of a dimension.
    Extent(String),
    /// Set one extent of a dimension, or several that a call may have.
    Extents(String),
    /// The same, or multiples of a number.
    Multiples(String),
    /// Set the value of an input that must be known.
    Constant,
    /// Set the maximum number of iterations of the loop with this name.
    Bound(String),
    /// Allow weights that are NaN.
    AllowNan,
    /// Define an operator.
    Operator {
        /// The domain.
        domain: String,
        /// The name.
        name: String,
    },
}

impl Fix {
    /// Returns the sentence after the problem.
    pub(super) fn told_to(&self, caller: Caller) -> String {
        use Caller::{BuildScript, Python};
        match (self, caller) {
            (Self::Dims { input, dim: Some(dim) }, BuildScript) => {
                format!("say `.dim(\"{dim}\", extent)`, or `.input(\"{input}\", [..])` with all extents")
            }
            (Self::Dims { input, dim: Some(dim) }, Python) => {
                format!("say `dims={{\"{dim}\": extent}}`, or `inputs={{\"{input}\": [..]}}` with all extents")
            }
            (Self::Dims { input, dim: None }, _) => Self::Shape(input.clone()).told_to(caller),
            (Self::Shape(input), BuildScript) => format!("say all extents, `.input(\"{input}\", [..])`"),
            (Self::Shape(input), Python) => format!("say all extents, `inputs={{\"{input}\": [..]}}`"),
            (Self::Sequence(input), BuildScript) => {
                format!("say the shapes of its tensors, `.sequence(\"{input}\", [vec![..], ..])`")
            }
            (Self::Sequence(input), Python) => {
                format!("say the shapes of its tensors, `sequences={{\"{input}\": [[..], ..]}}`")
            }
            (Self::Extent(dim), BuildScript) => format!("say one extent, `.dim(\"{dim}\", extent)`"),
            (Self::Extent(dim), Python) => format!("say one extent, `dims={{\"{dim}\": extent}}`"),
            (Self::Extents(dim), BuildScript) => {
                format!(
                    "say one extent, `.dim(\"{dim}\", extent)`, or several that a call may have, `.dim_in(\"{dim}\", [..])`"
                )
            }
            (Self::Extents(dim), Python) => {
                format!(
                    "say one extent, `dims={{\"{dim}\": extent}}`, or several that a call may have, `dims_in={{\"{dim}\": [..]}}`"
                )
            }
            (Self::Multiples(dim), BuildScript) => {
                format!(
                    "{}, or multiples of a number, if the model divides it, `.dim_range(\"{dim}\", (least..=most).step_by(number))`",
                    Self::Extents(dim.clone()).told_to(caller)
                )
            }
            (Self::Multiples(dim), Python) => {
                format!(
                    "{}, or multiples of a number, if the model divides it, `dims_range={{\"{dim}\": [least, most, number]}}`",
                    Self::Extents(dim.clone()).told_to(caller)
                )
            }
            (Self::Constant, BuildScript) => {
                "if it is an input of the model, say what it always is, `.constant_ints(name, &shape, &values)`".into()
            }
            (Self::Constant, Python) => {
                "if it is an input of the model, say what it always is, `constants={name: value}`".into()
            }
            (Self::Bound(node), BuildScript) => {
                format!("say how many rounds there are at most, `.bound(\"{node}\", rounds)`")
            }
            (Self::Bound(node), Python) => {
                format!("say how many rounds there are at most, `bounds={{\"{node}\": rounds}}`")
            }
            (Self::AllowNan, BuildScript) => {
                "train or export the model again, or say `.allow_nan()` if that is meant".into()
            }
            (Self::AllowNan, Python) => {
                "train or export the model again, or say `allow_nan=True` if that is meant".into()
            }
            (Self::Operator { domain, name }, BuildScript) => {
                format!("say what it computes, `.operator(CustomOperator::new(\"{domain}\", \"{name}\", |call| ..))`")
            }
            (Self::Operator { domain, name }, Python) => {
                format!("say what it computes, `operators={{\"{}\": compute}}`", full_name(domain, name))
            }
        }
    }
}
