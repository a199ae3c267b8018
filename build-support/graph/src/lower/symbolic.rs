//! The expressions of a kernel for any extents, from those of several readings of the model.
//!
//! All readings compute a value by the same expressions, with other numbers where these depend on
//! the extents of the dynamic dimensions. Each such number becomes a formula of the extents, which
//! are variables of the kernel.

use std::collections::HashMap;

use kernpack::Array;
use kernpack_compiler::ir::{
    Expr, ExprNode, F64, IterVar, IterVarNode, Operation, OperationNode, Range, Reducer, Tensor, Var, VarMap,
};
use kernpack_compiler::te::operation::{post_order, replace_inputs};
use kernpack_compiler::text;

use crate::dynamic::whole;
use crate::error::{Result, fail, require};
use crate::graph::Ranges;

/// Returns the values of a field in all readings, if their expressions are of the same kind.
macro_rules! each {
    ($parts:expr, $pattern:pat => $value:expr) => {
        $parts
            .iter()
            .map(|part| match &**part {
                $pattern => Ok($value),
                _ => fail!("{OTHER}"),
            })
            .collect::<Result<Vec<_>>>()?
    };
}

/// Builds expressions for any extents.
pub(super) struct Symbolic<'a> {
    ranges: &'a Ranges,
    /// The extents of the dimensions.
    extents: &'a [Var],
    /// The numbers of operations of all readings in their order.
    numbers: HashMap<Operation, usize>,
    /// The operations for any extents, by number.
    made: Vec<Operation>,
    /// The variables of the first reading, by those of the others.
    vars: VarMap,
    /// Expressions that are shared, by those of all readings.
    done: HashMap<Vec<Expr>, Expr>,
}

impl<'a> Symbolic<'a> {
    /// Returns the tensors for any extents. `results` are those of each reading, and `input`
    /// returns the replacement of a placeholder of the first reading, from its place among
    /// the placeholders of all operations.
    ///
    /// # Errors
    /// Returns an error if the readings differ by more than numbers, or if a number is not a sum of
    /// products of the extents.
    pub(super) fn tensors(
        ranges: &'a Ranges,
        extents: &'a [Var],
        results: &[Vec<Tensor>],
        mut input: impl FnMut(&[Operation]) -> Result<Operation>,
    ) -> Result<Vec<Tensor>> {
        let orders: Vec<Vec<Operation>> = results
            .iter()
            .map(|results| post_order(&results.iter().map(|result| result.op.clone()).collect::<Vec<_>>()))
            .collect();
        let mut own = Self {
            ranges,
            extents,
            numbers: HashMap::new(),
            made: Vec::new(),
            vars: VarMap::new(),
            done: HashMap::new(),
        };
        let count = orders[0].len();
        require!(orders.iter().all(|order| order.len() == count), "{OTHER}");
        for number in 0..count {
            let ops: Vec<Operation> = orders.iter().map(|order| order[number].clone()).collect();
            for op in &ops {
                own.numbers.insert(op.clone(), number);
            }
            let made = match &*ops[0] {
                OperationNode::Placeholder { .. } => input(&ops)?,
                OperationNode::Compute { .. } => own.compute(&ops)?,
                _ => own.statements(&ops)?,
            };
            own.made.push(made);
        }
        (0..results[0].len())
            .map(|index| {
                let all: Vec<&Tensor> = results.iter().map(|results| &results[index]).collect();
                own.tensor(&all)
            })
            .collect()
    }

    /// Returns the result of the same operation for any extents.
    fn tensor(&self, tensors: &[&Tensor]) -> Result<Tensor> {
        let number = self.numbers.get(&tensors[0].op).copied();
        let index = tensors[0].value_index;
        let is_same =
            tensors.iter().all(|tensor| self.numbers.get(&tensor.op).copied() == number && tensor.value_index == index);
        match number.and_then(|number| self.made.get(number)) {
            Some(op) if is_same => Ok(op.output(usize::try_from(index).unwrap_or(0))),
            _ => fail!("{OTHER}"),
        }
    }

