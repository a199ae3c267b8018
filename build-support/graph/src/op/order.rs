//! Elements by their order: the largest ones, and the distinct ones.

use kernpack_compiler::ir::{Buffer, DataTypeExt, Expr, I64, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op};

use super::call::{Operand, extents, tensor};
use super::statements::{Variable, as_long_as, count_of, each, element, fill, memory, put, sort, when};
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "TopK", pattern: Pattern::Opaque, make: top_k },
    Operator { name: "Unique", pattern: Pattern::Opaque, make: unique },
];

/// Up to this number, elements are found by insertion into a sorted list; more by sorting all.
const FEW: i64 = 48;

fn top_k(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = x.axis(call.attrs.int("axis", -1)?)?;
    let k = match call.attrs.find_int("k")? {
        Some(k) => k,
        None => match call.ints(1)?[..] {
            [k] => k,
            ref other => crate::error::fail!("expected one number of elements, got {other:?}"),
        },
    };
    let length = x.shape[axis];
    require!((0..=length).contains(&k), "the first {k} of {length} elements are wanted");
    let largest = call.attrs.flag("largest", true)?;
    let mut shape = x.shape.clone();
    shape[axis] = k;
    if shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype)), tensor(&shape, |_| Expr::int(0))]);
    }
    let (outer, inner) = (count_of(&x.shape[..axis]), count_of(&x.shape[axis + 1..]));
    let rows = Rows { length, k, inner, largest };
    let op = extern_op("top_k", [&x.tensor]).output(extents(&shape), x.dtype).output(extents(&shape), I64);
    Ok(op.body(|inputs, outputs| {
        each("outer", outer, |outer| {
            each("inner", inner, |inner_index| {
                let (from, to) = (outer * (length * inner) + inner_index, outer * (k * inner) + inner_index);
                if k <= FEW {
                    rows.insert(&inputs[0], outputs, &from, &to)
                } else {
                    rows.sort(&inputs[0], outputs, &from, &to)
                }
            })
        })
    }))
}

/// Rows of elements, the first `k` of which are requested.
struct Rows {
    length: i64,
    k: i64,
    inner: i64,
    largest: bool,
}

impl Rows {
    fn is_before(&self, a: &Expr, b: &Expr) -> Expr {
        if self.largest { less(b, a) } else { less(a, b) }
    }

    /// Inserts values and indices of a row from `from` to `to`: each element moves those that come
    /// after it.
    fn insert(&self, x: &Buffer, outputs: &[Buffer], from: &Expr, to: &Expr) -> Stmt {
        let (found, place) = (Variable::index("found"), Variable::index("place"));
        let (values, indices) = (&outputs[0], &outputs[1]);
        let slot = |number: Expr| to + number * self.inner;
        let value = Variable::new("value", x.dtype);
        let insert = {
            let before = || slot((place.get() - 1).max(0));
            let is_behind = place.get().greater(0).and(self.is_before(&value.get(), &element(values, before())));
            let moved = Stmt::seq([
                put(values, slot(place.get()), element(values, before())),
                put(indices, slot(place.get()), element(indices, before())),
                place.add(-1),
            ]);
            Stmt::seq([place.set(found.get().min(self.k - 1)), as_long_as(is_behind, moved)])
        };
        let row = each("element", self.length, |index| {
            let is_wanted = found
                .get()
                .less(self.k)
                .or(self.is_before(&value.get(), &element(values, slot((found.get() - 1).max(0)))));
            let taken = Stmt::seq([
                insert,
                put(values, slot(place.get()), value.get()),
                put(indices, slot(place.get()), index.clone()),
                found.set((found.get() + 1).min(self.k)),
            ]);
            Stmt::seq([value.set(element(x, from + index * self.inner)), when(is_wanted, taken)])
        });
        Stmt::seq([found.begin(0), place.begin(0), value.begin(Expr::constant(x.dtype, 0)), row])
    }

    /// Sorts values and indices of a row from `from` to `to`.
    fn sort(&self, x: &Buffer, outputs: &[Buffer], from: &Expr, to: &Expr) -> Stmt {
        let order = memory("order", I64, self.length);
        let at = |number: &Expr| element(x, from + number * self.inner);
        let sorted = sort(&order, self.length, |a, b| (Stmt::nothing(), self.is_before(&at(a), &at(b))));
        let taken = each("taken", self.k, |number| {
            let index = element(&order, number.clone());
            let slot = to + number * self.inner;
            Stmt::seq([put(&outputs[0], slot.clone(), at(&index)), put(&outputs[1], slot, index)])
        });
        Stmt::seq([Stmt::alloc(order.clone()), sorted, taken])
    }
}

/// Compares two values, with NaN after all numbers.
fn less(a: &Expr, b: &Expr) -> Expr {
    if a.dtype().is_float() { a.less(b).or(te::isnan(b).and(te::isnan(a).negated())) } else { a.less(b) }
}

/// The items of a tensor: its elements, or its slices along an axis.
struct Items {
    count: i64,
    /// The elements of an item: the number of blocks, and the number of contiguous elements in
    /// each.
    blocks: i64,
    block: i64,
}

impl Items {
    fn of(x: &Operand, axis: Option<usize>) -> Self {
        match axis {
            None => Self { count: count_of(&x.shape), blocks: 1, block: 1 },
            Some(axis) => {
                Self { count: x.shape[axis], blocks: count_of(&x.shape[..axis]), block: count_of(&x.shape[axis + 1..]) }
            }
        }
    }

