//! The steps of recurrent networks in one direction. What does not depend on the step before, the product of the input and its weights, is computed for all steps
//! at once by the kernels of products, before; see `import/recurrent.rs`.

use kernpack::DataType;
use kernpack_compiler::ir::{Buffer, Expr, F32, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use super::call::{Operand, extents};
use super::statements::{each, element, in_vectors, lanes, memory, put};
use super::{Call, Operator, Pattern};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};

/// The steps of an RNN: inputs are the products with biases `[T, B, H]`, the weights of the state `[H, H]`, the state before the first step `[B, H]` and lengths `[B]`
/// (both may be missing). Outputs: all states `[T, 1, B, H]`, and the last one `[1, B, H]`.
pub(crate) static RNN_STEPS: Operator =
    Operator { name: "RNN", pattern: Pattern::Opaque, make: |call| steps(call, Cell::Rnn) };
/// The steps of a GRU: as [`RNN_STEPS`] with three gates (z, r, h), and as input 4 the bias that is added to the product with the state before the reset.
pub(crate) static GRU_STEPS: Operator =
    Operator { name: "GRU", pattern: Pattern::Opaque, make: |call| steps(call, Cell::Gru) };
/// The steps of an LSTM: as [`RNN_STEPS`] with four gates (i, o, f, c), and as inputs 4 and 5 the cells before the first step `[B, H]` and the weights of the
/// peepholes `[3 * H]`. Output 2 is the last cells `[1, B, H]`.
pub(crate) static LSTM_STEPS: Operator =
    Operator { name: "LSTM", pattern: Pattern::Opaque, make: |call| steps(call, Cell::Lstm) };

/// Columns of a product that are summed together in registers. With 64 of them, a step waits for its weights from the second cache, and takes twice as long.
const COLUMNS: i64 = 128;
/// Units whose gates are computed together.
const UNITS: i64 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Rnn,
    Gru,
    Lstm,
}

/// A function of a gate.
pub(crate) struct Activation {
    name: String,
    alpha: f64,
    beta: f64,
}

impl Activation {
    /// The functions that ONNX names, with the numbers that they take: their defaults, where they take one.
    const KNOWN: [(&'static str, Option<f64>, Option<f64>); 11] = [
        ("relu", None, None),
        ("tanh", None, None),
        ("sigmoid", None, None),
        ("affine", Some(1.0), Some(0.0)),
        ("leakyrelu", Some(0.01), None),
        ("thresholdedrelu", Some(1.0), None),
        ("scaledtanh", Some(1.0), Some(1.0)),
        ("hardsigmoid", Some(0.2), Some(0.5)),
        ("elu", Some(1.0), None),
        ("softsign", None, None),
        ("softplus", None, None),
    ];

    /// The defaults of the numbers that a function takes.
    ///
    /// # Errors
    /// An unknown function.
    pub(crate) fn numbers(name: &str) -> Result<(Option<f64>, Option<f64>)> {
        let lower = name.to_ascii_lowercase();
        match Self::KNOWN.iter().find(|(known, ..)| *known == lower) {
            Some((_, alpha, beta)) => Ok((*alpha, *beta)),
            None => fail!("the activation '{name}' is not supported"),
        }
    }

    /// The functions of a node: names, and two numbers for each.
    fn of(call: &Call) -> Result<Vec<Self>> {
        let Some(Attr::Texts(names)) = call.attrs.get("activations") else {
            fail!("attribute `activations` is missing")
        };
        let number = |attribute: &str, index: usize| match call.attrs.get(attribute) {
            Some(Attr::Floats(values)) => values.get(index).copied().map_or(0.0, f64::from),
            _ => 0.0,
        };
        let named = names.iter().enumerate().map(|(index, name)| Self {
            name: name.to_ascii_lowercase(),
            alpha: number("activation_alpha", index),
            beta: number("activation_beta", index),
        });
        Ok(named.collect())
    }

    fn apply(&self, x: Expr) -> Expr {
        let constant = |value: f64| te::constant(value, x.dtype());
        let (alpha, beta) = (constant(self.alpha), constant(self.beta));
        match self.name.as_str() {
            "relu" => x.max(constant(0.0)),
            "tanh" => te::tanh(x),
            "affine" => alpha * x + beta,
            "leakyrelu" => Expr::select(x.less(constant(0.0)), alpha * &x, &x),
            "thresholdedrelu" => Expr::select(x.less(&alpha), constant(0.0), &x),
            "scaledtanh" => alpha * te::tanh(beta * x),
            "hardsigmoid" => (alpha * &x + beta).max(constant(0.0)).min(constant(1.0)),
            "elu" => Expr::select(x.less(constant(0.0)), alpha * (te::exp(x.min(constant(0.0))) - constant(1.0)), &x),
            "softsign" => &x / (constant(1.0) + te::abs(x.clone())),
            // Without overflow: max(x, 0) + log(1 + exp(-|x|)).
            "softplus" => x.max(constant(0.0)) + te::log(constant(1.0) + te::exp(constant(0.0) - te::abs(x.clone()))),
            _ => te::sigmoid(x),
        }
    }
}

/// Extents and buffers of a step.
struct Step<'s> {
    cell: Cell,
    batch: i64,
    hidden: i64,
    /// The type that is computed with.
    wide: DataType,
    activations: &'s [Activation],
    clip: Option<f64>,
    couples: bool,
    resets_after: bool,
    products: &'s Buffer,
    weights: &'s Buffer,
    /// The bias of a GRU, or the peepholes of an LSTM.
    extra: Option<&'s Buffer>,
    all: &'s Buffer,
    state: &'s Buffer,
    cells: Option<&'s Buffer>,
    gates: &'s Buffer,
}

