use core::fmt;
use core::marker::PhantomData;
use std::borrow::Cow;

use super::borrow::Borrow;
use crate::abi::DLTensor;
use crate::layout::Element;
use crate::layout::{Layout, dl_tensor, viewed};
use crate::value::{Access, AnyView, FromAny, FromArg, Mismatch, Schema, TypeSchema};
use crate::{Error, Result, embedded};

/// Read access to the elements of a tensor in CPU memory, for the duration of a call or a borrow.
/// `view[[i, j]]` is one element (panics if out of range; [`TensorView::get`] returns an option),
/// `for x in &view` iterates over all in row-major order, and [`TensorView::as_slice`] returns the
/// memory itself.
///
/// Element type, device and alignment are checked when the view is created; strides and byte offset
/// are respected. As long as the view lives, a [`TensorViewMut`] of the same memory cannot be
/// created in any library of the process. This does not prevent writes by kernels in other
/// languages: while a view is alive, do not call one that writes to the tensor (the ABI does not
/// express which arguments a function writes to).
pub struct TensorView<'a, T> {
    first: *const T,
    layout: Layout<'a>,
    borrow: Borrow,
    elements: PhantomData<&'a [T]>,
}

/// Write access to the elements of a tensor in CPU memory.
///
/// It cannot be created while another view of the same memory lives. As a parameter of a packed
/// function it must not share memory with another tensor argument; this is checked at each call.
pub struct TensorViewMut<'a, T> {
    first: *mut T,
    layout: Layout<'a>,
    _borrow: Borrow,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: a view is a shared borrow of plain numbers.
unsafe impl<T: Element> Send for TensorView<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for TensorView<'_, T> {}
// SAFETY: an exclusive borrow of plain numbers.
unsafe impl<T: Element> Send for TensorViewMut<'_, T> {}
// SAFETY: as above; writing needs `&mut self`.
unsafe impl<T: Element> Sync for TensorViewMut<'_, T> {}

impl<'a, T: Element> TensorView<'a, T> {
    #[inline]
    pub(super) fn of(tensor: &'a DLTensor) -> Result<Self, Mismatch> {
        let (first, layout, range) = viewed::<T>(tensor)?;
        let borrow = Borrow::new(range, false).ok_or_else(written)?;
        Ok(Self { first, layout, borrow, elements: PhantomData })
    }

    /// Borrows all elements in row-major order.
    ///
    /// # Errors
    /// Returns a ValueError if the tensor is not contiguous; [`TensorView::to_vec`] and
    /// [`TensorView::iter`] work in that case.
    pub fn as_slice(&self) -> Result<&[T]> {
        if !self.layout.is_contiguous() {
            return Err(not_contiguous(&self.layout));
        }
        // SAFETY: `viewed` checked type, alignment and size; DLPack guarantees that the data
        // exists; the view borrows it.
        Ok(unsafe { core::slice::from_raw_parts(self.first, self.layout.len) })
    }
}

impl<T: Element> Clone for TensorView<'_, T> {
    fn clone(&self) -> Self {
        Self { first: self.first, layout: self.layout, borrow: self.borrow.again(), elements: PhantomData }
    }
}

#[cold]
fn written() -> Mismatch {
    Mismatch::value(
        "the tensor's memory is being written to by a view that is still alive; wait for it, or pass a copy".to_owned(),
    )
}

#[cold]
fn in_use() -> Mismatch {
    Mismatch::value("the tensor's memory is in use by a view that is still alive, so it cannot be written to; wait for it, or pass a copy".to_owned())
}

#[cold]
fn read_only() -> Mismatch {
    Mismatch::value("the tensor is read-only, but the function writes to it; pass a copy".to_owned())
}

impl<'a, T: Element> TensorViewMut<'a, T> {
    /// # Safety
    /// Only views of this crate read or write the elements for `'a`.
    #[inline]
    pub(super) unsafe fn of(tensor: &'a DLTensor) -> Result<Self, Mismatch> {
        let (first, layout, range) = viewed::<T>(tensor)?;
        let borrow = Borrow::new(range, true).ok_or_else(in_use)?;
        Ok(Self { first, layout, _borrow: borrow, elements: PhantomData })
    }

    /// Borrows all elements in row-major order.
    ///
    /// # Errors
    /// Returns a ValueError if the tensor is not contiguous.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.contiguous_elements().ok_or_else(|| not_contiguous(&self.layout))
    }

    /// Borrows all elements mutably, in row-major order.
    ///
    /// # Errors
    /// Returns a ValueError if the tensor is not contiguous; [`TensorViewMut::set`] works in that
    /// case.
    pub fn as_slice_mut(&mut self) -> Result<&mut [T]> {
        if !self.layout.is_contiguous() {
            return Err(not_contiguous(&self.layout));
        }
        // SAFETY: as in `TensorView::as_slice`, and this view is the only one.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.first, self.layout.len) })
    }

    /// Writes the element at `index`; returns false if out of range.
    pub fn set(&mut self, index: &[usize], value: T) -> bool {
        let Some(offset) = self.layout.offset(index) else { return false };
        // SAFETY: the index is in range, so the element is part of the tensor; this view is the
        // only one.
        unsafe { self.first.offset(offset).write(value) };
        true
    }

    /// Borrows the element at `index` mutably; `None` if out of range.
    pub(super) fn element_mut(&mut self, index: &[usize]) -> Option<&mut T> {
        let offset = self.layout.offset(index)?;
        // SAFETY: the index is in range, so the element is part of the tensor; this view is the
        // only one, and `self` is borrowed exclusively.
        Some(unsafe { &mut *self.first.offset(offset) })
    }

    /// Borrows the view for reading.
    pub fn as_view(&self) -> TensorView<'_, T> {
        TensorView { first: self.first, layout: self.layout, borrow: Borrow::nested(), elements: PhantomData }
    }
}

