//! Operators that carry a state from one call to the next: linear attention, and a causal
//! convolution.

use kernpack_compiler::ir::{Buffer, DataTypeExt, Expr, F32, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op, reduce_axis};

use super::attention::Heads;
use super::call::{Operand, extents, tensor, zeros};
use super::statements::{at, each, element, fill, memory, put};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "CausalConvWithState", pattern: Pattern::Opaque, make: causal_conv },
    Operator { name: "LinearAttention", pattern: Pattern::Opaque, make: linear_attention },
];

/// Multiplies each channel by its own kernel, which covers this place and those before it. Outputs:
/// the result, and the last places for the next call.
fn causal_conv(call: &Call) -> Result<Vec<Tensor>> {
    let (x, weight, bias, past) = (call.input(0)?, call.input(1)?, call.optional(2), call.optional(3));
    let &[batch, channels, length] = &x.shape[..] else { fail!("expected three dimensions, got {:?}", x.shape) };
    require!(x.dtype.is_float(), "expected floats, got {}", x.dtype);
    let kernel = match weight.shape[..] {
        [own, 1, kernel] if own == channels && kernel > 0 => kernel,
        ref other => fail!("expected weights [{channels}, 1, k] with k of at least 1, got {other:?}"),
    };
    if let Some(bias) = bias {
        require!(bias.shape == [channels], "expected a bias [{channels}], got {:?}", bias.shape);
    }
    let state = [batch, channels, kernel - 1];
    if let Some(past) = past {
        require!(past.shape == state, "expected a past state {state:?}, got {:?}", past.shape);
    }
    let is_gated = match call.attrs.text("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => fail!("attribute `activation` is '{other}', not silu, swish or none"),
    };
    // The element at a place after the start of the past.
    let joined = |batch: &Expr, channel: &Expr, place: &Expr| {
        let new = x.at(&[batch.clone(), channel.clone(), place - (kernel - 1)]);
        let old = || match past {
            Some(past) => past.at(&[batch.clone(), channel.clone(), place.clone()]),
            None => te::constant(0.0, x.dtype),
        };
        if kernel == 1 { new } else { Expr::if_then_else(place.less(kernel - 1), old(), new) }
    };
    let present = if x.shape.contains(&0) {
        tensor(&state, |p| past.map_or_else(|| te::constant(0.0, x.dtype), |past| past.at(p)))
    } else {
        tensor(&state, |p| joined(&p[0], &p[1], &(&p[2] + length)))
    };
    if x.shape.contains(&0) {
        return Ok(vec![zeros(&x.shape, x.dtype), present]);
    }
    let k = reduce_axis(0, kernel, "k");
    let sums = tensor(&x.shape, |p| {
        let factor = weight.at(&[p[1].clone(), Expr::int(0), k.expr()]);
        te::sum(joined(&p[0], &p[1], &(&p[2] + k.expr())) * factor, &k)
    })
    .named("sums");
    let result = tensor(&x.shape, |p| {
        let sum = match bias {
            Some(bias) => sums.at(p) + bias.at(&p[1..2]),
            None => sums.at(p),
        };
        if is_gated { &sum * te::sigmoid(&sum) } else { sum }
    });
    Ok(vec![result, present])
}

/// A call of `LinearAttention`: its inputs in this order, and their extents.
struct Linear<'a> {
    q: Heads<'a>,
    k: Heads<'a>,
    v: Heads<'a>,
    past: Option<&'a Operand>,
    decay: Option<&'a Operand>,
    beta: Option<&'a Operand>,
    scale: f64,
}

