//! Tests with objects whose fields or hooks create new parts at each read. The parts are freed when
//! a walk is done with them, and other objects get their addresses, so a walk must not apply its
//! record of one part to another.

use core::ffi::c_void;
use std::sync::Once;

use crate::abi::{TVMFFIAny, field_flag, seq_hash_kind};
use crate::definition::field::BuiltinField;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::instance::{Body, instance, metadata_of};
use crate::definition::signature::{BOOL, FUNCTION, INT, OBJECT, Signature, Type};
use crate::definition::type_def::{Attr, BuiltinType};
use crate::embedded;
use crate::function::Function;
use crate::value::{Any, IntoAny};
use crate::walker::test_graphs::{array, call, dag, list, tree};
use crate::{Map, Result, provider};

/// An object that creates its part from the number, unless it has one.
#[repr(C)]
#[derive(Default)]
struct Maker {
    part: Any,
    number: i64,
}

impl Maker {
    /// A part that contains another one twice.
    fn part(&self) -> Any {
        if !self.part.is_none() {
            return self.part.clone();
        }
        let content = self.number & 0xff;
        let shared = match self.number >> 8 & 3 {
            0 => array([content.into_any()]),
            1 => tree(content, 0, 0),
            2 => dag(content, 0, 0),
            _ => array([tree(array([content.into_any()]), 0, 0)]),
        };
        let both = [shared.clone(), shared];
        match self.number >> 10 & 3 {
            0 => array(both),
            1 => list(both),
            2 => {
                let [a, b] = both;
                tree(a, array([b]), 0)
            }
            _ => ["a", "b"].map(str::to_owned).into_iter().zip(both).collect::<Map<String, Any>>().into_any(),
        }
    }
}

unsafe extern "C" fn get_part(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the ABI's convention of getters; the field is the first of the body.
    unsafe { result.write((*field.cast::<Maker>()).part().into_raw()) };
    0
}

/// Flags of the number field, which is ignored: only the part is compared and hashed.
const IGNORED: i64 = field_flag::SEQ_HASH_IGNORE | field_flag::COMPARE_OFF | field_flag::HASH_OFF;

macro_rules! types {
    ($($definition:ident $body:ident: $key:literal, $attrs:expr;)*) => {
        $(
            #[repr(transparent)]
            #[derive(Default)]
            struct $body(Maker);

            impl Body for $body {
                const SELF: &'static [&'static Type] = &[&OBJECT];

                fn definition() -> &'static BuiltinType {
                    &$definition
                }
            }

            static $definition: BuiltinType = BuiltinType {
                metadata: Some(metadata_of::<$body>(seq_hash_kind::TREE_NODE)),
                fields: &[
                    BuiltinField { name: "part", getter: get_part, ..BuiltinField::ANY },
                    BuiltinField { name: "number", flags: IGNORED, offset: 40, ..BuiltinField::I64 },
                ],
                attrs: $attrs,
                ..BuiltinType::new($key)
            };
        )*

        fn register() {
            static DONE: Once = Once::new();
            provider::api();
            DONE.call_once(|| {
                let all = [$(&$definition),*];
                all.iter().for_each(|builtin| builtin.allocate().unwrap());
                all.iter().for_each(|builtin| builtin.register().unwrap());
            });
        }
    };
}

types! {
    BY_GETTER ByGetter: "tests.made_parts.ByGetter", &[
        ("__ffi_shallow_copy__", hook("copy", &[&OBJECT], &OBJECT, |args| {
            let original = maker(args, 0);
            Ok(instance(ByGetter(Maker { part: original.part.clone(), number: original.number })))
        })),
    ];
    BY_HOOK ByHook: "tests.made_parts.ByHook", &[
        ("__s_equal__", hook("s_equal", &[&OBJECT, &OBJECT, &FUNCTION], &BOOL, |args| {
            args.view(2).get::<Function>()?.call((maker(args, 0).part(), maker(args, 1).part(), 0, "part"))
        })),
        ("__s_hash__", hook("s_hash", &[&OBJECT, &INT, &FUNCTION], &INT, |args| {
            args.view(2).get::<Function>()?.call((maker(args, 0).part(), args.int(1), 0))
        })),
        ("__ffi_eq__", hook("eq", &[&OBJECT, &OBJECT, &FUNCTION], &BOOL, |args| {
            args.view(2).get::<Function>()?.call((maker(args, 0).part(), maker(args, 1).part()))
        })),
        ("__ffi_hash__", hook("hash", &[&OBJECT, &FUNCTION], &INT, |args| {
            args.view(1).get::<Function>()?.call((maker(args, 0).part(),))
        })),
    ];
}

