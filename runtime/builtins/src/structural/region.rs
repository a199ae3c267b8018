/// The definition region in which a callback is called: whether variables are defined or used
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Region {
    /// Variables are uses.
    #[default]
    Use,
    /// Variables anywhere below are definitions.
    Pattern,
    /// Variables are definitions; variables inside them are uses.
    Simple,
}

impl Region {
    /// The region of this number; [`Region::Use`] for an unknown one.
    pub(super) const fn of_number(number: i64) -> Self {
        match number {
            1 => Self::Pattern,
            2 => Self::Simple,
            _ => Self::Use,
        }
    }

    /// The number of the region.
    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Use => 0,
            Self::Pattern => 1,
            Self::Simple => 2,
        }
    }

    /// Returns true if a variable is defined here.
    pub const fn defines(self) -> bool {
        !matches!(self, Self::Use)
    }
}
