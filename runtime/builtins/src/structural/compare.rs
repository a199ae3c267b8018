use super::lent;
use super::path::AccessPath;
use crate::Result;
use crate::container::{Sequence, sequence};
use crate::engines::structural as engine;
use crate::value::{AnyView, ToArg};

/// The treatment of free variables and of the content of tensors by structural equality and hash.
///
/// ```
/// use kernpack::Array;
/// use kernpack::structural::Options;
///
/// let options = Options::new().map_free_vars(true);
/// assert!(options.equal(&Array::from(vec![1_i64]), &Array::from(vec![1_i64]))?);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is compared before `equal`, `first_mismatch` or `hash`"]
pub struct Options {
    map_free_vars: bool,
    skip_tensor_content: bool,
}

/// The first difference of two values: the path to it in each of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The path in the left value.
    pub left: AccessPath,
    /// The path in the right value.
    pub right: AccessPath,
}

impl Options {
    /// The default options: variables without a definition are equal only to themselves, and
    /// tensors are compared with their content.
    pub const fn new() -> Self {
        Self { map_free_vars: false, skip_tensor_content: false }
    }

    /// Sets whether variables without a definition count as defined at their first occurrence, so
    /// that their names do not matter.
    pub const fn map_free_vars(mut self, yes: bool) -> Self {
        self.map_free_vars = yes;
        self
    }

    /// Sets whether tensors are equal if their shapes and data types are.
    pub const fn skip_tensor_content(mut self, yes: bool) -> Self {
        self.skip_tensor_content = yes;
        self
    }

    const fn engine(self) -> engine::Options {
        engine::Options { map_free_vars: self.map_free_vars, skip_tensor_content: self.skip_tensor_content }
    }

    /// See [`equal`], with these options.
    ///
    /// # Errors
    /// As for [`equal`].
    pub fn equal(self, left: &(impl ToArg + ?Sized), right: &(impl ToArg + ?Sized)) -> Result<bool> {
        equal_views(&lent(&left.to_arg()), &lent(&right.to_arg()), self)
    }

    /// See [`hash`], with these options.
    ///
    /// # Errors
    /// As for [`hash`].
    pub fn hash(self, value: &(impl ToArg + ?Sized)) -> Result<u64> {
        hash_view(&lent(&value.to_arg()), self)
    }

    /// See [`first_mismatch`], with these options.
    ///
    /// # Errors
    /// As for [`first_mismatch`].
    pub fn first_mismatch(
        self,
        left: &(impl ToArg + ?Sized),
        right: &(impl ToArg + ?Sized),
    ) -> Result<Option<Difference>> {
        difference(&lent(&left.to_arg()), &lent(&right.to_arg()), self)
    }
}

/// Returns true if two values are structurally equal.
///
/// # Errors
/// TypeError for objects whose type has no structure (`structural = "unsupported"`, functions); any
/// error of a type's own hook.
///
/// ```
/// use kernpack::structural::equal;
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "docs.Leaf")]
/// #[repr(C)]
/// pub struct Leaf {
///     pub value: i64,
/// }
///
/// let leaf = |value| ObjRef::new(Leaf { value });
/// assert!(equal(&leaf(1), &leaf(1))?);
/// assert!(!equal(&leaf(1), &leaf(2))?);
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn equal(left: &(impl ToArg + ?Sized), right: &(impl ToArg + ?Sized)) -> Result<bool> {
    Options::new().equal(left, right)
}

/// Computes the structural hash of a value: equal for equal values, and the same number as
/// `ffi.StructuralHash` in any language.
///
/// # Errors
/// As for [`equal`].
pub fn hash(value: &(impl ToArg + ?Sized)) -> Result<u64> {
    Options::new().hash(value)
}

/// Returns the first difference of two values; `None` if they are equal.
///
/// # Errors
/// As for [`equal`].
///
/// ```
/// use kernpack::Array;
/// use kernpack::structural::first_mismatch;
///
/// let difference = first_mismatch(&Array::from(vec![1_i64, 2]), &Array::from(vec![1_i64, 3]))?.unwrap();
/// assert_eq!(difference.left.to_string(), "<root>[1]");
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn first_mismatch(left: &(impl ToArg + ?Sized), right: &(impl ToArg + ?Sized)) -> Result<Option<Difference>> {
    Options::new().first_mismatch(left, right)
}

fn equal_views(left: &AnyView<'_>, right: &AnyView<'_>, options: Options) -> Result<bool> {
    // SAFETY: the callers' views are valid, and none is an offer to take an object.
    unsafe { engine::equal::equal(left.as_raw(), right.as_raw(), options.engine()) }
}

fn hash_view(value: &AnyView<'_>, options: Options) -> Result<u64> {
    // SAFETY: as in `equal_views`.
    unsafe { engine::hash::hash(value.as_raw(), options.engine()) }
}

fn difference(left: &AnyView<'_>, right: &AnyView<'_>, options: Options) -> Result<Option<Difference>> {
    // SAFETY: as in `equal_views`.
    let paths = unsafe { engine::equal::first_mismatch(left.as_raw(), right.as_raw(), options.engine())? };
    if paths.is_none() {
        return Ok(None);
    }
    match sequence(paths.as_view()).as_ref().map(Sequence::views) {
        Ok([left, right]) => Ok(Some(Difference { left: AccessPath::read(left)?, right: AccessPath::read(right)? })),
        _ => Err(crate::error!(InternalError, "a difference has two paths")),
    }
}
