//! Elements interpolated at places of an input, which are given by other tensors.

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, Expr, F32, F64, I64, Tensor};
use kernpack_compiler::te;

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "GridSample", pattern: Pattern::Heavy, make: grid_sample },
    Operator { name: "AffineGrid", pattern: Pattern::Injective, make: affine_grid },
];

/// The maximum number of spatial axes: each doubles the number of elements around a place.
const MOST_AXES: usize = 8;

/// The treatment of elements outside the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// Converts a coordinate from -1 to 1 to a place on an axis of the input.
fn denormalized(x: Expr, extent: i64, align_corners: bool, wide: DataType) -> Expr {
    let extent = extent as f64;
    let number = |value: f64| te::constant(value, wide);
    let from_zero = x + number(1.0);
    if align_corners {
        from_zero * number((extent - 1.0) / 2.0)
    } else {
        (from_zero * number(extent) - number(1.0)) * number(0.5)
    }
}

/// Clamps or reflects a place on an axis as the padding requires.
fn padded(x: Expr, extent: i64, (mode, padding): (Mode, Padding), align_corners: bool, wide: DataType) -> Expr {
    let number = |value: f64| te::constant(value, wide);
    let last = (extent - 1) as f64;
    let x = match padding {
        Padding::Zeros => x,
        // Places outside are between equal elements, and cubic functions also use those inside:
        // their neighbours are clamped one by one.
        Padding::Border if mode == Mode::Cubic => x,
        Padding::Border => x.max(number(0.0)).min(number(last)),
        Padding::Reflection => {
            let (low, range) = if align_corners { (0.0, last) } else { (-0.5, extent as f64) };
            if range == 0.0 {
                number(0.0)
            } else {
                let from_low = x - number(low);
                let turns = te::floor(&from_low / number(2.0 * range));
                let rest = from_low - turns * number(2.0 * range);
                let back = number(2.0 * range) - &rest;
                rest.min(back) + number(low)
            }
        }
    };
    // Farther places only see zeros. NaN and infinity must not become indices.
    x.max(number(-4.0)).min(number(last + 4.0))
}

/// Clamps an index. Zeros are inserted elsewhere.
fn index_inside(index: &Expr, extent: i64, padding: Padding, align_corners: bool) -> Expr {
    match padding {
        Padding::Zeros => index.clone(),
        Padding::Border => index.max(0).min(extent - 1),
        Padding::Reflection if align_corners && extent == 1 => Expr::int(0),
        Padding::Reflection if align_corners => {
            let rest = index.floor_mod(2 * (extent - 1));
            let back = Expr::int(2 * (extent - 1)) - &rest;
            rest.min(back)
        }
        Padding::Reflection => {
            let rest = index.floor_mod(2 * extent);
            let back = Expr::int(2 * extent - 1) - &rest;
            rest.min(back)
        }
    }
}

