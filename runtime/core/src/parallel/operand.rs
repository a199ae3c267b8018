//! The operands of loops: slices, vectors, arrays, views of tensors, and rows of these views.

use super::domain::{Domain, Extent, Order, Sizes};
use super::names::Names;
use crate::Result;
use crate::layout::Element;
use crate::tensor::{TensorView, TensorViewMut};

/// An operand of a loop: `&[T]`, `&Vec<T>`, `&[T; N]`, `&TensorView<T>`, each also as `&mut`, and
/// [`rows`] of views.
///
/// # Safety
/// The extent's elements may be used until `'a` ends; if it `writes`, no other code uses them.
/// `item` converts the address of an item to a value that may be sent to another thread.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot go over `{Self}`",
    label = "no operand of a parallel loop",
    note = "operands are &[T], &mut [T], &Vec<T>, &TensorView<T>, &mut TensorViewMut<T>, parallel::rows(..) of views, and tuples of up to 8 of these"
)]
pub unsafe trait Operand<'a>: Sized {
    /// The body's argument: a reference to an element, or a row as a slice.
    type Item;

    /// Returns the memory layout of the elements.
    #[doc(hidden)]
    fn extent(self) -> Extent<'a>;

    /// Size of an element in bytes.
    #[doc(hidden)]
    const SIZE: usize;

    /// Returns the item at an address.
    ///
    /// # Safety
    /// The address is that of an item of the extent, with `row` elements; a mutable item is created
    /// only once.
    #[doc(hidden)]
    unsafe fn item(at: *mut u8, row: usize) -> Self::Item;
}

macro_rules! slices {
    ($([$($generics:tt)*] $read:ty, $written:ty;)*) => {$(
        // SAFETY: the slice is borrowed for `'a`, and its elements are `Sync`.
        unsafe impl<'a, T: Sync, $($generics)*> Operand<'a> for &'a $read {
            type Item = &'a T;
            const SIZE: usize = size_of::<T>();

            #[inline]
            fn extent(self) -> Extent<'a> {
                slice_extent::<T>(self.as_ptr().cast_mut(), self.len(), false)
            }

            #[inline(always)]
            unsafe fn item(at: *mut u8, _row: usize) -> &'a T {
                // SAFETY: promised by the caller.
                unsafe { &*at.cast::<T>() }
            }
        }

        // SAFETY: the slice is borrowed exclusively for `'a`, and its elements are `Send`.
        unsafe impl<'a, T: Send, $($generics)*> Operand<'a> for &'a mut $written {
            type Item = &'a mut T;
            const SIZE: usize = size_of::<T>();

            #[inline]
            fn extent(self) -> Extent<'a> {
                slice_extent::<T>(self.as_mut_ptr(), self.len(), true)
            }

            #[inline(always)]
            unsafe fn item(at: *mut u8, _row: usize) -> &'a mut T {
                // SAFETY: promised by the caller.
                unsafe { &mut *at.cast::<T>() }
            }
        }
    )*};
}
slices! {
    [] [T], [T];
    [] Vec<T>, Vec<T>;
    [const N: usize] [T; N], [T; N];
}

#[inline]
fn slice_extent<'a, T>(first: *mut T, len: usize, writes: bool) -> Extent<'a> {
    // There can be more zero-sized values than an `i64` counts; a loop over that many never ends.
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let shape = Sizes::Slice(len);
    Extent { first: first.cast(), shape, strides: None, size: size_of::<T>(), writes, is_rows: false }
}

// SAFETY: the view is borrowed for `'a` and excludes writers.
unsafe impl<'a, T: Element> Operand<'a> for &'a TensorView<'_, T> {
    type Item = &'a T;
    const SIZE: usize = size_of::<T>();

    #[inline]
    fn extent(self) -> Extent<'a> {
        let (first, strides) = self.place();
        view_extent::<T>(first, self.shape(), strides, false)
    }

    #[inline(always)]
    unsafe fn item(at: *mut u8, _row: usize) -> &'a T {
        // SAFETY: promised by the caller.
        unsafe { &*at.cast::<T>() }
    }
}

