//! The steps of recurrent networks in one direction. The product of the input and its weights does
//! not depend on the previous step, and is computed for all steps at once by the kernels of
//! products before; see `import/recurrent.rs`.

use kernpack::{Any, DataType, Str};
use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use super::call::{Operand, extents, tensor, zeros};
use super::extremum::{clamp, max};
use super::statements::{each, element, in_vectors, lanes, memory, put};
use super::{Call, Operator, Pattern};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};

/// The steps of an RNN. Inputs are the products with biases `[T, B, H]`, the weights of the state
/// `[H, H]`, the state before the first step `[B, H]` and lengths `[B]` (both are optional).
/// Outputs: all states `[T, 1, B, H]`, and the last one `[1, B, H]`.
pub(crate) static RNN_STEPS: Operator =
    Operator { name: "RNN", pattern: Pattern::Opaque, make: |call| steps(call, Cell::Rnn) };
/// The steps of a GRU: like [`RNN_STEPS`] with three gates (z, r, h), and as input 4 the bias that
/// is added to the product with the state before the reset.
pub(crate) static GRU_STEPS: Operator =
    Operator { name: "GRU", pattern: Pattern::Opaque, make: |call| steps(call, Cell::Gru) };
/// The steps of an LSTM: like [`RNN_STEPS`] with four gates (i, o, f, c), and as inputs 4 and 5 the
/// cells before the first step `[B, H]` and the weights of the peepholes `[3 * H]`. Output 2 is the
/// last cells `[1, B, H]`.
pub(crate) static LSTM_STEPS: Operator =
    Operator { name: "LSTM", pattern: Pattern::Opaque, make: |call| steps(call, Cell::Lstm) };

/// The number of columns of a product that are summed in registers. With 64, a step waits for its
/// weights from the L2 cache, and takes twice as long.
const COLUMNS: i64 = 128;
/// The number of weights of a product from which on threads share its units: such a product takes
/// some microseconds, while an idle thread joins in less than one.
const SHARED: i64 = 1 << 17;
/// The maximum number of units whose state a thread copies at the beginning of a step.
const COPIED: i64 = 4096;
/// The number of units of a block: their products are computed first, and then their gates, which
/// read no weights.
const BLOCK: i64 = 64;
/// The number of units whose gates are computed together.
const UNITS: i64 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Rnn,
    Gru,
    Lstm,
}

/// An activation of a gate.
pub(crate) struct Activation {
    name: String,
    alpha: f64,
    beta: f64,
}

impl Activation {
    /// The functions that ONNX defines, with the defaults of their parameters, if they take any.
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

    /// Returns the defaults of the parameters of a function.
    ///
    /// # Errors
    /// Returns an error for an unknown function.
    pub(crate) fn numbers(name: &str) -> Result<(Option<f64>, Option<f64>)> {
        let lower = name.to_ascii_lowercase();
        match Self::KNOWN.iter().find(|(known, ..)| *known == lower) {
            Some((_, alpha, beta)) => Ok((*alpha, *beta)),
            None => fail!("the activation '{name}' is not supported"),
        }
    }

    /// Reads the functions of a node: names, and two parameters for each.
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
            "relu" => max(&x, constant(0.0)),
            "tanh" => te::tanh(x),
            "affine" => alpha * x + beta,
            "leakyrelu" => Expr::select(x.less(constant(0.0)), alpha * &x, &x),
            "thresholdedrelu" => Expr::select(x.less(&alpha), constant(0.0), &x),
            "scaledtanh" => alpha * te::tanh(beta * x),
            "hardsigmoid" => clamp(alpha * &x + beta, 0.0, 1.0),
            "elu" => Expr::select(x.less(constant(0.0)), alpha * te::expm1(&x), &x),
            "softsign" => &x / (constant(1.0) + te::abs(x.clone())),
            // Without overflow: max(x, 0) + log(1 + exp(-|x|)).
            "softplus" => max(&x, constant(0.0)) + te::log1p(te::exp(-te::abs(x.clone()))),
            _ => te::sigmoid(x),
        }
    }
}

