//! Tables that all libraries of a process share, regardless of which was loaded first.
//!
//! Each artifact has its own table of functions and numbers. The first artifact that needs one
//! offers its own through a global function that returns the address; the others find it there.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::embedded::notice::notice;
use crate::function::Function;
use crate::{Result, provider};

/// A table of the process, as seen by this artifact.
pub struct ProcessTable<T: Sync + 'static> {
    /// The global function that returns the address.
    function: &'static str,
    /// This artifact's own table, which is used unless another one is found.
    own: &'static T,
    /// Transfers the data recorded in this artifact's table to another library's table. Called
    /// once.
    join: fn(theirs: &T, own: &T),
    found: AtomicPtr<T>,
}

impl<T: Sync + 'static> ProcessTable<T> {
    /// # Safety
    /// Code that registers a global function of the name `function` returns NULL or the address of
    /// a `T` that is valid for the rest of the process: the name ends with the version of its
    /// layout.
    pub const unsafe fn new(function: &'static str, own: &'static T, join: fn(&T, &T)) -> Self {
        Self { function, own, join, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This artifact's own table.
    pub fn own(&self) -> &'static T {
        self.own
    }

    /// The process's table.
    #[inline]
    pub fn get(&self) -> &'static T {
        let found = self.found.load(Ordering::Acquire);
        if found.is_null() {
            return self.find();
        }
        // SAFETY: `find` stored the address of a table, which is valid for the rest of the process.
        unsafe { &*found }
    }

    /// Finds the process's table, at the first use after this artifact was bound. Before that,
    /// returns its own table, whose data no other code can see yet.
    #[cold]
    #[inline(never)]
    fn find(&self) -> &'static T {
        if provider::bound().is_null() {
            return self.own;
        }
        let address = self.share().unwrap_or_else(|error| {
            notice(format_args!("kernpack: {}: {}", self.function, error.message()));
            ptr::from_ref(self.own).cast_mut()
        });
        // SAFETY: this artifact's own table, or that of another library: the caller of `new`
        // promised that it is a table and is never freed.
        let table = unsafe { &*address };
        if !ptr::eq(table, self.own) {
            (self.join)(table, self.own);
        }
        self.found.store(address, Ordering::Release);
        table
    }

    /// Finds the process's table, or offers this artifact's table as the process's.
    fn share(&self) -> Result<*mut T> {
        let offered = match Function::find_global(self.function)? {
            Some(theirs) => theirs,
            None => {
                let own = self.own;
                let ours = Function::from_fn(move || ptr::from_ref(own).cast_mut().cast::<c_void>());
                // If another library registers its table first, that one is used.
                let _ = Function::register_global(self.function, &ours);
                Function::global(self.function)?
            }
        };
        let address: *mut c_void = offered.call_as(())?;
        match address.is_null() {
            true => Err(crate::error!(RuntimeError, "the function returned NULL")),
            false => Ok(address.cast()),
        }
    }
}
