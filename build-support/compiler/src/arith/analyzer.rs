//! The analyzer: known facts, and the conclusions that follow from them.

use std::cell::RefCell;
use std::rc::Rc;

use kernpack::Array;

use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::sum::{Sum, Term};
use crate::ir::shared::ByAddress;
use crate::ir::visit::uses_var;
use crate::ir::{Expr, Param, Range, Var};

/// The facts about a variable.
#[derive(Clone)]
pub(crate) struct VarFacts {
    /// Keeps the node alive, so that its address is not reused.
    pub(crate) var: Var,
    pub(crate) range: ConstInterval,
    pub(crate) modular: ModularSet,
    /// The value that is substituted for the variable, simplified.
    pub(crate) value: Option<Value>,
    /// True for a loop variable that is not a size: an expression of it may be 0 unless its bounds
    /// exclude 0.
    pub(crate) takes_zero: bool,
}

/// The value that is substituted for a variable.
#[derive(Clone)]
pub(crate) enum Value {
    /// A value of an index type.
    Sum(Rc<Sum>),
    /// A value of another type.
    Expr(Expr),
}

/// Bounds of a term that is not a variable: the term's `range`.
pub(crate) struct AtomFact {
    pub(crate) term: Term,
    /// False once a variable of the term is bound again.
    pub(crate) alive: bool,
}

/// `sum <= 0`.
pub(crate) struct LinearFact {
    pub(crate) sum: Rc<Sum>,
    /// False once a variable of the sum is bound again.
    pub(crate) alive: bool,
}

/// A condition that holds, or one that does not hold.
pub(crate) struct Literal {
    pub(crate) condition: Expr,
    pub(crate) holds: bool,
    /// False once a variable of the condition is bound again.
    pub(crate) alive: bool,
}

/// The record that reverts a fact.
pub(crate) enum Undo {
    Var(usize, Option<VarFacts>),
    Atom,
    Linear,
    Literal,
    ReviveAtom(usize),
    ReviveLinear(usize),
    ReviveLiteral(usize),
}

struct Memo {
    /// Keeps the node alive, so that its address is not reused.
    _expr: Expr,
    epoch: u64,
    sum: Rc<Sum>,
}

struct Simplified {
    /// Keeps the node alive, so that its address is not reused.
    _expr: Expr,
    epoch: u64,
    result: Expr,
}

/// The number of nested conditions that are entered for one query. Each scope simplifies shared
/// parts again: without a limit, chains of selects would take time of a high power of their length.
const NESTED_SCOPES: u32 = 48;

/// The number of cases of minima and maxima that the comparisons of one query examine. The number
/// of cases is exponential in the nesting depth.
const CASES: u32 = 128;

/// The number of entries at which a memo is cleared.
const MEMO_SIZE: usize = 1 << 14;

/// The state of the analyzer.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) vars: ByAddress<VarFacts>,
    pub(crate) atoms: Vec<AtomFact>,
    pub(crate) linear: Vec<LinearFact>,
    pub(crate) literals: Vec<Literal>,
    pub(crate) trail: Vec<Undo>,
    /// The number of the current set of facts. A number is never reused.
    pub(crate) epoch: u64,
    last_epoch: u64,
    memo: ByAddress<Memo>,
    simplified: ByAddress<Simplified>,
    /// For each expression: true if it is data.
    known_data: RefCell<ByAddress<(Expr, u64, bool)>>,
    /// The number of conditions entered inside of the expression that is being simplified.
    pub(crate) scopes: u32,
    /// The number of nested conditions that may still be entered for the current query.
    pub(crate) nested_scopes: u32,
    /// The number of cases of minima and maxima that comparisons may still examine for the current
    /// query.
    pub(crate) cases: u32,
    /// The variables that represent the lane index, by the number of lanes.
    pub(crate) lanes: Vec<(u16, Var)>,
    /// True while a proof is in progress: simplification inside of a proof starts no further proof.
    pub(crate) proving: bool,
    /// The variables that are data, on which arithmetic wraps.
    pub(crate) data: ByAddress<Var>,
    /// True if sums inside of quotients must lie inside of their type.
    pub(crate) strict: bool,
}

impl State {
    /// Records a new fact. Must be called for each new fact.
    pub(crate) fn learned(&mut self, undo: Undo) {
        self.trail.push(undo);
        self.last_epoch += 1;
        self.epoch = self.last_epoch;
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { trail: self.trail.len(), epoch: self.epoch }
    }

