//! Statement builders for rules that generate their loops themselves: loops, vectors, transposes of
//! matrix blocks in registers, tiles of a product.

use kernpack::DataType;

use crate::ir::builtin::{ADDRESS_OF, PREFETCH};
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::shared::Memo;
use crate::ir::{
    Buffer, BufferNode, DataTypeExt, Expr, ExprNode, ForKind, I32, Operation, OperationNode, POINTER, Stmt, Tensor, Var,
};
use crate::schedule::Schedule;
use crate::te::operation::input_tensors;

/// A sequence of statements.
#[derive(Default)]
pub(crate) struct Code {
    stmts: Vec<Stmt>,
}

impl Code {
    /// Binds a value to a name.
    pub(crate) fn bind(&mut self, name: &str, value: Expr) -> Expr {
        let var = Var::new(name, value.dtype());
        self.stmts.push(Stmt::bind(var.clone(), value));
        var.into()
    }

    /// Allocates memory.
    pub(crate) fn alloc(&mut self, buffer: &Buffer) {
        self.stmts.push(Stmt::alloc(buffer.clone()));
    }

    pub(crate) fn push(&mut self, stmt: Stmt) {
        self.stmts.push(stmt);
    }

    pub(crate) fn finish(self) -> Stmt {
        Stmt::seq(self.stmts)
    }
}

/// Emits a loop; for a single iteration, only the body.
pub(crate) fn for_each(
    name: &str,
    extent: impl Into<Expr>,
    kind: ForKind,
    body: impl FnOnce(&Expr, &mut Code),
) -> Stmt {
    let extent = extent.into();
    let mut code = Code::default();
    if extent.is_int(1) {
        body(&Expr::int(0), &mut code);
        // A separate body: names and memory end with it.
        return Stmt::if_then(true, code.finish(), None);
    }
    let var = Var::index(name);
    body(&(&var).into(), &mut code);
    Stmt::for_loop(var, 0, extent, kind, code.finish())
}

/// Emits a serial loop.
pub(crate) fn serial(name: &str, extent: impl Into<Expr>, body: impl FnOnce(&Expr, &mut Code)) -> Stmt {
    for_each(name, extent, ForKind::Serial, body)
}

/// Emits a vectorized loop over `0 .. extent`: the body gets the index, and is a single statement.
/// The last vector has a mask.
pub(crate) fn in_vectors(name: &str, extent: impl Into<Expr>, lanes: i64, body: impl FnOnce(&Expr) -> Stmt) -> Stmt {
    let (lane, extent) = (Var::index(name), extent.into());
    serial(&format!("{name}.outer"), extent.ceil_div(lanes), |outer, code| {
        let index = outer * lanes + &lane;
        let mut inner = body(&index);
        if extent.as_int().is_none_or(|extent| extent % lanes != 0) {
            inner = Stmt::if_then(index.less(&extent).likely(), inner, None);
        }
        code.push(Stmt::for_loop(lane.clone(), 0, lanes, ForKind::Vectorized, inner));
    })
}

/// Prefetches the cache line of an element that is read soon, into all caches.
pub(crate) fn prefetch(buffer: &Buffer, index: Expr) -> Stmt {
    prefetch_to(buffer, index, 3)
}

/// Prefetches the cache line of an element that is read later, into the L2 cache but not the L1
/// cache.
pub(crate) fn prefetch_later(buffer: &Buffer, index: Expr) -> Stmt {
    prefetch_to(buffer, index, 2)
}

fn prefetch_to(buffer: &Buffer, index: Expr, locality: i64) -> Stmt {
    let address = Expr::builtin(ADDRESS_OF, POINTER, [Expr::load(buffer, index)]);
    // A read of data.
    Stmt::evaluate(Expr::builtin(PREFETCH, I32, [address, Expr::int(0), Expr::int(locality), Expr::int(1)]))
}

/// Temporary memory of a rule.
pub(crate) fn memory(name: &str, dtype: DataType, extents: &[i64], scope: &str) -> Buffer {
    Buffer::new(name, dtype, extents.iter().map(|extent| Expr::int(*extent)), scope)
}

/// Vectors of one element type.
#[derive(Clone, Copy)]
pub(crate) struct Vectors {
    pub(crate) dtype: DataType,
    pub(crate) lanes: i64,
}

impl Vectors {
    pub(crate) fn load(&self, buffer: &Buffer, index: Expr) -> Expr {
        Expr::load(buffer, index.ramp(1, self.lanes as u16))
    }

