//! Checks of data that an operator depends on: divisors of integers, and indices.
//!
//! Kernels of the operators below clamp an index, or ignore its element, so that it never accesses
//! other memory. These checks turn such a mistake in the data, which would give wrong results, into
//! an error that names the node.

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, U64};

use super::{NodeOp, call, image};
use crate::attrs::Attrs;
use crate::constant::{Constant, num_elements, stored};
use crate::error::Result;

/// The shape and the element type of an input. `None` for a missing one.
pub(crate) type Input<'a> = Option<(&'a [i64], DataType)>;

/// A condition on all elements of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// The index of the input.
    pub(crate) input: usize,
    /// The index of the input in the model.
    pub(crate) shown: usize,
    /// The index along the last axis, if only those elements are checked.
    pub(crate) column: Option<i64>,
    /// The condition.
    pub(crate) demand: Demand,
}

/// The condition that elements must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// An integer that is not zero.
    NotZero,
    /// An integer in a range.
    Within {
        /// The least one.
        low: i64,
        /// The largest one.
        high: i64,
        /// A number out of the range that is also allowed.
        except: Option<i64>,
        /// The noun of messages: `index`.
        noun: &'static str,
    },
}

impl Demand {
    /// Returns the kind of the error.
    pub(crate) fn error_kind(&self) -> &'static str {
        match self {
            Self::NotZero => "ValueError",
            Self::Within { .. } => "IndexError",
        }
    }

    fn holds(&self, value: i64) -> bool {
        match self {
            Self::NotZero => value != 0,
            Self::Within { low, high, except, .. } => (*low..=*high).contains(&value) || *except == Some(value),
        }
    }
}

impl Check {
    /// Returns the message about an input named `name`. `found` is an element that violates the
    /// check, if it is known.
    pub(crate) fn message(&self, name: &str, found: Option<i128>) -> String {
        let input = self.shown;
        match &self.demand {
            Demand::NotZero => {
                format!("division by zero: input {input} ('{name}'), the divisor, is zero in at least one element")
            }
            Demand::Within { low, high, except, noun } => {
                let found = found.map_or_else(|| "an element".to_owned(), |found| found.to_string());
                let column = self.column.map_or_else(String::new, |column| format!(" of column {column}"));
                let except = except.map_or_else(String::new, |except| format!(", or {except}"));
                if high < low {
                    return format!(
                        "{noun} out of range: {found}{column} of input {input} ('{name}'); there is nothing to choose from"
                    );
                }
                format!(
                    "{noun} out of range: {found}{column} of input {input} ('{name}') is not in the range {low} to {high}{except}"
                )
            }
        }
    }

    /// Returns the first known element that violates the condition.
    ///
    /// # Errors
    /// Returns an error for elements that are not integers.
    pub(crate) fn first_misfit(&self, known: &Constant) -> Result<Option<i128>> {
        let values = known.to_int_bits()?;
        // A number that is too large for a signed integer is out of every range, and not zero.
        let is_unsigned = known.dtype() == U64;
        let fits = |value: i64| {
            if is_unsigned && value < 0 { self.demand == Demand::NotZero } else { self.demand.holds(value) }
        };
        let columns = known.shape().last().and_then(|extent| usize::try_from(*extent).ok()).unwrap_or(1).max(1);
        let first = self.column.and_then(|column| usize::try_from(column).ok());
        let step = if first.is_some() { columns } else { 1 };
        let found = values.into_iter().skip(first.unwrap_or(0)).step_by(step).find(|value| !fits(*value));
        let exact = |value: i64| if is_unsigned { i128::from(value.cast_unsigned()) } else { i128::from(value) };
        Ok(found.map(exact))
    }
}

/// Returns the checks of a node. Inputs and attributes must match the operator.
///
/// # Errors
/// Returns an error for attributes of another type.
pub(crate) fn checks(op: &NodeOp, attrs: &Attrs, inputs: &[Input<'_>]) -> Result<Vec<Check>> {
    let Some(listed) = op.listed() else { return Ok(Vec::new()) };
    let input = |index: usize| inputs.get(index).copied().flatten();
    let shape = |index: usize| input(index).map_or(&[][..], |(shape, _)| shape);
    let extent = |index: usize, axis: i64| -> Result<i64> {
        let axis = call::axis_of(axis, shape(index).len())?;
        Ok(shape(index)[axis])
    };
    let one = |input: usize, demand: Demand| vec![Check { input, shown: input, column: None, demand }];
    // Indices may count from the end if the operator allows it.
    let signed = |extent: i64| Demand::Within { low: -extent, high: extent - 1, except: None, noun: "index" };
    let within = |high: i64, noun: &'static str| Demand::Within { low: 0, high, except: None, noun };
    let found = match listed.name {
        "Div" | "Mod" => one(1, Demand::NotZero),
        "Reciprocal" => one(0, Demand::NotZero),
        "Gather" | "GatherElements" | "Scatter" | "ScatterElements" => {
            one(1, signed(extent(0, attrs.int("axis", 0)?)?))
        }
        "GatherND" | "ScatterND" => {
            let batch = usize::try_from(attrs.int("batch_dims", 0)?).unwrap_or(0);
            let columns = shape(1).last().copied().unwrap_or(0);
            let extents = shape(0).iter().skip(batch);
            let columns = (0..columns).zip(extents);
            columns
                .map(|(column, extent)| Check { input: 1, shown: 1, column: Some(column), demand: signed(*extent) })
                .collect()
        }
        "ReverseSequence" => one(1, within(extent(0, attrs.int("time_axis", 0)?)?, "length")),
        // The importer multiplied the inputs 0 and 1, and added the input 3.
        "RNN" | "GRU" | "LSTM" => {
            vec![Check { input: 3, shown: 4, column: None, demand: within(extent(0, 0)?, "length") }]
        }
        "TensorScatter" if attrs.text("mode", "linear")? == "linear" => {
            let axis = attrs.int("axis", -2)?;
            one(2, within(extent(0, axis)? - extent(1, axis)?, "index"))
        }
        "Attention" => one(6, within(if shape(1).len() == 3 { extent(1, 1)? } else { extent(1, 2)? }, "length")),
        "RotaryEmbedding" => one(3, within(extent(1, 0)? - 1, "place")),
        "RoiAlign" => one(2, within(extent(0, 0)? - 1, "number of an image")),
        "ArrayFeatureExtractor" => one(1, within(extent(0, -1)? - 1, "index")),
        "MaxUnpool" => one(1, within(pooled(attrs, shape(0))?, "index")),
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => {
            let except = attrs.find_int("ignore_index")?;
            one(1, Demand::Within { low: 0, high: extent(0, 1)? - 1, except, noun: "class" })
        }
        _ => Vec::new(),
    };
    // Float division is not checked, and an empty tensor meets every condition.
    let applies = |check: &Check| input(check.input).is_some_and(|(shape, dtype)| is_int(dtype) && !shape.contains(&0));
    Ok(found.into_iter().filter(applies).collect())
}

fn is_int(dtype: DataType) -> bool {
    stored(dtype).is_integer() && dtype.is_integer()
}

/// Returns the largest index of the elements that `MaxUnpool` restores.
fn pooled(attrs: &Attrs, shape: &[i64]) -> Result<i64> {
    Ok(i64::try_from(num_elements(&image::unpooled(attrs, shape)?)?).unwrap_or(i64::MAX) - 1)
}
