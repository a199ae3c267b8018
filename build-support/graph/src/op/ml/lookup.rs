//! `LabelEncoder` of numbers by a search in sorted keys.

use kernpack_compiler::ir::{DataTypeExt, Expr, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use crate::error::{Result, require};
use crate::op::call::{extents, zeros};
use crate::op::statements::{Variable, as_long_as, count_of, each, element, put, when};
use crate::op::{Call, Operator, Pattern};

/// Returns a value for each element. Inputs: the elements, different keys in increasing order, and
/// their values; behind these are the value for other elements, and that for NaN.
pub(crate) static LOOKUP: Operator = Operator { name: "LabelEncoder", pattern: Pattern::Opaque, make: lookup };

fn lookup(call: &Call) -> Result<Vec<Tensor>> {
    let (x, keys, values) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let count = count_of(&keys.shape);
    require!(values.shape == [count + 2] && count > 0, "{count} keys, and values {:?}", values.shape);
    require!(x.dtype == keys.dtype, "the input is {}, and the keys are {}", x.dtype, keys.dtype);
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, values.dtype)]);
    }
    let op = extern_op("lookup", [&x.tensor, &keys.tensor, &values.tensor]).output(extents(&x.shape), values.dtype);
    Ok(op.body(|inputs, outputs| {
        let (low, high) = (Variable::index("low"), Variable::index("high"));
        let value = Var::new("value", x.dtype);
        let middle = Var::index("middle");
        // The first key that is not less than the element.
        let halve = Stmt::seq([
            Stmt::bind(middle.clone(), (low.get() + high.get()).floor_div(2)),
            Stmt::if_then(
                element(&inputs[1], middle.expr().clone()).less(value.expr()),
                low.set(middle.expr() + 1),
                Some(high.set(middle.expr().clone())),
            ),
        ]);
        let nearest = low.get().min(count - 1);
        let is_found = low.get().less(count).and(element(&inputs[1], nearest).equals(value.expr()));
        let place = Expr::select(is_found, low.get(), Expr::int(count));
        let body = each("element", count_of(&x.shape), |index| {
            let mut steps = vec![
                Stmt::bind(value.clone(), element(&inputs[0], index.clone())),
                low.set(0),
                high.set(count),
                as_long_as(low.get().less(high.get()), halve),
                low.set(place),
            ];
            if x.dtype.is_float() {
                steps.push(when(te::isnan(value.expr()), low.set(count + 1)));
            }
            steps.push(put(&outputs[0], index.clone(), element(&inputs[2], low.get().cast(I64))));
            Stmt::seq(steps)
        });
        Stmt::seq([low.begin(0), high.begin(0), body])
    }))
}
