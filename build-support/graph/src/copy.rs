//! Values that need their own memory.

use std::sync::Arc;

use crate::attrs::Attrs;
use crate::error::Result;
use crate::graph::{Graph, Node, Value, ValueId};
use crate::op::{Operator, Pattern, element_tensor};

/// A copy.
static COPY: Operator = Operator {
    name: "Copy",
    pattern: Pattern::Elementwise,
    make: |call| {
        let x = call.input(0)?;
        Ok(vec![element_tensor(&x.shape, |position| x.tensor.at(position))])
    },
};

impl Graph {
    /// Adds a copy of a value, which is computed at run time even if the value is known.
    ///
    /// # Errors
    /// Only errors of tensors.
    pub fn add_copy(&mut self, name: &str, id: ValueId, version: i64) -> Result<ValueId> {
        let Value { dtype, shape, .. } = self.values[id].clone();
        let producer = Some(self.nodes.len());
        let copy = self.add_value(Value { name: name.to_owned(), dtype, shape, known: None, producer });
        self.nodes.push(Node {
            name: name.to_owned(),
            op: (&COPY).into(),
            attrs: Arc::new(Attrs::default()),
            version,
            inputs: vec![Some(id)],
            reads: vec![true],
            outputs: vec![Some(copy)],
            body: None,
        });
        Ok(copy)
    }
}
