//! Tests the code that `#[object_methods]` generates and the errors that it reports.

mod show;

use expect_test::{Expect, expect};
use kernpack_macros_backend::expand_object_methods;
use show::{environment, mistakes, pretty, tokens};

#[track_caller]
fn check(options: &str, item: &str, expect: Expect) {
    expect.assert_eq(&pretty(expand_object_methods(tokens(options), tokens(item), &environment())));
}

/// Checks the messages, one per line, and that only errors are added.
#[track_caller]
fn check_mistakes(options: &str, item: &str, expect: &[&str]) {
    let output = expand_object_methods(tokens(options), tokens(item), &environment());
    assert!(!output.to_string().contains("__kernpack"), "faulty items get nothing but errors: {output}");
    let found = mistakes(output);
    assert_eq!(found.len(), expect.len(), "{item}: {found:#?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.contains(expect), "{item}: expected {expect:?}, got {found:?}");
        assert!(!found.ends_with('.'), "full stop: {found:?}");
        assert!(!found.starts_with(char::is_uppercase) || found.starts_with("Python"), "not lower case: {found:?}");
    }
}

/// A block with these items, and the messages about them.
#[track_caller]
fn check_items(items: &str, expect: &[&str]) {
    check_mistakes("", &format!("impl Point {{ {items} }}"), expect);
}

#[test]
fn whole_expansion() {
    check(
        "",
        "impl Point {
            /// Adds.
            #[cfg(unix)] pub fn add(&self, other: &Self, #[default(Self::ONE)] times: f64) -> Result<Self> { todo!() }
            fn private(&self) {}
        }",
        expect![[r#"
            impl Point {
                /// Adds.
                #[cfg(unix)]
                pub fn add(&self, other: &Self, times: f64) -> Result<Self> {
                    todo!()
                }
                fn private(&self) {}
            }
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                const __KERNPACK_KEY: &::core::primitive::str = <Point as __k::Object>::TYPE_KEY;
                #[cfg(unix)]
                static __KERNPACK_METHOD_0: __k::FunctionInfo = __k::FunctionInfo {
                    name: __k::method_name!(__KERNPACK_KEY, "add"),
                    global_name: ::core::option::Option::None,
                    doc: "Adds.",
                    params: &[
                        __k::ParamInfo {
                            name: "self",
                            ty: __k::SchemaOf::<__k::Borrowed<'_, Point>>::TYPE,
                            access: __k::SchemaOf::<__k::Borrowed<'_, Point>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "other",
                            ty: __k::SchemaOf::<__k::Borrowed<'_, Point>>::TYPE,
                            access: __k::SchemaOf::<__k::Borrowed<'_, Point>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "times",
                            ty: __k::SchemaOf::<f64>::TYPE,
                            access: __k::SchemaOf::<f64>::ACCESS,
                        },
                    ],
                    defaults: &["{\"rust\":\"Self::ONE\"}"],
                    more_metadata: ",\"arg_defaults\":[{\"rust\":\"Self::ONE\"}]",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <Result<__k::ObjRef<Point>> as __k::IntoReturn>::TYPE,
                    call: __kernpack_call_0,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[cfg(unix)]
                #[inline]
                fn __kernpack_body_0<'a>(
                    args: &'a [::kernpack::AnyView<'a>; 3usize],
                    place: __k::ResultPlace,
                    given: ::core::primitive::u64,
                ) -> ::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe {
                        __k::arg::<__k::Borrowed<'_, Point>>(&__KERNPACK_METHOD_0, args, 0usize)
                    }?;
                    let __arg1 = unsafe {
                        __k::arg::<__k::Borrowed<'_, Point>>(&__KERNPACK_METHOD_0, args, 1usize)
                    }?;
                    let __arg2: f64 = if given & (1u64 << 2usize) != 0 {
                        unsafe { __k::arg::<f64>(&__KERNPACK_METHOD_0, args, 2usize) }?
                    } else {
                        Point::ONE
                    };
                    <Result<
                        __k::ObjRef<Point>,
                    > as __k::IntoReturn>::into_return_at(
                        Point::add(&**__arg0, &**__arg1, __arg2).map(__k::ObjRef::new),
                        place,
                    )
                }
                #[cfg(unix)]
                __k::entry_point!(
                    __kernpack_call_0 = call_bound:: < 3usize > (& __KERNPACK_METHOD_0, 4u64;
                    __kernpack_body_0)
                );
                #[__k::linkme::distributed_slice(__k::KERNPACK_METHODS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_METHODS: __k::MethodsDef = __k::MethodsDef {
                    ty: <Point as __k::Object>::type_def,
                    key: __KERNPACK_KEY,
                    members: &[
                        #[cfg(unix)]
                        __k::MethodDef::Method {
                            name: "add",
                            info: &__KERNPACK_METHOD_0,
                            is_static: false,
                        },
                    ],
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
            };
        "#]],
    );
}

