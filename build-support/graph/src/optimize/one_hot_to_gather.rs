//! Replaces one-hot matmuls by gathers of table rows.
//!
//! `MatMul(Cast(Equal(x, [0, 1, .., n - 1])), w)` is row `x` of `w`, or zeros if `x` is not one of
//! the numbers. Elementwise results of it and of constants depend only on the row, so they are
//! computed here, once for each row of the table. A text network without `Gather` begins like this.
//!
//! With infinity or NaN in `w` a product is kept: zero times infinity is NaN in all other rows.

use std::collections::HashMap;
use std::sync::Arc;

use kernpack_compiler::ir::{DataTypeExt, Expr, I64, Tensor};

use crate::attrs::Attrs;
use crate::constant::{Constant, num_elements};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Call, Operator, Pattern, element_tensor, is_by_position};

/// Returns a row of a table for each number. The table's last row is used for every number without
/// a row.
static ROWS: Operator = Operator { name: "Rows", pattern: Pattern::Injective, make: rows };

fn rows(call: &Call) -> Result<Vec<Tensor>> {
    let (table, index) = (call.input(0)?, call.input(1)?);
    let (last, columns) = (table.shape[0] - 1, table.shape[1]);
    let shape = with_last(&index.shape, columns);
    Ok(vec![element_tensor(&shape, |position| {
        let (column, before) = position.split_last().expect("a table has columns");
        let mut at = before.to_vec();
        at.push(Expr::int(0));
        let row = index.at(&at).cast(I64);
        let is_known = row.greater_equal(0).and(row.less(last));
        let row = Expr::select(is_known, row, Expr::int(last));
        table.tensor.at(&[row, column.clone()])
    })])
}

/// Returns the shape with another last extent.
fn with_last(shape: &[i64], last: i64) -> Vec<i64> {
    let mut shape = shape.to_vec();
    if let Some(extent) = shape.last_mut() {
        *extent = last;
    }
    shape
}

/// The origin of a value that is a row: the table, and the row index, which has last extent 1.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Row {
    table: ValueId,
    index: ValueId,
}

impl Graph {
    /// Replaces products with one-hot vectors, and values computed only from them, by table
    /// lookups.
    ///
    /// # Errors
    /// Returns the error of computing a table.
    pub(crate) fn one_hot_to_gather(&mut self) -> Result<()> {
        let mut found: HashMap<ValueId, Row> = HashMap::new();
        for number in 0..self.nodes.len() {
            let [Some(output)] = self.nodes[number].outputs[..] else { continue };
            let row = match self.one_hot_product(number, output)? {
                Some(row) => Some(row),
                None => self.computed_of_rows(number, output, &found)?,
            };
            let Some(row) = row else { continue };
            // The earlier nodes have no readers any more, and are not computed.
            let node = &mut self.nodes[number];
            *node = Node {
                name: node.name.clone(),
                op: (&ROWS).into(),
                attrs: Arc::new(Attrs::default()),
                version: node.version,
                inputs: vec![Some(row.table), Some(row.index)],
                reads: vec![true, true],
                outputs: vec![Some(output)],
                body: None,
            };
            found.insert(output, row);
        }
        Ok(())
    }

    /// Returns the node that computes a value, if it has this operator.
    fn made_by(&self, id: ValueId, name: &str) -> Option<&Node> {
        self.values[id].producer.map(|number| &self.nodes[number]).filter(|node| node.op.name() == name)
    }

    fn one_hot_product(&mut self, number: usize, output: ValueId) -> Result<Option<Row>> {
        let node = &self.nodes[number];
        let (true, [Some(one_hot), Some(matrix)]) = (node.op.name() == "MatMul", &node.inputs[..]) else {
            return Ok(None);
        };
        let Some(index) = self.one_hot_index(*one_hot) else { return Ok(None) };
        let Some(known) = self.values[*matrix].known.clone() else { return Ok(None) };
        let &[count, columns] = known.shape() else { return Ok(None) };
        let fits = self.values[*one_hot].shape.last() == Some(&count)
            && self.values[*one_hot].dtype == known.dtype()
            && self.values[output].shape == with_last(&self.values[index].shape, columns);
        if !fits || columns == 0 || !known.is_finite()? {
            return Ok(None);
        }
        let mut bytes = known.bytes().to_vec();
        bytes.resize(bytes.len() + bytes.len() / usize::try_from(count.max(1)).unwrap_or(1), 0);
        let table = Constant::new(known.dtype(), &[count + 1, columns], bytes)?;
        let name = format!("{}.table", self.values[*matrix].name);
        Ok(Some(Row { table: self.add_known(&name, table), index }))
    }

