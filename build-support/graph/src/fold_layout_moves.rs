//! Folds layout moves of known tensors: nodes that transpose, slice or repeat the elements of a
//! tensor. The elements are copied, because the evaluator takes some hundred times as long for each
//! of them, and weights have millions.

use kernpack_compiler::arith::{Analyzer, detect_linear};
use kernpack_compiler::ir::{ExprNode, OperationNode, Tensor, Var};

use crate::constant::{Constant, element_bytes, num_elements};
use crate::error::Result;

/// The places of the elements of a tensor in another one: the offset of the first one, and the
/// stride of each axis.
struct Places {
    start: i64,
    strides: Vec<i64>,
    shape: Vec<i64>,
}

/// Returns the elements of `made`, if each of them is an element of `source` at a place that is a
/// linear function of its indices. `None` if it computes anything.
///
/// # Errors
/// Only errors of tensors.
pub(crate) fn fold_layout_move(made: &Tensor, source: &Tensor, known: &Constant) -> Result<Option<Constant>> {
    let Some(places) = places(made, source, known.shape()) else { return Ok(None) };
    let bytes = known.bytes();
    let copied = match element_bytes(known.dtype()) {
        1 => copied::<1>(bytes, &places),
        2 => copied::<2>(bytes, &places),
        4 => copied::<4>(bytes, &places),
        8 => copied::<8>(bytes, &places),
        _ => return Ok(None),
    };
    Constant::new(made.dtype, &places.shape, copied).map(Some)
}

fn places(made: &Tensor, source: &Tensor, extents: &[i64]) -> Option<Places> {
    let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &*made.op else { return None };
    let (1, true) = (bodies.len(), reduce_axes.is_empty()) else { return None };
    let body = bodies.get(0)?;
    let ExprNode::TensorRead { tensor, indices } = &*body else { return None };
    if tensor != source || made.dtype != source.dtype {
        return None;
    }
    let vars: Vec<Var> = axes.iter().map(|axis| axis.var.clone()).collect();
    let shape: Vec<i64> = made.shape.iter().map(|extent| extent.as_int()).collect::<Option<_>>()?;
    let mut places = Places { start: 0, strides: vec![0; shape.len()], shape };
    let (mut stride, analyzer) = (1_i64, Analyzer::new());
    for (index, extent) in indices.to_vec().iter().zip(extents).rev() {
        let form = detect_linear(index, &vars, &analyzer)?;
        let base = form.base.as_int()?;
        let (mut least, mut most) = (base, base);
        for (axis, factor) in form.coefficients.iter().enumerate() {
            let factor = factor.as_int()?;
            let reach = factor.checked_mul(places.shape[axis] - 1)?;
            least += reach.min(0);
            most += reach.max(0);
            places.strides[axis] += factor * stride;
        }
        // An index outside its axis is an error that the evaluator reports.
        if least < 0 || most >= *extent {
            return None;
        }
        places.start += base * stride;
        stride *= extent;
    }
    Some(places)
}

/// Copies elements of `W` bytes. A build script is compiled without optimization, so the inner loop
/// does little for each element.
fn copied<const W: usize>(bytes: &[u8], places: &Places) -> Vec<u8> {
    let (words, _) = bytes.as_chunks::<W>();
    let count = num_elements(&places.shape).unwrap_or(0);
    let mut made: Vec<[u8; W]> = Vec::with_capacity(count);
    let extents: Vec<usize> = places.shape.iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).collect();
    // A backward step is the two's complement: places stay in range, as was checked.
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "added with `wrapping_add`")]
    let strides: Vec<usize> = places.strides.iter().map(|stride| *stride as usize).collect();
    let (Some((last, outer)), Some((step, steps))) = (extents.split_last(), strides.split_last()) else {
        return words.get(usize::try_from(places.start).unwrap_or(0)).map(|word| word.to_vec()).unwrap_or_default();
    };
    let mut position = vec![0; outer.len()];
    let mut row = usize::try_from(places.start).unwrap_or(0);
    while made.len() < count {
        if *step == 1 {
            made.extend_from_slice(&words[row..row + last]);
        } else {
            let (mut place, mut left) = (row, *last);
            while left > 0 {
                made.push(words[place]);
                place = place.wrapping_add(*step);
                left -= 1;
            }
        }
        for axis in (0..outer.len()).rev() {
            position[axis] += 1;
            row = row.wrapping_add(steps[axis]);
            if position[axis] < outer[axis] {
                break;
            }
            row = row.wrapping_sub(steps[axis].wrapping_mul(outer[axis]));
            position[axis] = 0;
        }
    }
    made.into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{element_tensor, extents};
    use kernpack_compiler::ir::{Expr, I64};
    use kernpack_compiler::te::eval::Evaluator;
    use kernpack_compiler::te::placeholder;

    fn check(shape: &[i64], at: impl Fn(&[Expr]) -> Vec<Expr>) -> bool {
        let source = placeholder(extents(&[4, 3, 5]), I64, "source");
        let known = Constant::of_ints(&(0..60).collect::<Vec<_>>()).reshaped(&[4, 3, 5]).unwrap();
        let made = element_tensor(shape, |position| source.at(at(position)));
        kernpack_compiler::take_reported().unwrap();
        let Some(copied) = fold_layout_move(&made, &source, &known).unwrap() else { return false };
        let expected =
            Evaluator::new().input(&source, known.to_elements().unwrap()).run(core::slice::from_ref(&made)).unwrap();
        assert!(copied == Constant::from_elements(&expected[0]).unwrap(), "{shape:?}: {:?}", copied.to_ints());
        true
    }

    #[test]
    fn elements_at_other_places() {
        assert!(check(&[5, 4, 3], |p| vec![p[1].clone(), p[2].clone(), p[0].clone()]));
        assert!(check(&[3, 5], |p| vec![Expr::int(2), p[0].clone(), p[1].clone()]));
        assert!(check(&[2, 3, 2], |p| vec![&p[0] * 2 + 1, Expr::int(2) - &p[1], Expr::int(4) - &p[2] * 3]));
        assert!(check(&[2, 7], |p| vec![Expr::int(1), &p[0] + 1, Expr::int(3)]));
        assert!(check(&[3], |p| vec![p[0].clone(), p[0].clone(), p[0].clone()]));
        assert!(check(&[], |_| vec![Expr::int(3), Expr::int(2), Expr::int(4)]));
        assert!(!check(&[8], |p| vec![p[0].floor_div(2), Expr::int(0), Expr::int(0)]));
    }
}