// SAFETY: the view is borrowed exclusively for `'a` and excludes all other access.
unsafe impl<'a, T: Element> Operand<'a> for &'a mut TensorViewMut<'_, T> {
    type Item = &'a mut T;
    const SIZE: usize = size_of::<T>();

    #[inline]
    fn extent(self) -> Extent<'a> {
        let (first, strides) = self.place();
        view_extent::<T>(first, self.shape(), strides, true)
    }

    #[inline(always)]
    unsafe fn item(at: *mut u8, _row: usize) -> &'a mut T {
        // SAFETY: promised by the caller.
        unsafe { &mut *at.cast::<T>() }
    }
}

#[inline]
fn view_extent<'a, T>(first: *mut T, shape: &'a [i64], strides: Option<&'a [i64]>, writes: bool) -> Extent<'a> {
    let shape = Sizes::Tensor(shape);
    Extent { first: first.cast(), shape, strides, size: size_of::<T>(), writes, is_rows: false }
}

/// The rows of a view: an operand whose items are slices along the last axis instead of single
/// elements.
#[derive(Clone, Copy, Debug)]
pub struct Rows<V>(V);

/// Turns a tensor view into an operand of rows: `rows(&view)` for reading, or `rows(&mut view)` for
/// writing. An item is the whole last axis, whose elements must be stored without gaps; the loop
/// iterates over the other axes, which may have any strides.
///
/// ```
/// use kernpack::parallel::{rows, zip};
/// use kernpack::Tensor;
///
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// let mut sums = vec![0.0; 2];
/// zip((rows(&x.view()?), &mut sums)).for_each(|(row, sum): (&[f32], &mut f32)| *sum = row.iter().sum())?;
/// assert_eq!(sums, [6.0, 15.0]);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[inline]
pub fn rows<V>(view: V) -> Rows<V> {
    Rows(view)
}

// SAFETY: as for the elements of the view; the domain checks that a row's elements are a slice.
unsafe impl<'a, T: Element> Operand<'a> for Rows<&'a TensorView<'_, T>> {
    type Item = &'a [T];
    const SIZE: usize = size_of::<T>();

    #[inline]
    fn extent(self) -> Extent<'a> {
        Extent { is_rows: true, ..self.0.extent() }
    }

    #[inline(always)]
    unsafe fn item(at: *mut u8, row: usize) -> &'a [T] {
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts(at.cast(), row) }
    }
}

// SAFETY: as above; rows that are written to do not share elements.
unsafe impl<'a, T: Element> Operand<'a> for Rows<&'a mut TensorViewMut<'_, T>> {
    type Item = &'a mut [T];
    const SIZE: usize = size_of::<T>();

    #[inline]
    fn extent(self) -> Extent<'a> {
        Extent { is_rows: true, ..self.0.extent() }
    }

    #[inline(always)]
    unsafe fn item(at: *mut u8, row: usize) -> &'a mut [T] {
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts_mut(at.cast(), row) }
    }
}

/// One operand, or a tuple of up to 8 whose items are passed to the loop's body together.
///
/// # Safety
/// As for [`Operand`].
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot go over `{Self}`",
    label = "no operand of a parallel loop",
    note = "operands are &[T], &mut [T], &Vec<T>, &TensorView<T>, &mut TensorViewMut<T>, parallel::rows(..) of views, and tuples of up to 8 of these"
)]
pub unsafe trait Operands<'a>: Sized {
    /// The body's argument: an item, or a tuple of items.
    type Items;
    /// The memory layout of the items.
    #[doc(hidden)]
    type Domain: Sync;

    /// Returns the memory layout of the items.
    #[doc(hidden)]
    fn domain(self, asked: Asked<'_>) -> Result<Self::Domain>;

    /// Returns the number of items, the number of elements of the longest item, and the common
    /// shape.
    #[doc(hidden)]
    fn measure(domain: &Self::Domain) -> (usize, usize, &[i64]);

    /// Passes the items in `range` to `body`, in order, each with its index.
    ///
    /// # Safety
    /// The range is within the domain, whose operands are alive; no index occurs twice as long as
    /// mutable items are in use.
    #[doc(hidden)]
    unsafe fn each<E>(
        domain: &Self::Domain,
        range: core::ops::Range<usize>,
        body: impl FnMut(usize, Self::Items) -> Result<(), E>,
    ) -> Result<(), E>;
}