    fn compute(&mut self, ops: &[Operation]) -> Result<Operation> {
        let OperationNode::Compute { name, span, tag, attrs, .. } = &*ops[0] else { fail!("{OTHER}") };
        let (mut all_axes, mut all_reduced, mut all_bodies) = (Vec::new(), Vec::new(), Vec::new());
        for op in ops {
            let OperationNode::Compute { axes, reduce_axes, bodies, attrs: others, tag: other, .. } = &**op else {
                fail!("{OTHER}")
            };
            let is_same = other == tag && kernpack::structural::equal(attrs, others).unwrap_or(false);
            require!(is_same, "{OTHER}");
            all_axes.push(axes.to_vec());
            all_reduced.push(reduce_axes.to_vec());
            all_bodies.push(bodies.to_vec());
        }
        let axes = self.axes(&all_axes)?;
        let reduce_axes: Array<IterVar> = self.axes(&all_reduced)?.into();
        let count = all_bodies[0].len();
        require!(all_bodies.iter().all(|bodies| bodies.len() == count), "{OTHER}");
        let mut bodies: Vec<Expr> = Vec::new();
        for index in 0..count {
            let parts: Vec<Expr> = all_bodies.iter().map(|bodies| bodies[index].clone()).collect();
            // Results of one reduction share its parts.
            if let Some(ExprNode::Reduce { reducer, sources, axes, condition, init, .. }) =
                bodies.first().map(|first| &**first)
            {
                bodies.push(Expr::from_node(ExprNode::Reduce {
                    reducer: reducer.clone(),
                    sources: sources.clone(),
                    axes: axes.clone(),
                    condition: condition.clone(),
                    init: init.clone(),
                    value_index: i64::try_from(index).unwrap_or(0),
                }));
                continue;
            }
            let body = match &*parts[0] {
                ExprNode::Reduce { .. } => self.reduction(&parts, &reduce_axes)?,
                _ => self.expr(&parts)?,
            };
            bodies.push(body);
        }
        Ok(Operation::from_node(OperationNode::Compute {
            name: name.clone(),
            span: span.clone(),
            tag: tag.clone(),
            attrs: attrs.clone(),
            axes: axes.into(),
            reduce_axes,
            bodies: bodies.into(),
        }))
    }

    /// Returns statements that are the same for all extents, with their inputs for any extents.
    fn statements(&mut self, ops: &[Operation]) -> Result<Operation> {
        let shown = |op: &Operation| match &**op {
            OperationNode::Extern { body, input_buffers, output_buffers, .. } => {
                let buffers = input_buffers.iter().chain(output_buffers.iter());
                let shapes: Vec<String> =
                    buffers.flat_map(|buffer| buffer.shape.to_vec()).map(|extent| text::print(&extent)).collect();
                Some((text::print(body), shapes))
            }
            _ => None,
        };
        let first = shown(&ops[0]);
        let is_same = first.is_some() && ops.iter().all(|op| shown(op) == first);
        require!(is_same, "it is computed by statements, which are not supported with ranges of extents");
        Ok(replace_inputs(&ops[0], &|tensor| self.tensor(&[tensor]).ok()))
    }

    /// Returns axes with the variables of the first reading.
    fn axes(&mut self, all: &[Vec<IterVar>]) -> Result<Vec<IterVar>> {
        let count = all[0].len();
        require!(all.iter().all(|axes| axes.len() == count), "{OTHER}");
        let mut made = Vec::new();
        for index in 0..count {
            let first = &all[0][index];
            let mut parts: [Vec<Expr>; 2] = [Vec::new(), Vec::new()];
            for axes in all {
                let axis = &axes[index];
                let Some(dom) = &axis.dom else { fail!("{OTHER}") };
                self.vars.insert(axis.var.clone(), first.var.expr().clone());
                parts[0].push(dom.min.clone());
                parts[1].push(dom.extent.clone());
            }
            let dom = Range::new(self.expr(&parts[0])?, self.expr(&parts[1])?);
            made.push(IterVar::from_node(IterVarNode {
                dom: Some(dom),
                var: first.var.clone(),
                kind: first.kind,
                thread_tag: first.thread_tag.clone(),
                span: first.span.clone(),
            }));
        }
        Ok(made)
    }