#[test]
fn each_kind_of_member() {
    check(
        "crate = my::kernpack",
        "impl a::Point {
            #[type_attr(name = \"x.y\")] const K: i64 = 1;
            #[init] fn make(x: f64) -> ObjRef<Self> { todo!() }
            #[getter(name = \"size\")] fn len(&self) -> usize { 0 }
            #[operator(lt)] fn less(&self, other: &ObjRef<Self>) -> bool { true }
        }",
        expect![[r#"
            impl a::Point {
                const K: i64 = 1;
                fn make(x: f64) -> ObjRef<Self> {
                    todo!()
                }
                fn len(&self) -> usize {
                    0
                }
                fn less(&self, other: &ObjRef<Self>) -> bool {
                    true
                }
            }
            #[allow(deprecated)]
            const _: () = {
                use my::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                const __KERNPACK_KEY: &::core::primitive::str = <a::Point as __k::Object>::TYPE_KEY;
                fn __kernpack_value_0() -> my::kernpack::Any {
                    <i64 as my::kernpack::IntoAny>::into_any(a::Point::K)
                }
                static __KERNPACK_METHOD_1: __k::FunctionInfo = __k::FunctionInfo {
                    name: __k::method_name!(__KERNPACK_KEY, "__ffi_init__"),
                    global_name: ::core::option::Option::None,
                    doc: "",
                    params: &[
                        __k::ParamInfo {
                            name: "x",
                            ty: __k::SchemaOf::<f64>::TYPE,
                            access: __k::SchemaOf::<f64>::ACCESS,
                        },
                    ],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <ObjRef<a::Point> as __k::IntoReturn>::TYPE,
                    call: __kernpack_call_1,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body_1<'a>(
                    args: &'a [my::kernpack::AnyView<'a>; 1usize],
                    place: __k::ResultPlace,
                    given: ::core::primitive::u64,
                ) -> my::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe { __k::arg::<f64>(&__KERNPACK_METHOD_1, args, 0usize) }?;
                    <ObjRef<
                        a::Point,
                    > as __k::IntoReturn>::into_return_at(a::Point::make(__arg0), place)
                }
                __k::entry_point!(
                    __kernpack_call_1 = call_bound:: < 1usize > (& __KERNPACK_METHOD_1, 0u64;
                    __kernpack_body_1)
                );
                static __KERNPACK_METHOD_2: __k::FunctionInfo = __k::FunctionInfo {
                    name: __k::method_name!(__KERNPACK_KEY, "size"),
                    global_name: ::core::option::Option::None,
                    doc: "",
                    params: &[
                        __k::ParamInfo {
                            name: "self",
                            ty: __k::SchemaOf::<__k::Borrowed<'_, a::Point>>::TYPE,
                            access: __k::SchemaOf::<__k::Borrowed<'_, a::Point>>::ACCESS,
                        },
                    ],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <usize as __k::IntoReturn>::TYPE,
                    call: __k::no_entry_point,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body_2<'a>(
                    args: &'a [my::kernpack::AnyView<'a>; 1usize],
                    place: __k::ResultPlace,
                ) -> my::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe {
                        __k::arg::<__k::Borrowed<'_, a::Point>>(&__KERNPACK_METHOD_2, args, 0usize)
                    }?;
                    <usize as __k::IntoReturn>::into_return_at(a::Point::len(&**__arg0), place)
                }
                __k::getter!(
                    __kernpack_call_2 = call_getter(& __KERNPACK_METHOD_2; __kernpack_body_2)
                );
                static __KERNPACK_METHOD_3: __k::FunctionInfo = __k::FunctionInfo {
                    name: __k::method_name!(__KERNPACK_KEY, "__ffi_compare__"),
                    global_name: ::core::option::Option::None,
                    doc: "",
                    params: &[
                        __k::ParamInfo {
                            name: "self",
                            ty: __k::SchemaOf::<__k::Borrowed<'_, a::Point>>::TYPE,
                            access: __k::SchemaOf::<__k::Borrowed<'_, a::Point>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "other",
                            ty: __k::SchemaOf::<__k::Borrowed<'_, a::Point>>::TYPE,
                            access: __k::SchemaOf::<__k::Borrowed<'_, a::Point>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "compare",
                            ty: __k::SchemaOf::<my::kernpack::Function>::TYPE,
                            access: __k::Access::Keeps,
                        },
                    ],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <::core::primitive::i64 as __k::IntoReturn>::TYPE,
                    call: __kernpack_call_3,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body_3<'a>(
                    args: &'a [my::kernpack::AnyView<'a>; 3usize],
                    place: __k::ResultPlace,
                ) -> my::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe {
                        __k::arg::<__k::Borrowed<'_, a::Point>>(&__KERNPACK_METHOD_3, args, 0usize)
                    }?;
                    let __arg1 = unsafe {
                        __k::arg::<__k::Borrowed<'_, a::Point>>(&__KERNPACK_METHOD_3, args, 1usize)
                    }?;
                    let order = if a::Point::less(&**__arg0, &*__arg1) {
                        -1
                    } else if a::Point::less(&**__arg1, &*__arg0) {
                        1
                    } else {
                        0
                    };
                    my::kernpack::Result::Ok(__k::TVMFFIAny::int(order))
                }
                __k::entry_point!(
                    __kernpack_call_3 = call_packed:: < 3usize > (& __KERNPACK_METHOD_3;
                    __kernpack_body_3)
                );
                impl __k::HasConstructor for a::Point {}
                #[__k::linkme::distributed_slice(__k::KERNPACK_METHODS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_METHODS: __k::MethodsDef = __k::MethodsDef {
                    ty: <a::Point as __k::Object>::type_def,
                    key: __KERNPACK_KEY,
                    members: &[
                        __k::MethodDef::Constant {
                            attribute: "x.y",
                            value: __kernpack_value_0,
                        },
                        __k::MethodDef::Constructor {
                            info: &__KERNPACK_METHOD_1,
                        },
                        __k::MethodDef::Property {
                            name: "size",
                            info: &__KERNPACK_METHOD_2,
                            getter: __kernpack_call_2,
                        },
                        __k::MethodDef::Hook {
                            attribute: "__ffi_compare__",
                            info: &__KERNPACK_METHOD_3,
                            recursion: __k::RECURSION,
                        },
                    ],
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
            };
        "#]],
    );
}

