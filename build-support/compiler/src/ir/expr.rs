//! Expressions: values without a place in time.

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
    /// Quotient of floats; of integers, rounded to zero as in C.
    Div = 3,
    /// Remainder of the division that rounds to zero; its sign is the dividend's.
    Mod = 4,
    /// Quotient of integers, rounded down.
    FloorDiv = 5,
    /// Remainder of the division that rounds down; its sign is the divisor's.
    FloorMod = 6,
    /// The smaller one: `a < b ? a : b`.
    Min = 7,
    /// The larger one: `a > b ? a : b`.
    Max = 8,
    /// Bits of both.
    BitAnd = 9,
    /// Bits of either.
    BitOr = 10,
    /// Bits of one.
    BitXor = 11,
    /// Shift to the left; by the width or more gives 0.
    ShiftLeft = 12,
    /// Shift to the right, with the sign for signed types; by the width or more shifts all bits out.
    ShiftRight = 13,
}

impl BinaryOp {
    /// All of them.
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
    /// `!=`; true when a float is NaN.
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
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Eq, Self::Ne, Self::Lt, Self::Le, Self::Gt, Self::Ge];

    /// Compares two numbers.
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

/// A connective of truth values; both sides are evaluated.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.LogicOp", enum = "int")]
pub enum LogicOp {
    /// Both.
    And = 0,
    /// One at least.
    Or = 1,
}

/// What the name of a call means.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.CallKind", enum = "int")]
pub enum CallKind {
    /// A builtin of the compiler; `ir::builtin` lists them with their effects.
    Builtin = 0,
    /// A C function by its symbol, which may change memory.
    Extern = 1,
    /// A C function by its symbol, whose value depends on its arguments alone.
    PureExtern = 2,
    /// An intrinsic of LLVM by its name without types (`llvm.sqrt`), whose value depends on its arguments alone.
    LlvmIntrinsic = 3,
    /// A packed function by its global name.
    Packed = 4,
    /// Another function of the same module.
    Function = 5,
}

/// What an expression is. Operands of one operation have one type; `dtype` is the type of the value, lanes included.
#[derive(Object)]
#[object(key = "kernpack.ir.Expr")]
#[repr(C, u32)]
pub enum ExprNode {
    /// An integer or truth value.
    #[object(key = "kernpack.ir.Int")]
    Int {
        /// Scalar.
        dtype: DataType,
        /// The value; the bits of one of 64 unsigned bits.
        value: i64,
    },
    /// A floating point number.
    #[object(key = "kernpack.ir.Float")]
    Float {
        /// Scalar.
        dtype: DataType,
        /// The value, exact in `dtype`.
        value: f64,
    },
    /// Text: an argument of a call.
    #[object(key = "kernpack.ir.Text")]
    Text {
        /// The text.
        value: Str,
    },
    /// A variable: two are the same if they are one node.
    #[object(key = "kernpack.ir.Var", structural = "var")]
    Var {
        /// What it is called; need not be unique.
        #[field(structural = "ignore")]
        name: Str,
        /// Its type.
        dtype: DataType,
        /// Whether it is an extent, which is never negative.
        size: bool,
    },
    /// A conversion. Float to integer saturates, NaN gives 0; a wider integer is cut.
    #[object(key = "kernpack.ir.Cast")]
    Cast {
        /// The new type; the number of lanes stays.
        dtype: DataType,
        /// What is converted.
        value: Expr,
    },
    /// Arithmetic.
    #[object(key = "kernpack.ir.Binary")]
    Binary {
        /// The operation.
        op: BinaryOp,
        /// Left.
        a: Expr,
        /// Right, of the same type.
        b: Expr,
        /// The operands' type.
        dtype: DataType,
    },
    /// A comparison.
    #[object(key = "kernpack.ir.Compare")]
    Compare {
        /// The relation.
        op: CompareOp,
        /// Left.
        a: Expr,
        /// Right, of the same type.
        b: Expr,
    },
    /// And, or.
    #[object(key = "kernpack.ir.Logic")]
    Logic {
        /// The connective.
        op: LogicOp,
        /// Left.
        a: Expr,
        /// Right, with the same number of lanes.
        b: Expr,
    },
    /// Negation of a truth value.
    #[object(key = "kernpack.ir.Not")]
    Not {
        /// What is negated.
        value: Expr,
    },
    /// One of two values, both of which are evaluated; for each lane if the condition is a vector.
    #[object(key = "kernpack.ir.Select")]
    Select {
        /// A truth value, with one lane or as many as the values.
        condition: Expr,
        /// The value where it holds.
        true_value: Expr,
        /// The value where it does not.
        false_value: Expr,
    },
    /// One of two values, of which only that one is evaluated.
    #[object(key = "kernpack.ir.IfThenElse")]
    IfThenElse {
        /// A truth value; a vector only before vector conditions are lowered to masks.
        condition: Expr,
        /// The value where it holds.
        then_value: Expr,
        /// The value where it does not.
        else_value: Expr,
    },
    /// `base, base + stride, ..`.
    #[object(key = "kernpack.ir.Ramp")]
    Ramp {
        /// The first lane, a scalar integer.
        base: Expr,
        /// The step, of the same type.
        stride: Expr,
        /// How many, 2 or more.
        lanes: u16,
    },
    /// One value in every lane.
    #[object(key = "kernpack.ir.Broadcast")]
    Broadcast {
        /// A scalar.
        value: Expr,
        /// How many, 2 or more.
        lanes: u16,
    },
    /// Lanes taken from vectors laid side by side.
    #[object(key = "kernpack.ir.Shuffle")]
    Shuffle {
        /// Vectors or scalars of one element type.
        vectors: Array<Expr>,
        /// Which lane of all, for each lane of the result.
        indices: Array<i64>,
    },
    /// A value with a name inside an expression.
    #[object(key = "kernpack.ir.Let")]
    Let {
        /// The name.
        #[field(structural = "def")]
        var: Var,
        /// Its value.
        value: Expr,
        /// Where it has that name.
        body: Expr,
    },
    /// Reads memory.
    #[object(key = "kernpack.ir.Load")]
    Load {
        /// From where.
        buffer: Buffer,
        /// In elements from the buffer's data pointer; a vector loads a lane from each place.
        index: Expr,
        /// Lanes that are read; the others are 0. Without it all are.
        #[field(default = None)]
        mask: Option<Expr>,
        /// The buffer's element type with the lanes of the index (times the buffer's own).
        dtype: DataType,
    },
    /// Reads an element of a tensor. Before storage is flattened.
    #[object(key = "kernpack.ir.TensorRead")]
    TensorRead {
        /// Which tensor.
        tensor: Tensor,
        /// One for each dimension.
        indices: Array<Expr>,
    },
    /// A call.
    #[object(key = "kernpack.ir.Call")]
    Call {
        /// What the name means.
        kind: CallKind,
        /// What is called.
        name: Str,
        /// The arguments.
        args: Array<Expr>,
        /// The type of the value.
        dtype: DataType,
    },
    /// A reduction; only as the whole body of a computed tensor.
    #[object(key = "kernpack.ir.Reduce")]
    Reduce {
        /// How two partial results become one.
        reducer: Reducer,
        /// What is reduced, one for each result.
        sources: Array<Expr>,
        /// Over what.
        axes: Array<IterVar>,
        /// Elements for which it does not hold are left out.
        condition: Expr,
        /// What it begins with in place of the identity, one for each result, or none.
        init: Array<Expr>,
        /// Which result this expression is.
        value_index: i64,
    },
}

