//! The probabilities of classes from the scores of pairs of classes, by the second method of Wu,
//! Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling"
//! (2004).

use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use crate::error::{Result, require};
use crate::op::call::{extents, zeros};
use crate::op::statements::{Variable, as_long_as, each, element, fill, memory, put, when};
use crate::op::{Call, Operator, Pattern};

/// Inputs: scores of pairs, `[rows, classes * (classes - 1) / 2]`, and a factor and an addend for
/// each pair.
pub(crate) static PAIR_PROBABILITIES: Operator =
    Operator { name: "SVMClassifier", pattern: Pattern::Opaque, make: probabilities };

/// The number of rounds, and the error per class that ends them before.
const ROUNDS: i64 = 100;
const ERROR: f64 = 0.005;

/// Probabilities of pairs keep this distance from 0 and 1.
const LEAST: f64 = 1e-7;

/// Fewer numbers than this are not split among threads.
const SHARED: i64 = 1 << 10;

/// The maximum number of classes.
const MOST: i64 = 1 << 12;

fn probabilities(call: &Call) -> Result<Vec<Tensor>> {
    let (scores, factor, addend) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require!(scores.rank() == 2 && scores.dtype == F32, "expected scores of pairs, got {:?}", scores.shape);
    let pairs = scores.shape[1];
    let classes = (2..=MOST).find(|classes| classes * (classes - 1) / 2 >= pairs).unwrap_or(MOST);
    let fits = classes * (classes - 1) / 2 == pairs && factor.shape == [pairs] && addend.shape == [pairs];
    require!(fits, "{pairs} pairs of classes, with factors {:?} and addends {:?}", factor.shape, addend.shape);
    let shape = [scores.shape[0], classes];
    if shape.contains(&0) {
        return Ok(vec![zeros(&shape, F32)]);
    }
    let op = extern_op("pairs", [&scores.tensor, &factor.tensor, &addend.tensor]).output(extents(&shape), F32);
    Ok(op.body(|inputs, outputs| {
        let own = Coupling::new(classes);
        let row = Var::index("row");
        let body =
            Stmt::seq([own.begin(), own.pairs(inputs, row.expr()), own.solve(), own.end(&outputs[0], row.expr())]);
        let kind = if shape[0] > 1 && shape[0] * pairs >= SHARED { ForKind::Parallel } else { ForKind::Serial };
        Stmt::for_loop(row, 0, shape[0], kind, body)
    }))
}

fn float(value: f64) -> Expr {
    te::constant(value, F32)
}

/// The temporary memory of a row.
struct Coupling {
    classes: i64,
    /// The probability of the first class of each pair of classes.
    given: Buffer,
    matrix: Buffer,
    result: Buffer,
    products: Buffer,
    whole: Variable,
    error: Variable,
    round: Variable,
}

impl Coupling {
    fn new(classes: i64) -> Self {
        Self {
            classes,
            given: memory("given", F32, classes * classes),
            matrix: memory("matrix", F32, classes * classes),
            result: memory("result", F32, classes),
            products: memory("products", F32, classes),
            whole: Variable::new("whole", F32),
            error: Variable::new("error", F32),
            round: Variable::index("round"),
        }
    }

    fn at(&self, buffer: &Buffer, row: &Expr, column: &Expr) -> Expr {
        element(buffer, row * self.classes + column)
    }

    fn begin(&self) -> Stmt {
        let buffers = [&self.given, &self.matrix, &self.result, &self.products];
        let allocated = buffers.map(|buffer| Stmt::alloc(buffer.clone()));
        #[expect(clippy::cast_precision_loss, reason = "there are few classes")]
        let equal = fill(&self.result, self.classes, &float(1.0 / self.classes as f64));
        let variables = [self.whole.begin(float(0.0)), self.error.begin(float(0.0)), self.round.begin(0), equal];
        Stmt::seq(allocated.into_iter().chain(variables))
    }

