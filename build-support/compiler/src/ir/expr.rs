//! Expressions: nodes that compute values.

use core::ops::Deref;

use kernpack::{
    Any, AnyView, Arg, Array, DataType, FromAny, IntoAny, Mismatch, ObjRef, Object, Schema, Str, ToArg, TypeSchema,
};

use super::buffer::Buffer;
use super::dtype::{BOOLEAN, DataTypeExt};
use super::handle::handle;
use super::tensor::{IterVar, Tensor};

handle! {
    /// A reference to an expression; `match &*expr` reads the node.
    Expr => ExprNode
}

/// Arithmetic on two values of one type.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.BinaryOp", enum = "int")]
pub enum BinaryOp {
    /// Sum.
    Add = 0,
    /// Difference.
    Sub = 1,
    /// Product.
    Mul = 2,
    /// Quotient of floats; for integers, rounded toward zero as in C.
    Div = 3,
    /// Remainder of the division that rounds toward zero, with the sign of the dividend.
    Mod = 4,
    /// Quotient of integers, rounded down.
    FloorDiv = 5,
    /// Remainder of the division that rounds down, with the sign of the divisor.
    FloorMod = 6,
    /// Minimum: `a < b ? a : b`.
    Min = 7,
    /// Maximum: `a > b ? a : b`.
    Max = 8,
    /// Bitwise and.
    BitAnd = 9,
    /// Bitwise or.
    BitOr = 10,
    /// Bitwise exclusive or.
    BitXor = 11,
    /// Shift to the left; a shift by the width or more results in 0.
    ShiftLeft = 12,
    /// Shift to the right, arithmetic for signed types; a shift by the width or more shifts out all
    /// bits.
    ShiftRight = 13,
}

impl BinaryOp {
    /// All operations.
    pub const ALL: [Self; 14] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Mod,
        Self::FloorDiv,
        Self::FloorMod,
        Self::Min,
        Self::Max,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::ShiftLeft,
        Self::ShiftRight,
    ];
}

/// A comparison; its value is a truth value for each lane.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.CompareOp", enum = "int")]
pub enum CompareOp {
    /// `==`.
    Eq = 0,
    /// `!=`; true if an operand is NaN.
    Ne = 1,
    /// `<`.
    Lt = 2,
    /// `<=`.
    Le = 3,
    /// `>`.
    Gt = 4,
    /// `>=`.
    Ge = 5,
}

impl CompareOp {
    /// All comparisons.
    pub const ALL: [Self; 6] = [Self::Eq, Self::Ne, Self::Lt, Self::Le, Self::Gt, Self::Ge];

    /// Applies the comparison to two numbers.
    #[inline]
    pub(crate) fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
        }
    }
}

/// A logical connective; both sides are evaluated.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.LogicOp", enum = "int")]
pub enum LogicOp {
    /// Logical and.
    And = 0,
    /// Logical or.
    Or = 1,
}

/// The meaning of the name of a call.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.CallKind", enum = "int")]
pub enum CallKind {
    /// A builtin of the compiler; `ir::builtin` lists them with their effects.
    Builtin = 0,
    /// A C function by its symbol, which may change memory.
    Extern = 1,
    /// A C function by its symbol, whose value depends only on its arguments.
    PureExtern = 2,
    /// An LLVM intrinsic by its name without types (`llvm.sqrt`), whose value depends only on its
    /// arguments.
    LlvmIntrinsic = 3,
    /// A packed function by its global name.
    Packed = 4,
    /// Another function of the same module.
    Function = 5,
}

