//! Tests the code that `#[derive(Object)]` generates and the errors that it reports.

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
            macro_rules! object_type_with_key_imagekit_dot_Histogram__give_one_of_them_another_key {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::{
                    NoClone as _, NoConvert as _, NoSchema as _, NoSetter as _, NoVisit as _,
                    NotThreadSafe as _,
                };
                const _: () = __k::assert_object_layout::<Histogram>();
                const _: () = {
                    __k::assert_object_part::<i64, { __k::ThreadSafety::<Histogram>::HOLDS }>();
                    __k::assert_object_part::<
                        Array<i64>,
                        { __k::ThreadSafety::<Histogram>::HOLDS },
                    >();
                    __k::assert_object_part::<u8, { __k::ThreadSafety::<Histogram>::HOLDS }>();
                    __k::assert_object_part::<Vec<u8>, { __k::ThreadSafety::<Histogram>::HOLDS }>();
                };
                struct __F0;
                unsafe impl __k::FieldAt for __F0 {
                    type Owner = Histogram;
                    type Value = i64;
                    const INDEX: ::core::primitive::usize = 0usize;
                    const OFFSET: ::core::primitive::usize = ::core::mem::offset_of!(
                        Histogram, total
                    );
                }
                struct __F1;
                unsafe impl __k::FieldAt for __F1 {
                    type Owner = Histogram;
                    type Value = Array<i64>;
                    const INDEX: ::core::primitive::usize = 1usize;
                    const OFFSET: ::core::primitive::usize = ::core::mem::offset_of!(
                        Histogram, r#type
                    );
                }
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE: __k::TypeDef = __k::TypeDef {
                    key: "imagekit.Histogram",
                    parent: __k::parent_index::<Histogram>,
                    parent_def: __k::parent_def::<Histogram>,
                    doc: "Counts.",
                    size: ::core::mem::size_of::<__k::ObjectCell<Histogram>>(),
                    child_slots: 0i32,
                    structural_kind: __k::seq_hash_kind::TREE_NODE,
                    is_final: false,
                    fields: &[
                        __k::field_def::<
                            __F0,
                        >(
                            "total",
                            "All.",
                            0,
                            ::core::option::Option::None,
                            __k::SetterOf::<__F0>::FN,
                        ),
                        __k::field_def::<
                            __F1,
                        >("type", "", 0, ::core::option::Option::None, __k::SetterOf::<__F1>::FN),
                    ],
                    hidden: &[
                        __k::hidden_def::<
                            u8,
                        >(
                            "inner",
                            ::core::mem::offset_of!(Histogram, inner),
                            ::core::option::Option::None,
                        ),
                        __k::hidden_def::<
                            Vec<u8>,
                        >(
                            "hidden",
                            ::core::mem::offset_of!(Histogram, hidden),
                            ::core::option::Option::None,
                        ),
                    ],
                    create: __k::create_of::<Histogram>(__k::is_creatable::<Histogram>()),
                    copy: __k::copy_of::<Histogram>(),
                    generated_init: __k::generated_init(true),
                    tensor_hooks: __k::tensor_hooks(
                        &[__k::SchemaOf::<i64>::TYPE, __k::SchemaOf::<Array<i64>>::TYPE],
                    ),
                    fingerprint: 9203034741562390005u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                unsafe impl __k::Defined for Histogram {
                    type Body = Histogram;
                    #[inline]
                    fn type_def() -> &'static __k::TypeDef {
                        &__KERNPACK_TYPE
                    }
                }
                unsafe impl ::kernpack::Object for Histogram {
                    const TYPE_KEY: &'static ::core::primitive::str = "imagekit.Histogram";
                    type Parent = __k::ObjectRoot;
                    const CREATABLE: ::core::primitive::bool = false;
                    const FINAL: ::core::primitive::bool = false;
                    const FIELD_NAMES: __k::FieldNames = __k::FieldNames {
                        own: &["total", "type"],
                        base: ::core::option::Option::None,
                    };
                    const DUPLICATE: ::core::option::Option<fn(&Histogram) -> Histogram> = {
                        #[allow(unused_variables)]
                        fn by_fields(value: &Histogram) -> Histogram {
                            match (__k::CloneOf::<u8>::FN, __k::CloneOf::<Vec<u8>>::FN) {
                                (
                                    ::core::option::Option::Some(__way0),
                                    ::core::option::Option::Some(__way1),
                                ) => {
                                    Histogram {
                                        inner: __way0(&value.inner),
                                        hidden: __way1(&value.hidden),
                                        total: __k::duplicate_field::<__F0>(&value.total),
                                        r#type: __k::duplicate_field::<__F1>(&value.r#type),
                                    }
                                }
                                _ => ::core::unreachable!(),
                            }
                        }
                        __k::duplicate_of(
                            __k::CloneOf::<Histogram>::FN,
                            __k::CloneOf::<u8>::FN.is_some()
                                && __k::CloneOf::<Vec<u8>>::FN.is_some(),
                            by_fields,
                        )
                    };
                    #[inline]
                    fn type_index() -> ::core::primitive::i32 {
                        __k::type_index_of(&__KERNPACK_TYPE)
                    }
                    fn type_def() -> ::core::option::Option<&'static __k::TypeDef> {
                        ::core::option::Option::Some(&__KERNPACK_TYPE)
                    }
                }
                unsafe impl __k::ObjectStruct for Histogram {}
                impl __k::Schema for Histogram {
                    const TYPE: __k::TypeSchema = __k::TypeSchema::new("imagekit.Histogram");
                }
                impl __k::IntoAny for Histogram {
                    fn into_any(self) -> __k::Any {
                        __k::IntoAny::into_any(__k::ObjRef::new(self))
                    }
                }
                #[allow(unused_variables)]
                impl __k::VisitAttrs for Histogram {
                    fn visit_attrs(
                        &self,
                        visitor: &mut dyn __k::AttrVisitor,
                    ) -> ::kernpack::Result<()> {
                        __k::visit_field::<__F0>(&self.total, "total", visitor)?;
                        __k::visit_field::<__F1>(&self.r#type, "type", visitor)?;
                        ::core::result::Result::Ok(())
                    }
                    fn visit_attrs_mut(
                        &mut self,
                        visitor: &mut dyn __k::AttrVisitorMut,
                    ) -> ::kernpack::Result<()> {
                        __k::visit_field_mut::<
                            __F0,
                        >(&mut self.total, "total", visitor, __k::ConvertOf::<i64>::SET)?;
                        __k::visit_field_mut::<
                            __F1,
                        >(&mut self.r#type, "type", visitor, __k::ConvertOf::<Array<i64>>::SET)?;
                        ::core::result::Result::Ok(())
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
            macro_rules! object_type_with_key_imagekit_dot_Square__give_one_of_them_another_key {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use my::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::{
                    NoClone as _, NoConvert as _, NoSchema as _, NoSetter as _, NoVisit as _,
                    NotThreadSafe as _,
                };
                const _: () = __k::assert_object_layout::<Square>();
                const _: () = ::core::assert!(::core::mem::offset_of!(Square, base) == 0);
                const _: () = __k::assert_open_parent::<Square>();
                const _: () = {
                    __k::assert_object_part::<Shape, { __k::ThreadSafety::<Square>::HOLDS }>();
                };
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE: __k::TypeDef = __k::TypeDef {
                    key: "imagekit.Square",
                    parent: __k::parent_index::<Square>,
                    parent_def: __k::parent_def::<Square>,
                    doc: "",
                    size: ::core::mem::size_of::<__k::ObjectCell<Square>>(),
                    child_slots: 0i32,
                    structural_kind: __k::seq_hash_kind::TREE_NODE,
                    is_final: false,
                    fields: &[],
                    hidden: &[],
                    create: __k::create_of::<Square>(__k::is_creatable::<Square>()),
                    copy: __k::copy_of::<Square>(),
                    generated_init: __k::generated_init(true),
                    tensor_hooks: __k::tensor_hooks(&[]),
                    fingerprint: 4455552364056222083u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                unsafe impl __k::Defined for Square {
                    type Body = Square;
                    #[inline]
                    fn type_def() -> &'static __k::TypeDef {
                        &__KERNPACK_TYPE
                    }
                }
                unsafe impl my::kernpack::Object for Square {
                    const TYPE_KEY: &'static ::core::primitive::str = "imagekit.Square";
                    type Parent = Shape;
                    const CREATABLE: ::core::primitive::bool = __k::is_parent_creatable::<Square>();
                    const FINAL: ::core::primitive::bool = false;
                    const FIELD_NAMES: __k::FieldNames = __k::FieldNames {
                        own: &[],
                        base: ::core::option::Option::Some(__k::parent_names::<Square>()),
                    };
                    const DUPLICATE: ::core::option::Option<fn(&Square) -> Square> = {
                        #[allow(unused_variables)]
                        fn by_fields(value: &Square) -> Square {
                            match (__k::parent_duplicate::<Square>(),) {
                                (::core::option::Option::Some(__way0),) => {
                                    Square {
                                        base: __way0(&value.base),
                                    }
                                }
                                _ => ::core::unreachable!(),
                            }
                        }
                        __k::duplicate_of(
                            __k::CloneOf::<Square>::FN,
                            __k::parent_duplicate::<Square>().is_some(),
                            by_fields,
                        )
                    };
                    #[inline]
                    fn type_index() -> ::core::primitive::i32 {
                        __k::type_index_of(&__KERNPACK_TYPE)
                    }
                    fn type_def() -> ::core::option::Option<&'static __k::TypeDef> {
                        ::core::option::Option::Some(&__KERNPACK_TYPE)
                    }
                }
                unsafe impl __k::ObjectStruct for Square {}
                impl __k::Schema for Square {
                    const TYPE: __k::TypeSchema = __k::TypeSchema::new("imagekit.Square");
                }
                impl __k::IntoAny for Square {
                    fn into_any(self) -> __k::Any {
                        __k::IntoAny::into_any(__k::ObjRef::new(self))
                    }
                }
                impl ::core::ops::Deref for Square {
                    type Target = Shape;
                    #[inline]
                    fn deref(&self) -> &Self::Target {
                        &self.base
                    }
                }
                #[allow(unused_variables)]
                impl __k::VisitAttrs for Square {
                    fn visit_attrs(
                        &self,
                        visitor: &mut dyn __k::AttrVisitor,
                    ) -> my::kernpack::Result<()> {
                        __k::visit_base::<
                            Square,
                        >(__k::VisitOf::<Shape>::SHARED, &self.base, visitor)?;
                        ::core::result::Result::Ok(())
                    }
                    fn visit_attrs_mut(
                        &mut self,
                        visitor: &mut dyn __k::AttrVisitorMut,
                    ) -> my::kernpack::Result<()> {
                        __k::visit_base_mut::<
                            Square,
                        >(__k::VisitOf::<Shape>::EXCLUSIVE, &mut self.base, visitor)?;
                        ::core::result::Result::Ok(())
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
        ("struct S { #[base] #[field] a: T }", "not supported on the base"),
        ("#[base] struct S { a: T }", "put it on the first field"),
        ("#[field(skip)] struct S { a: T }", "put it on a field"),
        ("struct S { pub lambda: i64 }", "cannot have a parameter `lambda` in Python"),
        ("struct S { #[field(name = \"self\")] a: i64 }", "cannot have a parameter `self` in Python"),
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
fn type_options() {
    for (options, says) in [
        ("structural = \"list\"", "unknown structural kind `list`"),
        ("structural = tree", "takes a string literal, as in `structural"),
        ("structural", "`structural` has no value"),
        ("child_slots = many", "takes an integer literal"),
        ("child_slots = -1", "a number from 0 to 65536"),
        ("child_slots = 1000000", "a number from 0 to 65536"),
        ("child_slots = 4, final", "a `final` type has none"),
        ("final = true", "`final` takes no value"),
        ("init = true, create = false", "needs a creator"),
        ("init = 0", "takes `true` or `false`"),
        ("create", "`create` has no value"),
        ("enum = \"int\"", "is an option of enums"),
        ("enum = \"float\"", "unknown kind of enum `float`"),
        ("parent = \"a.C\"", "unknown option `parent`"),
    ] {
        let item = format!("#[object(key = \"a.B\", {options})] #[repr(C)] struct S {{ a: i64 }}");
        let found = mistakes(expand_object(tokens(&item), &environment()));
        assert!(found[0].contains(says), "{options}: {found:#?}");
    }
}

#[test]
fn field_options() {
    for (options, says) in [
        ("writeable", "unknown option `writeable`"),
        ("writable = true", "`writable` takes no value; write `writable`"),
        ("default", "`default` has no value"),
        ("default = ", "`default` has no value"),
        ("default = 1 2", "`default` takes a Rust expression, as in `default = 0`"),
        ("default = 1, default = 2", "`default` is given twice"),
        ("default = 1, default_factory = f", "exclude each other"),
        ("default_factory = f, default = 1", "exclude each other"),
        ("kw_only, kw_only", "`kw_only` is given twice"),
        ("kw_only, init = false, default = 3", "remove one of the two"),
        ("init", "`init` has no value"),
        ("init = false", "add `default = ...`"),
        ("repr = \"off\"", "`repr` takes `true` or `false`"),
        ("structural = \"skip\"", "unknown structural rule `skip`"),
        ("structural", "`structural` has no value"),
        ("name = x", "`name` takes a string literal"),
        ("name = \"a b\"", "not a name that every language can write"),
        ("name = \"__x\"", "belong to the ABI"),
        ("name = \"other\"", "the field `other` is called `other`, too"),
        ("skip, writable", "`writable` is about a field that other languages see"),
        ("skip, kw_only", "`kw_only` is about a field"),
        ("name = \"x\", skip", "`name` is about a field"),
        ("skip, init = false", "`init` is about a field"),
        ("skip = true", "`skip` takes no value"),
        ("\"skip\"", "expected an option"),
        ("skip(true)", "expected `=` after `skip`"),
    ] {
        for visibility in ["pub", ""] {
            let item = format!("#[field({options})] {visibility} a: i64");
            check_mistakes(
                &format!("#[object(key = \"a.B\")] #[repr(C)] struct S {{ pub other: i64, {item} }}"),
                &[says],
            );
        }
    }
    check_mistakes(
        "#[object(key = \"a.B\")] #[repr(C)] struct S { #[field = 3] pub a: i64 }",
        &["write #[field(...)], with the options in parentheses"],
    );
}

#[test]
fn accepted_field_options() {
    for (options, has) in [
        ("", "0 , :: core :: option :: Option :: None , __k :: SetterOf :: < __F0 > :: FN"),
        ("(repr = true, compare = true)", "0 , :: core"),
        ("(writable)", "writable_field_def :: < __F0 > (\"a\" , \"\" , 0 ,"),
        ("(repr = false)", "field_flag :: REPR_OFF ,"),
        ("(compare = false, hash = false)", "COMPARE_OFF | __k :: field_flag :: HASH_OFF ,"),
        ("(kw_only)", "field_flag :: KW_ONLY ,"),
        ("(init = false, default = 3)", "field_flag :: INIT_OFF ,"),
        ("(structural = \"ignore\")", "field_flag :: SEQ_HASH_IGNORE ,"),
        ("(structural = \"def\")", "field_flag :: SEQ_HASH_DEF_PATTERN ,"),
        ("(structural = \"def_simple\")", "field_flag :: SEQ_HASH_DEF_SIMPLE ,"),
        ("(name = \"b\")", "field_def :: < __F0 > (\"b\""),
        ("(default = Self::A)", "let value : i64 = S :: A ;"),
        ("(default = f::<i64, u8>(1, 2), kw_only)", "let value : i64 = f :: < i64 , u8 > (1 , 2) ;"),
        ("(default_factory = || 3)", "let make : fn () -> i64 = | | 3 ;"),
        ("(skip)", ":: core :: option :: Option :: None)"),
        ("(skip, default = 3)", "place . cast :: < i64 > () . write (value)"),
    ] {
        for visibility in ["pub", "pub(crate)", ""] {
            let item =
                format!("#[object(key = \"a.B\")] #[repr(C)] struct S {{ #[field{options}] {visibility} a: i64 }}");
            let output = expand_object(tokens(&item), &environment()).to_string();
            assert!(!output.contains("compile_error") && output.contains(has), "{item}: {output}");
        }
    }
}

#[test]
fn accepted_type_options() {
    for (options, has) in [
        ("", "TREE_NODE , is_final : false"),
        ("structural = \"dag\"", "seq_hash_kind :: DAG_NODE"),
        ("structural = \"var\"", "seq_hash_kind :: FREE_VAR"),
        ("structural = \"const_tree\"", "seq_hash_kind :: CONST_TREE_NODE"),
        ("structural = \"singleton\"", "seq_hash_kind :: UNIQUE_INSTANCE"),
        ("structural = \"unsupported\"", "seq_hash_kind :: UNSUPPORTED"),
        ("child_slots = 12", "child_slots : 12i32"),
        ("final, child_slots = 0", "is_final : true"),
        ("init = false", "generated_init (false)"),
        ("create = false", "CREATABLE : :: core :: primitive :: bool = false"),
        ("create = false", "generated_init (false)"),
    ] {
        let item = format!("#[object(key = \"a.B\", {options})] #[repr(C)] struct S {{ a: i64 }}");
        let output = expand_object(tokens(&item), &environment()).to_string();
        assert!(!output.contains("compile_error") && output.contains(has), "{item}: {output}");
    }
}

#[test]
fn all_mistakes_at_once() {
    check_mistakes(
        "#[object(keys = \"a.B\")] #[repr(packed)] struct S<T> { #[object(x)] a: T, #[base] #[field(wide)] b: i64 }",
        &[
            "unknown option `keys`",
            "has no key",
            "repr(packed)",
            "add #[repr(C)]",
            "type parameters",
            "not supported on a field",
            "only on the first field",
            "unknown option `wide`",
        ],
    );
}

#[test]
fn faulty_structs_stay_objects() {
    let output = expand_object(tokens("struct S { a: i64 }"), &environment()).to_string();
    assert!(output.contains("unsafe impl :: kernpack :: Object for S"), "{output}");
}