    fn reduction(&mut self, parts: &[Expr], axes: &Array<IterVar>) -> Result<Expr> {
        let (mut reducers, mut lists, mut conditions): (Vec<Reducer>, [Vec<Vec<Expr>>; 2], Vec<Expr>) =
            Default::default();
        for part in parts {
            let ExprNode::Reduce { reducer, sources, condition, init, .. } = &**part else { fail!("{OTHER}") };
            reducers.push(reducer.clone());
            lists[0].push(sources.to_vec());
            lists[1].push(init.to_vec());
            conditions.push(condition.clone());
        }
        let reducer = &reducers[0];
        let is_same = reducers.iter().all(|other| kernpack::structural::equal(reducer, other).unwrap_or(false));
        require!(is_same, "{OTHER}");
        let [sources, init] = &lists;
        Ok(Expr::from_node(ExprNode::Reduce {
            reducer: reducer.clone(),
            sources: self.exprs(sources)?,
            axes: axes.clone(),
            condition: self.expr(&conditions)?,
            init: self.exprs(init)?,
            value_index: 0,
        }))
    }

    fn exprs(&mut self, lists: &[Vec<Expr>]) -> Result<Array<Expr>> {
        let count = lists[0].len();
        require!(lists.iter().all(|list| list.len() == count), "{OTHER}");
        (0..count)
            .map(|index| self.expr(&lists.iter().map(|list| list[index].clone()).collect::<Vec<_>>()))
            .collect::<Result<Vec<_>>>()
            .map(Into::into)
    }

    /// Returns the expression for any extents.
    pub(super) fn expr(&mut self, parts: &[Expr]) -> Result<Expr> {
        if let Some(done) = self.done.get(parts) {
            return Ok(done.clone());
        }
        let made = kernpack_compiler::ir::with_stack(|| self.made(parts))?;
        self.done.insert(parts.to_vec(), made.clone());
        Ok(made)
    }

    fn made(&mut self, parts: &[Expr]) -> Result<Expr> {
        let first = &parts[0];
        let dtype = first.dtype();
        require!(parts.iter().all(|part| part.dtype() == dtype), "{OTHER}");
        let node = match &**first {
            ExprNode::Int { .. } => return self.int(first, &each!(parts, ExprNode::Int { value, .. } => *value)),
            ExprNode::Float { .. } => return self.float(first, &each!(parts, ExprNode::Float { value, .. } => *value)),
            ExprNode::Var { .. } => return self.var(parts),
            ExprNode::Binary { .. } | ExprNode::Compare { .. } | ExprNode::Logic { .. } => self.operation(parts)?,
            ExprNode::Cast { dtype, .. } => {
                let value = self.expr(&each!(parts, ExprNode::Cast { value, .. } => value.clone()))?;
                ExprNode::Cast { dtype: *dtype, value }
            }
            ExprNode::Not { .. } => {
                ExprNode::Not { value: self.expr(&each!(parts, ExprNode::Not { value } => value.clone()))? }
            }
            ExprNode::Select { .. } => ExprNode::Select {
                condition: self.expr(&each!(parts, ExprNode::Select { condition, .. } => condition.clone()))?,
                true_value: self.expr(&each!(parts, ExprNode::Select { true_value, .. } => true_value.clone()))?,
                false_value: self.expr(&each!(parts, ExprNode::Select { false_value, .. } => false_value.clone()))?,
            },
            ExprNode::IfThenElse { .. } => ExprNode::IfThenElse {
                condition: self.expr(&each!(parts, ExprNode::IfThenElse { condition, .. } => condition.clone()))?,
                then_value: self.expr(&each!(parts, ExprNode::IfThenElse { then_value, .. } => then_value.clone()))?,
                else_value: self.expr(&each!(parts, ExprNode::IfThenElse { else_value, .. } => else_value.clone()))?,
            },
            ExprNode::Let { var, .. } => {
                for other in each!(parts, ExprNode::Let { var, .. } => var.clone()) {
                    self.vars.insert(other, var.expr().clone());
                }
                let value = self.expr(&each!(parts, ExprNode::Let { value, .. } => value.clone()))?;
                let body = self.expr(&each!(parts, ExprNode::Let { body, .. } => body.clone()))?;
                ExprNode::Let { var: var.clone(), value, body }
            }
            ExprNode::TensorRead { .. } => {
                let tensor = self.tensor(&each!(parts, ExprNode::TensorRead { tensor, .. } => tensor))?;
                let indices: Vec<Vec<Expr>> = each!(parts, ExprNode::TensorRead { indices, .. } => indices.to_vec());
                ExprNode::TensorRead { tensor, indices: self.exprs(&indices)? }
            }
            ExprNode::Call { kind, name, dtype, .. } => {
                let names = each!(parts, ExprNode::Call { kind, name, .. } => (kind, name));
                require!(names.iter().all(|other| *other == (kind, name)), "{OTHER}");
                let args: Vec<Vec<Expr>> = each!(parts, ExprNode::Call { args, .. } => args.to_vec());
                ExprNode::Call { kind: *kind, name: name.clone(), args: self.exprs(&args)?, dtype: *dtype }
            }
            // Vectors, memory and texts are the same for all extents, and occur in statements only.
            _ => {
                require!(parts.iter().all(|part| text::print(part) == text::print(first)), "{OTHER}");
                return Ok(first.clone());
            }
        };
        Ok(Expr::from_node(node))
    }