/// The kinds of expressions. The operands of one operation have one type; `dtype` is the type of
/// the value, including lanes.
#[derive(Object)]
#[object(key = "kernpack.ir.Expr")]
#[repr(C, u32)]
pub enum ExprNode {
    /// An integer or truth value.
    #[object(key = "kernpack.ir.Int")]
    Int {
        /// The type, a scalar.
        dtype: DataType,
        /// The value; for an unsigned 64-bit integer, its bits.
        value: i64,
    },
    /// A floating point number.
    #[object(key = "kernpack.ir.Float")]
    Float {
        /// The type, a scalar.
        dtype: DataType,
        /// The value, exact in `dtype`.
        value: f64,
    },
    /// A string: an argument of a call.
    #[object(key = "kernpack.ir.Text")]
    Text {
        /// The string.
        value: Str,
    },
    /// A variable. Two variables are the same if they are one node.
    #[object(key = "kernpack.ir.Var", structural = "var")]
    Var {
        /// The name, which is not necessarily unique.
        #[field(structural = "ignore")]
        name: Str,
        /// The type.
        dtype: DataType,
        /// True if the variable is an extent, which is never negative.
        size: bool,
    },
    /// A conversion. Float to integer saturates, NaN becomes 0; a wider integer is truncated.
    #[object(key = "kernpack.ir.Cast")]
    Cast {
        /// The new type, with the same number of lanes.
        dtype: DataType,
        /// The value before the conversion.
        value: Expr,
    },
    /// Arithmetic.
    #[object(key = "kernpack.ir.Binary")]
    Binary {
        /// The operation.
        op: BinaryOp,
        /// The left operand.
        a: Expr,
        /// The right operand, of the same type.
        b: Expr,
        /// The type of the operands.
        dtype: DataType,
    },
    /// A comparison.
    #[object(key = "kernpack.ir.Compare")]
    Compare {
        /// The relation.
        op: CompareOp,
        /// The left operand.
        a: Expr,
        /// The right operand, of the same type.
        b: Expr,
    },
    /// A logical and, or a logical or.
    #[object(key = "kernpack.ir.Logic")]
    Logic {
        /// The connective.
        op: LogicOp,
        /// The left operand.
        a: Expr,
        /// The right operand, with the same number of lanes.
        b: Expr,
    },
    /// Negation of a truth value.
    #[object(key = "kernpack.ir.Not")]
    Not {
        /// The operand.
        value: Expr,
    },
    /// A select of two values, both of which are evaluated; per lane if the condition is a vector.
    #[object(key = "kernpack.ir.Select")]
    Select {
        /// A truth value, with one lane or as many lanes as the values.
        condition: Expr,
        /// The value if the condition is true.
        true_value: Expr,
        /// The value if the condition is false.
        false_value: Expr,
    },
    /// A lazy select of two values: only the selected one is evaluated.
    #[object(key = "kernpack.ir.IfThenElse")]
    IfThenElse {
        /// A truth value; a vector only before vector conditions are lowered to masks.
        condition: Expr,
        /// The value if the condition is true.
        then_value: Expr,
        /// The value if the condition is false.
        else_value: Expr,
    },
    /// The vector `base, base + stride, ..`.
    #[object(key = "kernpack.ir.Ramp")]
    Ramp {
        /// The first lane, a scalar integer.
        base: Expr,
        /// The step, of the same type.
        stride: Expr,
        /// The number of lanes, at least 2.
        lanes: u16,
    },
    /// One value in every lane.
    #[object(key = "kernpack.ir.Broadcast")]
    Broadcast {
        /// A scalar.
        value: Expr,
        /// The number of lanes, at least 2.
        lanes: u16,
    },
    /// Lanes selected from the concatenation of vectors.
    #[object(key = "kernpack.ir.Shuffle")]
    Shuffle {
        /// Vectors or scalars of one element type.
        vectors: Array<Expr>,
        /// For each lane of the result, the index of a lane of the concatenation.
        indices: Array<i64>,
    },
    /// A named value inside an expression.
    #[object(key = "kernpack.ir.Let")]
    Let {
        /// The variable.
        #[field(structural = "def")]
        var: Var,
        /// Its value.
        value: Expr,
        /// The scope of the variable.
        body: Expr,
    },
    /// A load from memory.
    #[object(key = "kernpack.ir.Load")]
    Load {
        /// The buffer that is read.
        buffer: Buffer,
        /// The index in elements, relative to the buffer's data pointer; a vector loads one lane
        /// from each index.
        index: Expr,
        /// The lanes that are read; the others are 0. Without a mask, all lanes are read.
        #[field(default = None)]
        mask: Option<Expr>,
        /// The buffer's element type with the lanes of the index (times the buffer's own).
        dtype: DataType,
    },
    /// A read of an element of a tensor, before storage flattening.
    #[object(key = "kernpack.ir.TensorRead")]
    TensorRead {
        /// The tensor.
        tensor: Tensor,
        /// An index for each dimension.
        indices: Array<Expr>,
    },
    /// A call.
    #[object(key = "kernpack.ir.Call")]
    Call {
        /// The meaning of the name.
        kind: CallKind,
        /// The name of the callee.
        name: Str,
        /// The arguments.
        args: Array<Expr>,
        /// The type of the value.
        dtype: DataType,
    },
    /// A reduction; only allowed as the whole body of a computed tensor.
    #[object(key = "kernpack.ir.Reduce")]
    Reduce {
        /// The function that combines two partial results.
        reducer: Reducer,
        /// The source expressions, one for each result.
        sources: Array<Expr>,
        /// The reduction axes.
        axes: Array<IterVar>,
        /// The condition for an element to take part in the reduction.
        condition: Expr,
        /// The initial values that replace the identity, one for each result; empty if there are
        /// none.
        init: Array<Expr>,
        /// The index of the result that this expression represents.
        value_index: i64,
    },
}