    pub(crate) fn restore(&mut self, mark: Mark) {
        if self.trail.len() <= mark.trail {
            return;
        }
        while self.trail.len() > mark.trail {
            match self.trail.pop() {
                Some(Undo::Var(address, Some(facts))) => drop(self.vars.insert(address, facts)),
                Some(Undo::Var(address, None)) => drop(self.vars.remove(&address)),
                Some(Undo::Atom) => drop(self.atoms.pop()),
                Some(Undo::Linear) => drop(self.linear.pop()),
                Some(Undo::Literal) => drop(self.literals.pop()),
                Some(Undo::ReviveAtom(index)) => self.atoms[index].alive = true,
                Some(Undo::ReviveLinear(index)) => self.linear[index].alive = true,
                Some(Undo::ReviveLiteral(index)) => self.literals[index].alive = true,
                None => break,
            }
        }
        self.epoch = mark.epoch;
    }

    pub(crate) fn remembered(&self, expr: &Expr) -> Option<Rc<Sum>> {
        let memo = self.memo.get(&expr.address())?;
        (memo.epoch == self.epoch).then(|| memo.sum.clone())
    }

    pub(crate) fn remember(&mut self, expr: &Expr, sum: &Rc<Sum>) {
        if self.memo.len() >= MEMO_SIZE {
            self.memo.clear();
        }
        let memo = Memo { _expr: expr.clone(), epoch: self.epoch, sum: sum.clone() };
        self.memo.insert(expr.address(), memo);
    }

    /// Clears the memos of simplified expressions.
    pub(crate) fn clear_memos(&mut self) {
        self.memo.clear();
        self.simplified.clear();
        self.known_data.borrow_mut().clear();
    }

    /// Returns whether an expression is data, if that is known under the current facts.
    pub(crate) fn remembered_data(&self, expr: &Expr) -> Option<bool> {
        let known = self.known_data.borrow();
        let (_, epoch, data) = known.get(&expr.address())?;
        (*epoch == self.epoch).then_some(*data)
    }

    pub(crate) fn remember_data(&self, expr: &Expr, data: bool) {
        let mut known = self.known_data.borrow_mut();
        if known.len() >= MEMO_SIZE {
            known.clear();
        }
        known.insert(expr.address(), (expr.clone(), self.epoch, data));
    }
}

impl State {
    /// The memoized result of simplifying an expression that is not a sum, under the current facts.
    pub(crate) fn remembered_expr(&self, expr: &Expr) -> Option<Expr> {
        let memo = self.simplified.get(&expr.address())?;
        (memo.epoch == self.epoch).then(|| memo.result.clone())
    }

    pub(crate) fn remember_expr(&mut self, expr: &Expr, result: &Expr) {
        if self.simplified.len() >= MEMO_SIZE {
            self.simplified.clear();
        }
        let memo = Simplified { _expr: expr.clone(), epoch: self.epoch, result: result.clone() };
        self.simplified.insert(expr.address(), memo);
    }
}

/// A point to which an analyzer can be restored.
#[derive(Clone, Copy, Debug)]
#[must_use = "facts hold until the analyzer is restored to the mark"]
pub struct Mark {
    trail: usize,
    epoch: u64,
}

/// Simplifies and proves, with facts about variables that hold in scopes.
///
/// Facts are the ranges of loop variables ([`bind`](Self::bind)), the values of names
/// ([`bind_value`](Self::bind_value)) and conditions that hold ([`enter`](Self::enter)). They hold
/// until the analyzer is [restored](Self::restore) to a mark that was taken before.
///
/// Arithmetic on indices (loop variables, sizes, constants) is assumed not to overflow. Arithmetic
/// on data (loads, results of calls, parameters of functions, and values computed from them) wraps
/// in two's complement. Unsigned integers and those of 8 and 16 bits are only folded.
///
/// ```
/// use kernpack_compiler::arith::Analyzer;
/// use kernpack_compiler::ir::{Range, Var};
///
/// let analyzer = Analyzer::new();
/// let (i, j) = (Var::index("i"), Var::index("j"));
/// analyzer.bind(&j, &Range::until(8));
/// let fused = &i * 8 + &j;
/// assert!(analyzer.simplify(&fused.floor_div(8)).same_as(&i));
/// assert!(analyzer.can_prove(&fused.floor_mod(8).less(8)));
///
/// let mark = analyzer.mark();
/// analyzer.enter(&i.less(4));
/// assert!(analyzer.can_prove(&fused.less(32)));
/// analyzer.restore(mark);
/// assert!(!analyzer.can_prove(&fused.less(32)));
/// ```
#[derive(Default)]
pub struct Analyzer {
    state: RefCell<State>,
}

