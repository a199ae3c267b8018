//! What `#[derive(Object)]` generates and which mistakes it reports.

mod show;

use expect_test::{Expect, expect};
use kernpack_macros_backend::expand_object;
use show::{environment, mistakes, pretty, tokens};

#[track_caller]
fn check(item: &str, expect: Expect) {
    expect.assert_eq(&pretty(expand_object(tokens(item), &environment())));
}

#[track_caller]
fn check_mistakes(item: &str, expect: &[&str]) {
    let output = expand_object(tokens(item), &environment());
    assert!(!output.to_string().contains("__kernpack"), "faulty items are not registered: {output}");
    let found = mistakes(output);
    assert_eq!(found.len(), expect.len(), "{item}: {found:#?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.contains(expect), "expected {expect:?}, got {found:?}");
        assert!(!found.ends_with('.') && !found.starts_with(char::is_uppercase), "{found:?}");
    }
}

#[test]
fn whole_expansion() {
    check(
        "/// Counts.\n#[object(key = \"imagekit.Histogram\")] #[repr(C)] pub struct Histogram {
            /// All.\n pub total: i64, pub r#type: Array<i64>, pub(crate) inner: u8, hidden: Vec<u8> }",
        expect![[r##"
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! object_type_imagekit_dot_Histogram {
                () => {};
            }
            #[allow(deprecated, unsafe_code)]
            const _: () = {
                use ::kernpack::impl_ as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                const _: () = __k::assert_object_layout::<Histogram>();
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE: __k::TypeDef = __k::TypeDef {
                    key: "imagekit.Histogram",
                    parent: __kernpack_parent_index::<Histogram>,
                    doc: "Counts.",
                    size: ::core::mem::size_of::<__k::ObjectCell<Histogram>>(),
                    fields: &[
                        __k::FieldDef {
                            name: "total",
                            doc: "All.",
                            ty: __k::SchemaOf::<i64>::TYPE,
                            offset: __k::OBJECT_HEADER_SIZE
                                + ::core::mem::offset_of!(Histogram, total),
                            size: ::core::mem::size_of::<i64>(),
                            align: ::core::mem::align_of::<i64>(),
                            getter: __k::field_getter::<i64>,
                        },
                        __k::FieldDef {
                            name: "type",
                            doc: "",
                            ty: __k::SchemaOf::<Array<i64>>::TYPE,
                            offset: __k::OBJECT_HEADER_SIZE
                                + ::core::mem::offset_of!(Histogram, r#type),
                            size: ::core::mem::size_of::<Array<i64>>(),
                            align: ::core::mem::align_of::<Array<i64>>(),
                            getter: __k::field_getter::<Array<i64>>,
                        },
                    ],
                    fingerprint: 9203034741562390005u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                fn __kernpack_parent_index<T: ::kernpack::Object>() -> ::core::primitive::i32 {
                    <T::Parent as ::kernpack::Object>::type_index()
                }
                unsafe impl ::kernpack::Object for Histogram {
                    const TYPE_KEY: &'static ::core::primitive::str = "imagekit.Histogram";
                    type Parent = __k::ObjectRoot;
                    #[inline]
                    fn type_index() -> ::core::primitive::i32 {
                        __k::type_index_of(&__KERNPACK_TYPE)
                    }
                }
            };
        "##]],
    );
}

#[test]
fn with_a_base() {
    check(
        "#[object(key = \"imagekit.Square\", crate = my::kernpack)] #[repr(C)] struct Square { #[base] pub base: Shape }",
        expect![[r##"
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! object_type_imagekit_dot_Square {
                () => {};
            }
            #[allow(deprecated, unsafe_code)]
            const _: () = {
                use my::kernpack::impl_ as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                const _: () = __k::assert_object_layout::<Square>();
                const _: () = ::core::assert!(::core::mem::offset_of!(Square, base) == 0);
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE: __k::TypeDef = __k::TypeDef {
                    key: "imagekit.Square",
                    parent: __kernpack_parent_index::<Square>,
                    doc: "",
                    size: ::core::mem::size_of::<__k::ObjectCell<Square>>(),
                    fields: &[],
                    fingerprint: 4455552364056222083u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                fn __kernpack_parent_index<T: my::kernpack::Object>() -> ::core::primitive::i32 {
                    <T::Parent as my::kernpack::Object>::type_index()
                }
                unsafe impl my::kernpack::Object for Square {
                    const TYPE_KEY: &'static ::core::primitive::str = "imagekit.Square";
                    type Parent = Shape;
                    #[inline]
                    fn type_index() -> ::core::primitive::i32 {
                        __k::type_index_of(&__KERNPACK_TYPE)
                    }
                }
                impl ::core::ops::Deref for Square {
                    type Target = Shape;
                    #[inline]
                    fn deref(&self) -> &Self::Target {
                        &self.base
                    }
                }
            };
        "##]],
    );
}

#[test]
fn items() {
    const GOOD: &str = "#[object(key = \"a.B\")] #[repr(C)]";
    for (item, says) in [
        ("enum E {}", "enums are not supported"),
        ("union U { a: i64 }", "unions are not supported"),
        ("struct S(i64);", "tuple structs"),
        ("struct S;", "unit structs"),
        ("struct S<T> { a: T }", "type parameters"),
        ("struct S<const N: usize> { a: [u8; N] }", "const parameters"),
        ("struct S<'a> { a: &'a str }", "lifetime parameters"),
        ("struct S { a: i64, #[base] b: T }", "only on the first field"),
        ("struct S { #[base] #[base] a: T }", "given twice"),
        ("struct S { #[base = 3] a: T }", "takes no arguments"),
        ("struct S { #[object(skip)] a: T }", "not supported on a field"),
        ("#[base] struct S { a: T }", "put it on the first field"),
        ("#[repr(packed)] struct S { a: T }", "repr(packed)"),
        ("#[repr(align(16))] struct S { a: T }", "repr(align)"),
    ] {
        check_mistakes(&format!("{GOOD} {item}"), &[says]);
    }
}

#[test]
fn attributes() {
    for (attributes, says) in [
        ("#[repr(C)]", "needs a type key"),
        ("#[repr(C)] #[object()]", "has no key"),
        ("#[repr(C)] #[object(key = 3)]", "takes a string literal"),
        ("#[repr(C)] #[object(key = \"a.B\", name = \"x\")]", "unknown option `name`"),
        ("#[repr(C)] #[object(key = \"a.B\")] #[object(key = \"a.C\")]", "`key` is given twice"),
        ("#[repr(C)] #[object(key = \"B\")]", "no namespace"),
        ("#[repr(C)] #[object(key = \"ffi.B\")]", "belong to the ABI"),
        ("#[object(key = \"a.B\")]", "add #[repr(C)]"),
        ("#[object(key = \"a.B\")] #[repr(transparent)]", "use #[repr(C)]"),
        ("#[object(key = \"a.B\")] #[repr(Rust)]", "add #[repr(C)]"),
    ] {
        check_mistakes(&format!("{attributes} struct S {{ a: i64 }}"), &[says]);
    }
}

#[test]
fn all_mistakes_at_once() {
    check_mistakes(
        "#[object(keys = \"a.B\")] #[repr(packed)] struct S<T> { #[object(x)] a: T, #[base] b: i64 }",
        &[
            "unknown option `keys`",
            "has no key",
            "repr(packed)",
            "add #[repr(C)]",
            "type parameters",
            "not supported on a field",
            "only on the first field",
        ],
    );
}

#[test]
fn faulty_structs_stay_objects() {
    let output = expand_object(tokens("struct S { a: i64 }"), &environment()).to_string();
    assert!(output.contains("unsafe impl :: kernpack :: Object for S"), "{output}");
}