handle! {
    /// A reference to a reducer.
    Reducer => ReducerNode
}

/// A commutative and associative function of partial results, as expressions over variables for
/// both sides.
#[derive(Object)]
#[object(key = "kernpack.ir.Reducer")]
#[repr(C)]
pub struct ReducerNode {
    /// The variables of the left partial results.
    #[field(structural = "def")]
    pub lhs: Array<Var>,
    /// The variables of the right partial results.
    #[field(structural = "def")]
    pub rhs: Array<Var>,
    /// The combined results.
    pub results: Array<Expr>,
    /// The results of an empty reduction.
    pub identity: Array<Expr>,
}

/// A variable: an [`Expr`] that is an [`ExprNode::Var`].
#[derive(Clone, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Var(Expr);

impl Var {
    /// Creates a variable.
    pub fn new(name: impl AsRef<str>, dtype: DataType) -> Self {
        Self(Expr::from_node(ExprNode::Var { name: name.as_ref().into(), dtype, size: false }))
    }

    /// Creates an extent: an integer that is never negative.
    pub fn size(name: impl AsRef<str>, dtype: DataType) -> Self {
        Self(Expr::from_node(ExprNode::Var { name: name.as_ref().into(), dtype, size: true }))
    }

    /// Creates an index variable.
    pub fn index(name: impl AsRef<str>) -> Self {
        Self::new(name, super::dtype::I64)
    }

    /// Creates a variable of the same type with another name.
    pub fn renamed(&self, name: impl AsRef<str>) -> Self {
        Self(Expr::from_node(ExprNode::Var { name: name.as_ref().into(), dtype: self.dtype(), size: self.is_size() }))
    }

    /// The expression as a variable, if it is one.
    pub fn of(expr: &Expr) -> Option<Self> {
        matches!(**expr, ExprNode::Var { .. }).then(|| Self(expr.clone()))
    }

    /// The name of the variable.
    pub fn name(&self) -> &str {
        match &*self.0 {
            ExprNode::Var { name, .. } => name.as_str(),
            _ => unreachable!("a Var is a variable"),
        }
    }

    /// Returns true if the variable is an extent.
    pub fn is_size(&self) -> bool {
        matches!(*self.0, ExprNode::Var { size: true, .. })
    }

    /// The variable as an expression.
    pub fn expr(&self) -> &Expr {
        &self.0
    }
}

