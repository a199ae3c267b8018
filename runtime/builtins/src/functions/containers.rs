//! Functions of arrays and lists.

use std::collections::HashSet;

use crate::Result;
use crate::abi::{DLDevice, DLTensor, TVMFFIAny, TVMFFIAnyPayload, TVMFFIObject, device_type, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY, ARRAY_OBJECT, BOOL, DEVICE, INT, LIST_OBJECT, LIST_OF_ANY, Signature, VOID};
use crate::embedded::list::shared::{self, Contents};
use crate::embedded::release::{is_object, release};
use crate::embedded::{self, map, seq};
use crate::value::{Any, IntoAny};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.Array",
        signature: Signature::Packed,
        // SAFETY: the caller's views are valid for the call.
        run: |args| unsafe { Ok(Any::from_object(seq::new_array_of_views(args.raw())?)) },
    },
    Builtin { name: "ffi.ArrayGetItem", signature: Signature::Typed(&[&ARRAY_OBJECT, &INT], &ANY), run: get_item },
    Builtin { name: "ffi.ArraySize", signature: Signature::Typed(&[&ARRAY_OBJECT], &INT), run: size },
    Builtin { name: "ffi.ArrayContains", signature: Signature::Typed(&[&ARRAY_OBJECT, &ANY], &BOOL), run: contains },
    Builtin {
        name: "ffi.List",
        signature: Signature::Packed,
        // SAFETY: the caller's views are valid for the call.
        run: |args| unsafe { Ok(Any::from_object(seq::new_list_of_views(args.raw())?)) },
    },
    Builtin { name: "ffi.ListGetItem", signature: Signature::Typed(&[&LIST_OBJECT, &INT], &ANY), run: get_item },
    Builtin { name: "ffi.ListSize", signature: Signature::Typed(&[&LIST_OBJECT], &INT), run: size },
    Builtin { name: "ffi.ListContains", signature: Signature::Typed(&[&LIST_OBJECT, &ANY], &BOOL), run: contains },
    Builtin {
        name: "ffi.ListSetItem",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT, &ANY], &VOID),
        run: |args| {
            let value = args.owned(2)?.into_raw();
            let list = ListArgument::new(args, 0);
            // SAFETY: the argument is a list; the old value is released last, because its
            // destructor may use the list.
            unsafe { release(shared::replace(list.object(), args.int(1), value)?) };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListAppend",
        signature: Signature::Typed(&[&LIST_OF_ANY, &ANY], &VOID),
        run: |args| {
            let value = args.owned(1)?.into_raw();
            // SAFETY: the argument is a list, and the value's ownership moves into it.
            unsafe { shared::push(ListArgument::new(args, 0).object(), value)? };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListInsert",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT, &ANY], &VOID),
        run: |args| {
            let value = args.owned(2)?.into_raw();
            // SAFETY: the argument is a list, and the value's ownership moves into it.
            unsafe { shared::insert(ListArgument::new(args, 0).object(), Some(args.int(1)), &[value])? };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListPop",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT], &ANY),
        // SAFETY: the argument is a list; the element that is taken out becomes the result.
        run: |args| unsafe { Ok(Any::from_raw(shared::pop(ListArgument::new(args, 0).object(), args.int(1))?)) },
    },
    Builtin {
        name: "ffi.ListErase",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT], &VOID),
        run: |args| {
            // SAFETY: the argument is a list; the element is released when it is out of it.
            unsafe { release(shared::pop(ListArgument::new(args, 0).object(), args.int(1))?) };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListEraseRange",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT, &INT], &VOID),
        run: |args| {
            // SAFETY: the argument is a list.
            unsafe { shared::replace_range(ListArgument::new(args, 0).object(), args.int(1), Some(args.int(2)), &[])? };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListReplaceSlice",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT, &INT, &LIST_OF_ANY], &VOID),
        run: |args| {
            let list = ListArgument::new(args, 0);
            // SAFETY: the argument is a list, and the replacement is a list or an array.
            unsafe {
                let replacement = shared::elements(args.object(3)).into_owned();
                shared::replace_range(list.object(), args.int(1), Some(args.int(2)), &replacement)?;
            }
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListReverse",
        signature: Signature::Typed(&[&LIST_OF_ANY], &VOID),
        run: |args| {
            // SAFETY: the argument is a list.
            unsafe { shared::reverse(ListArgument::new(args, 0).object()) };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListClear",
        signature: Signature::Typed(&[&LIST_OF_ANY], &VOID),
        run: |args| {
            // SAFETY: the argument is a list.
            unsafe { shared::clear(ListArgument::new(args, 0).object()) };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ListReserve",
        signature: Signature::Typed(&[&LIST_OF_ANY, &INT], &VOID),
        run: |args| {
            // SAFETY: the argument is a list.
            unsafe { shared::reserve(ListArgument::new(args, 0).object(), args.int(1))? };
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ContainerFindFirstNonCPUDevice",
        signature: Signature::Typed(&[&ANY], &DEVICE),
        run: |args| {
            let value = args.lookup(0)?;
            // SAFETY: the value is valid for the call.
            let v_device = unsafe { first_device(&value) };
            let raw =
                TVMFFIAny { type_index: type_index::DEVICE, small_len: 0, payload: TVMFFIAnyPayload { v_device } };
            // SAFETY: a plain value.
            Ok(unsafe { Any::from_raw(raw) })
        },
    },
];

#[inline]
fn get_item(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the first argument is an array or a list.
    unsafe { Ok(Any::from_raw(shared::get(args.object(0), args.int(1))?)) }
}

#[inline]
fn size(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the first argument is an array or a list.
    Ok(unsafe { shared::len(args.object(0)) }.into_any())
}

#[inline]
fn contains(args: &Arguments<'_>) -> Result<Any> {
    let value = args.lookup(1)?;
    // SAFETY: the first argument is an array or a list, and the value is valid for the call.
    Ok(unsafe { shared::contains(args.object(0), &value) }?.into_any())
}

/// An argument of type [`LIST_OF_ANY`]: the list itself, or a copy of an array, whose changes are
/// lost.
struct ListArgument {
    object: *mut TVMFFIObject,
    is_copy: bool,
}

impl ListArgument {
    #[inline]
    fn new(args: &Arguments<'_>, index: usize) -> Self {
        let object = args.object(index);
        // SAFETY: the argument is a list or an array that the caller keeps alive.
        unsafe {
            if (*object).type_index == type_index::LIST {
                return Self { object, is_copy: false };
            }
            Self { object: seq::new_list_of_shared(&shared::elements(object)), is_copy: true }
        }
    }

    #[inline]
    const fn object(&self) -> *mut TVMFFIObject {
        self.object
    }
}

impl Drop for ListArgument {
    #[inline]
    fn drop(&mut self) {
        if self.is_copy {
            // SAFETY: the copy is ours alone.
            unsafe { embedded::dec_ref(self.object) }
        }
    }
}

/// The nesting depth from which containers are recorded, so that one that contains itself is not
/// visited forever.
const REMEMBERED_DEPTH: usize = 32;

/// A container that is being searched, and the position of the search.
enum Level {
    /// Elements, and the number of visited ones.
    Sequence(Contents<'static>, usize),
    /// Alternating keys and values, and the number of visited ones.
    Dict(Contents<'static>, usize),
    Map(map::Entries),
}

/// The device of the first tensor, in the order of elements, that is not in CPU memory; the CPU if
/// there is none.
///
/// # Safety
/// `value` is a valid value that stays alive during the call.
#[inline]
unsafe fn first_device(value: &TVMFFIAny) -> DLDevice {
    const CPU: DLDevice = DLDevice { device_type: device_type::CPU, device_id: 0 };
    let mut seen = HashSet::new();
    let mut levels = Vec::new();
    let mut current = *value;
    // SAFETY: the type index determines the object's type; elements live as long as their
    // container, which the caller keeps.
    unsafe {
        loop {
            let object = current.payload.v_obj;
            match current.type_index {
                type_index::TENSOR => {
                    let device = embedded::body::<DLTensor>(object).device;
                    if device.device_type != device_type::CPU {
                        return device;
                    }
                }
                type_index::ARRAY | type_index::LIST | type_index::MAP | type_index::DICT
                    if levels.len() < REMEMBERED_DEPTH || seen.insert(object) =>
                {
                    levels.push(match current.type_index {
                        type_index::ARRAY | type_index::LIST => Level::Sequence(shared::elements(object), 0),
                        type_index::DICT => Level::Dict(map::shared::contents(object), 0),
                        _ => Level::Map(map::iter(object)),
                    });
                }
                _ => {}
            }
            current = loop {
                let next = match levels.last_mut() {
                    None => return CPU,
                    Some(Level::Sequence(elements, index)) => {
                        let rest = &elements[*index..];
                        let skipped = rest.iter().position(is_object).unwrap_or(rest.len());
                        *index = (*index + skipped + 1).min(*index + rest.len());
                        rest.get(skipped).copied()
                    }
                    Some(Level::Dict(entries, done)) => {
                        *done += 2;
                        entries.get(*done - 1).copied()
                    }
                    Some(Level::Map(entries)) => entries.next().map(|(_, value)| value),
                };
                match next {
                    Some(next) => break next,
                    None => levels.pop(),
                };
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Function;
    use crate::value::{Any, IntoAny};

    fn try_call(function: &str, arguments: &[Any]) -> crate::Result<Any> {
        let arguments: Vec<_> = arguments.iter().map(|value| *value.as_view()).collect();
        Function::global(function).unwrap().call(&arguments[..])
    }

    fn ints(values: &[i64]) -> Vec<Any> {
        values.iter().map(|value| value.into_any()).collect()
    }

    /// Calls an operation with a list of 0, 1, 2, 3 and more arguments: returns the list's
    /// elements, or the error.
    fn after(function: &str, arguments: &[Any]) -> String {
        let list = try_call("ffi.List", &ints(&[0, 1, 2, 3])).unwrap();
        let result = try_call(function, &[std::slice::from_ref(&list), arguments].concat());
        match result {
            Ok(_) => format!("{:?}", list.to::<Vec<i64>>().unwrap()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lists_change_in_place() {
        let replacement = || try_call("ffi.List", &ints(&[7, 8, 9])).unwrap();
        let slice = |start: i64, stop: i64| [ints(&[start, stop]), vec![replacement()]].concat();
        for (function, arguments, expected) in [
            ("ffi.ListAppend", ints(&[4]), "[0, 1, 2, 3, 4]"),
            ("ffi.ListInsert", ints(&[1, 9]), "[0, 9, 1, 2, 3]"),
            ("ffi.ListInsert", ints(&[5, 9]), "IndexError: Index 5 out of bounds [0, 4]"),
            ("ffi.ListSetItem", ints(&[1, 9]), "[0, 9, 2, 3]"),
            ("ffi.ListSetItem", ints(&[-1, 9]), "IndexError: Index -1 out of bounds 4"),
            ("ffi.ListPop", ints(&[0]), "[1, 2, 3]"),
            ("ffi.ListErase", ints(&[4]), "IndexError: Index 4 out of bounds 4"),
            ("ffi.ListEraseRange", ints(&[1, 3]), "[0, 3]"),
            ("ffi.ListEraseRange", ints(&[3, 1]), "IndexError: Erase range [3, 1) out of bounds 4"),
            ("ffi.ListReplaceSlice", slice(1, 3), "[0, 7, 8, 9, 3]"),
            ("ffi.ListReplaceSlice", slice(4, 4), "[0, 1, 2, 3, 7, 8, 9]"),
            ("ffi.ListReplaceSlice", slice(2, 9), "IndexError: Erase range [2, 9) out of bounds 4"),
            ("ffi.ListReverse", ints(&[]), "[3, 2, 1, 0]"),
            ("ffi.ListClear", ints(&[]), "[]"),
            ("ffi.ListReserve", ints(&[100]), "[0, 1, 2, 3]"),
            (
                "ffi.ListAppend",
                ints(&[]),
                "TypeError: Mismatched number of arguments when calling: `ffi.ListAppend(0: List<Any>, 1: Any) -> void`. \
                 Expected 2 but got 1 arguments",
            ),
        ] {
            assert_eq!(after(function, &arguments), expected, "{function}");
        }
    }

    #[test]
    fn an_array_given_for_a_list_stays_as_it_is() {
        let array = try_call("ffi.Array", &ints(&[1, 2])).unwrap();
        let arguments = [array.clone(), 3.into_any()];
        try_call("ffi.ListAppend", &arguments).unwrap();
        assert_eq!(try_call("ffi.ListPop", &[array.clone(), 0.into_any()]).unwrap().to::<i64>().unwrap(), 1);
        assert_eq!(array.to::<Vec<i64>>().unwrap(), [1, 2]);
    }

    #[test]
    fn types_are_checked_from_the_last_argument_on() {
        let error = try_call("ffi.ArrayGetItem", &[1.into_any(), "x".into_any()]).unwrap_err();
        assert_eq!(
            error.message(),
            "Mismatched type on argument #1 when calling: `ffi.ArrayGetItem(0: ffi.Array, 1: int) -> Any`. \
             Expected `int` but got `ffi.SmallStr`"
        );
    }

    #[test]
    fn containers_without_tensors_are_on_the_cpu() {
        // A list that contains itself, in a map.
        let list = try_call("ffi.List", &ints(&[1])).unwrap();
        let map = try_call("ffi.Map", &["self".into_any(), list.clone()]).unwrap();
        try_call("ffi.ListAppend", &[list.clone(), map.clone()]).unwrap();
        let device = try_call("ffi.ContainerFindFirstNonCPUDevice", &[map]).unwrap();
        assert_eq!(device.to::<crate::Device>().unwrap(), crate::Device::CPU);
        try_call("ffi.ListClear", &[list]).unwrap();
    }
}