/// Extents and buffers of a step.
struct Step<'s> {
    cell: Cell,
    batch: i64,
    hidden: i64,
    /// The type of the computation.
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
    /// The states before and after a step, which alternate: `[2, B, H]`.
    states: &'s Buffer,
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
    require!(hidden > 0, "the network has no units");
    if steps == 0 || batch == 0 {
        // The states are unchanged before the first step.
        let states = zeros(&[steps, 1, batch, hidden], dtype);
        let last = |first: Option<&Operand>| match first {
            Some(first) => tensor(&[1, batch, hidden], |position| first.at(&position[1..])),
            None => zeros(&[1, batch, hidden], dtype),
        };
        let cells = if cell == Cell::Lstm { call.optional(4) } else { None };
        return Ok(vec![states, last(call.optional(2)), last(cells)]);
    }
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
        let (gates, states) = (memory("gates", wide, columns), memory("states", dtype, 2 * batch * hidden));
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
            states: &states,
            cells: outputs.get(2),
            gates: &gates,
        };
        let start = |to: &Buffer, from: Option<&Buffer>| {
            let zero = Expr::constant(dtype, 0);
            each("unit", batch * hidden, |index| {
                put(to, index.clone(), from.map_or_else(|| zero, |from| element(from, index.clone())))
            })
        };
        let length_of = |row: &Expr| {
            let known = input(3).map_or_else(|| Expr::int(steps), |lengths| element(lengths, row.clone()).cast(I64));
            known.max(0).min(steps)
        };
        let mut stmts = vec![Stmt::alloc(gates.clone()), Stmt::alloc(states.clone()), start(&states, input(2))];
        if let Some(cells) = outputs.get(2) {
            stmts.push(start(cells, input(4)));
        }
        stmts.push(each("step", steps, |number| {
            each("row", batch, |row| {
                let length = Var::index("length");
                let time = Var::index("time");
                let place = if backwards { length.expr() - 1 - number } else { number.clone() };
                let done = Stmt::seq([Stmt::bind(time.clone(), place), step.run(time.expr(), row, number)]);
                // After the end of a sequence.
                let nothing = in_vectors("unit", hidden, UNITS, |first, count| {
                    lanes(count, |lane| {
                        let at = (number * batch + row) * hidden + first + lane;
                        put(step.all, at, Expr::constant(dtype, 0))
                    })
                });
                Stmt::seq([
                    Stmt::bind(length.clone(), length_of(row)),
                    Stmt::if_then(number.less(length.expr()), done, Some(nothing)),
                ])
            })
        }));
        // The steps of a row end with its length.
        stmts.push(each("row", batch, |row| {
            let (slot, at) = (Var::index("slot"), row * hidden);
            let last = |unit: &Expr| element(&states, slot.expr() * (batch * hidden) + &at + unit);
            let copied = in_vectors("unit", hidden, UNITS, |first, count| {
                lanes(count, |lane| put(&outputs[1], &at + (first + lane), last(&(first + lane))))
            });
            Stmt::seq([Stmt::bind(slot.clone(), length_of(row).floor_mod(2)), copied])
        }));
        Stmt::seq(stmts)
    }))
}

impl Step<'_> {
    /// Computes the state of one sequence at one time.
    fn run(&self, time: &Expr, row: &Expr, number: &Expr) -> Stmt {
        let now = Now {
            step: self,
            number,
            row: row * self.hidden,
            given: (time * self.batch + row) * (gates_of(self.cell) * self.hidden),
            all: (time * self.batch + row) * self.hidden,
        };
        match self.cell {
            Cell::Rnn => now.rnn(),
            Cell::Gru => now.gru(),
            Cell::Lstm => now.lstm(),
        }
    }

    fn gate(&self, number: i64, unit: &Expr) -> Expr {
        element(self.gates, unit + number * self.hidden)
    }

    fn set_gate(&self, number: i64, unit: &Expr, value: Expr) -> Stmt {
        put(self.gates, unit + number * self.hidden, value)
    }

    fn clipped(&self, value: Expr) -> Expr {
        match self.clip {
            Some(clip) => clamp(value, -clip, clip),
            None => value,
        }
    }
}

/// Units that are computed together: the first one, and their number.
struct Units<'u> {
    first: &'u Expr,
    count: i64,
}

impl Units<'_> {
    fn each(&self, body: impl Fn(&Expr) -> Stmt) -> Stmt {
        in_vectors("unit", self.count, UNITS, |first, count| lanes(count, |lane| body(&(self.first + first + lane))))
    }
}

/// A step of one sequence.
struct Now<'n> {
    step: &'n Step<'n>,
    number: &'n Expr,
    /// The start of the sequence's state and cells, of its products at this time, and its place
    /// among all states.
    row: Expr,
    given: Expr,
    all: Expr,
}