impl Deref for Var {
    type Target = Expr;

    fn deref(&self) -> &Expr {
        &self.0
    }
}

impl From<Var> for Expr {
    fn from(var: Var) -> Self {
        var.0
    }
}

impl From<&Var> for Expr {
    fn from(var: &Var) -> Self {
        var.0.clone()
    }
}

impl Schema for Var {
    const TYPE: TypeSchema = TypeSchema::new("kernpack.ir.Var");
}

impl IntoAny for Var {
    fn into_any(self) -> Any {
        self.0.into_any()
    }
}

impl<'a> FromAny<'a> for Var {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let expr = Expr::from_any(value)?;
        Self::of(&expr).ok_or_else(|| Mismatch::value("expected a variable, got another expression".to_owned()))
    }
}

impl ToArg for Var {
    fn to_arg(&self) -> Arg<'_> {
        self.0.to_arg()
    }
}

impl From<Var> for ObjRef<ExprNode> {
    fn from(var: Var) -> Self {
        var.0.into()
    }
}

impl ExprNode {
    /// The type of the value.
    pub fn dtype(&self) -> DataType {
        // A loop instead of recursion, because conditions and selects may be nested deeply. They
        // have the type of the innermost operand, or are truth values with its lanes.
        let (mut node, mut is_truth) = (self, false);
        loop {
            let dtype = match node {
                Self::Int { dtype, .. }
                | Self::Float { dtype, .. }
                | Self::Var { dtype, .. }
                | Self::Cast { dtype, .. }
                | Self::Binary { dtype, .. }
                | Self::Load { dtype, .. }
                | Self::Call { dtype, .. } => *dtype,
                Self::Text { .. } => super::dtype::POINTER,
                Self::Compare { a: value, .. } | Self::Logic { a: value, .. } | Self::Not { value } => {
                    is_truth = true;
                    node = value;
                    continue;
                }
                Self::Select { true_value: value, .. }
                | Self::IfThenElse { then_value: value, .. }
                | Self::Let { body: value, .. } => {
                    node = value;
                    continue;
                }
                Self::Ramp { base: value, lanes, .. } | Self::Broadcast { value, lanes } => {
                    // The inner value is a scalar.
                    if is_truth {
                        return BOOLEAN.with_lanes(*lanes);
                    }
                    super::with_stack(|| value.dtype()).with_lanes(*lanes)
                }
                Self::Shuffle { vectors, indices } => {
                    let first = vectors.get(0).map_or(BOOLEAN, |vector| super::with_stack(|| vector.dtype()));
                    first.with_lanes(u16::try_from(indices.len()).unwrap_or(u16::MAX))
                }
                Self::TensorRead { tensor, .. } => tensor.dtype,
                Self::Reduce { sources, value_index, .. } => {
                    let index = usize::try_from(*value_index).unwrap_or(0);
                    sources.get(index).map_or(BOOLEAN, |source| super::with_stack(|| source.dtype()))
                }
            };
            return if is_truth { BOOLEAN.with_lanes(dtype.lanes()) } else { dtype };
        }
    }

    /// The number of lanes of the value.
    pub fn lanes(&self) -> u16 {
        self.dtype().lanes()
    }

    /// The value of a constant integer or truth value.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The value of a constant float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Returns true for the constant truth value `true`, in every lane.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Int { dtype, value } => dtype.is_bool() && *value != 0,
            Self::Broadcast { value, .. } => value.is_true(),
            _ => false,
        }
    }

    /// Returns true for the constant truth value `false`, in every lane.
    pub fn is_false(&self) -> bool {
        match self {
            Self::Int { dtype, value } => dtype.is_bool() && *value == 0,
            Self::Broadcast { value, .. } => value.is_false(),
            _ => false,
        }
    }

    /// Returns true for this constant integer.
    pub fn is_int(&self, expected: i64) -> bool {
        matches!(self, Self::Int { value, .. } if *value == expected)
    }
}
