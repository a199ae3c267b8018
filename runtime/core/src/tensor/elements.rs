//! Collection interfaces of views: `view[[i, j]]`, `for x in &view`.
//!
//! ```
//! use kernpack::{Tensor, TensorView};
//!
//! # fn main() -> kernpack::Result<()> {
//! let tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let view: TensorView<f32> = tensor.view()?;
//! assert_eq!(view[[1, 0]], 3.0);
//! let mut sum = 0.0;
//! for x in &view {
//!     sum += x;
//! }
//! assert_eq!(sum, 10.0);
//! # Ok(())
//! # }
//! ```

use core::ops::{Index, IndexMut};

use super::{TensorView, TensorViewMut};
use crate::layout::Element;

/// The elements of a view in row-major order, regardless of the strides. `V` is the view, or a
/// reference to it.
#[derive(Clone, Debug)]
pub struct Elements<V> {
    view: V,
    /// Index of the next element.
    index: Vec<usize>,
    left: usize,
}

macro_rules! elements {
    ($([$($lifetime:lifetime),*] $view:ty;)*) => {$(
        impl<$($lifetime,)* T: Element> IntoIterator for $view {
            type Item = T;
            type IntoIter = Elements<Self>;

            /// The elements in row-major order.
            fn into_iter(self) -> Self::IntoIter {
                Elements { index: vec![0; self.ndim()], left: self.len(), view: self }
            }
        }

        impl<$($lifetime,)* T: Element> Iterator for Elements<$view> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.left = self.left.checked_sub(1)?;
                let value = self.view.get(&self.index);
                advance(&mut self.index, self.view.shape());
                value
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.left, Some(self.left))
            }
        }

        impl<$($lifetime,)* T: Element> ExactSizeIterator for Elements<$view> {}
    )*};
}
elements! {
    ['a] TensorView<'a, T>;
    ['a, 'b] &'b TensorView<'a, T>;
    ['a, 'b] &'b TensorViewMut<'a, T>;
}

/// Advances to the next index in row-major order.
fn advance(index: &mut [usize], shape: &[i64]) {
    for (place, extent) in index.iter_mut().zip(shape).rev() {
        *place += 1;
        if *place < *extent as usize {
            return;
        }
        *place = 0;
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside(index: &[usize], shape: &[i64]) -> ! {
    panic!("index {index:?} is outside of a tensor of shape {shape:?}")
}

macro_rules! indexing {
    ($($view:ident)*) => {$(
        impl<T: Element, const N: usize> Index<[usize; N]> for $view<'_, T> {
            type Output = T;

            /// Returns the element at an index, one number per dimension. Panics if out of range;
            /// `get` does not.
            #[track_caller]
            fn index(&self, index: [usize; N]) -> &T {
                let Some(element) = self.element(&index) else { outside(&index, self.shape()) };
                element
            }
        }

        impl<T: Element> Index<usize> for $view<'_, T> {
            type Output = T;

            /// Returns the element of a vector. Panics if out of range; `get` does not.
            #[track_caller]
            fn index(&self, index: usize) -> &T {
                &self[[index]]
            }
        }
    )*};
}
indexing!(TensorView TensorViewMut);

impl<T: Element, const N: usize> IndexMut<[usize; N]> for TensorViewMut<'_, T> {
    /// Returns a mutable reference to the element at an index. Panics if out of range; `set` does
    /// not.
    #[track_caller]
    fn index_mut(&mut self, index: [usize; N]) -> &mut T {
        let shape = self.shape();
        let Some(element) = self.element_mut(&index) else { outside(&index, shape) };
        element
    }
}

impl<T: Element> IndexMut<usize> for TensorViewMut<'_, T> {
    /// Returns a mutable reference to the element of a vector. Panics if out of range; `set` does
    /// not.
    #[track_caller]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self[[index]]
    }
}

#[cfg(test)]
mod tests {
    use crate::{Tensor, TensorView};

    #[test]
    fn views_are_collections() {
        let tensor = Tensor::from_slice(&[1i32, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
        let view: TensorView<'_, i32> = tensor.view().unwrap();
        assert_eq!((view[[0, 0]], view[[1, 2]]), (1, 6));
        assert_eq!((&view).into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        let mut elements = view.into_iter();
        assert_eq!((elements.len(), elements.next(), elements.len()), (6, Some(1), 5));
        drop(elements);
        let mut tensor = Tensor::from_slice(&[1.5f64, 2.5], &[2]).unwrap();
        let mut view = tensor.view_mut::<f64>().unwrap();
        view[1] += 1.0;
        view[[0]] = 7.0;
        assert_eq!((view[0], (&view).into_iter().collect::<Vec<_>>()), (7.0, vec![7.0, 3.5]));
        drop(view);
        let empty = Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap();
        assert_eq!(empty.view::<f32>().unwrap().into_iter().count(), 0);
        let scalar = Tensor::from_slice(&[4i64], &[]).unwrap();
        let scalar = scalar.view::<i64>().unwrap();
        assert_eq!((scalar[[]], scalar.into_iter().collect::<Vec<_>>()), (4, vec![4]));
    }

    #[test]
    fn an_index_outside_panics_with_both() {
        let tensor = Tensor::from_slice(&[1i32, 2, 3, 4], &[2, 2]).unwrap();
        let view = tensor.view::<i32>().unwrap();
        let message = |index: &dyn Fn() -> i32| {
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(index)).unwrap_err();
            panic.downcast_ref::<String>().cloned().unwrap()
        };
        assert_eq!(message(&|| view[[2, 0]]), "index [2, 0] is outside of a tensor of shape [2, 2]");
        assert_eq!(message(&|| view[3]), "index [3] is outside of a tensor of shape [2, 2]");
    }
}