const fn hook(
    name: &'static str,
    params: &'static [&'static Type],
    result: &'static Type,
    run: fn(&Arguments<'_>) -> Result<Any>,
) -> Attr {
    Attr::Function(Builtin { name, signature: Signature::Typed(params, result), run })
}

fn maker<'a>(args: &'a Arguments<'_>, object: usize) -> &'a Maker {
    // SAFETY: an object of this file's types, which the caller keeps alive.
    unsafe { embedded::body::<Maker>(args.object(object)) }
}

type Make = fn(Maker) -> Any;

const KINDS: [(&str, Make); 2] =
    [("getter", |maker| instance(ByGetter(maker))), ("hook", |maker| instance(ByHook(maker)))];

/// An array of objects of these numbers, with the same parts at each read.
fn lasting(make: Make, numbers: &[i64]) -> Any {
    let with_part =
        |number: &i64| make(Maker { part: Maker { part: Any::NONE, number: *number }.part(), number: *number });
    numbers.iter().map(with_part).collect::<crate::Array<Any>>().into_any()
}

/// An array of objects of these numbers, with new parts at each read.
fn made(make: Make, numbers: &[i64]) -> Any {
    let with_number = |number: &i64| make(Maker { part: Any::NONE, number: *number });
    numbers.iter().map(with_number).collect::<crate::Array<Any>>().into_any()
}

#[test]
fn parts_that_are_made_at_each_read_are_not_taken_for_others() {
    register();
    let off = false.into_any();
    let mut state = 11_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % below as i64
    };
    for round in 0..60 {
        let form = (random(4) << 8) | (random(4) << 10);
        let numbers: Vec<i64> = (0..12).map(|_| form | random(2)).collect();
        let mut others = numbers.clone();
        if round % 2 == 1 {
            others[round % 12] ^= 1;
        }
        let is_same = numbers == others;
        for (kind, make) in KINDS {
            let what = format!("{kind}, round {round}: {numbers:?} {others:?}");
            let values = [made(make, &numbers), lasting(make, &numbers)];
            let compared = [made(make, &others), lasting(make, &others)];
            for (left, right) in values.iter().flat_map(|left| compared.iter().map(move |right| (left, right))) {
                let structural = call("ffi.StructuralEqual", &[left, right, &off, &off]).unwrap();
                assert_eq!(structural.to::<bool>().unwrap(), is_same, "structural, {what}");
                let recursive = call("ffi.RecursiveEq", &[left, right]).unwrap();
                assert_eq!(recursive.to::<bool>().unwrap(), is_same, "recursive, {what}");
                let mismatch = call("ffi.GetFirstStructuralMismatch", &[left, right, &off, &off]).unwrap();
                assert_eq!(mismatch.is_none(), is_same, "mismatch, {what}");
            }
            let hashes = |name: &str, options: &[&Any]| {
                values
                    .each_ref()
                    .map(|value| call(name, &[&[value][..], options].concat()).unwrap().to::<i64>().unwrap())
            };
            let [now, expected] = hashes("ffi.StructuralHash", &[&off, &off]);
            assert_eq!(now, expected, "structural hash, {what}");
            let [now, expected] = hashes("ffi.RecursiveHash", &[]);
            assert_eq!(now, expected, "recursive hash, {what}");
            // The objects of the other tests cannot be copied.
            let has_containers_alone = form >> 8 & 3 == 0 && form >> 10 & 3 != 2;
            if kind == "getter" && has_containers_alone {
                let copy = call("ffi.DeepCopy", &[&values[0]]).unwrap();
                let is_equal = call("ffi.RecursiveEq", &[&copy, &values[1]]).unwrap();
                assert!(is_equal.to::<bool>().unwrap(), "copy, {what}");
            }
            let texts = values.each_ref().map(|value| call("ffi.ToJSONGraphString", &[value, &Any::NONE]));
            let [now, expected] = texts.map(|text| text.unwrap().to::<String>().unwrap());
            assert_eq!(now, expected, "JSON, {what}");
        }
    }
}