    pub(crate) fn store(&self, buffer: &Buffer, index: Expr, value: Expr) -> Stmt {
        Stmt::store(buffer.clone(), index.ramp(1, self.lanes as u16), value)
    }

    /// The vector that starts at an element which is loaded from memory.
    pub(crate) fn along(&self, element: &Expr) -> Expr {
        match &**element {
            ExprNode::Load { buffer, index, .. } => self.load(buffer, index.clone()),
            _ => unreachable!("the element is loaded"),
        }
    }

    /// Stores the first `count` lanes.
    pub(crate) fn store_first(&self, buffer: &Buffer, index: Expr, value: Expr, count: i64) -> Stmt {
        if count >= self.lanes {
            return self.store(buffer, index, value);
        }
        let lanes = self.lanes as u16;
        let mask = Expr::int(0).ramp(1, lanes).less(Expr::int(count).broadcast(lanes));
        Stmt::store_masked(buffer.clone(), index.ramp(1, lanes), value, Some(mask))
    }

    pub(crate) fn splat(&self, value: f64) -> Expr {
        Expr::float(self.dtype, value).broadcast(self.lanes as u16)
    }

    /// Transposes a square block of rows. The number of lanes is a power of two.
    ///
    /// Each step is one instruction for a vector without a further operand, on x86 and ARM. Parts
    /// of 16 bytes are transposed individually first, as blocks of rows, by interleaving two
    /// vectors (`unpck`, `zip`); then whole parts are exchanged (`vshuff32x4`, `vperm2f128`).
    pub(crate) fn transposed(&self, rows: Vec<Expr>, code: &mut Code) -> Vec<Expr> {
        let lanes = self.lanes as usize;
        let part = (128 / usize::from(self.dtype.bits())).clamp(1, lanes);
        // Merges pairs of blocks until one block is left. A merge takes half of the units of each
        // part of both vectors.
        let interleaved = |unit: usize, half: usize| -> Vec<i64> {
            let lane = |lane: usize| {
                let (first, within) = (lane / part * part, lane % part);
                let (pair, second, offset) = (within / (2 * unit), within / unit % 2, within % unit);
                first + half * part / 2 + pair * unit + offset + second * lanes
            };
            (0..lanes).map(|index| lane(index) as i64).collect()
        };
        let mut columns: Vec<Expr> = Vec::new();
        for block in rows.chunks(part) {
            let mut blocks: Vec<Vec<Expr>> = block.iter().map(|row| vec![row.clone()]).collect();
            let mut unit = 1;
            while unit < part {
                blocks = blocks
                    .chunks(2)
                    .map(|pair| {
                        let both = pair[0].iter().zip(&pair[1]);
                        both.flat_map(|(a, b)| [0, 1].map(|half| (a, b, half)))
                            .map(|(a, b, half)| code.bind("row", shuffle(a, b, interleaved(unit, half))))
                            .collect()
                    })
                    .collect();
                unit *= 2;
            }
            columns.append(&mut blocks[0]);
        }
        // `columns[block * part + c]` contains a part of column `c` of each part: takes even and
        // odd parts of two vectors, until a vector contains only parts of one column.
        let picked = |odd: usize| -> Vec<i64> {
            let count = lanes / part;
            let lane = |lane: usize| {
                let (at, offset) = (2 * (lane / part) + odd, lane % part);
                at % count * part + offset + at / count * lanes
            };
            (0..lanes).map(|index| lane(index) as i64).collect()
        };
        let mut whole: Vec<Vec<Expr>> = Vec::new();
        for c in 0..part {
            let mut blocks: Vec<Vec<Expr>> =
                (0..lanes / part).map(|block| vec![columns[block * part + c].clone()]).collect();
            while blocks.len() > 1 {
                blocks = blocks
                    .chunks(2)
                    .map(|pair| {
                        let both = [0, 1]
                            .into_iter()
                            .flat_map(|odd| pair[0].iter().zip(&pair[1]).map(move |(a, b)| (a, b, odd)));
                        both.map(|(a, b, odd)| code.bind("row", shuffle(a, b, picked(odd)))).collect()
                    })
                    .collect();
            }
            whole.append(&mut blocks);
        }
        (0..lanes).map(|column| whole[column % part][column / part].clone()).collect()
    }

