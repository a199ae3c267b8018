//! Building blocks for operators that are written with statements instead of plain tensor
//! expressions: variables, loops, sorting.

use kernpack::DataType;
use kernpack_compiler::ir::{Buffer, Expr, ForKind, I64, Stmt, StmtNode, Var};

use super::call::flatten;

/// A mutable variable.
pub struct Variable(Buffer);

impl Variable {
    /// Declares a variable without a value. [`Variable::begin`] allocates memory for it.
    pub fn new(name: &str, dtype: DataType) -> Self {
        Self(Buffer::new(name, dtype, [Expr::int(1)], "local"))
    }

    /// Declares a count or an index.
    pub fn index(name: &str) -> Self {
        Self::new(name, I64)
    }

    /// Allocates memory for it until the end of the body, and sets its first value.
    pub fn begin(&self, value: impl Into<Expr>) -> Stmt {
        Stmt::seq([Stmt::alloc(self.0.clone()), self.set(value)])
    }

    /// Returns its value.
    pub fn get(&self) -> Expr {
        Expr::load(&self.0, Expr::int(0))
    }

    /// Sets its value.
    pub fn set(&self, value: impl Into<Expr>) -> Stmt {
        self.0.write([0], value)
    }

    /// Adds to it.
    pub fn add(&self, value: impl Into<Expr>) -> Stmt {
        self.set(self.get() + value.into())
    }
}

/// Allocates memory for this number of elements until the end of the body.
pub fn memory(name: &str, dtype: DataType, count: i64) -> Buffer {
    Buffer::new(name, dtype, [Expr::int(count.max(1))], "global")
}

/// Returns an element of a buffer of any rank by its flat index.
pub fn element(buffer: &Buffer, index: impl Into<Expr>) -> Expr {
    Expr::load(buffer, index.into())
}

/// Sets an element by its flat index.
pub fn put(buffer: &Buffer, index: impl Into<Expr>, value: impl Into<Expr>) -> Stmt {
    Stmt::store(buffer.clone(), index.into(), value.into())
}

/// A loop over `0..extent`.
pub fn each(name: &str, extent: impl Into<Expr>, body: impl FnOnce(&Expr) -> Stmt) -> Stmt {
    let var = Var::index(name);
    let body = body(var.expr());
    Stmt::for_loop(var, 0, extent, ForKind::Serial, body)
}

/// Loops over all positions of a shape.
pub fn nest(name: &str, shape: &[i64], body: impl FnOnce(&[Expr]) -> Stmt) -> Stmt {
    let vars: Vec<Var> = (0..shape.len()).map(|axis| Var::index(format!("{name}{axis}"))).collect();
    let position: Vec<Expr> = vars.iter().map(|var| var.expr().clone()).collect();
    let loops = vars.into_iter().zip(shape).rev();
    loops.fold(body(&position), |body, (var, extent)| Stmt::for_loop(var, 0, *extent, ForKind::Serial, body))
}

/// Repeats a body while a condition holds.
pub fn as_long_as(condition: Expr, body: Stmt) -> Stmt {
    Stmt::from_node(StmtNode::While { condition, body })
}

/// A condition without an else branch.
pub fn when(condition: impl Into<Expr>, body: Stmt) -> Stmt {
    Stmt::if_then(condition, body, None)
}

/// Copies the elements of a buffer with this number of elements.
pub fn copy(from: &Buffer, to: &Buffer, count: i64) -> Stmt {
    each("copied", count, |index| put(to, index, element(from, index)))
}

/// Sets this number of elements.
pub fn fill(to: &Buffer, count: i64, value: &Expr) -> Stmt {
    each("filled", count, |index| put(to, index, value.clone()))
}

/// Returns the element of a buffer at a position.
pub fn at(buffer: &Buffer, position: &[Expr]) -> Expr {
    let shape: Vec<i64> = buffer.shape.iter().map(|extent| extent.as_int().unwrap_or(1)).collect();
    element(buffer, flatten(position, &shape))
}

/// Writes `0..count` to the start of `order`, sorted. `is_before` returns whether the first of two
/// numbers must come before the second: it returns statements, and the value that is valid after
/// them. Equal ones keep their order. A merge sort from short runs to long ones.
pub fn sort(order: &Buffer, count: i64, is_before: impl FnOnce(&Expr, &Expr) -> (Stmt, Expr)) -> Stmt {
    let spare = memory("spare", I64, count);
    let (width, left, right) = (Variable::index("width"), Variable::index("left"), Variable::index("right"));
    let last = count - 1;
    let numbers = each("number", count, |index| put(order, index, index.clone()));
    let merge = |block: &Expr| {
        let begin = Var::index("begin");
        let middle = Var::index("middle");
        let end = Var::index("end");
        let (from_left, from_right) = (element(order, left.get().min(last)), element(order, right.get().min(last)));
        let (compared, is_before) = is_before(&from_right, &from_left);
        let takes_right = right.get().less(end.expr()).and(left.get().greater_equal(middle.expr()).or(is_before));
        let step = each("merged", end.expr() - begin.expr(), |index| {
            let place = begin.expr() + index;
            let moved = Stmt::if_then(
                takes_right,
                Stmt::seq([put(&spare, place.clone(), from_right), right.add(1)]),
                Some(Stmt::seq([put(&spare, place, from_left), left.add(1)])),
            );
            Stmt::seq([compared, moved])
        });
        Stmt::seq([
            Stmt::bind(begin.clone(), block * width.get() * 2),
            Stmt::bind(middle.clone(), (begin.expr() + width.get()).min(count)),
            Stmt::bind(end.clone(), (begin.expr() + width.get() * 2).min(count)),
            left.set(begin.expr()),
            right.set(middle.expr()),
            step,
        ])
    };
    let pass = Stmt::seq([
        each("block", (width.get() * 2 - 1 + count).floor_div(width.get() * 2), merge),
        copy(&spare, order, count),
        width.set(width.get() * 2),
    ]);
    Stmt::seq([
        Stmt::alloc(spare.clone()),
        left.begin(0),
        right.begin(0),
        width.begin(1),
        numbers,
        as_long_as(width.get().less(count), pass),
    ])
}

/// Returns the number of elements of a shape. A shape with too many is rejected after the operator,
/// and does not wrap here.
pub fn count_of(shape: &[i64]) -> i64 {
    shape.iter().fold(1, |count: i64, extent| count.saturating_mul(*extent))
}

/// Loops over elements `0..count` in vectors of at most `lanes`. The closure gets the first element
/// of each vector and the number of its lanes.
pub fn in_vectors(name: &str, count: i64, lanes: i64, mut body: impl FnMut(&Expr, i64) -> Stmt) -> Stmt {
    let (whole, rest) = (count / lanes, count % lanes);
    let mut parts = Vec::new();
    if whole > 0 {
        parts.push(each(name, whole, |block| body(&(block * lanes), lanes)));
    }
    if rest > 0 {
        parts.push(body(&Expr::int(whole * lanes), rest));
    }
    Stmt::seq(parts)
}

/// Computes this number of elements at once.
pub fn lanes(count: i64, body: impl FnOnce(&Expr) -> Stmt) -> Stmt {
    let var = Var::index("lane");
    let body = body(var.expr());
    let kind = if count > 1 { ForKind::Vectorized } else { ForKind::Serial };
    Stmt::for_loop(var, 0, count, kind, body)
}
