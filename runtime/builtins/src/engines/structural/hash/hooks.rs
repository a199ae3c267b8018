//! Hooks: the references that are held while they run, and the functions that they call back.

use core::ffi::c_void;

use super::Hasher;
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::definition::field::check;
use crate::definition::function::Arguments;
use crate::definition::signature::{ANY_VIEW, INT, Signature};
use crate::embedded::any_hash::combine;
use crate::engines::structural::leaf::hash_leaf;
use crate::engines::structural::region::Region;
use crate::value::{Any, AnyView};
use crate::walker::reentry::{Reentry, call_hook};

static CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW, &INT, &INT], &INT);

// SAFETY of all unsafe blocks below: as in the parent module.

impl Hasher {
    /// Takes references to all borrowed values. A hook may release them.
    pub(super) fn retain_all(&mut self) {
        // SAFETY: see above.
        unsafe {
            self.frames.retain_all();
            self.entries.retain_all();
            self.held.before_hook(self.memo.iter().map(|(object, _)| object));
            self.containers.before_hook();
        }
    }

    /// The hash that a hook computes from an object and the hash so far. Only the object is
    /// borrowed, and the caller holds it.
    pub(super) unsafe fn call_hook(
        &mut self,
        hook: TVMFFIAny,
        object: *mut TVMFFIObject,
        hash: u64,
        region: Region,
    ) -> Result<u64> {
        let outer = core::mem::replace(&mut self.region, region);
        let function = self.reentry.get_or_insert_with(|| Reentry::new(&CALLBACK, callback)).function();
        // SAFETY: see above; the column owns the hook; we are not used until the hook returns, but
        // through the function.
        let result = unsafe {
            let object = TVMFFIAny::pointer((*object).type_index, object.cast());
            let args = [object, TVMFFIAny::int(hash.cast_signed()), TVMFFIAny::NONE];
            call_hook(hook.payload.v_obj, args, function, core::ptr::from_mut(self).cast())
        };
        self.region = outer;
        self.containers.hook_has_run();
        let result = result?;
        check(result.as_view(), &INT)?;
        Ok(result.as_view().as_raw().bits())
    }
}

/// The function that a hook calls with a value, the hash so far and the region.
unsafe fn callback(hasher: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    let args = Arguments::of(args);
    // SAFETY: the hasher waits for the hook and lends itself; the value is alive for the call.
    args.look_at(|[value]| unsafe {
        let hash = match hash_leaf(value) {
            Some(hash) => hash,
            None => {
                let hasher = &mut *hasher.cast::<Hasher>();
                let region = hasher.region.of_hook(args.int(2) as i32);
                hasher.run(*value, region)?
            }
        };
        Ok(Any::from_raw(TVMFFIAny::int(combine(args.int(1).cast_unsigned(), hash).cast_signed())))
    })
}
