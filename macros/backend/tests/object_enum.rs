//! Tests the code that `#[derive(Object)]` generates for enums and the errors that it reports.

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
    assert!(!output.to_string().contains("__KERNPACK"), "faulty items are not registered: {output}");
    let found = mistakes(output);
    assert_eq!(found.len(), expect.len(), "{item}: {found:#?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.contains(expect), "expected {expect:?}, got {found:?}");
        assert!(!found.ends_with('.') && !found.starts_with(char::is_uppercase), "{found:?}");
    }
}

#[test]
fn an_enum_of_integers() {
    check(
        "/// A mode.\n#[object(key = \"imagekit.Mode\", enum = \"int\", rename_all = \"SCREAMING_SNAKE_CASE\")]
         pub enum Mode { /// Quick.\n VeryFast = 1, #[object(name = \"RIGHT\")] Exact, Last = BASE + 1 }",
        expect![[r##"
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! object_type_with_key_imagekit_dot_Mode__give_one_of_them_another_key {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                const _: () = {
                    ::core::assert!(
                        Mode::VeryFast as ::core::primitive::i128 <= ::core::primitive::i64::MAX as
                        ::core::primitive::i128,
                        "the integers of the ABI have 64 bits with a sign; use a smaller discriminant",
                    );
                    ::core::assert!(
                        Mode::Exact as ::core::primitive::i128 <= ::core::primitive::i64::MAX as
                        ::core::primitive::i128,
                        "the integers of the ABI have 64 bits with a sign; use a smaller discriminant",
                    );
                    ::core::assert!(
                        Mode::Last as ::core::primitive::i128 <= ::core::primitive::i64::MAX as
                        ::core::primitive::i128,
                        "the integers of the ABI have 64 bits with a sign; use a smaller discriminant",
                    );
                };
                static __KERNPACK_VARIANTS: [__k::VariantDef; 3usize] = [
                    __k::VariantDef {
                        name: "VERY_FAST",
                        value: Mode::VeryFast as ::core::primitive::i64,
                        doc: "Quick.",
                    },
                    __k::VariantDef {
                        name: "RIGHT",
                        value: Mode::Exact as ::core::primitive::i64,
                        doc: "",
                    },
                    __k::VariantDef {
                        name: "LAST",
                        value: Mode::Last as ::core::primitive::i64,
                        doc: "",
                    },
                ];
                #[__k::linkme::distributed_slice(__k::KERNPACK_ENUMS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_ENUM: __k::EnumDef = __k::EnumDef {
                    key: "imagekit.Mode",
                    doc: "A mode.",
                    kind: __k::EnumKind::Int,
                    variants: &__KERNPACK_VARIANTS,
                    register: __k::register_enum,
                    instances: __k::EnumInstances::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                impl ::kernpack::EnumType for Mode {
                    const TYPE_KEY: &'static ::core::primitive::str = "imagekit.Mode";
                    #[inline]
                    fn enum_def() -> &'static __k::EnumDef {
                        &__KERNPACK_ENUM
                    }
                    #[inline]
                    fn at_position(
                        position: ::core::primitive::usize,
                    ) -> ::core::option::Option<Self> {
                        match position {
                            0usize => ::core::option::Option::Some(Self::VeryFast),
                            1usize => ::core::option::Option::Some(Self::Exact),
                            2usize => ::core::option::Option::Some(Self::Last),
                            _ => ::core::option::Option::None,
                        }
                    }
                    #[inline]
                    fn position(&self) -> ::core::primitive::usize {
                        match self {
                            Self::VeryFast => 0usize,
                            Self::Exact => 1usize,
                            Self::Last => 2usize,
                        }
                    }
                }
                impl ::kernpack::Schema for Mode {
                    const TYPE: ::kernpack::TypeSchema = ::kernpack::TypeSchema::new(
                        <Self as ::kernpack::EnumType>::TYPE_KEY,
                    );
                }
                impl<'a> ::kernpack::FromAny<'a> for Mode {
                    #[inline]
                    fn from_any(
                        value: &'a ::kernpack::AnyView<'a>,
                    ) -> ::core::result::Result<Self, ::kernpack::Mismatch> {
                        ::kernpack::__private_v0_1::enum_from_any(value)
                    }
                }
                impl ::kernpack::IntoAny for Mode {
                    #[inline]
                    fn into_any(self) -> ::kernpack::Any {
                        ::kernpack::__private_v0_1::enum_into_any(&self)
                    }
                }
                impl ::kernpack::ToArg for Mode {
                    #[inline]
                    fn to_arg(&self) -> ::kernpack::Arg<'_> {
                        ::kernpack::__private_v0_1::enum_to_arg(self)
                    }
                }
                impl ::core::convert::From<Mode> for ::kernpack::Any {
                    #[inline]
                    fn from(variant: Mode) -> Self {
                        ::kernpack::__private_v0_1::enum_into_any(&variant)
                    }
                }
            };
        "##]],
    );
}

#[test]
fn an_enum_of_strings() {
    let code = expand_object(
        tokens("#[object(key = \"a.B\", enum = \"str\", crate = my::kernpack)] enum B { First = 7, #[object(name = \"2nd\")] r#Second }"),
        &environment(),
    )
    .to_string();
    for part in [
        "VariantDef { name : \"First\" , value : 0i64 , doc : \"\" }",
        "VariantDef { name : \"2nd\" , value : 1i64 , doc : \"\" }",
        "EnumKind :: Str",
        "use my :: kernpack :: __private_v0_1 as __k",
        "impl my :: kernpack :: EnumType for B",
    ] {
        assert!(code.contains(part), "no {part:?} in {code}");
    }
    assert!(!code.contains("assert"), "discriminants do not matter: {code}");
}

#[test]
fn a_family() {
    check(
        "/// An expression.\n#[object(key = \"a.Expr\", structural = \"dag\")] #[repr(C, u32)]
         pub enum Expr { /// A number.\n Const { /// Which.\n #[field(default = 1)] value: i64, #[field(skip)] cache: Vec<u8> },
            #[object(key = \"a.Nothing\")] Nil }",
        expect![[r##"
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! object_type_with_key_a_dot_Expr__give_one_of_them_another_key {
                () => {};
            }
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! object_type_with_key_a_dot_Expr_dot_Const__give_one_of_them_another_key {
                () => {};
            }
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! object_type_with_key_a_dot_Nothing__give_one_of_them_another_key {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::{
                    NoClone as _, NoConvert as _, NoSchema as _, NoSetter as _, NotThreadSafe as _,
                };
                const _: () = __k::assert_object_layout::<Expr>();
                const _: () = {
                    __k::assert_object_part::<i64, { __k::ThreadSafety::<Expr>::HOLDS }>();
                    __k::assert_object_part::<Vec<u8>, { __k::ThreadSafety::<Expr>::HOLDS }>();
                };
                #[repr(C)]
                #[allow(dead_code)]
                struct __KernpackFields0 {
                    value: i64,
                    cache: Vec<u8>,
                }
                #[repr(C)]
                #[allow(dead_code)]
                struct __KernpackFields1 {}
                #[repr(C)]
                #[allow(dead_code)]
                union __KernpackVariants {
                    variant0: ::core::mem::ManuallyDrop<__KernpackFields0>,
                    variant1: ::core::mem::ManuallyDrop<__KernpackFields1>,
                }
                #[repr(C)]
                #[allow(dead_code)]
                struct __KernpackLayout {
                    tag: ::core::primitive::u32,
                    variants: __KernpackVariants,
                }
                const _: () = ::core::assert!(
                    ::core::mem::size_of:: < __KernpackLayout > () == ::core::mem::size_of:: < Expr >
                    () && ::core::mem::align_of:: < __KernpackLayout > () == ::core::mem::align_of::
                    < Expr > ()
                );
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE: __k::TypeDef = __k::TypeDef {
                    key: "a.Expr",
                    parent: __k::parent_index::<Expr>,
                    parent_def: __k::parent_def::<Expr>,
                    doc: "An expression.",
                    size: ::core::mem::size_of::<__k::ObjectCell<Expr>>(),
                    child_slots: 2i32,
                    structural_kind: __k::seq_hash_kind::DAG_NODE,
                    is_final: false,
                    fields: &[],
                    hidden: &[],
                    tensor_hooks: ::core::option::Option::None,
                    create: ::core::option::Option::None,
                    copy: ::core::option::Option::None,
                    generated_init: __k::generated_init(false),
                    fingerprint: 15687592114969878318u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                struct __KernpackVariant0;
                unsafe impl __k::Defined for __KernpackVariant0 {
                    type Body = Expr;
                    #[inline]
                    fn type_def() -> &'static __k::TypeDef {
                        &__KERNPACK_TYPE_0
                    }
                }
                struct __F0_0;
                unsafe impl __k::FieldAt for __F0_0 {
                    type Owner = __KernpackVariant0;
                    type Value = i64;
                    const INDEX: ::core::primitive::usize = 0usize;
                    const OFFSET: ::core::primitive::usize = ::core::mem::offset_of!(
                        __KernpackLayout, variants
                    ) + ::core::mem::offset_of!(__KernpackFields0, value);
                }
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE_0: __k::TypeDef = __k::TypeDef {
                    key: "a.Expr.Const",
                    parent: __k::family_index::<Expr>,
                    parent_def: __k::family_def::<Expr>,
                    doc: "A number.",
                    size: ::core::mem::size_of::<__k::ObjectCell<Expr>>(),
                    child_slots: 0i32,
                    structural_kind: __k::seq_hash_kind::DAG_NODE,
                    is_final: true,
                    fields: &[
                        __k::field_def::<
                            __F0_0,
                        >(
                            "value",
                            "Which.",
                            0,
                            ::core::option::Option::Some(
                                __k::DefaultDef::Value({
                                    fn __kernpack_default() -> __k::Any {
                                        let value: i64 = 1;
                                        __k::default_of::<__F0_0>(&value)
                                    }
                                    __kernpack_default
                                }),
                            ),
                            __k::SetterOf::<__F0_0>::FN,
                        ),
                    ],
                    hidden: &[
                        __k::tag_def::<0u32>(),
                        __k::hidden_def::<
                            Vec<u8>,
                        >(
                            "cache",
                            ::core::mem::offset_of!(__KernpackLayout, variants)
                                + ::core::mem::offset_of!(__KernpackFields0, cache),
                            ::core::option::Option::None,
                        ),
                    ],
                    tensor_hooks: __k::tensor_hooks(&[__k::SchemaOf::<i64>::TYPE]),
                    create: __k::create_of::<__KernpackVariant0>(false),
                    copy: __k::copy_of::<Expr>(),
                    generated_init: __k::generated_init(true),
                    fingerprint: 700962076467952330u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                struct __KernpackVariant1;
                unsafe impl __k::Defined for __KernpackVariant1 {
                    type Body = Expr;
                    #[inline]
                    fn type_def() -> &'static __k::TypeDef {
                        &__KERNPACK_TYPE_1
                    }
                }
                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE_1: __k::TypeDef = __k::TypeDef {
                    key: "a.Nothing",
                    parent: __k::family_index::<Expr>,
                    parent_def: __k::family_def::<Expr>,
                    doc: "",
                    size: ::core::mem::size_of::<__k::ObjectCell<Expr>>(),
                    child_slots: 0i32,
                    structural_kind: __k::seq_hash_kind::DAG_NODE,
                    is_final: true,
                    fields: &[],
                    hidden: &[__k::tag_def::<1u32>()],
                    tensor_hooks: __k::tensor_hooks(&[]),
                    create: __k::create_of::<__KernpackVariant1>(true),
                    copy: __k::copy_of::<Expr>(),
                    generated_init: __k::generated_init(true),
                    fingerprint: 14695981039346656037u64,
                    index: __k::TypeIndexCell::new(),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                unsafe impl ::kernpack::Object for Expr {
                    const TYPE_KEY: &'static ::core::primitive::str = "a.Expr";
                    type Parent = __k::ObjectRoot;
                    const CREATABLE: ::core::primitive::bool = false;
                    const FINAL: ::core::primitive::bool = true;
                    const DUPLICATE: ::core::option::Option<fn(&Expr) -> Expr> = {
                        fn by_fields(value: &Expr) -> Expr {
                            match value {
                                Expr::Const { value: __field0, cache: __field1 } => {
                                    Expr::Const {
                                        value: __k::duplicate_field::<__F0_0>(__field0),
                                        cache: match __k::CloneOf::<Vec<u8>>::FN {
                                            ::core::option::Option::Some(clone) => clone(__field1),
                                            ::core::option::Option::None => ::core::unreachable!(),
                                        },
                                    }
                                }
                                Expr::Nil {} => Expr::Nil {},
                            }
                        }
                        __k::duplicate_of(
                            __k::CloneOf::<Expr>::FN,
                            true && __k::CloneOf::<Vec<u8>>::FN.is_some(),
                            by_fields,
                        )
                    };
                    const VARIANTS: ::core::option::Option<&'static [&'static __k::TypeDef]> = ::core::option::Option::Some(
                        &[&__KERNPACK_TYPE_0, &__KERNPACK_TYPE_1],
                    );
                    #[inline]
                    fn type_index() -> ::core::primitive::i32 {
                        __k::type_index_of(&__KERNPACK_TYPE)
                    }
                    fn type_def() -> ::core::option::Option<&'static __k::TypeDef> {
                        ::core::option::Option::Some(&__KERNPACK_TYPE)
                    }
                    #[inline]
                    fn index_of(&self) -> ::core::primitive::i32 {
                        match self {
                            Self::Const { .. } => __k::type_index_of(&__KERNPACK_TYPE_0),
                            Self::Nil { .. } => __k::type_index_of(&__KERNPACK_TYPE_1),
                        }
                    }
                }
                impl __k::Schema for Expr {
                    const TYPE: __k::TypeSchema = __k::TypeSchema::new("a.Expr");
                }
                impl __k::IntoAny for Expr {
                    fn into_any(self) -> __k::Any {
                        __k::IntoAny::into_any(__k::ObjRef::new(self))
                    }
                }
                #[allow(unused_variables)]
                impl __k::VisitAttrs for Expr {
                    fn visit_attrs(
                        &self,
                        visitor: &mut dyn __k::AttrVisitor,
                    ) -> ::kernpack::Result<()> {
                        match self {
                            Self::Const { value: __field0, cache: __field1 } => {
                                __k::visit_field::<__F0_0>(__field0, "value", visitor)?;
                            }
                            Self::Nil {} => {}
                        }
                        ::core::result::Result::Ok(())
                    }
                    fn visit_attrs_mut(
                        &mut self,
                        visitor: &mut dyn __k::AttrVisitorMut,
                    ) -> ::kernpack::Result<()> {
                        match self {
                            Self::Const { value: __field0, cache: __field1 } => {
                                __k::visit_field_mut::<
                                    __F0_0,
                                >(__field0, "value", visitor, __k::ConvertOf::<i64>::SET)?;
                            }
                            Self::Nil {} => {}
                        }
                        ::core::result::Result::Ok(())
                    }
                }
            };
        "##]],
    );
}

#[test]
fn items() {
    const VALUE: &str = "#[object(key = \"a.B\", enum = \"int\")]";
    const FAMILY: &str = "#[object(key = \"a.B\")] #[repr(C, u32)]";
    for (item, says) in [
        ("enum E {}", "without variants"),
        ("enum E<T> { A }", "type parameters"),
        ("enum E { A, B { x: i64 } }", "remove `enum = ...`"),
        ("enum E { A, B(i64) }", "remove `enum = ...`"),
        ("enum E { A = 9223372036854775808 }", "64 bits with a sign"),
        ("enum E { A = -9223372036854775809 }", "64 bits with a sign"),
        ("enum E { A = 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff_ff }", "64 bits with a sign"),
        ("enum E { A, #[object(name = \"A\")] B }", "the variant `A` is called `A`, too"),
        ("enum E { #[object(name = \"a b\")] A }", "every language"),
        ("enum E { #[object(name = \"__a\")] A }", "belong to the ABI"),
        ("enum E { #[object(name = 3)] A }", "takes a string literal"),
        ("enum E { #[object(key = \"a.C\")] A }", "unknown option `key`"),
        ("enum E { #[object] A }", "write #[object(name = \"...\")]"),
        ("enum E { #[base] A }", "#[base] is not supported on a variant"),
        ("enum E { #[field(skip)] A }", "#[field] is not supported on a variant"),
    ] {
        check_mistakes(&format!("{VALUE} {item}"), &[says]);
    }
    for (item, says) in [
        ("enum E<T> { A { x: T } }", "type parameters"),
        ("enum E<'a> { A { x: &'a str } }", "lifetime parameters"),
        ("enum E { A(i64), B { x: i64 } }", "tuple variants"),
        ("enum E { A(), B { x: i64 } }", "tuple variants"),
        ("enum E { A { x: i64 } = 3 }", "a discriminant is not supported"),
        ("enum E { A { #[base] x: i64 } }", "whose parent is the enum"),
        ("enum E { A { #[object(skip)] x: i64 } }", "write #[field(...)]"),
        ("enum E { A { #[field(skip, writable)] x: i64 } }", "`writable` is about a field that other languages see"),
        ("enum E { A { x: i64, #[field(name = \"x\")] y: i64 } }", "the field `x` is called `x`, too"),
        ("enum E { A { #[field(init = false)] x: i64 } }", "cannot make this field"),
        ("enum E { #[object(key = \"a.B\")] A { x: i64 } }", "the type key `a.B` is that of `E`, too"),
        ("enum E { A { x: i64 }, #[object(key = \"a.B.A\")] C }", "the type key `a.B.A` is that of `A`, too"),
        ("enum E { #[object(key = \"C\")] A { x: i64 } }", "no namespace"),
        ("enum E { #[object(name = \"C\")] A { x: i64 } }", "unknown option `name`"),
        ("enum E { #[field(skip)] A { x: i64 } }", "put it on a field"),
    ] {
        check_mistakes(&format!("{FAMILY} {item}"), &[says]);
    }
}

#[test]
fn attributes() {
    for (attributes, says) in [
        ("", "needs a type key"),
        ("#[object(enum = \"int\")]", "has no key"),
        ("#[object(key = \"a.B\", enum = \"uint\")]", "unknown kind of enum `uint`"),
        ("#[object(key = \"a.B\", enum = \"int\", rename_all = \"Upper\")]", "unknown case `Upper`"),
        ("#[object(key = \"a.B\", enum = \"int\", final)]", "`final` is not an option of enums without data"),
        ("#[object(key = \"a.B\", enum = \"str\", structural = \"dag\")]", "`structural` is not an option"),
        ("#[object(key = \"a.B\", enum = \"str\", init = false)]", "`init` is not an option"),
        ("#[object(key = \"a.B\", enum = \"str\", child_slots = 2)]", "`child_slots` is not an option"),
        ("#[object(key = \"a.B\")]", "add `enum = \"int\"`"),
    ] {
        let says: &[&str] = if attributes.is_empty() { &[says, "add `enum = \"int\"`"] } else { &[says] };
        check_mistakes(&format!("{attributes} enum B {{ X, Y }}"), says);
    }
    for (attributes, says) in [
        ("#[object(key = \"a.B\")]", "add #[repr(C, u32)]"),
        ("#[object(key = \"a.B\")] #[repr(C)]", "#[repr(C, u32)], and nothing else"),
        ("#[object(key = \"a.B\")] #[repr(u32)]", "#[repr(C, u32)], and nothing else"),
        ("#[object(key = \"a.B\")] #[repr(C, u8)]", "#[repr(C, u32)], and nothing else"),
        ("#[object(key = \"a.B\")] #[repr(C, u32, align(16))]", "#[repr(C, u32)], and nothing else"),
        ("#[object(key = \"a.B\", final)] #[repr(C, u32)]", "its variants for subtypes"),
        ("#[object(key = \"a.B\", child_slots = 4)] #[repr(C, u32)]", "one subtype for each variant"),
        ("#[object(key = \"a.B\", rename_all = \"UPPERCASE\")] #[repr(C, u32)]", "an enum without data"),
    ] {
        check_mistakes(&format!("{attributes} enum B {{ X {{ x: i64 }}, Y }}"), &[says]);
    }
}

#[test]
fn repr_may_be_written_in_parts() {
    let code = expand_object(
        tokens("#[object(key = \"a.B\")] #[repr(C)] #[repr(u32)] enum B { X { x: i64 }, Y }"),
        &environment(),
    );
    assert_eq!(mistakes(code), [""; 0]);
}

#[test]
fn faulty_enums_stay_what_they_are() {
    let value = expand_object(tokens("enum B { X }"), &environment()).to_string();
    assert!(value.contains("impl :: kernpack :: EnumType for B"), "{value}");
    assert!(value.contains(":: kernpack :: FromAny < 'a > for B"), "{value}");
    let family = expand_object(tokens("enum B { X { x: i64 } }"), &environment()).to_string();
    assert!(family.contains("unsafe impl :: kernpack :: Object for B"), "{family}");
}
