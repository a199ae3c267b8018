//! The analyzer: what is known, and what follows.

use std::cell::RefCell;
use std::rc::Rc;

use kernpack::Array;

use super::interval::ConstInterval;
use super::modular::ModularSet;
use super::sum::{Sum, Term};
use crate::ir::shared::ByAddress;
use crate::ir::visit::uses_var;
use crate::ir::{Expr, Param, Range, Var};

/// What is known of a variable.
#[derive(Clone)]
pub(crate) struct VarFacts {
    /// Keeps the address taken.
    pub(crate) var: Var,
    pub(crate) range: ConstInterval,
    pub(crate) modular: ModularSet,
    /// What stands for it, simplified.
    pub(crate) value: Option<Value>,
    /// Set for the variable of a loop, but no size: what is made of it may be 0 where bounds do not
    /// exclude that.
    pub(crate) takes_zero: bool,
}

/// What stands for a variable.
#[derive(Clone)]
pub(crate) enum Value {
    /// Of an index type.
    Sum(Rc<Sum>),
    /// Of another type.
    Expr(Expr),
}

/// Bounds of something that is no variable: `range` of the term.
pub(crate) struct AtomFact {
    pub(crate) term: Term,
    /// Not, once a variable of it was bound again.
    pub(crate) alive: bool,
}

/// `sum <= 0`.
pub(crate) struct LinearFact {
    pub(crate) sum: Rc<Sum>,
    /// Not, once a variable of it was bound again.
    pub(crate) alive: bool,
}

/// A condition that holds, or does not.
pub(crate) struct Literal {
    pub(crate) condition: Expr,
    pub(crate) holds: bool,
    /// Not, once a variable of it was bound again.
    pub(crate) alive: bool,
}

/// How to take back a fact.
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
    /// Keeps the address taken.
    _expr: Expr,
    epoch: u64,
    sum: Rc<Sum>,
}

struct Simplified {
    /// Keeps the address taken.
    _expr: Expr,
    epoch: u64,
    result: Expr,
}

/// Conditions that are entered inside of others for one question. In each scope, shared parts are looked at again: without a limit chains of choices would
/// take time of a high power of their length.
const NESTED_SCOPES: u32 = 48;

/// Cases of minima and maxima that comparisons look at for one question: there are as many as the power of 2 of how deep they are nested.
const CASES: u32 = 128;

/// Entries of a memo at which it is emptied.
const MEMO_SIZE: usize = 1 << 14;

/// All that the analyzer knows.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) vars: ByAddress<VarFacts>,
    pub(crate) atoms: Vec<AtomFact>,
    pub(crate) linear: Vec<LinearFact>,
    pub(crate) literals: Vec<Literal>,
    pub(crate) trail: Vec<Undo>,
    /// Which set of facts holds. Sets are numbered, and a number is not used again.
    pub(crate) epoch: u64,
    last_epoch: u64,
    memo: ByAddress<Memo>,
    simplified: ByAddress<Simplified>,
    /// Whether expressions are data.
    known_data: RefCell<ByAddress<(Expr, u64, bool)>>,
    /// Conditions that are entered inside of the expression that is being simplified.
    pub(crate) scopes: u32,
    /// How often conditions may still be entered inside of others, for the expression that was asked about.
    pub(crate) nested_scopes: u32,
    /// Cases of minima and maxima that comparisons may still look at, for the expression that was asked about.
    pub(crate) cases: u32,
    /// Variables that count lanes, by their number.
    pub(crate) lanes: Vec<(u16, Var)>,
    /// Whether a proof is being made: what it simplifies makes none.
    pub(crate) proving: bool,
    /// Variables that are data, on which arithmetic wraps.
    pub(crate) data: ByAddress<Var>,
    /// Whether sums inside of quotients have to lie inside of their type.
    pub(crate) strict: bool,
}

impl State {
    /// To be called with each new fact.
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