    /// The even and the odd lanes of consecutive vectors. Lanes after the last one are undefined.
    pub(crate) fn apart(&self, columns: &[Expr], code: &mut Code) -> [Vec<Expr>; 2] {
        ["even", "odd"].map(|name| {
            let first = i64::from(name == "odd");
            let picked: Vec<i64> = (0..self.lanes).map(|lane| 2 * lane + first).collect();
            let pair = |pair: &[Expr]| shuffle(&pair[0], pair.last().expect("it is not empty"), picked.clone());
            columns.chunks(2).map(|vectors| code.bind(name, pair(vectors))).collect()
        })
    }

    /// The vector that starts at a lane of consecutive vectors. Lanes after the last one are
    /// undefined.
    pub(crate) fn at_lane(&self, vectors: &[Expr], lane: i64, code: &mut Code) -> Expr {
        let last = vectors.len() - 1;
        let of = |at: i64| &vectors[(at as usize).min(last)];
        let (at, skip) = (lane / self.lanes, lane % self.lanes);
        if skip == 0 {
            return of(at).clone();
        }
        code.bind("moved", shuffle(of(at), of(at + 1), (skip..skip + self.lanes).collect()))
    }

    /// Emits a tile of a product in registers: `rows` x `vectors` sums over the iterations of
    /// `loops`, with the additional statements of `each` in every iteration. `a` is one element of
    /// a row, `b` a vector of the columns. `done` gets each sum as a location in memory, which
    /// becomes a register, with its row and vector.
    pub(crate) fn tile(
        &self,
        (rows, vectors): (i64, i64),
        (loops, each): (&[(Var, Expr)], Option<Stmt>),
        a: impl Fn(i64) -> Expr,
        b: impl Fn(i64) -> Expr,
        done: impl Fn(i64, i64, (&Buffer, Expr)) -> Stmt,
        code: &mut Code,
    ) {
        let sums = memory("sums", self.dtype, &[rows * vectors * self.lanes], "local");
        let place = |row: i64, vector: i64| Expr::int((row * vectors + vector) * self.lanes);
        code.alloc(&sums);
        let places = || (0..rows).flat_map(|row| (0..vectors).map(move |vector| (row, vector)));
        for (row, vector) in places() {
            code.push(self.store(&sums, place(row, vector), self.splat(0.0)));
        }
        let mut inner = Code::default();
        if let Some(each) = each {
            inner.push(each);
        }
        let columns: Vec<Expr> = (0..vectors).map(|vector| inner.bind("b", b(vector))).collect();
        for row in 0..rows {
            let element = inner.bind("a", a(row)).broadcast(self.lanes as u16);
            for vector in 0..vectors {
                let sum = self.load(&sums, place(row, vector)) + &element * &columns[vector as usize];
                inner.push(self.store(&sums, place(row, vector), sum));
            }
        }
        let body = loops
            .iter()
            .rev()
            .fold(inner.finish(), |body, (var, extent)| Stmt::for_loop(var.clone(), 0, extent, ForKind::Serial, body));
        code.push(body);
        for (row, vector) in places() {
            code.push(done(row, vector, (&sums, place(row, vector))));
        }
    }
}

/// Selects lanes of two vectors.
fn shuffle(low: &Expr, high: &Expr, lanes: Vec<i64>) -> Expr {
    let vectors = [low.clone(), high.clone()].into_iter().collect();
    Expr::from_node(ExprNode::Shuffle { vectors, indices: lanes.into() })
}

/// The tensors that an operation of a rule reads, with their buffers.
pub(crate) struct Inputs {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) buffers: Vec<Buffer>,
}

impl Inputs {
    /// Collects the tensors that expressions read.
    pub(crate) fn of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Self {
        let mut inputs = Self { tensors: Vec::new(), buffers: Vec::new() };
        for expr in exprs {
            for (tensor, _) in super::pattern::reads(expr) {
                inputs.add(&tensor);
            }
        }
        inputs
    }

    fn add(&mut self, tensor: &Tensor) {
        if !self.tensors.iter().any(|known| known.is(tensor)) {
            self.tensors.push(tensor.clone());
            self.buffers.push(argument(tensor));
        }
    }

    /// The buffer of a tensor.
    pub(crate) fn buffer(&self, tensor: &Tensor) -> Buffer {
        let position = self.tensors.iter().position(|known| known.is(tensor));
        self.buffers[position.expect("the tensor is an input")].clone()
    }