    /// Returns the numbers that a value encodes as one-hot vectors. Their last extent is 1.
    fn one_hot_index(&self, one_hot: ValueId) -> Option<ValueId> {
        let cast = self.made_by(one_hot, "Cast")?;
        let equal = (*cast.inputs.first()?)?;
        let [Some(a), Some(b)] = self.made_by(equal, "Equal")?.inputs[..] else { return None };
        let is_range = |id: ValueId| -> Option<()> {
            let known = self.values[id].known.as_ref()?;
            let count = *known.shape().last()?;
            let is_flat = i64::try_from(known.len()).ok()? == count && known.dtype().is_int();
            (is_flat && known.to_ints().ok()?.into_iter().eq(0..count)).then_some(())
        };
        let numbers = if is_range(b).is_some() { a } else { is_range(a).map(|()| b)? };
        let ends_with_one = |id: ValueId| self.values[id].shape.last() == Some(&1);
        let index = if ends_with_one(numbers) {
            numbers
        } else {
            let input = (*self.made_by(numbers, "Expand")?.inputs.first()?)?;
            let extent = *self.values[numbers].shape.last()?;
            let is_only_wider = with_last(&self.values[input].shape, extent) == self.values[numbers].shape;
            (is_only_wider && ends_with_one(input)).then_some(input)?
        };
        self.values[index].dtype.is_int().then_some(index)
    }

    /// Returns the table of a node's results from rows with one number, and constants that are the
    /// same for all rows.
    fn computed_of_rows(
        &mut self,
        number: usize,
        output: ValueId,
        found: &HashMap<ValueId, Row>,
    ) -> Result<Option<Row>> {
        let node = self.nodes[number].clone();
        let shape = self.values[output].shape.clone();
        let (Some(&columns), Some(row)) =
            (shape.last(), node.inputs.iter().flatten().find_map(|id| found.get(id)).copied())
        else {
            return Ok(None);
        };
        let rows = self.values[row.table].shape[0];
        // Old versions select broadcasting with an attribute. A row without an index is computed as
        // well, so nothing may depend on its contents.
        let is_plain = is_by_position(&node.op)
            && self.checks(&node)?.is_empty()
            && node.version >= 7
            && node.attrs.int("axis", i64::MIN)? == i64::MIN;
        if !is_plain || num_elements(&[rows, columns])? > num_elements(&shape)? {
            return Ok(None);
        }
        let mut inputs = Vec::new();
        for id in &node.inputs {
            let Some(id) = *id else {
                inputs.push(None);
                continue;
            };
            let value = &self.values[id];
            match (found.get(&id), &value.known) {
                (Some(own), _) if own.index == row.index && value.shape == shape => inputs.push(Some(own.table)),
                (None, Some(known)) if known.len() == 1 => {
                    let scalar = known.reshaped(&[])?;
                    inputs.push(Some(self.add_known("scalar", scalar)));
                }
                (None, Some(known))
                    if num_elements(&[columns])? == known.len() && value.shape.last() == Some(&columns) =>
                {
                    let line = known.reshaped(&[columns])?;
                    inputs.push(Some(self.add_known("line", line)));
                }
                _ => return Ok(None),
            }
        }
        let before = self.nodes.len();
        let name = format!("{}.table", self.values[output].name);
        let made = self.add_node(node.op.clone(), &node.name, node.attrs.clone(), node.version, &inputs, &[name])?;
        // A value that is too large to be computed now would be a node after its readers.
        self.nodes.truncate(before);
        let table = made.first().copied().flatten().filter(|id| {
            let value = &self.values[*id];
            value.known.is_some() && value.shape == [rows, columns]
        });
        Ok(table.map(|table| Row { table, index: row.index }))
    }
}

#[cfg(test)]
mod tests {
    use crate::op::{NodeOp, Pattern, find, is_by_position, names};

    /// Elementwise operators that depend on an axis, on a position, or on the shapes of their
    /// inputs.
    const ALONG_AXES: &[&str] = &["BatchNormalization", "DequantizeLinear", "QuantizeLinear", "SwiGLU", "Trilu"];

    /// A new elementwise operator must be in one of the two lists.
    #[test]
    fn operators_on_elements_say_how_they_move() {
        for name in names() {
            let operator = find(name).unwrap();
            let is_elementwise = operator.pattern == Pattern::Elementwise;
            assert_eq!(
                is_by_position(&NodeOp::from(operator)),
                is_elementwise && !ALONG_AXES.contains(&name),
                "{name}"
            );
        }
    }
}