    /// Forgets what expressions were simplified to.
    pub(crate) fn clear_memos(&mut self) {
        self.memo.clear();
        self.simplified.clear();
        self.known_data.borrow_mut().clear();
    }

    /// Whether an expression is data, if that is known under the facts of now.
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
    /// What an expression that is no sum was simplified to under the facts of now.
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
/// Facts are what loops say about their variables ([`bind`](Self::bind)), what names stand for ([`bind_value`](Self::bind_value)) and conditions that
/// hold ([`enter`](Self::enter)). They hold until the analyzer is [restored](Self::restore) to a mark that was taken before.
///
/// Arithmetic on indices (loop variables, sizes, constants) is assumed not to overflow. Arithmetic on data (loads, results of calls, parameters of
/// functions, and what is computed from them) wraps in two's complement. Unsigned integers and those of 8 and 16 bits are only folded.
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
    /// An analyzer that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// An analyzer that knows which parameters of a function are data: numbers that are no sizes.
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

    /// The variable is data: arithmetic on it wraps. Sizes stay indices.
    pub(crate) fn mark_data(&self, var: &Var) {
        self.with(|state| state.mark_data(var));
    }

    /// Whether an expression is data, on which arithmetic wraps.
    pub(crate) fn is_data(&self, expr: &Expr) -> bool {
        self.with(|state| state.is_data(expr))
    }

    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.borrow_mut();
        state.nested_scopes = NESTED_SCOPES;
        state.cases = CASES;
        work(&mut state)
    }

    /// The variable takes the values of a range, which is not empty where the fact is used: inside the loop. Replaces what was known of it.
    pub fn bind(&self, var: &Var, range: &Range) {
        self.with(|state| state.bind_range(var, range));
    }

    /// The variable stands for a value: simplification puts the value in its place. Replaces what was known of it.
    pub fn bind_value(&self, var: &Var, value: &Expr) {
        self.with(|state| state.bind_value(var, value));
    }

    /// The variable equals a value, which is not put in its place: bounds, divisibility and proofs know it. Replaces what was known of it.
    pub fn bind_equal(&self, var: &Var, value: &Expr) {
        self.with(|state| state.bind_equal(var, value));
    }

    /// A condition holds. What it says about memory is not kept, for stores may change it.
    pub fn enter(&self, condition: &Expr) {
        self.with(|state| state.enter(condition));
    }

    /// A condition does not hold.
    pub fn enter_negation(&self, condition: &Expr) {
        self.with(|state| state.enter_negation(condition));
    }

    /// The facts of now, to return to.
    pub fn mark(&self) -> Mark {
        self.with(|state| state.mark())
    }

    /// Forgets all facts since a mark. Marks after it are void.
    pub fn restore(&self, mark: Mark) {
        self.with(|state| state.restore(mark));
    }

    /// Runs work, and forgets the facts that it entered.
    pub fn scoped<R>(&self, work: impl FnOnce(&Self) -> R) -> R {
        let mark = self.mark();
        let result = work(self);
        self.restore(mark);
        result
    }

    /// The expression in canonical, simpler form; the same node if nothing changes.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        self.with(|state| state.simplify(expr))
    }

    /// Whether a condition certainly holds, in every lane.
    pub fn can_prove(&self, condition: &Expr) -> bool {
        self.with(|state| state.can_prove(condition))
    }

    /// Whether two integers or truth values are certainly equal.
    pub fn can_prove_equal(&self, a: &Expr, b: &Expr) -> bool {
        self.with(|state| state.can_prove_equal(a, b))
    }

    /// Bounds of an integer or truth value; of all lanes of a vector. Everything for other types.
    pub fn const_interval(&self, expr: &Expr) -> ConstInterval {
        self.with(|state| state.const_interval(expr))
    }

    /// Divisibility of an integer; of all lanes of a vector.
    pub fn modular_set(&self, expr: &Expr) -> ModularSet {
        self.with(|state| state.modular_set(expr))
    }
}
