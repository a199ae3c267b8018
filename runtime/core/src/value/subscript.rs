//! The key in brackets behind an object: `x[-1]`, `x[1:3]`, `x[::-1]`.

use super::{AnyView, FromAny, Mismatch, Schema, TypeSchema};
use crate::Result;
use crate::abi::type_index;
use crate::embedded;

const SLICE: TypeSchema = TypeSchema::new("slice");

/// A slice of Python, as a parameter of `__getitem__`, `__setitem__` and `__delitem__`: `x[1:3]`.
///
/// Bounds that Python leaves out are those of every sequence: `x[:]` is from 0 to [`i64::MAX`], and
/// `x[::-1]` from [`i64::MAX`] to [`i64::MIN`]. The step is not 0. Through the C ABI it is an
/// `ffi.Shape` of the three numbers.
///
/// ```
/// use kernpack::Slice;
/// let letters = ["a", "b", "c", "d", "e"];
/// let last = Slice { start: -2, stop: i64::MAX, step: 1 };
/// let picked: Vec<&str> = last.positions(letters.len()).map(|place| letters[place]).collect();
/// assert_eq!(picked, ["d", "e"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The first position; a negative one counts from the end.
    pub start: i64,
    /// The position behind the last one; a negative one counts from the end.
    pub stop: i64,
    /// The distance between two positions. Negative from the end to the start.
    pub step: i64,
}

impl Slice {
    /// Returns start, stop and step in a sequence of this length, as Python's `slice.indices` does:
    /// nothing is negative but the step, and a stop in front of the first element, which is -1.
    pub fn indices(self, len: usize) -> (i64, i64, i64) {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let (least, most) = if self.step < 0 { (-1, len - 1) } else { (0, len) };
        let bound = |bound: i64| (if bound < 0 { bound.saturating_add(len) } else { bound }).clamp(least, most);
        (bound(self.start), bound(self.stop), self.step)
    }

    /// Returns the positions in a sequence of this length, in the order of the slice.
    ///
    /// # Panics
    /// Panics if the step is 0, which only a slice that Rust code made can have: a slice of Python
    /// with this step is an error of the call.
    #[track_caller]
    pub fn positions(self, len: usize) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + Clone {
        let (start, stop, step) = self.indices(len);
        assert!(step != 0, "slice step cannot be zero");
        let distance = if step < 0 { start - stop } else { stop - start };
        let count = if distance > 0 { (distance - 1) as u64 / step.unsigned_abs() + 1 } else { 0 };
        (0..count as usize).map(move |number| (start + number as i64 * step) as usize)
    }
}

impl Schema for Slice {
    const TYPE: TypeSchema = SLICE;
}

impl<'a> FromAny<'a> for Slice {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is treated as a
        // shape.
        let numbers = unsafe {
            match (*object).type_index {
                type_index::SHAPE => embedded::shape::dimensions(object),
                _ => return Err(Mismatch::TYPE),
            }
        };
        match *numbers {
            [_, _, 0] => Err(Mismatch::value("slice step cannot be zero".to_owned())),
            [start, stop, step] => Ok(Self { start, stop, step }),
            _ => Err(Mismatch::TYPE),
        }
    }
}

/// A position or a slice of Python, as a parameter of `__getitem__`, `__setitem__` and
/// `__delitem__`: `x[-1]` or `x[1:3]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subscript {
    /// A position; a negative one counts from the end.
    Index(i64),
    /// A slice.
    Slice(Slice),
}

impl Subscript {
    /// Returns the place of a position in a sequence of this length; a negative one counts from the
    /// end.
    ///
    /// # Errors
    /// Returns an IndexError if there is no such element.
    pub fn place(position: i64, len: usize) -> Result<usize> {
        let place = match position {
            0.. => usize::try_from(position).ok(),
            _ => usize::try_from(position.unsigned_abs()).ok().and_then(|back| len.checked_sub(back)),
        };
        match place.filter(|place| *place < len) {
            Some(place) => Ok(place),
            None => crate::bail!(IndexError, "index {position} is out of range for {len} elements"),
        }
    }
}

impl Schema for Subscript {
    const TYPE: TypeSchema = TypeSchema { key: "Union", args: &[TypeSchema::new("int"), SLICE] };
}

impl<'a> FromAny<'a> for Subscript {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match Slice::from_any(value) {
            Ok(slice) => Ok(Self::Slice(slice)),
            Err(mismatch) if mismatch.is_value() => Err(mismatch),
            Err(_) => i64::from_any(value).map(Self::Index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntoAny, Shape};

    #[test]
    fn positions_of_slices() {
        let of = |start, stop, step, len| -> Vec<usize> { Slice { start, stop, step }.positions(len).collect() };
        assert_eq!(of(0, i64::MAX, 1, 3), [0, 1, 2]);
        assert_eq!(of(i64::MAX, i64::MIN, -1, 3), [2, 1, 0]);
        assert_eq!(of(-2, i64::MAX, 1, 5), [3, 4]);
        assert_eq!(of(1, -1, 2, 6), [1, 3]);
        assert_eq!(of(3, 1, 1, 5), []);
        assert_eq!(of(0, i64::MAX, i64::MAX, 5), [0]);
        assert_eq!(of(i64::MAX, i64::MIN, i64::MIN, 5), [4]);
        assert_eq!(of(i64::MIN, i64::MAX, 1, 0), []);
        assert_eq!(Slice { start: i64::MAX, stop: i64::MIN, step: -1 }.indices(3), (2, -1, -1));
    }

    #[test]
    #[should_panic(expected = "slice step cannot be zero")]
    fn positions_without_a_step() {
        let _ = Slice { start: 2, stop: 2, step: 0 }.positions(5);
    }

    #[test]
    fn values() {
        let slice = Slice { start: 1, stop: 3, step: 1 };
        assert_eq!(Shape::new(&[1, 3, 1]).into_any().to::<Subscript>().unwrap(), Subscript::Slice(slice));
        assert_eq!(7i64.into_any().to::<Subscript>().unwrap(), Subscript::Index(7));
        let zero = Shape::new(&[1, 3, 0]).into_any();
        assert_eq!(zero.to::<Subscript>().unwrap_err().message(), "slice step cannot be zero");
        assert_eq!("x".into_any().to::<Subscript>().unwrap_err().message(), "expected Union[int, slice], got str");
        assert!(Shape::new(&[1, 3]).into_any().to::<Slice>().is_err());
        assert!([1i64, 3, 1].into_any().to::<Slice>().is_err());
    }

    #[test]
    fn places() {
        assert_eq!([0, 2, -1, -3].map(|position| Subscript::place(position, 3).unwrap()), [0, 2, 2, 0]);
        for position in [3, -4, i64::MAX, i64::MIN] {
            assert_eq!(Subscript::place(position, 3).unwrap_err().kind(), "IndexError");
        }
    }
}