impl Now<'_> {
    /// Returns the product of the input and its weights, with the biases.
    fn given(&self, column: &Expr) -> Expr {
        element(self.step.products, &self.given + column).cast(self.step.wide)
    }

    /// Returns the state before this step.
    fn state(&self, unit: &Expr) -> Expr {
        let slot = self.number.floor_mod(2) * (self.step.batch * self.step.hidden);
        element(self.step.states, slot + &self.row + unit).cast(self.step.wide)
    }

    /// Writes the state after this step.
    fn set_state(&self, unit: &Expr, value: &Expr) -> Stmt {
        let (step, value) = (self.step, value.cast(self.step.states.dtype));
        let slot = (self.number + 1).floor_mod(2) * (step.batch * step.hidden);
        let state = Var::new("state", value.dtype());
        Stmt::seq([
            Stmt::bind(state.clone(), value),
            put(step.states, slot + &self.row + unit, state.expr().clone()),
            put(step.all, &self.all + unit, state.expr().clone()),
        ])
    }

    /// Computes gates of all units in blocks of units. The body gets the state before the step, or
    /// its replacement, as a function of units.
    ///
    /// Threads share the blocks: of two threads each takes every second block, so that it reads the
    /// same weights in each step. In each second step the blocks are in reverse order, by twos: the
    /// blocks that the previous step read last are still in the L2 cache.
    fn blocks(
        &self,
        gates: i64,
        state: impl Fn(&Expr) -> Expr,
        body: impl Fn(Units<'_>, &dyn Fn(&Expr) -> Expr) -> Stmt,
    ) -> Stmt {
        let Step { hidden, wide, .. } = *self.step;
        let width = if gates == 1 { COLUMNS } else { BLOCK };
        let (whole, rest) = (hidden / width, hidden % width);
        let mut stmts = Vec::new();
        if whole > 0 {
            let is_shared = whole > 1 && hidden * hidden * gates >= SHARED;
            let block = Var::index("block");
            let back = match whole % 2 {
                0 => (Expr::int(whole / 2 - 1) - block.expr().floor_div(2)) * 2 + block.expr().floor_mod(2),
                _ => Expr::int(whole - 1) - block.expr(),
            };
            let turned = Expr::select(self.number.floor_mod(2).equals(0), block.expr(), back);
            let first = if whole > 1 { turned * width } else { block.expr() * width };
            let units = Units { first: &first, count: width };
            let (kind, body) = if is_shared && hidden <= COPIED {
                // Parts of the state come from other CPUs: all of them are requested at once.
                let own = Buffer::new("own", wide, [Expr::int(hidden)], "local");
                let all = Units { first: &Expr::int(0), count: hidden };
                let copied = all.each(|unit| put(&own, unit.clone(), state(unit)));
                let body = body(units, &|unit| element(&own, unit.clone()));
                (ForKind::Parallel, Stmt::seq([Stmt::alloc(own), copied, body]))
            } else {
                (if is_shared { ForKind::Parallel } else { ForKind::Serial }, body(units, &state))
            };
            let annotations = is_shared.then(|| (Str::from("parallel_stride_pattern"), Any::from(1)));
            stmts.push(Stmt::for_with(block, 0, whole, kind, annotations.into_iter().collect(), body));
        }
        if rest > 0 {
            stmts.push(body(Units { first: &Expr::int(whole * width), count: rest }, &state));
        }
        Stmt::seq(stmts)
    }

    /// Computes some gates of some units: the given values, and the product of a state with its
    /// weights, for as many units at a time as there are registers.
    fn product(
        &self,
        gates: core::ops::Range<i64>,
        units: &Units<'_>,
        given: impl Fn(&Expr) -> Expr,
        state: impl Fn(&Expr) -> Expr,
    ) -> Stmt {
        let most = 1 << (COLUMNS / (gates.end - gates.start)).ilog2();
        in_vectors("part", units.count, most, |first, count| {
            let units = Units { first: &(units.first + first), count };
            self.sums(gates.clone(), &units, &given, &state)
        })
    }

    fn sums(
        &self,
        gates: core::ops::Range<i64>,
        units: &Units<'_>,
        given: impl Fn(&Expr) -> Expr,
        state: impl Fn(&Expr) -> Expr,
    ) -> Stmt {
        let Step { cell, hidden, wide, weights, .. } = *self.step;
        let (all, count) = (gates_of(cell) * hidden, units.count);
        let sums = Buffer::new("sums", wide, [Expr::int((gates.end - gates.start) * count)], "local");
        // The columns of a gate, and the places of their sums.
        let of = |gate: i64, lane: &Expr| (units.first + lane + gate * hidden, lane + (gate - gates.start) * count);
        let begin = gates.clone().map(|gate| {
            lanes(count, |lane| {
                let (column, sum) = of(gate, lane);
                put(&sums, sum, given(&column))
            })
        });
        let add = each("k", hidden, |k| {
            let factor = Var::new("factor", wide);
            let added = gates.clone().map(|gate| {
                lanes(count, |lane| {
                    let (column, sum) = of(gate, lane);
                    let weight = element(weights, k * all + column).cast(wide);
                    put(&sums, sum.clone(), element(&sums, sum) + factor.expr() * weight)
                })
            });
            Stmt::seq([Stmt::bind(factor.clone(), state(k))].into_iter().chain(added))
        });
        let end = gates.clone().map(|gate| {
            lanes(count, |lane| {
                let (column, sum) = of(gate, lane);
                put(self.step.gates, column, element(&sums, sum))
            })
        });
        Stmt::seq([Stmt::alloc(sums.clone())].into_iter().chain(begin).chain([add]).chain(end))
    }

    fn rnn(&self) -> Stmt {
        let step = self.step;
        let state = |unit: &Expr| self.state(unit);
        self.blocks(1, state, |units, state| {
            Stmt::seq([
                self.product(0..1, &units, |column| self.given(column), state),
                units.each(|unit| self.set_state(unit, &step.activations[0].apply(step.clipped(step.gate(0, unit))))),
            ])
        })
    }

    /// Computes `z` and `r` first; then `h` from the reset state, or from the reset product.
    fn gru(&self) -> Stmt {
        let step = self.step;
        let hidden = step.hidden;
        let (f, g) = (&step.activations[0], &step.activations[1]);
        let given = |column: &Expr| self.given(column);
        let state = |unit: &Expr| self.state(unit);
        let both = |units: &Units<'_>| {
            units.each(|unit| {
                let set = |gate| step.set_gate(gate, unit, f.apply(step.clipped(step.gate(gate, unit))));
                Stmt::seq([0, 1].map(set))
            })
        };
        let next = |units: &Units<'_>| {
            units.each(|unit| {
                let z = step.gate(0, unit);
                let next = (te::constant(1.0, step.wide) - &z) * step.gate(2, unit) + z * state(unit);
                self.set_state(unit, &next)
            })
        };
        if step.resets_after {
            let bias = |column: &Expr| match step.extra {
                Some(bias) => element(bias, column - 2 * hidden).cast(step.wide),
                None => te::constant(0.0, step.wide),
            };
            return self.blocks(3, state, |units, state| {
                let reset = units.each(|unit| {
                    let reset = given(&(unit + 2 * hidden)) + step.gate(1, unit) * step.gate(2, unit);
                    step.set_gate(2, unit, g.apply(step.clipped(reset)))
                });
                Stmt::seq([
                    self.product(0..2, &units, given, state),
                    both(&units),
                    self.product(2..3, &units, bias, state),
                    reset,
                    next(&units),
                ])
            });
        }
        Stmt::seq([
            // The reset state replaces r, which is not needed any more.
            self.blocks(2, state, |units, state| {
                let reset = units.each(|unit| step.set_gate(1, unit, step.gate(1, unit) * state(unit)));
                Stmt::seq([self.product(0..2, &units, given, state), both(&units), reset])
            }),
            self.blocks(
                1,
                |unit| step.gate(1, unit),
                |units, reset| {
                    let bent = units.each(|unit| step.set_gate(2, unit, g.apply(step.clipped(step.gate(2, unit)))));
                    Stmt::seq([self.product(2..3, &units, given, reset), bent, next(&units)])
                },
            ),
        ])
    }

    fn lstm(&self) -> Stmt {
        let step = self.step;
        let (Some(cells), [f, g, h]) = (step.cells, step.activations) else { return Stmt::seq([]) };
        let cell = |unit: &Expr| element(cells, &self.row + unit).cast(step.wide);
        let seen = |gate: i64, unit: &Expr| match step.extra {
            Some(peepholes) => {
                step.gate(gate, unit) + element(peepholes, unit + gate * step.hidden).cast(step.wide) * cell(unit)
            }
            None => step.gate(gate, unit),
        };
        let (input, output, forget, candidate) = (0, 1, 2, 3);
        let one = || te::constant(1.0, step.wide);
        let state = |unit: &Expr| self.state(unit);
        self.blocks(4, state, |units, state| {
            Stmt::seq([
                self.product(0..4, &units, |column| self.given(column), state),
                units.each(|unit| step.set_gate(input, unit, f.apply(step.clipped(seen(input, unit))))),
                units.each(|unit| {
                    let value = if step.couples {
                        one() - step.gate(input, unit)
                    } else {
                        f.apply(step.clipped(seen(forget, unit)))
                    };
                    step.set_gate(forget, unit, value)
                }),
                units.each(|unit| step.set_gate(candidate, unit, g.apply(step.clipped(step.gate(candidate, unit))))),
                units.each(|unit| {
                    let kept = step.gate(forget, unit) * cell(unit);
                    let next = kept + step.gate(input, unit) * step.gate(candidate, unit);
                    put(cells, &self.row + unit, next.cast(cells.dtype))
                }),
                // With the new cell.
                units.each(|unit| step.set_gate(output, unit, f.apply(step.clipped(seen(output, unit))))),
                units.each(|unit| self.set_state(unit, &(step.gate(output, unit) * h.apply(cell(unit))))),
            ])
        })
    }
}