fn gates_of(cell: Cell) -> i64 {
    match cell {
        Cell::Rnn => 1,
        Cell::Gru => 3,
        Cell::Lstm => 4,
    }
}

fn steps(call: &Call, cell: Cell) -> Result<Vec<Tensor>> {
    let (products, weights) = (call.input(0)?, call.input(1)?);
    let [steps, batch, columns] = products.shape[..] else { fail!("products {:?}", products.shape) };
    let hidden = weights.shape[0];
    require!(
        weights.shape == [hidden, columns] && columns == gates_of(cell) * hidden,
        "the weights of the state are {:?}, the products with the input {:?}",
        weights.shape,
        products.shape
    );
    let dtype = products.dtype;
    let same = |operand: Option<&Operand>, shape: &[i64], what: &str| -> Result<()> {
        let fits = operand.is_none_or(|operand| operand.shape == shape);
        require!(fits, "{what} {:?}, expected {shape:?}", operand.map_or(&[][..], |operand| &operand.shape[..]));
        Ok(())
    };
    same(call.optional(2), &[batch, hidden], "the first state is")?;
    same(call.optional(3), &[batch], "the lengths are")?;
    match cell {
        Cell::Lstm => {
            same(call.optional(4), &[batch, hidden], "the first cells are")?;
            same(call.optional(5), &[3 * hidden], "the peepholes are")?;
        }
        _ => same(call.optional(4), &[hidden], "the bias is")?,
    }
    require!(steps > 0 && batch > 0 && hidden > 0, "{steps} steps, {batch} sequences, {hidden} units");
    let activations = Activation::of(call)?;
    let wide = if dtype.bits() < 32 { F32 } else { dtype };
    let clip = match call.attrs.float("clip", 0.0)? {
        clip if clip > 0.0 => Some(clip),
        _ => None,
    };
    let (couples, resets_after) =
        (call.attrs.flag("input_forget", false)?, call.attrs.flag("linear_before_reset", false)?);
    let backwards = call.attrs.flag("reverse", false)?;
    let present: Vec<usize> = (0..6).filter(|index| call.optional(*index).is_some()).collect();
    let tensors: Vec<Tensor> = present.iter().filter_map(|index| Some(call.optional(*index)?.tensor.clone())).collect();
    let mut op = extern_op("steps", &tensors)
        .output(extents(&[steps, 1, batch, hidden]), dtype)
        .output(extents(&[1, batch, hidden]), dtype);
    if cell == Cell::Lstm {
        op = op.output(extents(&[1, batch, hidden]), dtype);
    }
    Ok(op.body(|inputs, outputs| {
        let input = |index: usize| present.iter().position(|known| *known == index).map(|place| &inputs[place]);
        let gates = memory("gates", wide, columns);
        let step = Step {
            cell,
            batch,
            hidden,
            wide,
            activations: &activations,
            clip,
            couples,
            resets_after,
            products: &inputs[0],
            weights: &inputs[1],
            extra: input(if cell == Cell::Lstm { 5 } else { 4 }),
            all: &outputs[0],
            state: &outputs[1],
            cells: outputs.get(2),
            gates: &gates,
        };
        let start = |to: &Buffer, from: Option<&Buffer>| {
            let zero = Expr::constant(dtype, 0);
            each("unit", batch * hidden, |index| {
                put(to, index.clone(), from.map_or_else(|| zero, |from| element(from, index.clone())))
            })
        };
        let mut stmts = vec![Stmt::alloc(gates.clone()), start(&outputs[1], input(2))];
        if let Some(cells) = outputs.get(2) {
            stmts.push(start(cells, input(4)));
        }
        stmts.push(each("step", steps, |number| {
            each("row", batch, |row| {
                let length = Var::index("length");
                let known =
                    input(3).map_or_else(|| Expr::int(steps), |lengths| element(lengths, row.clone()).cast(I64));
                let time = Var::index("time");
                let place = if backwards { length.expr() - 1 - number } else { number.clone() };
                let done = Stmt::seq([Stmt::bind(time.clone(), place), step.run(time.expr(), row, number)]);
                // Behind the end of a sequence.
                let nothing = in_vectors("unit", hidden, UNITS, |first, count| {
                    lanes(count, |lane| {
                        let at = (number * batch + row) * hidden + first + lane;
                        put(step.all, at, Expr::constant(dtype, 0))
                    })
                });
                Stmt::seq([
                    Stmt::bind(length.clone(), known.max(0).min(steps)),
                    Stmt::if_then(number.less(length.expr()), done, Some(nothing)),
                ])
            })
        }));
        Stmt::seq(stmts)
    }))
}

