//! Hooks: the references that are held while they run, and the functions that they call back.

use core::ffi::c_void;
use core::ptr;

use super::Comparer;
use crate::Result;
use crate::abi::TVMFFIAny;
use crate::definition::field::check;
use crate::definition::function::Arguments;
use crate::definition::signature::{ANY_VIEW, BOOL, INT, STRING, Signature};
use crate::embedded::release;
use crate::engines::structural::leaf::leaves_equal;
use crate::engines::structural::region::Region;
use crate::value::{Any, AnyView};
use crate::walker::field_value::Read;
use crate::walker::reentry::{Reentry, call_hook};

static CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW, &ANY_VIEW, &INT, &ANY_VIEW], &BOOL);

// SAFETY of all unsafe blocks below: as in the parent module.

impl Comparer {
    /// References to values, for a call that may run hooks.
    pub(super) unsafe fn hold(&mut self, values: &[TVMFFIAny]) -> Vec<Any> {
        self.retain_all();
        // SAFETY: the caller's values are alive.
        values.iter().map(|value| unsafe { Any::from_raw(release::retain(value)) }).collect()
    }

    /// Takes references to all borrowed values. A hook may release them.
    pub(super) fn retain_all(&mut self) {
        // SAFETY: see above.
        unsafe {
            self.frames.retain_all();
            let bound = self.to_right.iter().chain(self.to_left.iter()).map(|(object, _)| object);
            self.held.before_hook(bound.chain(self.equal.addresses()));
        }
    }

    /// Returns true if a hook finds two objects equal. Only these two are borrowed, and the caller
    /// holds them.
    pub(super) unsafe fn call_hook(&mut self, hook: TVMFFIAny, objects: [Read; 2], region: Region) -> Result<bool> {
        let outer = core::mem::replace(&mut self.region, region);
        let function = self.reentry.get_or_insert_with(|| Reentry::new(&CALLBACK, callback)).function();
        // SAFETY: see above; the column owns the hook; we are not used until the hook returns, but
        // through the function.
        let result = unsafe {
            let [left, right] = objects.map(|object| object.value);
            let args = [left, right, TVMFFIAny::NONE];
            call_hook(hook.payload.v_obj, args, function, ptr::from_mut(self).cast())
        };
        self.region = outer;
        let result = result?;
        check(result.as_view(), &BOOL)?;
        Ok(result.as_view().as_raw().bits() != 0)
    }
}

/// The function that a hook calls: two values, the region, and the name of the part for the path to
/// a difference.
unsafe fn callback(comparer: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    let args = Arguments::of(args);
    // SAFETY: the comparer waits for the hook and lends itself; the values are alive for the call.
    args.look_at(|[left, right]| unsafe {
        let comparer = &mut *comparer.cast::<Comparer>();
        let equal = match leaves_equal(left, right) {
            Some(equal) => equal,
            None => {
                let region = comparer.region.of_hook(args.int(2) as i32);
                comparer.run(*left, *right, region)?
            }
        };
        if !equal && let Some(trace) = &mut comparer.trace {
            check(args.view(3), &STRING)?;
            trace.attribute(args.bytes(3));
        }
        Ok(Any::from_raw(TVMFFIAny::bool(equal)))
    })
}