impl<'a> Linear<'a> {
    fn new(call: &'a Call) -> Result<Self> {
        let attrs = call.attrs;
        let (q_heads, kv_heads) = (attrs.needed_int("q_num_heads")?, attrs.needed_int("kv_num_heads")?);
        for index in 0..3 {
            let x = call.input(index)?;
            require!(
                x.rank() == 3 && x.dtype.is_float(),
                "expected floats of three dimensions, got {}{:?}",
                x.dtype,
                x.shape
            );
        }
        let q = Heads::new(call.input(0)?, Some(q_heads), "q_num_heads")?;
        let k = Heads::new(call.input(1)?, Some(kv_heads), "kv_num_heads")?;
        let v = Heads::new(call.input(2)?, Some(kv_heads), "kv_num_heads")?;
        require!(q_heads % kv_heads == 0, "{q_heads} heads of queries are not a multiple of {kv_heads} heads of keys");
        let rows = [q.batch, q.length];
        require!(
            rows == [k.batch, k.length] && rows == [v.batch, v.length] && q.size == k.size,
            "queries {:?}, keys {:?} and values {:?} do not fit",
            q.operand.shape,
            k.operand.shape,
            v.operand.shape
        );
        let (is_gated, is_delta) = match attrs.text("update_rule", "gated_delta")? {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => fail!("attribute `update_rule` is '{other}', not linear, gated, delta or gated_delta"),
        };
        let (past, decay, beta) = (call.optional(3), call.optional(4), call.optional(5));
        for (is_needed, input, index, what) in [(is_gated, decay, 4, "decay"), (is_delta, beta, 5, "beta")] {
            require!(!is_needed || input.is_some(), "input {index}, `{what}`, is missing: this update rule needs it");
            require!(
                is_needed || input.is_none(),
                "input {index}, `{what}`, is given: this update rule has no use for it"
            );
        }
        let fits = |input: &Operand, widths: [i64; 2]| {
            input.rank() == 3 && input.shape[..2] == rows && widths.contains(&input.shape[2])
        };
        for (input, widths, what) in [(decay, [kv_heads, kv_heads * k.size], "decay"), (beta, [kv_heads, 1], "beta")] {
            if let Some(input) = input {
                require!(
                    fits(input, widths),
                    "input `{what}` is {:?}: expected [{}, {}, {} or {}]",
                    input.shape,
                    rows[0],
                    rows[1],
                    widths[0],
                    widths[1]
                );
            }
        }
        let scale = match attrs.float("scale", 0.0)? {
            0.0 => 1.0 / (q.size as f64).sqrt(),
            scale => scale,
        };
        let found = Self { q, k, v, past, decay, beta, scale };
        if let Some(past) = past {
            let state = found.state();
            require!(past.shape == state, "expected a past state {state:?}, got {:?}", past.shape);
        }
        Ok(found)
    }

    /// Returns the shape of the state.
    fn state(&self) -> [i64; 4] {
        [self.k.batch, self.k.heads, self.k.size, self.v.size]
    }
}

/// Adds one key and value after the other to a state, which each query reads. Outputs: the result,
/// and the state for the next call.
fn linear_attention(call: &Call) -> Result<Vec<Tensor>> {
    let linear = Linear::new(call)?;
    let Linear { q, k, v, past, decay, beta, .. } = &linear;
    let (x, state) = (q.operand, linear.state());
    let width = bounds::product(&[q.heads, v.size], || "the last dimension of the result".to_owned())?;
    let shape = [q.batch, q.length, width];
    let state_type = past.map_or(x.dtype, |past| past.dtype);
    if shape.contains(&0) || state.contains(&0) {
        let present = tensor(&state, |p| past.map_or_else(|| te::constant(0.0, state_type), |past| past.at(p)));
        return Ok(vec![zeros(&shape, x.dtype), present]);
    }
    let given = [Some(q.operand), Some(k.operand), Some(v.operand), *past, *decay, *beta];
    let tensors: Vec<&Tensor> = given.iter().flatten().map(|operand| &operand.tensor).collect();
    let op =
        extern_op("linear_attention", tensors).output(extents(&shape), x.dtype).output(extents(&state), state_type);
    Ok(op.body(|inputs, outputs| {
        let mut rest = inputs.iter();
        let buffers: Vec<Option<&Buffer>> = given.iter().map(|operand| operand.and_then(|_| rest.next())).collect();
        each("batch", q.batch, |batch| each("head", k.heads, |head| linear.head(&buffers, outputs, batch, head)))
    }))
}