impl Step<'_> {
    /// The state of one sequence at one time. Products go backwards over their columns in each second step: what the step before read last is still in the second cache.
    fn run(&self, time: &Expr, row: &Expr, number: &Expr) -> Stmt {
        let hidden = self.hidden;
        let columns = gates_of(self.cell) * hidden;
        let base = (time * self.batch + row) * columns;
        let given = |column: &Expr| element(self.products, &base + column).cast(self.wide);
        let state = |unit: &Expr| element(self.state, row * hidden + unit).cast(self.wide);
        let mut stmts = match self.cell {
            Cell::Rnn => {
                let next = |unit: &Expr| self.activations[0].apply(self.clipped(self.gate(0, unit)));
                vec![
                    self.product(0, columns, number, given, state),
                    self.units(|unit| put(self.state, row * hidden + unit, next(unit).cast(self.state.dtype))),
                ]
            }
            Cell::Gru => self.gru(row, number, given, state),
            Cell::Lstm => {
                let mut stmts = vec![self.product(0, columns, number, given, state)];
                stmts.extend(self.lstm(row));
                stmts
            }
        };
        let at = (time * self.batch + row) * hidden;
        stmts.push(self.units(|unit| put(self.all, &at + unit, element(self.state, row * hidden + unit))));
        Stmt::seq(stmts)
    }

    /// Columns `first..first + count` of the gates: what is given, and the product of a state with its weights.
    fn product(
        &self,
        first: i64,
        count: i64,
        number: &Expr,
        given: impl Fn(&Expr) -> Expr,
        state: impl Fn(&Expr) -> Expr,
    ) -> Stmt {
        let all = gates_of(self.cell) * self.hidden;
        let last = count - COLUMNS;
        in_vectors("column", count, COLUMNS, |block, width| {
            let turns = count % COLUMNS == 0 && last > 0;
            let turned = Expr::select(number.floor_mod(2).equals(0), block, Expr::int(last) - block);
            let block = if turns { &turned } else { block };
            let sums = Buffer::new("sums", self.wide, [Expr::int(width)], "local");
            let column = |lane: &Expr| block + first + lane;
            let begin = lanes(width, |lane| put(&sums, lane.clone(), given(&column(lane))));
            let add = each("k", self.hidden, |k| {
                let factor = Var::new("factor", self.wide);
                let added = lanes(width, |lane| {
                    let weight = element(self.weights, k * all + column(lane)).cast(self.wide);
                    put(&sums, lane.clone(), element(&sums, lane.clone()) + factor.expr() * weight)
                });
                Stmt::seq([Stmt::bind(factor.clone(), state(k)), added])
            });
            let end = lanes(width, |lane| put(self.gates, column(lane), element(&sums, lane.clone())));
            Stmt::seq([Stmt::alloc(sums.clone()), begin, add, end])
        })
    }

    fn units(&self, body: impl Fn(&Expr) -> Stmt) -> Stmt {
        in_vectors("unit", self.hidden, UNITS, |first, count| lanes(count, |lane| body(&(first + lane))))
    }

    fn gate(&self, number: i64, unit: &Expr) -> Expr {
        element(self.gates, unit + number * self.hidden)
    }

    fn set_gate(&self, number: i64, unit: &Expr, value: Expr) -> Stmt {
        put(self.gates, unit + number * self.hidden, value)
    }

    fn clipped(&self, value: Expr) -> Expr {
        match self.clip {
            Some(clip) => value.max(te::constant(-clip, self.wide)).min(te::constant(clip, self.wide)),
            None => value,
        }
    }

    /// `z` and `r` first; then `h` of the state that is reset, or of the product that is.
    fn gru(
        &self,
        row: &Expr,
        number: &Expr,
        given: impl Fn(&Expr) -> Expr,
        state: impl Fn(&Expr) -> Expr,
    ) -> Vec<Stmt> {
        let hidden = self.hidden;
        let (f, g) = (&self.activations[0], &self.activations[1]);
        let mut stmts = vec![
            self.product(0, 2 * hidden, number, &given, &state),
            self.units(|unit| {
                let both = [0, 1].map(|gate| self.set_gate(gate, unit, f.apply(self.clipped(self.gate(gate, unit)))));
                Stmt::seq(both)
            }),
        ];
        if self.resets_after {
            let bias = |column: &Expr| match self.extra {
                Some(bias) => element(bias, column - 2 * hidden).cast(self.wide),
                None => te::constant(0.0, self.wide),
            };
            stmts.push(self.product(2 * hidden, hidden, number, bias, &state));
            stmts.push(self.units(|unit| {
                let reset = given(&(unit + 2 * hidden)) + self.gate(1, unit) * self.gate(2, unit);
                self.set_gate(2, unit, g.apply(self.clipped(reset)))
            }));
        } else {
            // In the place of r, which is not needed any more.
            stmts.push(self.units(|unit| self.set_gate(1, unit, self.gate(1, unit) * state(unit))));
            stmts.push(self.product(2 * hidden, hidden, number, &given, |unit| self.gate(1, unit)));
            stmts.push(self.units(|unit| self.set_gate(2, unit, g.apply(self.clipped(self.gate(2, unit))))));
        }
        stmts.push(self.units(|unit| {
            let z = self.gate(0, unit);
            let next = (te::constant(1.0, self.wide) - &z) * self.gate(2, unit) + z * state(unit);
            put(self.state, row * hidden + unit, next.cast(self.state.dtype))
        }));
        stmts
    }

    fn lstm(&self, row: &Expr) -> Vec<Stmt> {
        let Some(cells) = self.cells else { return Vec::new() };
        let hidden = self.hidden;
        let [f, g, h] = self.activations else { return Vec::new() };
        let cell = |unit: &Expr| element(cells, row * hidden + unit).cast(self.wide);
        let seen = |gate: i64, unit: &Expr| match self.extra {
            Some(peepholes) => {
                self.gate(gate, unit) + element(peepholes, unit + gate * hidden).cast(self.wide) * cell(unit)
            }
            None => self.gate(gate, unit),
        };
        let (input, output, forget, candidate) = (0, 1, 2, 3);
        let one = || te::constant(1.0, self.wide);
        vec![
            self.units(|unit| self.set_gate(input, unit, f.apply(self.clipped(seen(input, unit))))),
            self.units(|unit| {
                let value = if self.couples {
                    one() - self.gate(input, unit)
                } else {
                    f.apply(self.clipped(seen(forget, unit)))
                };
                self.set_gate(forget, unit, value)
            }),
            self.units(|unit| self.set_gate(candidate, unit, g.apply(self.clipped(self.gate(candidate, unit))))),
            self.units(|unit| {
                let kept = self.gate(forget, unit) * cell(unit);
                let next = kept + self.gate(input, unit) * self.gate(candidate, unit);
                put(cells, row * hidden + unit, next.cast(cells.dtype))
            }),
            // With the new cell.
            self.units(|unit| self.set_gate(output, unit, f.apply(self.clipped(seen(output, unit))))),
            self.units(|unit| {
                let next = self.gate(output, unit) * h.apply(cell(unit));
                put(self.state, row * hidden + unit, next.cast(self.state.dtype))
            }),
        ]
    }
}