#[cold]
#[track_caller]
fn not_contiguous(layout: &Layout<'_>) -> Error {
    crate::error!(
        ValueError,
        "the tensor is not contiguous: shape {:?}, strides {:?} (in elements); pass a contiguous copy, for example \
         numpy.ascontiguousarray(x)",
        layout.shape,
        layout.strides.unwrap_or_default()
    )
}

macro_rules! shared_methods {
    ($view:ident, $access:ident) => {
        impl<'a, T: Element> $view<'a, T> {
            /// Dimensions, in elements.
            pub fn shape(&self) -> &'a [i64] {
                self.layout.shape
            }

            /// Number of dimensions.
            pub fn ndim(&self) -> usize {
                self.layout.shape.len()
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                self.layout.len
            }

            /// Returns true if there are no elements.
            pub fn is_empty(&self) -> bool {
                self.layout.len == 0
            }

            /// Returns the first element's address, and the strides in elements; `None` means row
            /// major without gaps.
            pub(crate) fn place(&self) -> (*mut T, Option<&'a [i64]>) {
                (self.first as *mut T, self.layout.strides)
            }

            /// Returns whether the elements are stored in row-major order without gaps.
            pub fn is_contiguous(&self) -> bool {
                self.layout.is_contiguous()
            }

            /// Returns the element at `index`, one number per dimension; `None` if out of range.
            pub fn get(&self, index: &[usize]) -> Option<T> {
                let offset = self.layout.offset(index)?;
                // SAFETY: the index is in range, so the element is part of the tensor.
                Some(unsafe { self.first.offset(offset).read() })
            }

            /// Borrows the element at `index`; `None` if out of range.
            pub(super) fn element(&self, index: &[usize]) -> Option<&T> {
                let offset = self.layout.offset(index)?;
                // SAFETY: the index is in range, so the element is part of the tensor, which `self`
                // borrows.
                Some(unsafe { &*self.first.offset(offset) })
            }

            /// Iterates over the elements in row-major order, regardless of the strides.
            pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + '_ {
                let mut index = vec![0usize; self.layout.shape.len()];
                (0..self.layout.len).map(move |_| {
                    // The index stays in range as long as elements are left.
                    let value = self.get(&index).unwrap_or(T::ZERO);
                    for axis in (0..index.len()).rev() {
                        index[axis] += 1;
                        if index[axis] < self.layout.shape[axis] as usize {
                            break;
                        }
                        index[axis] = 0;
                    }
                    value
                })
            }

            /// Copies the elements in row-major order.
            pub fn to_vec(&self) -> Vec<T> {
                self.to_cow().into_owned()
            }

            /// Returns the elements in row-major order: borrowed if the tensor is contiguous, else
            /// copied.
            pub fn to_cow(&self) -> Cow<'_, [T]> {
                match self.contiguous_elements() {
                    Some(elements) => Cow::Borrowed(elements),
                    None => Cow::Owned(self.iter().collect()),
                }
            }

            /// Borrows the elements if they are stored in row-major order without gaps.
            fn contiguous_elements(&self) -> Option<&[T]> {
                // SAFETY: `viewed` checked type, alignment and size; DLPack guarantees that the
                // data exists; `self` borrows it.
                self.layout.is_contiguous().then(|| unsafe { core::slice::from_raw_parts(self.first, self.layout.len) })
            }
        }

        impl<T: Element> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}, {:?})", stringify!($view), T::NAME, self.layout.shape)
            }
        }

        impl<T> Schema for $view<'_, T> {
            const TYPE: TypeSchema = TypeSchema::new("ffi.Tensor");
            const ACCESS: Access = Access::$access;
        }
    };
}
shared_methods!(TensorView, Reads);
shared_methods!(TensorViewMut, Writes);

impl<'a, T: Element> FromAny<'a> for TensorView<'a, T> {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        Self::of(dl_tensor(value).ok_or(Mismatch::TYPE)?)
    }
}

/// Only for parameters of packed functions, whose generated code checks for overlap. Other code
/// uses [`Tensor::view_mut`](super::Tensor::view_mut).
impl<'a, T: Element> FromArg<'a> for TensorViewMut<'a, T> {
    const WRITES: bool = true;

    #[inline]
    unsafe fn from_arg(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let tensor = dl_tensor(value).ok_or(Mismatch::TYPE)?;
        // SAFETY: an object here is the tensor, which is alive.
        if value.object().is_some_and(|tensor| unsafe { embedded::tensor::is_read_only(tensor) }) {
            return Err(read_only());
        }
        // SAFETY: the ABI's contract: the caller lends the tensor for writing, and does not access
        // it during the call; the caller of this function has checked that no other argument shares
        // its memory.
        unsafe { Self::of(tensor) }
    }
}
