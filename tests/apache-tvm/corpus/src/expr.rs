//! Expressions.

use kernpack::DataType;
use kernpack_compiler::ir::{
    BinaryOp, Buffer, BufferNode, CompareOp, DataTypeExt, Expr, ExprNode, LogicOp, POINTER, Var, with_stack,
};
use kernpack_compiler::{Result, codegen::c};

use crate::graph::{Graph, problem};

impl Graph<'_> {
    /// A variable; for a buffer, its data pointer.
    pub(crate) fn var(&mut self, index: usize) -> Result<Var> {
        if let Some(known) = self.vars.get(&index) {
            return Ok(known.clone());
        }
        if self.key(index)? != "ir.Var" {
            return Err(problem(format!("node {} where a variable is expected", self.key(index)?)));
        }
        let name = self.text(self.field(index, "name")?)?;
        let dtype = self.dtype(self.field(index, "ty")?)?.unwrap_or(POINTER);
        let var = Var::new(name, dtype);
        self.vars.insert(index, var.clone());
        Ok(var)
    }

    /// The buffer of a variable.
    pub(crate) fn buffer(&mut self, index: usize) -> Result<Buffer> {
        if let Some(known) = self.buffers.get(&index) {
            return Ok(known.clone());
        }
        let ty = self.field(index, "ty")?;
        if self.key(ty)? != "tirx.BufferType" {
            return Err(problem(format!("a variable of type {} where a buffer is expected", self.key(ty)?)));
        }
        let data = self.var(index)?;
        let dtype = self.dtype(self.field(ty, "dtype")?)?.ok_or_else(|| problem("a buffer of no type"))?;
        let shape = self.exprs(self.field(ty, "shape")?)?;
        let buffer = Buffer::from_node(BufferNode {
            name: data.name().into(),
            data,
            dtype,
            shape: shape.into(),
            strides: Default::default(),
            elem_offset: Expr::int(0),
            scope: self.text(self.field(ty, "storage_scope")?)?.into(),
            data_alignment: self.data(ty)["data_alignment"].as_i64().unwrap_or(0),
            offset_factor: self.data(ty)["offset_factor"].as_i64().unwrap_or(0),
        });
        self.buffers.insert(index, buffer.clone());
        Ok(buffer)
    }

    /// The expressions of an array.
    pub(crate) fn exprs(&mut self, index: usize) -> Result<Vec<Expr>> {
        self.array(index)?.into_iter().map(|item| self.expr(item)).collect()
    }

    /// The type of an expression's value; without lanes if the expression has no value.
    pub(crate) fn type_of(&self, index: usize) -> Result<DataType> {
        Ok(self.dtype(self.field(index, "ty")?)?.unwrap_or_else(c::nothing))
    }

    /// An expression.
    pub(crate) fn expr(&mut self, index: usize) -> Result<Expr> {
        with_stack(|| self.convert(index))
    }

    fn part(&mut self, index: usize, name: &str) -> Result<Expr> {
        self.expr(self.field(index, name)?)
    }

    fn lanes(&self, index: usize) -> Result<u16> {
        let lanes = self.integer(self.field(index, "lanes")?)?;
        u16::try_from(lanes).map_err(|_| problem(format!("a vector of {lanes} lanes")))
    }

    fn binary(&mut self, index: usize, op: BinaryOp) -> Result<Expr> {
        let (a, b) = (self.part(index, "a")?, self.part(index, "b")?);
        let dtype = a.dtype();
        Ok(Expr::from_node(ExprNode::Binary { op, a, b, dtype }))
    }

    fn compare(&mut self, index: usize, op: CompareOp) -> Result<Expr> {
        let (a, b) = (self.part(index, "a")?, self.part(index, "b")?);
        Ok(Expr::from_node(ExprNode::Compare { op, a, b }))
    }

    fn logic(&mut self, index: usize, op: LogicOp) -> Result<Expr> {
        let (a, b) = (self.part(index, "a")?, self.part(index, "b")?);
        Ok(Expr::from_node(ExprNode::Logic { op, a, b }))
    }

    fn convert(&mut self, index: usize) -> Result<Expr> {
        Ok(match self.key(index)? {
            "ir.IntImm" => {
                let dtype = self.type_of(index)?;
                let value = self.integer(index)?;
                Expr::from_node(ExprNode::Int { dtype, value })
            }
            "ir.FloatImm" => {
                let value = &self.data(index)["value"];
                let number = match value.as_str() {
                    Some("inf") => f64::INFINITY,
                    Some("-inf") => f64::NEG_INFINITY,
                    Some("nan") => f64::NAN,
                    _ => value.as_f64().ok_or_else(|| problem(format!("the float {value}")))?,
                };
                Expr::float(self.type_of(index)?, number)
            }
            "ir.StringImm" => Expr::text(&self.text(index)?),
            "ir.Var" => self.var(index)?.into(),
            "prim.Cast" => {
                let (dtype, value) = (self.type_of(index)?, self.part(index, "value")?);
                Expr::from_node(ExprNode::Cast { dtype, value })
            }
            "prim.Add" => self.binary(index, BinaryOp::Add)?,
            "prim.Sub" => self.binary(index, BinaryOp::Sub)?,
            "prim.Mul" => self.binary(index, BinaryOp::Mul)?,
            "prim.Div" => self.binary(index, BinaryOp::Div)?,
            "prim.Mod" => self.binary(index, BinaryOp::Mod)?,
            "prim.Min" => self.binary(index, BinaryOp::Min)?,
            "prim.Max" => self.binary(index, BinaryOp::Max)?,
            "prim.BitwiseAnd" => self.binary(index, BinaryOp::BitAnd)?,
            "prim.BitwiseOr" => self.binary(index, BinaryOp::BitOr)?,
            "prim.BitwiseXor" => self.binary(index, BinaryOp::BitXor)?,
            "prim.LShift" => self.binary(index, BinaryOp::ShiftLeft)?,
            "prim.RShift" => self.binary(index, BinaryOp::ShiftRight)?,
            "prim.EQ" => self.compare(index, CompareOp::Eq)?,
            "prim.NE" => self.compare(index, CompareOp::Ne)?,
            "prim.LT" => self.compare(index, CompareOp::Lt)?,
            "prim.LE" => self.compare(index, CompareOp::Le)?,
            "prim.GT" => self.compare(index, CompareOp::Gt)?,
            "prim.GE" => self.compare(index, CompareOp::Ge)?,
            "prim.And" => self.logic(index, LogicOp::And)?,
            "prim.Or" => self.logic(index, LogicOp::Or)?,
            "prim.Not" => {
                let value = self.part(index, "a")?;
                Expr::from_node(ExprNode::Not { value })
            }
            "prim.Select" => {
                let condition = self.part(index, "condition")?;
                let (true_value, false_value) = (self.part(index, "true_value")?, self.part(index, "false_value")?);
                Expr::from_node(ExprNode::Select { condition, true_value, false_value })
            }
            "prim.Let" => {
                let value = self.part(index, "value")?;
                let var = self.var(self.field(index, "var")?)?;
                let body = self.part(index, "body")?;
                Expr::from_node(ExprNode::Let { var, value, body })
            }
            "prim.Ramp" => {
                let (base, stride) = (self.part(index, "base")?, self.part(index, "stride")?);
                Expr::from_node(ExprNode::Ramp { base, stride, lanes: self.lanes(index)? })
            }
            "prim.Broadcast" => {
                let value = self.part(index, "value")?;
                Expr::from_node(ExprNode::Broadcast { value, lanes: self.lanes(index)? })
            }
            "ir.TensorLoad" => {
                let buffer = self.buffer(self.field(index, "source")?)?;
                let place = self.place(self.field(index, "indices")?)?;
                let load = Expr::load(&buffer, place);
                if load.dtype() != self.type_of(index)? {
                    let (found, wanted) = (load.dtype().short_name(), self.type_of(index)?.short_name());
                    return Err(problem(format!(
                        "a load of `{}` is {found}, its node says {wanted}",
                        buffer.name.as_str()
                    )));
                }
                load
            }
            "ir.Call" => self.call(index)?,
            key => return Err(problem(format!("unknown node {key}"))),
        })
    }

    /// The index of a flat buffer.
    pub(crate) fn place(&mut self, indices: usize) -> Result<Expr> {
        match self.exprs(indices)?.as_slice() {
            [place] => Ok(place.clone()),
            other => Err(problem(format!("{} indices of a flat buffer", other.len()))),
        }
    }
}
