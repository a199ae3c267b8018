//! The index of a builtin type, whichever implementation registered it.

use super::type_def::BuiltinType;

impl BuiltinType {
    /// The index that the type has with the provider: another implementation registered it, or ours
    /// did; if neither did, it is assigned now.
    #[inline]
    pub(crate) fn host_index(&self) -> i32 {
        let index = self.index.get();
        if index >= 0 { index } else { self.ask_host() }
    }

    #[cold]
    #[inline(never)]
    fn ask_host(&self) -> i32 {
        // If the provider refuses the type, it has raised the reason; objects then have an index
        // that no type has.
        let _ = self.allocate();
        self.index.get()
    }
}