/// Returns the weights of elements from the first one on, for a place at distance `part` after the
/// middle one.
fn weights(mode: Mode, part: &Expr) -> Vec<Expr> {
    let number = |value: f64| te::constant(value, part.dtype());
    match mode {
        Mode::Nearest => vec![number(1.0)],
        Mode::Linear => vec![number(1.0) - part, part.clone()],
        Mode::Cubic => {
            let a = -0.75;
            let near = |x: &Expr| (x * (a + 2.0) - (a + 3.0)) * x * x + 1.0;
            let far = |x: &Expr| ((x * a - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
            let rest = number(1.0) - part;
            vec![far(&(part + 1.0)), near(part), near(&rest), far(&(&rest + 1.0))]
        }
    }
}

/// Returns the element at a place: weighted sums of those around it.
fn sample(x: &Operand, outer: &[Expr], places: &[Expr], mode: Mode, padding: Padding, align_corners: bool) -> Expr {
    let spatial = &x.shape[outer.len()..];
    let wide = places[0].dtype();
    let mut taps: Vec<Vec<(Expr, Expr)>> = Vec::new();
    for place in places {
        let base = if mode == Mode::Nearest { te::round(place) } else { te::floor(place) };
        let part = place - &base;
        let first = base.cast(I64) - i64::from(mode == Mode::Cubic);
        let weights = weights(mode, &part).into_iter().enumerate();
        taps.push(weights.map(|(number, weight)| (&first + i64::try_from(number).unwrap_or(0), weight)).collect());
    }
    let count = taps[0].len();
    let mut total: Option<Expr> = None;
    for number in 0..count.pow(u32::try_from(places.len()).unwrap_or(u32::MAX)) {
        let mut rest = number;
        let (mut at, mut weight, mut fits) = (outer.to_vec(), te::constant(1.0, wide), Expr::bool(true));
        for (axis, taps) in taps.iter().enumerate() {
            let (index, own) = &taps[rest % count];
            rest /= count;
            if padding == Padding::Zeros {
                fits = fits.and(index.greater_equal(0).and(index.less(spatial[axis])));
            }
            at.push(index_inside(index, spatial[axis], padding, align_corners));
            weight = if mode == Mode::Nearest { weight } else { weight * own };
        }
        let element = x.at(&at).cast(wide);
        let element = if padding == Padding::Zeros {
            Expr::if_then_else(fits, element, te::constant(0.0, wide))
        } else {
            element
        };
        let value = if mode == Mode::Nearest { element } else { element * weight };
        total = Some(match total {
            Some(total) => total + value,
            None => value,
        });
    }
    total.unwrap_or_else(|| te::constant(0.0, wide))
}

/// Returns the element at a place of an image, with zeros around it.
pub(super) fn bilinear(x: &Operand, outer: &[Expr], places: &[Expr]) -> Expr {
    let inside = |(place, extent): (&Expr, &i64)| {
        padded(place.clone(), *extent, (Mode::Linear, Padding::Zeros), true, place.dtype())
    };
    let places: Vec<Expr> = places.iter().zip(&x.shape[outer.len()..]).map(inside).collect();
    sample(x, outer, &places, Mode::Linear, Padding::Zeros, true)
}

fn grid_sample(call: &Call) -> Result<Vec<Tensor>> {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let rank = x.rank().saturating_sub(2);
    require!(
        rank >= 1
            && grid.rank() == rank + 2
            && grid.shape[0] == x.shape[0]
            && usize::try_from(grid.shape[rank + 1]) == Ok(rank),
        "a grid {:?} does not fit {:?}: it needs {rank} numbers for each place, and as many dimensions",
        grid.shape,
        x.shape
    );
    require!(rank <= MOST_AXES, "{rank} spatial axes are not supported: at most {MOST_AXES} are");
    let mode = match call.attrs.text("mode", "linear")? {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" => Mode::Linear,
        "cubic" | "bicubic" => Mode::Cubic,
        other => fail!("attribute `mode` is `{other}`, which is unknown"),
    };
    require!(
        mode != Mode::Cubic || rank <= 2,
        "the mode `cubic` is not supported for {rank} spatial axes: it is for 2"
    );
    let padding = match call.attrs.text("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => fail!("attribute `padding_mode` is `{other}`, which is unknown"),
    };
    let align_corners = call.attrs.flag("align_corners", false)?;
    let mut shape = x.shape[..2].to_vec();
    shape.extend(&grid.shape[1..=rank]);
    if shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    require!(!x.shape.contains(&0), "{:?} has no elements", x.shape);
    let wide = if x.dtype == F64 || grid.dtype == F64 { F64 } else { F32 };
    // The coordinates of a place are in the order of the axes from the last one on.
    let extents = &grid.shape[..=rank];
    let places: Vec<Tensor> = (0..rank)
        .map(|axis| {
            let extent = x.shape[2 + axis];
            tensor(extents, |position| {
                let mut at = position.to_vec();
                at.push(Expr::int(i64::try_from(rank - 1 - axis).unwrap_or(0)));
                let place = denormalized(grid.at(&at).cast(wide), extent, align_corners, wide);
                let place = if mode == Mode::Nearest { te::round(place) } else { place };
                padded(place, extent, (mode, padding), align_corners, wide)
            })
            .named(&format!("place{axis}"))
        })
        .collect();
    Ok(vec![tensor(&shape, |position| {
        let mut at = vec![position[0].clone()];
        at.extend_from_slice(&position[2..]);
        let places: Vec<Expr> = places.iter().map(|place| place.at(&at)).collect();
        let value = sample(x, &position[..2], &places, mode, padding, align_corners);
        if x.dtype.is_float() { value.cast(x.dtype) } else { super::quantize::saturated(te::round(value), x.dtype) }
    })])
}

/// Computes places from -1 to 1 in an image that is transformed by an affine matrix.
fn affine_grid(call: &Call) -> Result<Vec<Tensor>> {
    let (theta, size) = (call.input(0)?, call.ints(1)?);
    let rank = size.len().saturating_sub(2);
    let rows = i64::try_from(rank).unwrap_or(0);
    require!(
        (2..=3).contains(&rank) && theta.shape == [size[0], rows, rows + 1],
        "matrices {:?} do not fit a result of {size:?}",
        theta.shape
    );
    let align_corners = call.attrs.flag("align_corners", false)?;
    let mut shape = vec![size[0]];
    shape.extend(&size[2..]);
    shape.push(rows);
    let wide = theta.dtype;
    Ok(vec![tensor(&shape, |position| {
        let row = &position[rank + 1];
        let element = |column: i64| theta.at(&[position[0].clone(), row.clone(), Expr::int(column)]);
        let mut value = element(rows);
        for axis in 0..rank {
            // An axis with extent 1 only has the middle.
            let extent = size[2 + axis] as f64;
            let (first, step) = match align_corners {
                true if extent > 1.0 => (-1.0, 2.0 / (extent - 1.0)),
                true => (0.0, 0.0),
                false => (1.0 / extent - 1.0, 2.0 / extent),
            };
            let place = position[1 + axis].cast(wide) * te::constant(step, wide) + te::constant(first, wide);
            value = value + element(rows - 1 - i64::try_from(axis).unwrap_or(0)) * place;
        }
        value
    })])
}