    /// Returns the place of an element of an item.
    fn place(&self, item: &Expr, block: &Expr, inside: &Expr) -> Expr {
        (block * self.count + item) * self.block + inside
    }

    /// Compares two items, element by element. The variable becomes -1, 0 or 1.
    fn compare(&self, x: &Buffer, outcome: &Variable, a: &Expr, b: &Expr) -> Stmt {
        let elements = each("block", self.blocks, |block| {
            each("inside", self.block, |inside| {
                let (a, b) = (element(x, self.place(a, block, inside)), element(x, self.place(b, block, inside)));
                let later = Expr::select(less(&b, &a), Expr::int(1), Expr::int(0));
                when(outcome.get().equals(0), outcome.set(Expr::select(less(&a, &b), Expr::int(-1), later)))
            })
        });
        Stmt::seq([outcome.set(0), elements])
    }
}

/// Outputs: the distinct items, the index of the first occurrence of each, the index of each item
/// among them, and the number of occurrences; then the extents of the first, second and fourth.
fn unique(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let sorted = call.attrs.flag("sorted", true)?;
    let axis = match call.attrs.find_int("axis")? {
        Some(axis) => Some(x.axis(axis)?),
        None => None,
    };
    let items = Items::of(x, axis);
    let shape = if axis.is_some() { x.shape.clone() } else { vec![items.count] };
    let counts = [items.count];
    if shape.contains(&0) {
        let none = || tensor(&[0], |_| Expr::int(0));
        let extents = tensor(&[i64::try_from(shape.len()).unwrap_or(0)], |_| Expr::int(0));
        let one = || tensor(&[1], |_| Expr::int(0));
        return Ok(vec![
            tensor(&shape, |_| x.at(&vec![Expr::int(0); x.rank()])),
            none(),
            none(),
            none(),
            extents,
            one(),
            one(),
        ]);
    }
    let op = extern_op("unique", [&x.tensor])
        .output(extents(&shape), x.dtype)
        .output(extents(&counts), I64)
        .output(extents(&counts), I64)
        .output(extents(&counts), I64)
        .output([i64::try_from(shape.len()).unwrap_or(0)], I64)
        .output([1], I64)
        .output([1], I64);
    Ok(op.body(|inputs, outputs| {
        let x = &inputs[0];
        let [y, first, which, how_often, y_extents, first_extents, often_extents] = outputs else {
            return Stmt::nothing();
        };
        let (order, group, renamed) =
            (memory("order", I64, items.count), memory("group", I64, items.count), memory("renamed", I64, items.count));
        let (outcome, groups, next) = (Variable::index("outcome"), Variable::index("groups"), Variable::index("next"));
        let before = |number: &Expr| element(&order, (number - 1).max(0));
        let grouped = each("number", items.count, |number| {
            let item = element(&order, number.clone());
            let differs = number.greater(0).and(outcome.get().differs(0));
            Stmt::seq([
                items.compare(x, &outcome, &before(number), &item),
                when(differs, groups.add(1)),
                put(&group, item, groups.get()),
            ])
        });
        // In the order of the items, each group gets its index at its first occurrence.
        let named = each("number", items.count, |number| {
            let own = element(&group, number.clone());
            let is_new = element(&renamed, own.clone()).less(0);
            let name = if sorted { own.clone() } else { next.get() };
            when(is_new, Stmt::seq([put(&renamed, own, name), next.add(1)]))
        });
        let shape_length = i64::try_from(shape.len()).unwrap_or(0);
        let collected = each("number", items.count, |number| {
            let own = element(&renamed, element(&group, number.clone()));
            let slice = each("block", items.blocks, |block| {
                each("inside", items.block, |inside| {
                    put(y, items.place(&own, block, inside), element(x, items.place(number, block, inside)))
                })
            });
            let is_first = element(how_often, own.clone()).equals(0);
            Stmt::seq([
                put(which, number.clone(), own.clone()),
                when(is_first, Stmt::seq([put(first, own.clone(), number.clone()), slice])),
                put(how_often, own.clone(), element(how_often, own.clone()) + 1),
            ])
        });
        let sizes = (0..shape_length).map(|index| {
            let varies = axis.is_none_or(|axis| i64::try_from(axis) == Ok(index));
            let fixed = usize::try_from(index).ok().and_then(|index| shape.get(index)).copied().unwrap_or(0);
            put(y_extents, index, if varies { next.get() } else { Expr::int(fixed) })
        });
        let sizes = Stmt::seq(sizes);
        Stmt::seq([
            Stmt::alloc(order.clone()),
            Stmt::alloc(group.clone()),
            Stmt::alloc(renamed.clone()),
            outcome.begin(0),
            groups.begin(0),
            next.begin(0),
            sort(&order, items.count, |a, b| (items.compare(x, &outcome, a, b), outcome.get().less(0))),
            fill(&renamed, items.count, &Expr::int(-1)),
            fill(y, count_of(&shape), &Expr::constant(x.dtype, 0)),
            fill(first, items.count, &Expr::int(0)),
            fill(how_often, items.count, &Expr::int(0)),
            grouped,
            named,
            collected,
            sizes,
            put(first_extents, 0, next.get()),
            put(often_extents, 0, next.get()),
        ])
    }))
}