impl Analyzer {
    /// Creates an analyzer without facts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an analyzer that knows which parameters of a function are data: integers that are
    /// not sizes.
    pub(crate) fn of_params(params: &Array<Param>) -> Self {
        let analyzer = Self::new();
        let is_extent = |var: &Var| {
            params.iter().filter_map(|param| param.buffer.clone()).any(|buffer| {
                let parts = buffer.shape.iter().chain(buffer.strides.iter()).chain([buffer.elem_offset.clone()]);
                parts.into_iter().any(|part| uses_var(&part, |used| used == var))
            })
        };
        for param in params.iter().filter(|param| param.buffer.is_none() && !is_extent(&param.var)) {
            analyzer.mark_data(&param.var);
        }
        analyzer
    }

    /// Marks the variable as data: arithmetic on it wraps. Sizes stay indices.
    pub(crate) fn mark_data(&self, var: &Var) {
        self.with(|state| state.mark_data(var));
    }

    /// Returns true if an expression is data, on which arithmetic wraps.
    pub(crate) fn is_data(&self, expr: &Expr) -> bool {
        self.with(|state| state.is_data(expr))
    }

    /// [`simplify`](Self::simplify) for an operand of later arithmetic: data stays data.
    pub(crate) fn simplify_operand(&self, expr: &Expr) -> Expr {
        self.with(|state| state.simplify_operand(expr))
    }

    /// Returns true if an integer is data, and its simplified form is not.
    pub(crate) fn loses_data(&self, expr: &Expr, new: &Expr) -> bool {
        self.with(|state| state.loses_data(expr, new))
    }

    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.borrow_mut();
        state.nested_scopes = NESTED_SCOPES;
        state.cases = CASES;
        work(&mut state)
    }

    /// Binds the variable to a range. The range must not be empty where the fact is used, which is
    /// inside the loop. Replaces earlier facts about the variable.
    pub fn bind(&self, var: &Var, range: &Range) {
        self.with(|state| state.bind_range(var, range));
    }

    /// Binds the variable to a value, which simplification substitutes for it. Replaces earlier
    /// facts about the variable.
    pub fn bind_value(&self, var: &Var, value: &Expr) {
        self.with(|state| state.bind_value(var, value));
    }

    /// Binds the variable to a value that is not substituted: bounds, divisibility and proofs use
    /// it. Replaces earlier facts about the variable.
    pub fn bind_equal(&self, var: &Var, value: &Expr) {
        self.with(|state| state.bind_equal(var, value));
    }

    /// Assumes that a condition holds. Facts about memory are not kept, because stores may change
    /// it.
    pub fn enter(&self, condition: &Expr) {
        self.with(|state| state.enter(condition));
    }

    /// Assumes that a condition does not hold.
    pub fn enter_negation(&self, condition: &Expr) {
        self.with(|state| state.enter_negation(condition));
    }

    /// Returns a mark of the current facts, to which [`restore`](Self::restore) returns.
    pub fn mark(&self) -> Mark {
        self.with(|state| state.mark())
    }

    /// Discards all facts since a mark. Later marks become invalid.
    pub fn restore(&self, mark: Mark) {
        self.with(|state| state.restore(mark));
    }

    /// Runs `work`, then discards the facts that it entered.
    pub fn scoped<R>(&self, work: impl FnOnce(&Self) -> R) -> R {
        let mark = self.mark();
        let result = work(self);
        self.restore(mark);
        result
    }

    /// Returns the expression in canonical, simpler form; the same node if nothing changes.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        self.with(|state| state.simplify(expr))
    }

    /// Returns true if a condition provably holds, in every lane.
    pub fn can_prove(&self, condition: &Expr) -> bool {
        self.with(|state| state.can_prove(condition))
    }

    /// Returns true if two integers or truth values are provably equal.
    pub fn can_prove_equal(&self, a: &Expr, b: &Expr) -> bool {
        self.with(|state| state.can_prove_equal(a, b))
    }

    /// Returns the bounds of an integer or truth value; of a vector, the bounds of all lanes. For
    /// other types, returns [`ConstInterval::EVERYTHING`].
    pub fn const_interval(&self, expr: &Expr) -> ConstInterval {
        self.with(|state| state.const_interval(expr))
    }

    /// Returns the divisibility of an integer; of a vector, that of all lanes.
    pub fn modular_set(&self, expr: &Expr) -> ModularSet {
        self.with(|state| state.modular_set(expr))
    }
}