    /// Computes the probabilities of pairs, and the matrix of the equations.
    fn pairs(&self, inputs: &[Buffer], row: &Expr) -> Stmt {
        let mut pair = 0;
        let mut parts = Vec::new();
        let count = self.classes * (self.classes - 1) / 2;
        for first in 0..self.classes {
            // The pairs of a class follow each other.
            let (begin, behind) = (pair, self.classes - 1 - first);
            pair += behind;
            parts.push(each("other", behind, |other| {
                let place = other + begin;
                let score = element(&inputs[0], row * count + &place);
                let value = score * element(&inputs[1], place.clone()) + element(&inputs[2], place);
                let own = Var::new("own", F32);
                let limited = te::clamp(float(1.0) - te::sigmoid(value), float(LEAST), float(1.0 - LEAST));
                let (first, second) = (Expr::int(first), other + (first + 1));
                Stmt::seq([
                    Stmt::bind(own.clone(), limited),
                    put(&self.given, &first * self.classes + &second, own.expr().clone()),
                    put(&self.given, second * self.classes + first, float(1.0) - own.expr()),
                ])
            }));
        }
        let square = |class: &Expr, other: &Expr| {
            let value = self.at(&self.given, other, class);
            let diagonal = class * self.classes + class;
            let sum = element(&self.matrix, diagonal.clone()) + &value * &value;
            let product = float(0.0) - value * self.at(&self.given, class, other);
            let both = [put(&self.matrix, diagonal, sum), put(&self.matrix, class * self.classes + other, product)];
            when(class.differs(other), Stmt::seq(both))
        };
        parts.push(fill(&self.matrix, self.classes * self.classes, &float(0.0)));
        parts.push(each("class", self.classes, |class| each("other", self.classes, |other| square(class, other))));
        Stmt::seq(parts)
    }

    /// Improves the probabilities until the error is small.
    fn solve(&self) -> Stmt {
        let result = |class: &Expr| element(&self.result, class.clone());
        let product = |class: &Expr| element(&self.products, class.clone());
        let products = each("class", self.classes, |class| {
            let sum = each("other", self.classes, |other| {
                put(&self.products, class.clone(), product(class) + self.at(&self.matrix, class, other) * result(other))
            });
            let whole = self.whole.add(result(class) * product(class));
            Stmt::seq([put(&self.products, class.clone(), float(0.0)), sum, whole])
        });
        let errors = each("class", self.classes, |class| {
            let own = te::abs(product(class) - self.whole.get());
            when(own.greater(self.error.get()), self.error.set(own))
        });
        let improve = each("class", self.classes, |class| {
            let (step, shrunk) = (Var::new("step", F32), Var::new("shrunk", F32));
            let diagonal = self.at(&self.matrix, class, class);
            let moved = (self.whole.get() - product(class)) / &diagonal;
            let whole = self.whole.get() + step.expr() * (step.expr() * diagonal + product(class) * float(2.0));
            let others = each("other", self.classes, |other| {
                let moved = product(other) + step.expr() * self.at(&self.matrix, class, other);
                Stmt::seq([
                    put(&self.products, other.clone(), moved / shrunk.expr()),
                    put(&self.result, other.clone(), result(other) / shrunk.expr()),
                ])
            });
            Stmt::seq([
                Stmt::bind(step.clone(), moved),
                Stmt::bind(shrunk.clone(), step.expr() + float(1.0)),
                put(&self.result, class.clone(), result(class) + step.expr()),
                self.whole.set(whole / shrunk.expr() / shrunk.expr()),
                others,
            ])
        });
        #[expect(clippy::cast_precision_loss, reason = "there are few classes")]
        let is_good = self.error.get().less(float(ERROR / self.classes as f64));
        let next = Stmt::if_then(is_good, self.round.set(ROUNDS), Some(Stmt::seq([improve, self.round.add(1)])));
        let round = Stmt::seq([self.whole.set(float(0.0)), products, self.error.set(float(0.0)), errors, next]);
        as_long_as(self.round.get().less(ROUNDS), round)
    }

    fn end(&self, to: &Buffer, row: &Expr) -> Stmt {
        each("class", self.classes, |class| put(to, row * self.classes + class, element(&self.result, class.clone())))
    }
}
