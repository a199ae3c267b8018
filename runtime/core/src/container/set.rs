//! Sets, which are arrays of the ABI. An element that occurs several times in the array is in the
//! set once.

use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeSet, HashSet};

use super::array::{array_of, in_element};
use crate::value::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, sequence};

fn collected<T, C>(value: &AnyView<'_>) -> Result<C, Mismatch>
where
    T: for<'b> FromAny<'b>,
    C: FromIterator<T> + Schema,
{
    let elements = sequence(value)?;
    let elements = elements.views().iter().enumerate();
    elements.map(|(i, element)| T::from_any(element).map_err(|why| in_element::<T, C>(why, i, element))).collect()
}

macro_rules! std_set {
    ($set:ident<$t:ident: $($bound:path),+ $(; $hasher:ident)?>) => {
        impl<$t: Schema $(, $hasher)?> Schema for $set<$t $(, $hasher)?> {
            const TYPE: TypeSchema = TypeSchema { key: "set", args: &[$t::TYPE] };
        }

        impl<'a, $t $(, $hasher: BuildHasher + Default)?> FromAny<'a> for $set<$t $(, $hasher)?>
        where
            $t: for<'b> FromAny<'b> $(+ $bound)+,
        {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                collected(value)
            }
        }

        impl<$t: IntoAny $(, $hasher)?> IntoAny for $set<$t $(, $hasher)?> {
            fn into_any(self) -> Any {
                array_of(self.into_iter().map(IntoAny::into_any))
            }
        }

        impl<$t: IntoAny + Clone $(, $hasher)?> ToArg for $set<$t $(, $hasher)?> {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(array_of(self.iter().map(|element| element.clone().into_any())))
            }
        }
    };
}
std_set!(HashSet<T: Eq, Hash; S>);
std_set!(BTreeSet<T: Ord>);