    /// Returns an operation of two operands.
    fn operation(&mut self, parts: &[Expr]) -> Result<ExprNode> {
        Ok(match &*parts[0] {
            ExprNode::Binary { op, dtype, .. } => {
                require!(each!(parts, ExprNode::Binary { op, .. } => op).iter().all(|other| *other == op), "{OTHER}");
                let a = self.expr(&each!(parts, ExprNode::Binary { a, .. } => a.clone()))?;
                let b = self.expr(&each!(parts, ExprNode::Binary { b, .. } => b.clone()))?;
                ExprNode::Binary { op: *op, a, b, dtype: *dtype }
            }
            ExprNode::Compare { op, .. } => {
                require!(each!(parts, ExprNode::Compare { op, .. } => op).iter().all(|other| *other == op), "{OTHER}");
                let a = self.expr(&each!(parts, ExprNode::Compare { a, .. } => a.clone()))?;
                let b = self.expr(&each!(parts, ExprNode::Compare { b, .. } => b.clone()))?;
                ExprNode::Compare { op: *op, a, b }
            }
            ExprNode::Logic { op, .. } => {
                require!(each!(parts, ExprNode::Logic { op, .. } => op).iter().all(|other| *other == op), "{OTHER}");
                let a = self.expr(&each!(parts, ExprNode::Logic { a, .. } => a.clone()))?;
                let b = self.expr(&each!(parts, ExprNode::Logic { b, .. } => b.clone()))?;
                ExprNode::Logic { op: *op, a, b }
            }
            _ => fail!("{OTHER}"),
        })
    }

    /// Returns the variable of the first reading.
    fn var(&self, parts: &[Expr]) -> Result<Expr> {
        let first = &parts[0];
        let is_same = |part: &Expr| {
            part == first || Var::of(part).and_then(|var| self.vars.get(&var).cloned()).as_ref() == Some(first)
        };
        require!(parts.iter().all(is_same), "{OTHER}");
        Ok(first.clone())
    }

    /// Returns a number that the extents determine.
    fn int(&self, first: &Expr, values: &[i64]) -> Result<Expr> {
        let formula = self.ranges.formula(values)?;
        Ok(match formula.fixed() {
            Some(_) => first.clone(),
            None => formula.expr(self.extents).cast(first.dtype()),
        })
    }

    /// Returns a number that is an integer which the extents determine, or one divided by it.
    fn float(&self, first: &Expr, values: &[f64]) -> Result<Expr> {
        let dtype = first.dtype();
        if values.iter().all(|value| value.to_bits() == values[0].to_bits()) {
            return Ok(first.clone());
        }
        if let Some(whole) = whole(values) {
            return Ok(self.ranges.formula(&whole)?.expr(self.extents).cast(dtype));
        }
        let rounded: Vec<f64> = values.iter().map(|value| (1.0 / value).round()).collect();
        let is_rounded = |(whole, value): (&f64, &f64)| Expr::float(dtype, 1.0 / whole).as_float() == Some(*value);
        if let (Some(whole), true) = (whole(&rounded), rounded.iter().zip(values).all(is_rounded)) {
            let count = self.ranges.formula(&whole)?.expr(self.extents);
            return Ok((Expr::float(F64, 1.0) / count.cast(F64)).cast(dtype));
        }
        fail!(
            "the number {} depends on the extents of the dimensions, and is neither an integer nor its inverse",
            values[0]
        )
    }
}

/// The reason why a node is rejected whose expressions differ.
const OTHER: &str = "it is computed in another way for other extents of the dimensions";
