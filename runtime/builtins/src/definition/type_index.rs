//! The index of a type of this folder, regardless of what registered it.

use super::type_def::BuiltinType;

impl BuiltinType {
    /// The index that the type has with the provider: another implementation brought it, or ours did; where neither did, it gets one now.
    #[inline]
    pub(crate) fn host_index(&self) -> i32 {
        let index = self.index.get();
        if index >= 0 { index } else { self.ask_host() }
    }

    #[cold]
    #[inline(never)]
    fn ask_host(&self) -> i32 {
        // A provider that refuses a type has said why; objects then have an index that no type has.
        let _ = self.allocate();
        self.index.get()
    }
}