#[test]
fn attributes_are_taken_away() {
    let item = "impl Point {
        #[skip] pub fn a<T>(x: T) {}
        #[method(name = \"c\")] #[inline] fn b(#[default(1)] x: i64) {}
        #[operator(repr)] fn repr(&self) -> String { todo!() }
        #[type_attr(name = \"x.y\")] const K: i64 = 1;
        #[getter] fn g(&self) -> i64 { 1 }
        #[init] fn new() -> Self { todo!() }
    }";
    let bare = "impl Point {
        pub fn a<T>(x: T) {}
        #[inline] fn b(x: i64) {}
        fn repr(&self) -> String { todo!() }
        const K: i64 = 1;
        fn g(&self) -> i64 { 1 }
        fn new() -> Self { todo!() }
    }";
    let output = expand_object_methods(tokens(""), tokens(item), &environment()).to_string();
    assert!(output.starts_with(&tokens(bare).to_string()), "{output}");
    // With an error as well, because unknown attributes would be additional errors.
    let faulty = item.replace("-> Self", "");
    let output = expand_object_methods(tokens(""), tokens(&faulty), &environment()).to_string();
    assert!(output.starts_with(&tokens(&bare.replace("-> Self", "")).to_string()), "{output}");
}

#[test]
fn what_becomes_a_member() {
    let names = |item: &str| {
        let output = expand_object_methods(tokens(""), tokens(item), &environment()).to_string();
        assert!(!output.contains("compile_error"), "{output}");
        let (_, members) = output.split_once("members : & [").unwrap();
        let (members, _) = members.split_once("] , crate_name").unwrap();
        let parts = members.split("name : \"").skip(1);
        parts.map(|part| part.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(
        names("impl P { pub fn a(&self) {} fn b(&self) {} pub(crate) fn c(&self) {} pub fn d() {} }"),
        ["a", "d"]
    );
    assert_eq!(names("impl P { #[method] fn b(&self) {} #[skip] pub fn c(self) {} pub const X: i64 = 1; }"), ["b"]);
    assert_eq!(
        names("impl P { pub fn r#type(self: &Self) {} pub fn x<'a>(&'a self) -> &'a str { \"\" } }"),
        ["type", "x"]
    );
    assert_eq!(
        names("impl P { pub fn a(this: &ObjRef<Self>) {} pub fn b(this: ObjRef<P>) {} pub fn c(this: &P) {} }"),
        ["a", "b", "c"]
    );
    assert_eq!(names("impl P { #[operator(str)] fn s(&self) -> String { todo!() } }"), ["__str__"]);
    let of = |name: &str, rest: &str| {
        names(&format!("impl P {{ #[operator({name})] fn f(&self, other: {rest} {{ todo!() }} }}"))
    };
    // Two objects of the type, and a total order: hooks of the type, not methods.
    assert_eq!(of("eq", "&Self) -> bool"), none);
    assert_eq!(of("lt", "&Self) -> bool"), none);
    assert_eq!(of("compare", "&Self) -> Ordering"), none);
    assert_eq!(of("eq", "i64) -> bool"), ["__eq__"]);
    assert_eq!(of("eq", "&Self) -> Option<bool>"), ["__eq__"]);
    assert_eq!(of("le", "&Self) -> bool"), ["__le__"]);
    let all = ["__lt__", "__le__", "__gt__", "__ge__", "__eq__"];
    assert_eq!(of("compare", "&Self) -> Option<Ordering>"), all);
    assert_eq!(of("compare", "f64) -> Ordering"), all);
    assert_eq!(
        names(
            "impl P { #[operator(lt)] fn f(&self, o: &Self) -> bool { todo!() } #[operator(ge)] fn g(&self, o: &Self) -> bool { todo!() } }"
        ),
        ["__lt__", "__ge__"]
    );
    assert_eq!(names("impl P {}"), none);
    assert_eq!(names("impl P { #[method(name = \"__setstate__\")] fn f(&self, state: Any) {} }"), ["__setstate__"]);
    // Only the registration knows which of these exist.
    assert_eq!(
        names("impl P { #[cfg(unix)] pub fn a(&self) {} #[cfg(windows)] #[method(name = \"a\")] pub fn b(&self) {} }"),
        ["a", "a"]
    );
}

/// The role, the result and the rest of the only function of a block, without spaces.
fn special(name: &str, rest: &str) -> [String; 3] {
    let item = format!("impl P {{ #[method(name = \"{name}\")] fn f({rest} {{ todo!() }} }}");
    let output = expand_object_methods(tokens(""), tokens(&item), &environment()).to_string().replace(' ', "");
    assert!(!output.contains("compile_error"), "{output}");
    let between = |start: &str, end: &str| {
        let (_, rest) = output.split_once(start).unwrap();
        rest.split_once(end).unwrap().0.to_owned()
    };
    [between("FunctionRole::", ","), between("ret:<", "as__k::IntoReturn"), between("ResultPlace", "__k::entry_point")]
}

#[test]
fn special_methods() {
    for name in ["__add__", "__radd__", "__iadd__", "__or__", "__ror__", "__divmod__", "__rdivmod__", "__ipow__"] {
        let [role, result, body] = special(name, "&self, other: i64) -> f64");
        assert_eq!((role.as_str(), result.as_str()), ("Operator", "f64"), "{name}");
        assert!(body.contains("Err(error)=>returnplace.inapplicable(error)"), "{body}");
        assert_eq!(body.matches("inapplicable").count(), 1, "{body}");
    }
    for name in ["add", "__len__", "__iter__", "__invert__", "__index__", "__idivmod__", "__getitem__", "__contains__"]
    {
        let [role, _, body] = special(name, "&self, other: i64) -> f64");
        assert!(role == "Function" && !body.contains("inapplicable"), "{name}: {body}");
    }
    // A third operand, which may be omitted.
    let [_, _, body] = special("__pow__", "&self, other: i64, modulus: Option<i64>) -> f64");
    assert_eq!(body.matches("inapplicable").count(), 2, "{body}");
    // Neither a static method nor a lone object has operands.
    assert_eq!(special("__add__", "other: i64, more: i64) -> i64")[0], "Function");
    assert_eq!(special("__add__", "&self) -> i64")[0], "Function");
    for (rest, is_result) in [("&self, other: i64)", false), ("&self, other: i64) -> Result<()>", true)] {
        let [_, result, body] = special("__iadd__", rest);
        assert_eq!(result, "__k::ObjRef<P>", "{rest}");
        assert_eq!(body.contains("__arg1)?;"), is_result, "{body}");
    }
    assert_eq!(special("__iadd__", "&self, other: i64) -> Option<i64>")[1], "Option<i64>");
    for (rest, element) in [
        ("&self) -> Option<i64>", "i64"),
        ("&self) -> Result<Option<String>>", "String"),
        ("&self) -> Option<Self>", "__k::ObjRef<P>"),
        ("&self) -> Option<Option<i64>>", "Option<i64>"),
    ] {
        let [_, result, body] = special("__next__", rest);
        assert_eq!(result, element, "{rest}");
        assert!(body.contains("__k::end_of_iteration()"), "{body}");
    }
    let [_, result, body] = special("__next__", "&self) -> Result<i64>");
    assert!(result == "Result<i64>" && !body.contains("end_of_iteration"), "{body}");
    assert_eq!(special("next", "&self) -> Option<i64>")[1], "Option<i64>");
}

#[test]
fn blocks() {
    for (item, says) in [
        ("impl Clone for P { fn clone(&self) -> Self { todo!() } }", "impl of a trait"),
        ("impl<T> P<T> { pub fn f(&self) {} }", "an impl with parameters"),
        ("impl<'a> P { pub fn f(&self) {} }", "an impl with parameters"),
        ("impl (i64, i64) { pub fn f(&self) {} }", "#[derive(Object)]"),
        ("impl &P { pub fn f(&self) {} }", "#[derive(Object)]"),
        ("impl dyn T { pub fn f(&self) {} }", "#[derive(Object)]"),
        ("struct P;", "on the struct itself use #[derive(Object)]"),
        ("enum P {}", "on the enum itself use #[derive(Object)]"),
        ("fn f() {}", "use #[packed_func] on a free function"),
        ("mod m {}", "only on `impl YourType"),
    ] {
        check_mistakes("", item, &[says]);
    }
    check_mistakes("name = \"x\"", "impl P {}", &["unknown option `name`; the options are `crate = path`"]);
}

#[test]
fn receivers() {
    for (receiver, says) in [
        ("self", "`self` by value"),
        ("mut self", "`self` by value"),
        ("&mut self", "`&mut self`"),
        ("&'a mut self", "`&mut self`"),
        ("self: Self", "this kind of `self`"),
        ("self: Box<Self>", "this kind of `self`"),
        ("self: &mut Self", "this kind of `self`"),
        ("self: &ObjRef<Self>", "write `this: &ObjRef<Self>`"),
        ("self: ObjRef<Point>", "write `this: &ObjRef<Self>`"),
        ("this: i64", "a first parameter called `this`"),
        ("this: &ObjRef<Other>", "a first parameter called `this`"),
        ("this: Self", "a first parameter called `this`"),
        ("#[default(x)] this: &Self", "has no default"),
    ] {
        check_items(&format!("pub fn f<'a>({receiver}) {{}}"), &[says]);
    }
}

#[test]
fn signatures() {
    for (item, says) in [
        ("pub fn f<T>(&self, x: T) {}", "type parameters are not supported: a method has one signature"),
        ("pub fn f<const N: usize>(&self) {}", "const parameters"),
        ("pub async fn f(&self) {}", "async functions"),
        ("pub unsafe fn f(&self) {}", "unsafe functions"),
        ("pub extern \"C\" fn f(&self) {}", "extern functions"),
        ("pub fn f(&self, (a, b): (i64, i64)) {}", "patterns"),
        ("pub fn f(&self, _: i64) {}", "need a name"),
        ("pub fn f(&self, #[cfg(unix)] a: i64) {}", "conditional parameters"),
        ("pub fn f(&self, a: &mut i64) {}", "mutable references"),
        ("pub fn f(&self, a: f16) {}", "use `f32` or `f64`"),
        ("pub fn f(&self) -> impl Iterator<Item = i64> {}", "`impl Trait` is not supported"),
        ("#[target_feature(enable = \"avx2\")] pub fn f(&self) {}", "is_x86_feature_detected"),
        ("pub fn größe(&self) {}", "#[method(name = \"...\")] sets the name"),
        ("pub fn same_as(&self) {}", "every object or class has"),
        ("#[method(name = \"a.b\")] fn f(&self) {}", "every language can write"),
        ("#[method(name = \"__ffi_x\")] fn f(&self) {}", "belong to the ABI"),
        ("#[method(name = \"__eq__\")] fn f(&self) {}", "use #[operator(eq)]"),
        ("#[method(name = \"__del__\")] fn f(&self) {}", "implement `Drop`"),
        ("#[method(name = \"__setattr__\")] fn f(&self) {}", "Python would not see `__setattr__`"),
        ("#[method(name = \"__getattribute__\")] fn f(&self) {}", "use `__getattr__`"),
        ("#[method(name = \"__reduce__\")] fn f(&self) {}", "use `__getnewargs__`"),
        ("#[method(name = \"__reduce_ex__\")] fn f(&self) {}", "use `__getnewargs__`"),
        ("#[method(name = \"__getnewargs_ex__\")] fn f(&self) {}", "use `__getnewargs__`"),
        ("#[method(name = \"__getbuffer__\")] fn f(&self) {}", "use `__buffer__`"),
        ("#[method(name = \"__releasebuffer__\")] fn f(&self) {}", "remove the method"),
        ("#[method(name = \"__release_buffer__\")] fn f(&self) {}", "remove the method"),
        ("#[method(name = \"__richcmp__\")] fn f(&self) {}", "#[operator(compare)]"),
        ("#[method(name = \"__traverse__\")] fn f(&self) {}", "remove the method"),
        ("#[method(name = \"__clear__\")] fn f(&self) {}", "remove the method"),
        ("#[method(name = \"__concat__\")] fn f(&self) {}", "use `__add__`"),
        ("#[method(name = \"__repeat__\")] fn f(&self) {}", "use `__mul__`"),
        ("pub fn f(#[default(1)] a: i64, b: i64) {}", "parameter `b` follows one with a default"),
        ("pub fn f(#[default] a: i64) {}", "write the default in parentheses"),
        ("pub fn f(#[default()] a: i64) {}", "takes a Rust expression"),
        ("pub fn f(#[default(1)] #[default(2)] a: i64) {}", "given twice"),
    ] {
        check_items(item, &[says]);
    }
    let parameters = |count: usize| (0..count).map(|i| format!("a{i}: i64, ")).collect::<String>();
    check_items(&format!("pub fn f(&self, {}) {{}}", parameters(64)), &["more than 64 parameters"]);
}

#[test]
fn roles() {
    for (item, says) in [
        ("#[init] fn f(&self) -> Self {}", "has no `self`"),
        ("#[init] fn f() {}", "a constructor returns"),
        ("#[init] fn f() -> Option<Self> {}", "a constructor returns"),
        ("#[init] fn f() -> ObjRef<Other> {}", "a constructor returns"),
        ("#[init(x)] fn f() -> Self {}", "unknown option `x`; the options are `signature = \"...\"`"),
        ("#[init] fn f() -> Self {} #[init] fn g() -> Self {}", "a type has one constructor, and `f` is it"),
        ("#[getter] fn f() -> i64 {}", "belongs to an object"),
        ("#[getter] fn f(&self, a: i64) -> i64 {}", "takes `&self` alone"),
        ("#[getter] fn f(&self) {}", "a property has a value"),
        ("#[getter] #[method] fn f(&self) -> i64 {}", "one function has one of"),
        ("#[setter] fn set_f(a: i64) {}", "a setter takes `&self` and the value"),
        ("#[setter] fn set_f(&self) {}", "a setter takes `&self` and the value"),
        ("#[setter] fn set_f(&self, a: i64, b: i64) {}", "a setter takes `&self` and the value"),
        ("#[setter] fn set_f(&self, a: i64) -> i64 {}", "a setter returns nothing"),
        ("#[setter] fn set_f(&self, a: i64) -> Result<i64> {}", "a setter returns nothing"),
        ("#[setter] fn set_f(&self, #[default(1)] a: i64) {}", "a setter always gets its value"),
        ("#[setter] fn set_mro(&self, a: i64) {}", "Python would not see `mro`"),
        ("#[setter(name = \"a.b\")] fn f(&self, a: i64) {}", "every language can write"),
        ("#[setter(doc = \"\")] fn set_f(&self, a: i64) {}", "unknown option `doc`"),
        (
            "pub fn a(&self) {} #[setter] fn set_a(&self, a: i64) {}",
            "`a` is the method or constant `a`, and a setter writes a #[getter] or a field",
        ),
        (
            "#[constant] const A: i64 = 1; #[setter(name = \"A\")] fn set_a(&self, a: i64) {}",
            "`A` is the method or constant `A`",
        ),
        (
            "#[setter] fn set_a(&self, a: i64) {} #[setter(name = \"a\")] fn put(&self, a: i64) {}",
            "`set_a` is called `set_a` as well",
        ),
        (
            "pub fn set_a(&self) {} #[setter(name = \"a\")] fn put(&self, a: i64) {}",
            "`set_a` is called `set_a` as well",
        ),
        ("#[setter] const A: i64 = 1;", "this attribute is for functions"),
        ("#[method(detach = 1)] fn f(&self) {}", "`detach` takes"),
        ("#[getter(detach)] fn f(&self) -> i64 {}", "unknown option `detach`"),
        ("#[skip(x)] fn f() {}", "#[skip] takes no options"),
        ("#[method(name = x)] fn f() {}", "`name` takes a string literal"),
        ("#[method(doc = \"\")] fn f() {}", "unknown option `doc`"),
        ("#[method = \"x\"] fn f() {}", "with the options in parentheses"),
        ("#[type_attr] fn f() {}", "needs a name"),
        ("#[type_attr(name = \"\")] fn f() {}", "letters, digits"),
        ("#[type_attr(name = \"__ffi_init__\")] fn f() {}", "use #[init]"),
        ("#[type_attr(name = \"__ffi_new__\")] fn f() {}", "#[derive(Object)] registers it"),
        ("#[type_attr(name = \"a.b\")] const A: f16 = 1.0;", "use `f32` or `f64`"),
        ("#[getter] const A: i64 = 1;", "write #[constant] for a constant of the class"),
        ("pub fn a(&self) {} #[method(name = \"a\")] fn b(&self) {}", "`a` is called `a` as well"),
        ("#[getter] fn a(&self) -> i64 {} #[method(name = \"a\")] fn b(&self) {}", "`a` is called `a` as well"),
    ] {
        check_items(item, &[says]);
    }
}

/// A setter is a method behind the prefix, whose value has the messages of a field.
#[test]
fn setters() {
    for item in [
        "#[getter] fn x(&self) -> i64 { 0 } #[setter] fn set_x(&self, value: Option<i64>) {}",
        "#[setter] fn x(this: &ObjRef<Self>, value: &[u8]) -> Result<()> {}",
        "#[setter(name = \"x\")] fn put(&self, value: f64) -> () {}",
        "#[cfg(a)] pub fn x(&self) {} #[cfg(not(a))] #[setter] fn set_x(&self, value: i64) {}",
    ] {
        let output = expand_object_methods(tokens(""), tokens(&format!("impl Point {{ {item} }}")), &environment());
        let code = output.to_string();
        assert_eq!(mistakes(output), [""; 0], "{item}");
        for part in [
            "name : \"set_x\" , info",
            "is_static : false",
            "more_metadata : \",\\\"setter\\\":true\"",
            "role : __k :: FunctionRole :: Setter",
            "__k :: value_to_set ::",
            "call_packed :: < 2usize >",
        ] {
            assert!(code.contains(part), "{item}: no {part:?} in {code}");
        }
    }
}

/// The lock of the host is released as for functions.
#[test]
fn detached() {
    for (item, expect) in [
        ("#[method(detach)] fn f(&self) {}", "Some (true)"),
        ("#[method(class, detach = true)] fn f() -> Self {}", "Some (true)"),
        ("#[method(name = \"g\", detach = false)] fn f(x: Function) {}", "Some (false)"),
        ("#[init(detach)] fn f() -> Self {}", "Some (true)"),
        ("#[init(signature = \"(*, x)\", detach)] fn f(x: i64) -> Self {}", "Some (true)"),
        ("#[setter(detach)] fn set_f(&self, x: i64) {}", "Some (true)"),
        ("#[method] fn f(&self) {}", "None"),
        ("#[init] fn f() -> Self {}", "None"),
        ("#[getter] fn f(&self) -> i64 { 0 }", "None"),
    ] {
        let output = expand_object_methods(tokens(""), tokens(&format!("impl Point {{ {item} }}")), &environment());
        let code = output.to_string();
        assert_eq!(mistakes(output), [""; 0], "{item}");
        assert!(code.contains(&format!("detach : :: core :: option :: Option :: {expect} ,")), "{item}: {code}");
    }
}

#[test]
fn operators() {
    for (item, says) in [
        ("#[operator] fn f(&self) {}", "write #[operator(name)]"),
        ("#[operator(add)] fn f(&self) {}", "#[method(name = \"__add__\")]"),
        ("#[operator(repr)] fn f() -> String {}", "`fn repr(&self) -> String`"),
        ("#[operator(repr)] fn f(&self) -> i64 {}", "another result"),
        ("#[operator(repr)] fn f(&self) {}", "has a result"),
        ("#[operator(repr)] fn f(&self, a: Function, b: i64) -> String {}", "another signature"),
        ("#[operator(str)] fn f(&self, a: Function) -> String {}", "another signature"),
        ("#[operator(hash)] fn f(&self) -> u32 {}", "`fn hash(&self) -> u64`"),
        ("#[operator(eq)] fn f(&self) -> bool {}", "`fn eq(&self, other: &Self) -> bool`"),
        ("#[operator(eq)] fn f(&self, other: i64, equal: Function) -> bool {}", "another signature"),
        ("#[operator(eq)] fn f(other: i64, another: i64) -> bool {}", "another signature"),
        ("#[operator(eq)] fn f(&self, other: i64) -> Option<i64> {}", "another result"),
        ("#[operator(le)] fn f(&self) -> bool {}", "`fn le(&self, other: &Self) -> bool`"),
        ("#[operator(gt)] fn f(&self, other: &Self) {}", "has a result"),
        ("#[operator(ge)] fn f(&self, other: &Self) -> Ordering {}", "another result"),
        ("#[operator(ne)] fn f(&self, #[default(1)] other: i64) -> bool {}", "have no default"),
        ("#[operator(compare)] fn f(&self, other: f64) -> Option<bool> {}", "-> Ordering"),
        ("#[operator(hash)] fn f(&self) -> Option<u64> {}", "another result"),
        ("#[method(name = \"__le__\")] fn f(&self) {}", "use #[operator(le)]"),
        (
            "#[operator(le)] fn f(&self, o: &Self) -> bool {} #[operator(le)] fn g(&self, o: i64) -> bool {}",
            "`f` is the operator `__le__` as well; remove one of them",
        ),
        (
            "#[operator(eq)] fn f(&self, o: &Self) -> bool {} #[operator(eq)] fn g(&self, o: i64) -> bool {}",
            "type attribute `__ffi_eq__`",
        ),
        ("#[operator(lt)] fn f(&self, other: &Self) -> Ordering {}", "`fn lt(&self, other: &Self) -> bool`"),
        ("#[operator(lt)] fn f(&self, other: &Self, f: Function) -> bool {}", "another signature"),
        ("#[operator(compare)] fn f(&self, other: &Self) -> bool {}", "-> Ordering"),
        ("#[operator(hash)] fn f(&self, #[default(x)] f: Function) -> u64 {}", "have no default"),
        (
            "#[operator(lt)] fn f(&self, o: &Self) -> bool {} #[operator(compare)] fn g(&self, o: &Self) -> Ordering {}",
            "type attribute `__ffi_compare__`",
        ),
    ] {
        check_items(item, &[says]);
    }
    for item in [
        "#[operator(repr)] fn f(&self) -> &str {}",
        "#[operator(repr)] fn f(&self, print: Function) -> Result<String> {}",
        "#[operator(hash)] fn f(this: &ObjRef<Self>) -> Result<i64, Error> {}",
        "#[operator(eq)] fn f(&self, other: &Point, equal: Function) -> kernpack::Result<bool> {}",
        "#[operator(compare)] fn f(&self, other: &Self) -> std::cmp::Ordering {}",
        "#[operator(eq)] fn f(&self, other: i64) -> bool {}",
        "#[operator(eq)] fn f(&self, other: &ObjRef<Other>) -> bool {}",
        "#[operator(lt)] fn f(&self, other: Any) -> Result<Option<bool>> {}",
        "#[operator(compare)] fn f(&self, other: f64) -> Result<Option<Ordering>> {}",
        "#[operator(ne)] fn f(this: &ObjRef<Self>, other: Option<i64>) -> bool {}",
    ] {
        let output = expand_object_methods(tokens(""), tokens(&format!("impl Point {{ {item} }}")), &environment());
        assert_eq!(mistakes(output), [""; 0], "{item}");
    }
}

#[test]
fn all_mistakes_at_once() {
    check_items(
        "pub fn a(&mut self, c: f16) {} #[init] fn b(_: i64) {} pub async fn c<T>() {}",
        &["`&mut self`", "use `f32` or `f64`", "need a name", "async", "type parameters"],
    );
}

#[test]
fn crate_name_is_needed() {
    let nothing = kernpack_macros_backend::Environment::default();
    let found = mistakes(expand_object_methods(tokens(""), tokens("impl P {}"), &nothing));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("CARGO_CRATE_NAME"));
}

#[test]
fn attributes_of_other_frameworks() {
    for (attribute, says) in [
        ("new", "write #[init]"),
        ("staticmethod", "a function without `self` is a static method"),
        ("property", "write #[getter]"),
        ("methods(name = \"x\")", "write #[method]"),
        ("operater(eq)", "write #[operator]"),
        ("geter", "write #[getter]"),
        ("packed_func", "each `pub fn` of the impl is a method"),
    ] {
        check_items(&format!("#[{attribute}] pub fn f() {{}}"), &[says]);
    }
    for attribute in ["inline", "must_use", "instrument(skip_all)", "my::new", "allow(unused)", "test", "init2x"] {
        let item = format!("impl Point {{ #[{attribute}] pub fn f() {{}} }}");
        let found = mistakes(expand_object_methods(tokens(""), tokens(&item), &environment()));
        assert!(found.is_empty(), "{attribute}: {found:?}");
    }
}
