//! Axes: the index variables of tensor elements.

use core::fmt;
use core::panic::Location;

use super::exprs::{as_index, describe};
use crate::error::{CompileError, ErrorKind, place, report};
use crate::ir::{DataTypeExt, Expr, I64, IterKind, IterVar, IterVarNode, Range, Var};

/// Creates a reduction axis over `min .. min + extent`.
///
/// An extent that is not an integer, or is a negative constant, is reported.
#[track_caller]
pub fn reduce_axis(min: impl Into<Expr>, extent: impl Into<Expr>, name: &str) -> IterVar {
    let here = Location::caller();
    let range = checked_range(&format!("reduce_axis `{name}`"), min.into(), extent.into(), here);
    axis_of(name, Some(range), IterKind::CommReduce, "", here)
}

/// Creates an axis that is a device thread: `threadIdx.x`, `blockIdx.y`, `vthread`, `cthread`; for
/// `Stage::bind`. Without an extent, it gets that of the loop that is bound to it.
#[track_caller]
pub fn thread_axis(extent: Option<i64>, tag: &str) -> IterVar {
    let here = Location::caller();
    let known = ["threadIdx.", "blockIdx."]
        .iter()
        .any(|prefix| tag.strip_prefix(prefix).is_some_and(|dimension| matches!(dimension, "x" | "y" | "z")));
    if !known && !tag.starts_with("vthread") && tag != "cthread" {
        let error = CompileError::new(ErrorKind::Type, format!("thread_axis: unknown thread `{tag}`"))
            .at(place(here))
            .note("there are threadIdx.x, .y, .z, blockIdx.x, .y, .z, vthread and cthread");
        report(error);
    }
    let range = extent.map(|extent| checked_range(&format!("thread_axis `{tag}`"), Expr::int(0), extent.into(), here));
    axis_of(tag, range, IterKind::ThreadIndex, tag, here)
}

pub(crate) fn axis_of(name: &str, dom: Option<Range>, kind: IterKind, tag: &str, here: &Location<'_>) -> IterVar {
    IterVar::from_node(IterVarNode {
        dom,
        var: Var::index(name),
        kind,
        thread_tag: tag.into(),
        span: place(here).into(),
    })
}

fn checked_range(what: &str, min: Expr, extent: Expr, here: &Location<'_>) -> Range {
    let min = checked_extent(&format!("{what}: the minimum"), min, i64::MIN, here);
    let extent = checked_extent(&format!("{what}: the extent"), extent, 0, here);
    Range::new(min, extent)
}

/// Checks that a value is a scalar integer and, if constant, at least `least`; converts it to 64
/// bits. Otherwise reports an error and returns 1.
pub(crate) fn checked_extent(what: &str, value: Expr, least: i64, here: &Location<'_>) -> Expr {
    let value = as_index(value);
    let error = if super::operation::reads_tensor(&value) {
        format!("{what} depends on the elements of a tensor")
    } else if value.dtype() != I64 {
        format!("{what} is {} of type {}, not an integer", describe(&value), value.dtype().short_name())
    } else if value.as_int().is_some_and(|value| value < least) {
        format!("{what} is {}, less than {least}", describe(&value))
    } else {
        return value;
    };
    report(CompileError::new(ErrorKind::Type, error).at(place(here)));
    Expr::int(1)
}

impl From<IterVar> for Expr {
    fn from(axis: IterVar) -> Self {
        axis.var.expr().clone()
    }
}

impl IterVar {
    /// The name of the axis.
    pub fn name(&self) -> &str {
        self.var.name()
    }

    /// The number of values of the axis, if it is known initially.
    pub fn extent(&self) -> Option<&Expr> {
        self.dom.as_ref().map(|dom| &dom.extent)
    }

    /// The variable as an expression.
    pub fn expr(&self) -> Expr {
        self.into()
    }

    /// The variable, converted to another type.
    pub fn cast(&self, dtype: kernpack::DataType) -> Expr {
        self.expr().cast(dtype)
    }
}

/// Defines the methods that axes share with expressions.
macro_rules! as_expr {
    ($($(#[$meta:meta])* $method:ident;)*) => {
        impl IterVar {
            $(
                $(#[$meta])*
                #[track_caller]
                pub fn $method(&self, other: impl Into<Expr>) -> Expr {
                    self.expr().$method(other)
                }
            )*
        }
    };
}

as_expr! {
    /// `self == other`.
    equals;
    /// `self != other`.
    differs;
    /// `self < other`.
    less;
    /// `self <= other`.
    less_equal;
    /// `self > other`.
    greater;
    /// `self >= other`.
    greater_equal;
    /// The minimum.
    min;
    /// The maximum.
    max;
    /// Quotient, rounded down.
    floor_div;
    /// Remainder with the sign of the divisor.
    floor_mod;
}

impl fmt::Debug for IterVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis {}", self.name())
    }
}
