use super::array::in_element;
use crate::embedded;
use crate::value::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, ResultPlace, Schema, ToArg, TypeSchema, sequence};

/// The word of an array's header that the ABI leaves unused, in an array that is a tuple: Python
/// gets a tuple where no type is declared.
#[doc(hidden)]
pub const TUPLE: u32 = 1;

/// Moves values into an array.
fn moved<const N: usize>(values: [Any; N]) -> Any {
    let values = values.map(Any::into_raw);
    // SAFETY: the values are owned and are moved into a new object, which nothing else has yet; the
    // value takes ownership of its one reference.
    unsafe {
        let array = embedded::seq::new_array_of_moved(&values);
        // Only a library that Python may import reads the word.
        if cfg!(feature = "lent_results") {
            (*array).padding = TUPLE;
        }
        Any::from_object(array)
    }
}

macro_rules! tuple {
    ($count:literal; $($name:ident $index:tt)+) => {
        impl<$($name: Schema),+> Schema for ($($name,)+) {
            const TYPE: TypeSchema = TypeSchema { key: "Tuple", args: &[$($name::TYPE),+] };
        }

        impl<'a, $($name: for<'b> FromAny<'b>),+> FromAny<'a> for ($($name,)+) {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                let elements = sequence(value)?;
                let elements = elements.views();
                if elements.len() != $count {
                    return Err(Mismatch::type_note(format!(
                        "expected {}, got {} with {} elements", Self::TYPE, value.type_name(), elements.len()
                    )));
                }
                Ok(($(
                    $name::from_any(&elements[$index])
                        .map_err(|mismatch| in_element::<$name, Self>(mismatch, $index, &elements[$index]))?,
                )+))
            }
        }

        impl<$($name: IntoAny),+> IntoAny for ($($name,)+) {
            fn into_any(self) -> Any {
                moved([$(self.$index.into_any()),+])
            }

            #[inline]
            fn into_result(self, place: ResultPlace) -> Any {
                place.put([$(self.$index.into_any()),+]).unwrap_or_else(moved)
            }
        }

        impl<$($name: IntoAny + Clone),+> ToArg for ($($name,)+) {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(self.clone().into_any())
            }
        }
    };
}
tuple!(1; A 0);
tuple!(2; A 0 B 1);
tuple!(3; A 0 B 1 C 2);
tuple!(4; A 0 B 1 C 2 D 3);
tuple!(5; A 0 B 1 C 2 D 3 E 4);
tuple!(6; A 0 B 1 C 2 D 3 E 4 F 5);
tuple!(7; A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuple!(8; A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
