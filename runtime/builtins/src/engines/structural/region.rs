//! Definition regions: the parts of a walk in which a free variable that occurs for the first time
//! gets a name.

use crate::abi::field_flag;

/// The region that a walk is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region(i32);

impl Region {
    /// Variables are used here, not defined.
    pub(super) const NONE: Self = Self(0);
    /// All variables below are defined here.
    pub(super) const PATTERN: Self = Self(1);
    /// The next variable is defined here; variables in its own fields are not.
    pub(super) const SIMPLE: Self = Self(2);

    /// The region in which an operation begins.
    pub(super) const fn initial(map_free_vars: bool) -> Self {
        if map_free_vars { Self::PATTERN } else { Self::NONE }
    }

    /// The region of a field's value.
    #[inline]
    pub(super) const fn of_field(self, flags: i64) -> Self {
        if flags & (field_flag::SEQ_HASH_DEF_PATTERN | field_flag::SEQ_HASH_DEF_SIMPLE) == 0
            || self.0 == Self::PATTERN.0
        {
            // A pattern region extends down to the leaves.
            self
        } else if flags & field_flag::SEQ_HASH_DEF_SIMPLE != 0 {
            Self::SIMPLE
        } else {
            Self::PATTERN
        }
    }

    /// The region of a value that a hook passes; 0 is the one that the hook runs in.
    pub(super) const fn of_hook(self, wanted: i32) -> Self {
        if wanted == Self::NONE.0 || self.0 == Self::PATTERN.0 { self } else { Self(wanted) }
    }

    /// The region of a variable's own fields.
    #[inline]
    pub(super) const fn inside_variable(self) -> Self {
        if self.0 == Self::SIMPLE.0 { Self::NONE } else { self }
    }

    /// Returns true if a variable that occurs here is defined by its occurrence.
    #[inline]
    pub(super) const fn defines(self) -> bool {
        self.0 != Self::NONE.0
    }
}