handle! {
    /// A reference to a reducer.
    Reducer => ReducerNode
}

/// A commutative and associative function of partial results, as expressions over variables for both sides.
#[derive(Object)]
#[object(key = "kernpack.ir.Reducer")]
#[repr(C)]
pub struct ReducerNode {
    /// Variables of the left partial results.
    #[field(structural = "def")]
    pub lhs: Array<Var>,
    /// Variables of the right ones.
    #[field(structural = "def")]
    pub rhs: Array<Var>,
    /// The combined results.
    pub results: Array<Expr>,
    /// The results of nothing.
    pub identity: Array<Expr>,
}

/// A variable: an [`Expr`] that is an [`ExprNode::Var`].
#[derive(Clone, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Var(Expr);

impl Var {
    /// A new variable.
    pub fn new(name: impl AsRef<str>, dtype: DataType) -> Self {
        Self(Expr::from_node(ExprNode::Var { name: name.as_ref().into(), dtype, size: false }))
    }

    /// A new extent: an integer that is never negative.
    pub fn size(name: impl AsRef<str>, dtype: DataType) -> Self {
        Self(Expr::from_node(ExprNode::Var { name: name.as_ref().into(), dtype, size: true }))
    }

    /// A new index variable.
    pub fn index(name: impl AsRef<str>) -> Self {
        Self::new(name, super::dtype::I64)
    }

    /// A new variable of the same type under another name.
    pub fn renamed(&self, name: impl AsRef<str>) -> Self {
        Self(Expr::from_node(ExprNode::Var { name: name.as_ref().into(), dtype: self.dtype(), size: self.is_size() }))
    }

    /// The expression as a variable, if it is one.
    pub fn of(expr: &Expr) -> Option<Self> {
        matches!(**expr, ExprNode::Var { .. }).then(|| Self(expr.clone()))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        match &*self.0 {
            ExprNode::Var { name, .. } => name.as_str(),
            _ => unreachable!("a Var is a variable"),
        }
    }

    /// Whether it is an extent.
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
        // A loop: conditions and choices may be nested deeply, and have the type of the innermost operand, or are truth values with its lanes.
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
                    // What is inside is a scalar.
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

    /// How many lanes the value has.
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

    /// Whether it is the constant truth value `true`, in every lane.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Int { dtype, value } => dtype.is_bool() && *value != 0,
            Self::Broadcast { value, .. } => value.is_true(),
            _ => false,
        }
    }

    /// Whether it is the constant truth value `false`, in every lane.
    pub fn is_false(&self) -> bool {
        match self {
            Self::Int { dtype, value } => dtype.is_bool() && *value == 0,
            Self::Broadcast { value, .. } => value.is_false(),
            _ => false,
        }
    }

    /// Whether it is this constant integer.
    pub fn is_int(&self, expected: i64) -> bool {
        matches!(self, Self::Int { value, .. } if *value == expected)
    }
}
