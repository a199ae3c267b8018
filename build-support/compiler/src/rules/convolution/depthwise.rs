//! Depthwise convolutions: for a vector of columns, a few rows of results are computed together in
//! registers. Each image row is loaded once for all of them, and nothing is copied: padding is
//! handled by conditions, which only the code for the first and the last rows and columns contains.

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, Vectors, for_each, memory, serial};
use super::Convolution;
use crate::ir::{Buffer, Expr, ForKind, Operation, Stmt, Var};

/// The maximum number of elements of a window, which is completely unrolled.
const LARGEST: i64 = 49;

/// The maximum number of products of a vector with a weight that are unrolled for the rows that are
/// computed together.
const WRITTEN_OUT: i64 = 64;

/// The maximum number of rows that are computed together.
const ROWS: i64 = 7;

/// The tiling of the work.
struct Plan {
    vectors: Vectors,
    /// The number of result rows that are computed together, the number of such groups, and the
    /// rows of the last one.
    height: i64,
    groups: i64,
    last_height: i64,
    /// The number of whole vectors of a row; then the lanes of the last partial vector, and how
    /// many of them are results.
    whole: i64,
    rest: Option<(i64, i64)>,
}

/// Returns the convolution in this form, or the reason why it does not apply.
pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Result<Operation, String> {
    let [rows, columns] = &convolution.spatial;
    let dtype = convolution.out.output(0).dtype;
    let most = target.lanes(dtype.bits());
    let size = rows.window * columns.window;
    if !(2..=LARGEST).contains(&size) {
        return Err(format!("its window has not 2 to {LARGEST} elements"));
    }
    if columns.stride > 2 {
        return Err("its stride along rows is neither 1 nor 2".into());
    }
    if most < 4 || columns.extent < 4 {
        return Err("its rows are short".into());
    }
    let plan = Plan::new(Vectors { dtype, lanes: most }, [rows.extent, columns.extent], size);
    // It takes about four times as long as a matrix product with the same number of
    // multiplications.
    let shared = convolution.shared_kind_of(4, target);
    Ok(convolution.operation("depthwise", |inputs, out| {
        let extents: Vec<Expr> = convolution.batch.iter().cloned().chain([convolution.channels.into()]).collect();
        over(&extents, shared, &mut Vec::new(), &|indices, code| {
            let (channel, batch) = indices.split_last().expect("there are channels");
            let weights = (0..size)
                .map(|at| {
                    let [y, x] = [at / columns.window, at % columns.window].map(Expr::int);
                    code.bind("weight", inputs.loads(&convolution.weight(channel, &Expr::int(0), &y, &x)))
                })
                .collect();
            Plane { plan: &plan, convolution, inputs, out, batch, channel, weights }.run(code);
        })
    }))
}

impl Plan {
    fn new(vectors: Vectors, [rows, columns]: [i64; 2], size: i64) -> Self {
        let most = (WRITTEN_OUT / size).clamp(1, ROWS).min(rows);
        // A height that divides the rows, if it is not much smaller, because the code is then
        // smaller.
        let divisor = (1..=most).rev().find(|height| rows % height == 0).unwrap_or(1);
        let height = if divisor * 2 > most { divisor } else { most };
        let groups = (rows + height - 1) / height;
        let left = columns % vectors.lanes;
        let rest =
            (left > 0).then(|| ((left as u64).next_power_of_two().max(4).min(vectors.lanes as u64) as i64, left));
        Self {
            vectors,
            height,
            groups,
            last_height: rows - (groups - 1) * height,
            whole: columns / vectors.lanes,
            rest,
        }
    }
}

/// One channel of one image.
struct Plane<'a> {
    plan: &'a Plan,
    convolution: &'a Convolution,
    inputs: &'a Inputs,
    out: &'a Buffer,
    batch: &'a [Expr],
    channel: &'a Expr,
    weights: Vec<Expr>,
}