/// The request for a domain.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub(super) order: Order,
    pub(super) names: Names<'a>,
}

macro_rules! each {
    ($domain:ident, $range:ident, $body:ident, [$($index:tt $operand:ident)+], $items:expr) => {{
        let rows = &$domain.rows;
        $domain.runs($range, |start, at, steps, count| {
            if *steps == [$($operand::SIZE as isize),+] {
                // Without gaps: a loop that the compiler can vectorize.
                for i in 0..count {
                    // SAFETY: item `start + i` of each operand, which no other thread uses now.
                    let items = unsafe { ($($operand::item(at[$index].add(i * $operand::SIZE), rows[$index]),)+) };
                    $body(start + i, $items(items))?;
                }
                return Ok(());
            }
            let mut at = at;
            for i in 0..count {
                // SAFETY: as above.
                let items = unsafe { ($($operand::item(at[$index], rows[$index]),)+) };
                $body(start + i, $items(items))?;
                $(at[$index] = at[$index].wrapping_byte_offset(steps[$index]);)+
            }
            Ok(())
        })
    }};
}

// SAFETY: as for the single operand.
unsafe impl<'a, A: Operand<'a>> Operands<'a> for A {
    type Items = A::Item;
    type Domain = Domain<1>;

    #[inline]
    fn domain(self, asked: Asked<'_>) -> Result<Self::Domain> {
        Domain::new([self.extent()], asked.order, asked.names)
    }

    #[inline]
    fn measure(domain: &Self::Domain) -> (usize, usize, &[i64]) {
        (domain.len, domain.weight, &domain.shape)
    }

    #[inline]
    unsafe fn each<E>(
        domain: &Self::Domain,
        range: core::ops::Range<usize>,
        mut body: impl FnMut(usize, Self::Items) -> Result<(), E>,
    ) -> Result<(), E> {
        each!(domain, range, body, [0 A], |(item,)| item)
    }
}

macro_rules! tuples {
    ($count:literal $($index:tt $operand:ident)+) => {
        // SAFETY: as for each operand.
        unsafe impl<'a, $($operand: Operand<'a>),+> Operands<'a> for ($($operand,)+) {
            type Items = ($($operand::Item,)+);
            type Domain = Domain<$count>;

            #[inline]
            fn domain(self, asked: Asked<'_>) -> Result<Self::Domain> {
                Domain::new([$(self.$index.extent()),+], asked.order, asked.names)
            }

            #[inline]
            fn measure(domain: &Self::Domain) -> (usize, usize, &[i64]) {
                (domain.len, domain.weight, &domain.shape)
            }

            #[inline]
            unsafe fn each<E>(
                domain: &Self::Domain,
                range: core::ops::Range<usize>,
                mut body: impl FnMut(usize, Self::Items) -> Result<(), E>,
            ) -> Result<(), E> {
                each!(domain, range, body, [$($index $operand)+], |items| items)
            }
        }
    };
}
tuples!(1 0 A);
tuples!(2 0 A 1 B);
tuples!(3 0 A 1 B 2 C);
tuples!(4 0 A 1 B 2 C 3 D);
tuples!(5 0 A 1 B 2 C 3 D 4 E1);
tuples!(6 0 A 1 B 2 C 3 D 4 E1 5 F);
tuples!(7 0 A 1 B 2 C 3 D 4 E1 5 F 6 G);
tuples!(8 0 A 1 B 2 C 3 D 4 E1 5 F 6 G 7 H);