impl Linear<'_> {
    /// Computes all steps of a head of keys.
    fn head(&self, inputs: &[Option<&Buffer>], outputs: &[Buffer], batch: &Expr, head: &Expr) -> Stmt {
        let (rows, columns) = (self.k.size, self.v.size);
        let (state, update, sums) =
            (memory("state", F32, rows * columns), memory("update", F32, columns), memory("sums", F32, columns));
        let input = |index: usize, last: Expr, step: &Expr| match inputs[index] {
            Some(buffer) => at(buffer, &[batch.clone(), step.clone(), last]).cast(F32),
            None => te::constant(0.0, F32),
        };
        let cell = |row: &Expr, column: &Expr| row * columns + column;
        let whole = [batch.clone(), head.clone()];
        let begin = each("row", rows, |row| {
            each("column", columns, |column| {
                let position = [whole[0].clone(), whole[1].clone(), row.clone(), column.clone()];
                let first = inputs[3].map_or_else(|| te::constant(0.0, F32), |past| at(past, &position).cast(F32));
                put(&state, cell(row, column), first)
            })
        });
        // Adds a row of the matrix for each row of the state to a vector.
        let add_rows = |to: &Buffer, factor: &dyn Fn(&Expr) -> Expr| {
            each("row", rows, |row| {
                each("column", columns, |column| {
                    let product = factor(row) * element(&state, cell(row, column));
                    put(to, column.clone(), element(to, column.clone()) + product)
                })
            })
        };
        let zero = te::constant(0.0, F32);
        let step = |step: &Expr| {
            let key = |row: &Expr| input(1, head * rows + row, step);
            let mut all = Vec::new();
            if let Some(decay) = self.decay {
                all.push(each("row", rows, |row| {
                    let place = if decay.shape[2] == self.k.heads { head.clone() } else { head * rows + row };
                    let factor = te::exp(input(4, place, step));
                    each("column", columns, |column| {
                        put(&state, cell(row, column), element(&state, cell(row, column)) * &factor)
                    })
                }));
            }
            all.push(fill(&update, columns, &zero));
            if self.beta.is_some() {
                all.push(add_rows(&update, &key));
            }
            all.push(each("column", columns, |column| {
                let value = input(2, head * columns + column, step);
                let value = match self.beta {
                    Some(beta) => {
                        let place = if beta.shape[2] == 1 { Expr::int(0) } else { head.clone() };
                        input(5, place, step) * (value - element(&update, column.clone()))
                    }
                    None => value,
                };
                put(&update, column.clone(), value)
            }));
            all.push(each("row", rows, |row| {
                each("column", columns, |column| {
                    let product = key(row) * element(&update, column.clone());
                    put(&state, cell(row, column), element(&state, cell(row, column)) + product)
                })
            }));
            let group = self.q.heads / self.k.heads;
            all.push(each("query", group, |query| {
                let own = head * group + query;
                let result = each("column", columns, |column| {
                    let value = element(&sums, column.clone()) * te::constant(self.scale, F32);
                    let position = [batch.clone(), step.clone(), &own * columns + column];
                    let shape = [self.q.batch, self.q.length, self.q.heads * columns];
                    put(&outputs[0], super::call::flatten(&position, &shape), value.cast(outputs[0].dtype))
                });
                let read = add_rows(&sums, &|row: &Expr| input(0, &own * rows + row, step));
                Stmt::seq([fill(&sums, columns, &zero), read, result])
            }));
            Stmt::seq(all)
        };
        let end = each("row", rows, |row| {
            each("column", columns, |column| {
                let position = [whole[0].clone(), whole[1].clone(), row.clone(), column.clone()];
                let value = element(&state, cell(row, column)).cast(outputs[1].dtype);
                put(&outputs[1], super::call::flatten(&position, &self.state()), value)
            })
        });
        Stmt::seq([
            Stmt::alloc(state.clone()),
            Stmt::alloc(update.clone()),
            Stmt::alloc(sums.clone()),
            begin,
            each("step", self.q.length, step),
            end,
        ])
    }
}
