//! Printing of expressions.

use super::names::{KEYWORDS, quoted, string};
use super::number;
use super::printer::Printer;
use crate::ir::share::bind_shared_expr;
use crate::ir::{
    BinaryOp, CallKind, CompareOp, DataType, DataTypeExt, Expr, ExprNode, LogicOp, Var, builtin, with_stack,
};

/// The binding strength of operators; a higher number is tighter.
pub(super) mod level {
    pub(crate) const OR: u8 = 2;
    pub(crate) const AND: u8 = 3;
    pub(crate) const COMPARE: u8 = 4;
    pub(crate) const BIT_OR: u8 = 5;
    pub(crate) const BIT_XOR: u8 = 6;
    pub(crate) const BIT_AND: u8 = 7;
    pub(crate) const SHIFT: u8 = 8;
    pub(crate) const SUM: u8 = 9;
    pub(crate) const PRODUCT: u8 = 10;
    pub(crate) const CAST: u8 = 11;
    pub(crate) const UNARY: u8 = 12;
}

/// The sign of an operation and its binding strength, or its name.
pub(super) fn binary_form(op: BinaryOp) -> Result<(&'static str, u8), &'static str> {
    Ok(match op {
        BinaryOp::Add => ("+", level::SUM),
        BinaryOp::Sub => ("-", level::SUM),
        BinaryOp::Mul => ("*", level::PRODUCT),
        BinaryOp::Div => ("/", level::PRODUCT),
        BinaryOp::Mod => ("%", level::PRODUCT),
        BinaryOp::BitAnd => ("&", level::BIT_AND),
        BinaryOp::BitOr => ("|", level::BIT_OR),
        BinaryOp::BitXor => ("^", level::BIT_XOR),
        BinaryOp::ShiftLeft => ("<<", level::SHIFT),
        BinaryOp::ShiftRight => (">>", level::SHIFT),
        BinaryOp::FloorDiv => return Err("floordiv"),
        BinaryOp::FloorMod => return Err("floormod"),
        BinaryOp::Min => return Err("min"),
        BinaryOp::Max => return Err("max"),
    })
}

pub(super) fn compare_sign(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

/// The names of expressions that look like calls.
pub(super) const FORMS: &[&str] =
    &["floordiv", "floormod", "min", "max", "select", "if_then_else", "ramp", "broadcast", "shuffle", "reduce"];

/// The type of a builtin's value, if its arguments imply it.
pub(super) fn implied_type(name: &str, args: &[Expr]) -> Option<DataType> {
    let known = builtin::math_arity(name).is_some() || name == builtin::LIKELY;
    args.first().filter(|_| known).map(|arg| arg.dtype())
}

impl Printer {
    /// Prints an expression, in parentheses if it binds less tightly than its context requires.
    pub(super) fn expr(&mut self, expr: &Expr, place: u8) {
        if self.in_expr {
            return with_stack(|| self.expr_node(expr, place));
        }
        // A graph whose tree is large is printed with names: as a tree it could exceed the memory.
        self.in_expr = true;
        match bind_shared_expr(expr) {
            Ok(expr) => self.expr_node(&expr, place),
            Err(error) => self.push(&string(&error.to_string())),
        }
        self.in_expr = false;
    }

    fn in_parentheses(&mut self, needed: bool, print: impl FnOnce(&mut Self)) {
        if needed {
            self.push("(");
        }
        print(self);
        if needed {
            self.push(")");
        }
    }

    fn infix(&mut self, sign: &str, own: u8, a: &Expr, b: &Expr, place: u8) {
        self.in_parentheses(own < place, |this| {
            this.expr(a, if own == level::COMPARE { own + 1 } else { own });
            this.push(" ");
            this.push(sign);
            this.push(" ");
            this.expr(b, own + 1);
        });
    }

    fn form(&mut self, name: &str, args: &[&Expr]) {
        self.push(name);
        self.push("(");
        self.list(args, |this, arg| this.expr(arg, 0));
        self.push(")");
    }

    fn expr_node(&mut self, expr: &Expr, place: u8) {
        match &**expr {
            ExprNode::Int { dtype, value } => self.push(&number::int(*dtype, *value)),
            ExprNode::Float { dtype, value } => self.push(&number::float(*dtype, *value, false)),
            ExprNode::Text { value } => self.push(&string(value.as_str())),
            ExprNode::Var { .. } => {
                let var = Var::of(expr).expect("a variable");
                self.var(&var);
            }
            ExprNode::Cast { dtype, value } => self.in_parentheses(level::CAST < place, |this| {
                this.expr(value, level::CAST);
                this.push(" as ");
                this.push(&dtype.short_name());
            }),
            ExprNode::Binary { op, a, b, .. } => match binary_form(*op) {
                Ok((sign, own)) => self.infix(sign, own, a, b, place),
                Err(name) => self.form(name, &[a, b]),
            },
            ExprNode::Compare { op, a, b } => self.infix(compare_sign(*op), level::COMPARE, a, b, place),
            ExprNode::Logic { op: LogicOp::And, a, b } => self.infix("&&", level::AND, a, b, place),
            ExprNode::Logic { op: LogicOp::Or, a, b } => self.infix("||", level::OR, a, b, place),
            ExprNode::Not { value } => self.in_parentheses(level::UNARY < place, |this| {
                this.push("!");
                this.expr(value, level::UNARY);
            }),
            ExprNode::Select { condition, true_value, false_value } => {
                self.form("select", &[condition, true_value, false_value]);
            }
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                self.form("if_then_else", &[condition, then_value, else_value]);
            }
            ExprNode::Ramp { base, stride, lanes } => {
                self.push("ramp(");
                self.expr(base, 0);
                self.push(", ");
                self.expr(stride, 0);
                self.push(&format!(", {lanes})"));
            }
            ExprNode::Broadcast { value, lanes } => {
                self.push("broadcast(");
                self.expr(value, 0);
                self.push(&format!(", {lanes})"));
            }
            ExprNode::Shuffle { vectors, indices } => {
                self.push("shuffle([");
                self.exprs(vectors);
                self.push("], [");
                self.list(indices.iter(), |this, index| this.push(&index.to_string()));
                self.push("])");
            }
            ExprNode::Let { var, value, body } => {
                self.push("(let ");
                let value_text = self.aside(|this| this.expr(value, 0));
                self.binder(var, value.dtype());
                self.push(" = ");
                self.push(&value_text);
                self.push(" in ");
                self.expr(body, 0);
                self.push(")");
            }
            ExprNode::Load { buffer, index, mask, .. } => self.in_parentheses(mask.is_some(), |this| {
                this.buffer(buffer);
                this.index(index);
                if let Some(mask) = mask {
                    this.push(" where ");
                    this.expr(mask, 0);
                }
            }),
            ExprNode::TensorRead { tensor, indices } => {
                self.tensor(tensor);
                self.push("[");
                self.exprs(indices);
                self.push("]");
            }
            ExprNode::Call { kind, name, args, dtype } => {
                let args: Vec<Expr> = args.iter().collect();
                self.call(*kind, name.as_str(), &args, *dtype);
            }
            ExprNode::Reduce { reducer, sources, axes, condition, init, value_index } => {
                self.push("reduce(");
                self.reducer(reducer);
                // The sources use the axes, so the axes come first.
                self.push(", [");
                self.list(axes.iter(), |this, axis| this.iter_var(&axis));
                self.push("], [");
                self.exprs(sources);
                self.push("], ");
                self.expr(condition, 0);
                self.push(", [");
                self.exprs(init);
                self.push(&format!("], {value_index})"));
            }
        }
    }

    /// Prints an index in brackets; a ramp as `[base : lanes]` or `[base ; stride : lanes]`.
    pub(super) fn index(&mut self, index: &Expr) {
        self.push("[");
        match &**index {
            ExprNode::Ramp { base, stride, lanes } => {
                self.expr(base, 0);
                if !(stride.is_int(1) && stride.dtype() == base.dtype()) {
                    self.push(" ; ");
                    self.expr(stride, 0);
                }
                self.push(&format!(" : {lanes}"));
            }
            _ => self.expr(index, 0),
        }
        self.push("]");
    }

    fn call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) {
        let prefix = match kind {
            CallKind::Builtin => "builtin",
            CallKind::Extern => "extern",
            CallKind::PureExtern => "pure_extern",
            CallKind::LlvmIntrinsic => "llvm",
            CallKind::Packed => "packed",
            CallKind::Function => "function",
        };
        let bare = kind == CallKind::Builtin
            && quoted(name) == name
            && !name.contains('.')
            && !FORMS.contains(&name)
            && !KEYWORDS.contains(&name);
        if bare {
            self.push(name);
        } else {
            self.push(prefix);
            self.push(" ");
            self.push(&string(name));
        }
        let implied = if kind == CallKind::Builtin { implied_type(name, args) } else { None };
        if implied != Some(dtype) {
            self.push(&format!("::<{}>", dtype.short_name()));
        }
        self.push("(");
        self.list(args, |this, arg| this.expr(arg, 0));
        self.push(")");
    }
}
