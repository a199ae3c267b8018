//! Reductions with user-defined functions.

use core::panic::Location;

use kernpack::DataType;

use super::exprs::Axes;
use super::reduce::reduction;
use crate::error::{CompileError, ErrorKind, place, report};
use crate::ir::{DataTypeExt, Expr, ExprNode, Reducer, ReducerNode, Var};

/// A commutative and associative function of `M` partial results, with the results of an empty
/// reduction.
#[derive(Clone)]
pub struct CommReducer<const M: usize> {
    reducer: Reducer,
}

/// Creates a reduction with a user-defined function: `combine` takes two partial results and
/// returns one, `identity` is the result of an empty reduction: `combine(identity, x) == x` for all
/// `x`. The caller is responsible for commutativity and associativity; schedules change the order.
///
/// Results of other types than `dtypes` are reported.
///
/// ```
/// use kernpack_compiler::ir::F32;
/// use kernpack_compiler::te::{comm_reducer, compute, placeholder, reduce_axis};
///
/// let a = placeholder([8, 100], F32, "a");
/// let k = reduce_axis(0, 100, "k");
/// let sum_of_both = comm_reducer([F32, F32], |[s, q], [t, r]| [s + t, q + r], [0.0.into(), 0.0.into()]);
/// let [_sums, squares] = compute([8], |[i]| {
///     let x = a.at([&i, &k]);
///     sum_of_both.over([x.clone(), &x * &x], &k)
/// });
/// assert_eq!(squares.value_index, 1);
/// # kernpack_compiler::take_reported().unwrap();
/// ```
#[track_caller]
pub fn comm_reducer<const M: usize>(
    dtypes: [DataType; M],
    combine: impl FnOnce([Expr; M], [Expr; M]) -> [Expr; M],
    identity: [Expr; M],
) -> CommReducer<M> {
    let here = Location::caller();
    let lhs: [Var; M] = core::array::from_fn(|index| Var::new(format!("x{index}"), dtypes[index]));
    let rhs: [Var; M] = core::array::from_fn(|index| Var::new(format!("y{index}"), dtypes[index]));
    let results = combine(
        core::array::from_fn(|index| lhs[index].expr().clone()),
        core::array::from_fn(|index| rhs[index].expr().clone()),
    );
    let mismatch = |what: &str, index: usize, got: DataType| {
        let (got, expected) = (got.short_name(), dtypes[index].short_name());
        let error = format!("comm_reducer: {what} {index} is of type {got}, expected {expected}");
        report(CompileError::new(ErrorKind::Type, error).at(place(here)));
    };
    let checked = |what: &str, values: [Expr; M]| {
        let mut values = Vec::from(values);
        for (index, value) in values.iter_mut().enumerate() {
            let fits = value.as_int().is_some_and(|int| dtypes[index].can_hold(int))
                || value.as_float().is_some() && dtypes[index].is_float();
            if fits {
                *value = value.cast(dtypes[index]);
            }
            if value.dtype() != dtypes[index] {
                mismatch(what, index, value.dtype());
                *value = Expr::constant(dtypes[index], 0);
            }
        }
        values
    };
    if M == 0 {
        report(CompileError::new(ErrorKind::Type, "comm_reducer: no values").at(place(here)));
    }
    let reducer = ReducerNode {
        results: checked("result", results).into(),
        identity: checked("identity", identity).into(),
        lhs: lhs.into_iter().collect(),
        rhs: rhs.into_iter().collect(),
    };
    CommReducer { reducer: Reducer::from_node(reducer) }
}

impl<const M: usize> CommReducer<M> {
    /// Reduces values over axes.
    #[track_caller]
    pub fn over(&self, values: [Expr; M], axes: impl Axes) -> [Expr; M] {
        self.reduced(values, axes.into_axes(), Expr::bool(true), Vec::new(), Location::caller())
    }

    /// Reduces the elements for which a condition holds.
    #[track_caller]
    pub fn over_where(&self, condition: impl Into<Expr>, values: [Expr; M], axes: impl Axes) -> [Expr; M] {
        self.reduced(values, axes.into_axes(), condition.into(), Vec::new(), Location::caller())
    }

    /// Reduces values with initial values, in which the reduction axes must not occur.
    #[track_caller]
    pub fn over_from(&self, init: [Expr; M], values: [Expr; M], axes: impl Axes) -> [Expr; M] {
        self.reduced(values, axes.into_axes(), Expr::bool(true), init.into(), Location::caller())
    }

    /// The reducer.
    pub fn reducer(&self) -> &Reducer {
        &self.reducer
    }

    fn reduced(
        &self,
        values: [Expr; M],
        axes: Vec<crate::ir::IterVar>,
        condition: Expr,
        init: Vec<Expr>,
        here: &Location<'_>,
    ) -> [Expr; M] {
        let dtypes = self.reducer.lhs.to_vec();
        let fitted = |values: Vec<Expr>| -> Vec<Expr> {
            // Constants take the type of the function's variables.
            let typed = values.into_iter().zip(&dtypes).map(|(value, var)| {
                let dtype = var.dtype();
                let is_constant = value.as_int().is_some_and(|int| dtype.can_hold(int))
                    || value.as_float().is_some() && dtype.is_float();
                if is_constant { value.cast(dtype) } else { value }
            });
            typed.collect()
        };
        let values = fitted(values.into());
        let init = fitted(init);
        let results = reduction("reduction", &self.reducer, values, axes, condition, init, here);
        results.try_into().unwrap_or_else(|_| unreachable!("as many results as values"))
    }
}

impl Expr {
    /// Restricts a reduction to the elements for which a condition holds:
    /// `sum(x, &k).only_where(k.less(&n))`.
    ///
    /// An expression that is not a reduction of one value is reported.
    #[track_caller]
    #[must_use]
    pub fn only_where(&self, condition: impl Into<Expr>) -> Self {
        let here = Location::caller();
        let condition = condition.into();
        self.changed_reduction("only_where", here, |old, init| (old.and(&condition), init))
    }

    /// Sets the initial value of a reduction, which replaces the identity:
    /// `sum(x, &k).beginning_with(bias.at([&j]))`. The reduction axes must not occur in it.
    ///
    /// An expression that is not a reduction of one value is reported.
    #[track_caller]
    #[must_use]
    pub fn beginning_with(&self, value: impl Into<Expr>) -> Self {
        let here = Location::caller();
        let mut value = value.into();
        let is_constant = value.as_int().is_some_and(|int| self.dtype().can_hold(int))
            || value.as_float().is_some() && self.dtype().is_float();
        if is_constant {
            value = value.cast(self.dtype());
        }
        self.changed_reduction("beginning_with", here, |condition, _| (condition, vec![value]))
    }

    fn changed_reduction(
        &self,
        what: &str,
        here: &Location<'_>,
        change: impl FnOnce(Expr, Vec<Expr>) -> (Expr, Vec<Expr>),
    ) -> Self {
        let ExprNode::Reduce { reducer, sources, axes, condition, init, .. } = &**self else {
            report(
                CompileError::new(ErrorKind::Type, format!("{what} of an expression that is not a reduction"))
                    .at(place(here)),
            );
            return self.clone();
        };
        if sources.len() != 1 {
            let error = format!("{what} of one result of a reduction of {} values", sources.len());
            report(CompileError::new(ErrorKind::Type, error).at(place(here)).note("use `comm_reducer`"));
            return self.clone();
        }
        let (condition, init) = change(condition.clone(), init.to_vec());
        reduction(what, reducer, sources.to_vec(), axes.to_vec(), condition, init, here).swap_remove(0)
    }
}
