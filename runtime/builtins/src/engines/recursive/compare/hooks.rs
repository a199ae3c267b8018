//! Hooks: the references that are held while they run, and the functions that they call back.

use core::cmp::Ordering;
use core::ffi::c_void;

use super::Comparer;
use crate::Result;
use crate::abi::TVMFFIAny;
use crate::definition::field::check;
use crate::definition::function::Arguments;
use crate::definition::signature::{ANY_VIEW, BOOL, INT, Signature};
use crate::engines::recursive::leaf::compare_leaves;
use crate::value::{Any, AnyView};
use crate::walker::reentry::{Reentry, Run, call_hook};
use crate::walker::stack::Frame;

static EQUAL_CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW, &ANY_VIEW], &BOOL);
static COMPARE_CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW, &ANY_VIEW], &INT);

// SAFETY of all unsafe blocks below: as in the parent module.

impl Comparer {
    /// Takes references to all borrowed values. A hook may release them.
    #[inline]
    pub(super) fn retain_all(&mut self) {
        // SAFETY: see above.
        unsafe {
            self.frames.retain_all();
            self.pairs.retain_all();
            self.equal.before_hook();
        }
    }

    /// Calls a hook for the objects of the top frame.
    #[inline]
    pub(super) unsafe fn call_hook(&mut self, hook: TVMFFIAny, is_equality: bool) -> Result<Ordering> {
        self.retain_all();
        let top = self.frames.len() - 1;
        let Frame { objects, state, .. } = &mut self.frames[top];
        state.listed = true;
        let objects = *objects;
        self.on_stack.insert(objects.map(|object| object.addr()).into());
        let (reentry, signature, callback): (_, _, Run) = if is_equality {
            (&mut self.equal_reentry, &EQUAL_CALLBACK, equal_callback)
        } else {
            (&mut self.compare_reentry, &COMPARE_CALLBACK, compare_callback)
        };
        let function = reentry.get_or_insert_with(|| Reentry::new(signature, callback)).function();
        // SAFETY: see above; the column owns the hook; we are not used until the hook returns, but
        // through the function.
        let result = unsafe {
            let [left, right] = objects.map(|object| TVMFFIAny::pointer((*object).type_index, object.cast()));
            let args = [left, right, TVMFFIAny::NONE];
            call_hook(hook.payload.v_obj, args, function, core::ptr::from_mut(self).cast())
        }?;
        let raw = *result.as_view().as_raw();
        if is_equality {
            check(result.as_view(), &BOOL)?;
            return Ok(if raw.bits() != 0 { Ordering::Equal } else { Ordering::Greater });
        }
        check(result.as_view(), &INT)?;
        // C++ truncates it to 32 bits.
        Ok((raw.bits() as i32).cmp(&0))
    }
}

/// The function that an equality hook calls with two values.
#[inline]
unsafe fn equal_callback(comparer: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    // SAFETY: promised by the caller; the result is a plain value.
    unsafe { Ok(Any::from_raw(TVMFFIAny::bool(compare_for_hook(comparer, args)?.is_eq()))) }
}

/// The function that an ordering hook calls with two values.
#[inline]
unsafe fn compare_callback(comparer: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    // SAFETY: promised by the caller; the result is a plain value.
    unsafe { Ok(Any::from_raw(TVMFFIAny::int(compare_for_hook(comparer, args)? as i64))) }
}

#[inline]
unsafe fn compare_for_hook(comparer: *mut c_void, args: &[AnyView<'_>]) -> Result<Ordering> {
    // SAFETY: the comparer waits for the hook and lends itself; the values are alive for the call.
    Arguments::of(args).look_at(|[left, right]| unsafe {
        let comparer = &mut *comparer.cast::<Comparer>();
        match compare_leaves(left, right, comparer.equality_only)? {
            Some(ordering) => Ok(ordering),
            None => comparer.run(*left, *right),
        }
    })
}
