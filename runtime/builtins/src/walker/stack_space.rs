//! The remaining space of the thread's stack, for recursion whose depth foreign code decides: a
//! hook that calls back into the operation that called it. Such a recursion fails with an error
//! before it would end the process.

use core::cell::Cell;
use core::mem::MaybeUninit;

use crate::{Result, bail};

/// The space that one more level needs: an interpreter's frames between two of ours, and the
/// destructors and messages during the return.
const RESERVE: usize = 192 * 1024;

thread_local! {
    /// The lowest address that the thread may use before a level is refused; 0 while it is unknown.
    static LIMIT: Cell<usize> = const { Cell::new(0) };
}

/// Returns an error when this thread's stack does not have enough space for another level of
/// recursion.
#[inline]
pub(crate) fn check() -> Result<()> {
    let place = MaybeUninit::<u8>::uninit();
    let here = place.as_ptr().addr();
    let limit = match LIMIT.try_with(Cell::get) {
        Ok(0) => find_limit(),
        Ok(limit) => limit,
        // The thread is ending; it does not recurse any more.
        Err(_) => return Ok(()),
    };
    if here < limit {
        bail!(
            RecursionError,
            "maximum recursion depth exceeded: the thread's stack has no room for another call of a hook"
        );
    }
    Ok(())
}

#[cold]
fn find_limit() -> usize {
    let limit = stack_start().map_or(1, |start| start.saturating_add(RESERVE));
    let _ = LIMIT.try_with(|cell| cell.set(limit));
    limit
}

/// The lowest address of this thread's stack; unknown on this system.
#[cfg(not(target_os = "linux"))]
fn stack_start() -> Option<usize> {
    None
}

/// The lowest address of this thread's stack.
#[cfg(target_os = "linux")]
fn stack_start() -> Option<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialized by the first call, read by the second one and
    // destroyed by the third one.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let status = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (status == 0 && size > RESERVE).then_some(start.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn recurse(depth: usize) -> Result<usize> {
        check()?;
        let ballast = std::hint::black_box([depth; 64]);
        let deeper = recurse(depth + 1)?;
        Ok(deeper + ballast[0])
    }

    #[test]
    fn recursion_ends_in_an_error() {
        let run = || {
            assert!(check().is_ok());
            let error = recurse(0).unwrap_err();
            assert_eq!(error.kind(), "RecursionError");
            assert!(error.message().starts_with("maximum recursion depth exceeded"));
        };
        run();
        std::thread::Builder::new().stack_size(512 * 1024).spawn(run).unwrap().join().unwrap();
    }
}