    /// An expression with its tensor reads replaced by loads.
    pub(crate) fn loads(&self, expr: &Expr) -> Expr {
        Loads(self).mutate_expr(expr).unwrap_or_else(|_| unreachable!("loads have no errors"))
    }

    /// Creates an operation that computes a tensor with the type and shape of `out` by statements,
    /// which write to the buffer.
    pub(crate) fn operation(
        self,
        name: &str,
        like: &Operation,
        body: impl FnOnce(&Self, &Buffer) -> Stmt,
    ) -> Operation {
        let out = argument(&like.output(0));
        let body = body(&self, &out);
        let operation = Operation::from_node(OperationNode::Extern {
            name: name.into(),
            span: like.span().into(),
            tag: "".into(),
            attrs: kernpack::Map::default(),
            inputs: self.tensors.into(),
            input_buffers: self.buffers.into(),
            output_buffers: [out].into_iter().collect(),
            body,
        });
        debug_assert!(!input_tensors(&operation).is_empty(), "an operation of a rule reads something");
        operation
    }
}

/// The buffer of an argument. It has only the alignment of its elements, because arguments
/// guarantee no more.
fn argument(tensor: &Tensor) -> Buffer {
    let node = Buffer::new(&tensor.name(), tensor.dtype, tensor.shape.iter(), "global").to_node();
    Buffer::from_node(BufferNode { data_alignment: tensor.dtype.lane_bytes() as i64, ..node })
}

struct Loads<'a>(&'a Inputs);

impl Mutate for Loads<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> crate::Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        Ok(match &*expr {
            ExprNode::TensorRead { tensor, indices } => {
                let buffer = self.0.buffer(tensor);
                let index = buffer.flat_index(&indices.to_vec());
                Expr::load(&buffer, index)
            }
            _ => expr,
        })
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> crate::Result<Stmt> {
        Ok(stmt.clone())
    }
}

/// Rewrites an expression of a copy of a schedule to use the tensors of the schedule itself.
pub(crate) fn current(expr: &Expr, schedule: &Schedule, copy: &Schedule) -> Expr {
    let mut current = Current { schedule, copy, memo: Memo::default() };
    current.mutate_expr(expr).unwrap_or_else(|_| unreachable!("a change of tensors has no errors"))
}

struct Current<'a> {
    schedule: &'a Schedule,
    copy: &'a Schedule,
    memo: Memo,
}

impl Mutate for Current<'_> {
    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> crate::Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        let ExprNode::TensorRead { tensor, indices } = &*expr else { return Ok(expr) };
        let Some(stage) = self.copy.stage_of(&tensor.op) else { return Ok(expr) };
        let tensor = self.schedule[stage].operation().output(tensor.value_index as usize);
        Ok(Expr::from_node(ExprNode::TensorRead { tensor, indices: indices.clone() }))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> crate::Result<Stmt> {
        Ok(stmt.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::F32;

    #[test]
    fn blocks_are_transposed() {
        for lanes in [2i64, 4, 8, 16] {
            let vectors = Vectors { dtype: F32, lanes };
            let rows: Vec<Expr> = (0..lanes).map(|_| Expr::from(Var::new("r", F32.with_lanes(lanes as u16)))).collect();
            let mut code = Code::default();
            let columns = vectors.transposed(rows.clone(), &mut code);
            let bound: Vec<(Expr, Expr)> = code
                .finish()
                .to_stmts()
                .iter()
                .map(|stmt| match &**stmt {
                    crate::ir::StmtNode::Bind { var, value } => (var.into(), value.clone()),
                    _ => panic!("only names"),
                })
                .collect();
            // The row and the column of a lane.
            fn lane(expr: &Expr, at: usize, rows: &[Expr], bound: &[(Expr, Expr)]) -> (usize, usize) {
                if let Some(row) = rows.iter().position(|row| row == expr) {
                    return (row, at);
                }
                let (_, value) = bound.iter().find(|(var, _)| var == expr).expect("it has a value");
                let ExprNode::Shuffle { vectors, indices } = &**value else { panic!("only shuffles") };
                let index = indices.get(at).expect("a lane") as usize;
                let each = rows.len();
                lane(&vectors.get(index / each).expect("a vector"), index % each, rows, bound)
            }
            for (column, vector) in columns.iter().enumerate() {
                for row in 0..lanes as usize {
                    assert_eq!(lane(vector, row, &rows, &bound), (row, column), "{lanes} lanes");
                }
            }
        }
    }
}