impl Plane<'_> {
    fn run(&self, code: &mut Code) {
        let Plan { height, groups, last_height, .. } = *self.plan;
        // The first and the last rows read padding; those in between have no conditions.
        self.group(&Expr::int(0), if groups == 1 { last_height } else { height }, code);
        if groups > 2 {
            code.push(serial("rows", groups - 2, |at, code| self.group(&((at + 1) * height), height, code)));
        }
        if groups > 1 {
            self.group(&Expr::int((groups - 1) * height), last_height, code);
        }
    }

    /// Emits result rows starting at `y`, one vector of columns after another.
    fn group(&self, y: &Expr, height: i64, code: &mut Code) {
        let Plan { vectors, whole, rest, .. } = *self.plan;
        let lanes = vectors.lanes;
        let tile = |x: &Expr, count: i64, is_last: bool, code: &mut Code| {
            let lanes = if count < lanes { rest.map_or(lanes, |(lanes, _)| lanes) } else { lanes };
            // A separate body: names and memory end with it.
            let mut own = Code::default();
            self.tile(Vectors { lanes, ..vectors }, (y, height), (x, count), is_last, &mut own);
            code.push(Stmt::if_then(true, own.finish(), None));
        };
        let ends = i64::from(rest.is_none());
        if whole > 0 {
            tile(&Expr::int(0), lanes, whole == 1 && rest.is_none(), code);
        }
        if whole - 1 - ends > 0 {
            code.push(serial("part", whole - 1 - ends, |at, code| tile(&((at + 1) * lanes), lanes, false, code)));
        }
        if whole > 1 && rest.is_none() {
            tile(&Expr::int((whole - 1) * lanes), lanes, true, code);
        }
        if let Some((_, left)) = rest {
            tile(&Expr::int(whole * lanes), left, true, code);
        }
    }

    /// Emits `height` rows of `count` results in a vector.
    fn tile(
        &self,
        vectors: Vectors,
        (y, height): (&Expr, i64),
        (x, count): (&Expr, i64),
        is_last: bool,
        code: &mut Code,
    ) {
        let (convolution, lanes) = (self.convolution, vectors.lanes);
        let [rows, columns] = &convolution.spatial;
        let mut sums: Vec<Option<Expr>> = vec![None; height as usize];
        let reach = rows.dilation * (rows.window - 1);
        for row in 0..rows.stride * (height - 1) + reach + 1 {
            // The results that read this row, with the rows of their windows.
            let readers: Vec<(usize, i64)> = (0..height)
                .flat_map(|own| (0..rows.window).map(move |ky| (own, ky)))
                .filter(|(own, ky)| own * rows.stride + ky * rows.dilation == row)
                .map(|(own, ky)| (own as usize, ky))
                .collect();
            if readers.is_empty() {
                continue;
            }
            let at_y = y * rows.stride + row;
            let pixels = self.columns(vectors, &at_y, x, is_last, code);
            for (kx, pixels) in pixels.iter().enumerate() {
                for (own, ky) in &readers {
                    let weight = self.weights[*ky as usize * columns.window as usize + kx].broadcast(lanes as u16);
                    let product = weight * pixels;
                    let sum = match &sums[*own] {
                        None => product,
                        Some(before) => before + product,
                    };
                    sums[*own] = Some(code.bind("sum", sum));
                }
            }
        }
        let results = memory("sums", vectors.dtype, &[height * lanes], "local");
        code.alloc(&results);
        for (own, sum) in sums.into_iter().enumerate() {
            let at = Expr::int(own as i64 * lanes);
            code.push(vectors.store(&results, at, sum.expect("a window has rows")));
        }
        for own in 0..height {
            let lane = Var::index("x");
            let (at_y, at_x) = (y + own, x + &lane);
            let sum = Expr::load(&results, lane.expr() + own * lanes);
            let value = self.inputs.loads(&convolution.value(self.batch, self.channel, &at_y, &at_x, &sum));
            let index = self.out.flat_index(&convolution.indices(self.batch, self.channel, &at_y, &at_x));
            let mut store = Stmt::store(self.out.clone(), index, value);
            if count < lanes {
                store = Stmt::if_then(lane.expr().less(count).likely(), store, None);
            }
            code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
        }
    }

    /// The elements of a row that the results of a vector read, for each column of the window.
    fn columns(&self, vectors: Vectors, y: &Expr, x: &Expr, is_last: bool, code: &mut Code) -> Vec<Expr> {
        let [_, columns] = &self.convolution.spatial;
        let mut pairs: Vec<(i64, [Vec<Expr>; 2])> = Vec::new();
        (0..columns.window)
            .map(|kx| {
                let place = kx * columns.dilation;
                if columns.stride == 1 {
                    return self.pixels(vectors, y, &(x + place), is_last, code);
                }
                // Two adjacent vectors contain every second pixel of two columns of the window.
                let even = place / 2 * 2;
                if !pairs.iter().any(|(known, _)| *known == even) {
                    let first = x * 2 + even;
                    let both = [0, vectors.lanes].map(|skip| self.pixels(vectors, y, &(&first + skip), is_last, code));
                    pairs.push((even, vectors.apart(&both, code)));
                }
                let (_, apart) = pairs.iter().find(|(known, _)| *known == even).expect("it was added");
                apart[(place % 2) as usize][0].clone()
            })
            .collect()
    }

    /// Adjacent pixels of the source. The last vectors of a row may extend beyond its end.
    fn pixels(&self, vectors: Vectors, y: &Expr, x: &Expr, is_last: bool, code: &mut Code) -> Expr {
        let place = memory("pixels", vectors.dtype, &[vectors.lanes], "local");
        code.alloc(&place);
        let lane = Var::index("lane");
        let at = x + &lane;
        let mut value = self.inputs.loads(&self.convolution.own_source(self.batch, self.channel, y, &at));
        let source = self.convolution.spatial[1].source();
        if is_last && x.as_int().is_none_or(|x| x + vectors.lanes > source) {
            value = Expr::if_then_else(at.less(source), value, Expr::float(vectors.dtype, 0.0));
        }
        let store = Stmt::store(place.clone(), lane.expr().clone(), value);
        code.push(Stmt::for_loop(lane, 0, vectors.lanes, ForKind::Vectorized, store));
        code.bind("pixels", vectors.load(&place, Expr::int(0)))
    }
}

/// Emits loops over dimensions. The first loop with more than one iteration is distributed over
/// threads.
fn over(extents: &[Expr], kind: ForKind, indices: &mut Vec<Expr>, body: &dyn Fn(&[Expr], &mut Code)) -> Stmt {
    let Some((extent, rest)) = extents.split_first() else {
        let mut code = Code::default();
        body(indices, &mut code);
        return code.finish();
    };
    let is_one = extent.is_int(1);
    for_each("plane", extent, kind, |index, code| {
        indices.push(index.clone());
        code.push(over(rest, if is_one { kind } else { ForKind::Serial }, indices, body));
        indices.pop();
    })
}
