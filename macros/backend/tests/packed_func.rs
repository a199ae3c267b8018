//! Tests the code that `#[packed_func]` generates and the errors that it reports.

mod show;

use expect_test::{Expect, expect};
use kernpack_macros_backend::expand_packed_func;
use show::{environment, mistakes, pretty, tokens};

#[track_caller]
fn check(options: &str, item: &str, expect: Expect) {
    expect.assert_eq(&pretty(expand_packed_func(tokens(options), tokens(item), &environment())));
}

/// Checks the messages, one per line, and that the item is still there.
#[track_caller]
fn check_mistakes(options: &str, item: &str, expect: &[&str]) {
    let output = expand_packed_func(tokens(options), tokens(item), &environment());
    assert!(output.to_string().starts_with(&tokens(item).to_string()), "the item is not re-emitted: {output}");
    assert!(!output.to_string().contains("__kernpack"), "faulty items get nothing but errors: {output}");
    let found = mistakes(output);
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.contains(expect), "expected {expect:?}, got {found:?}");
        assert!(!found.ends_with('.'), "full stop: {found:?}");
        assert!(!found.starts_with(char::is_uppercase), "not lower case: {found:?}");
    }
}

#[test]
fn whole_expansion() {
    check(
        "",
        "/// Adds.\n#[cfg(unix)] pub fn add(a: i64, mut b: &str) -> Result<i64> { a }",
        expect![[r#"
            /// Adds.
            #[cfg(unix)]
            pub fn add(a: i64, mut b: &str) -> Result<i64> {
                a
            }
            #[cfg(unix)]
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! packed_function_named_add__give_one_of_them_another_name {
                () => {};
            }
            #[cfg(unix)]
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                #[__k::linkme::distributed_slice(__k::KERNPACK_FUNCTIONS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_FUNCTION: __k::FunctionInfo = __k::FunctionInfo {
                    name: "add",
                    global_name: ::core::option::Option::Some("imagekit.add"),
                    doc: "Adds.",
                    params: &[
                        __k::ParamInfo {
                            name: "a",
                            ty: __k::SchemaOf::<i64>::TYPE,
                            access: __k::SchemaOf::<i64>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "b",
                            ty: __k::SchemaOf::<&str>::TYPE,
                            access: __k::SchemaOf::<&str>::ACCESS,
                        },
                    ],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <Result<i64> as __k::IntoReturn>::TYPE,
                    call: __kernpack_call,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body<'a>(
                    args: &'a [::kernpack::AnyView<'a>; 2usize],
                    place: __k::ResultPlace,
                ) -> ::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe { __k::arg::<i64>(&__KERNPACK_FUNCTION, args, 0usize) }?;
                    let __arg1 = unsafe { __k::arg::<&str>(&__KERNPACK_FUNCTION, args, 1usize) }?;
                    <Result<i64> as __k::IntoReturn>::into_return_at(add(__arg0, __arg1), place)
                }
                __k::packed_function!(
                    __KERNPACK_FUNCTION, __kernpack_call = __kernpack_body(2usize), "__tvm_ffi_add",
                    "__tvm_ffi__metadata_add", "__tvm_ffi__doc_add"
                );
            };
        "#]],
    );
}

#[test]
fn defaults() {
    let item = "fn f(x: f64, #[default(0.5)] gain: f64, mode: Option<Mode>) {}";
    let output = pretty(expand_packed_func(tokens(""), tokens(item), &environment()));
    for expected in [
        "fn f(x: f64, gain: f64, mode: Option<Mode>) {}",
        "defaults: &[\"0.5\", \"null\"],",
        "let __arg1: f64 = if given & (1u64 << 1usize) != 0 {",
        "let __arg2: Option<Mode> = if given & (1u64 << 2usize) != 0 {",
        "__kernpack_body(3usize, 6u64)",
    ] {
        assert!(output.contains(expected), "{expected} in {output}");
    }
    for (item, says) in [
        ("fn f(#[default(1)] a: i64, b: i64) {}", "parameter `b` follows one with a default"),
        ("fn f(a: i64, #[default(2)] b: i64, c: &str, d: Option<i64>) {}", "parameter `c` follows one with a default"),
        ("fn f(#[default] a: i64) {}", "write the default in parentheses"),
        ("fn f(#[default(1)] #[default(2)] a: i64) {}", "given twice"),
        ("fn f(#[default(x)] a: TensorView<f32>) {}", "a `TensorView` has no default"),
    ] {
        let output = expand_packed_func(tokens(""), tokens(item), &environment());
        let found = mistakes(output);
        assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
    }
    let output = expand_packed_func(tokens("parallel"), tokens("fn f(#[default(0.0)] x: &mut f32) {}"), &environment());
    assert!(mistakes(output)[0].starts_with("only a parameter that each call gets by value has a default"));
}

#[test]
fn declared_signatures() {
    let item = "fn f(data: &[u8], rest: Vec<i64>, key: Option<String>, scale: f64, #[default(MODE)] mode: i64, \
                options: HashMap<String, Any>) {}";
    let options = "signature = \"(data, /, *rest, key=None, scale, mode=..., **options)\"";
    let output = pretty(expand_packed_func(tokens(options), tokens(item), &environment()));
    for expected in [
        "defaults: &[\"[]\", \"null\", \"\", \"{\\\"rust\\\":\\\"MODE\\\"}\", \"{}\"],",
        "\\\"arg_defaults\\\":[[],null,{\\\"required\\\":true},{\\\"rust\\\":\\\"MODE\\\"},{}]",
        "\\\"arg_kinds\\\":[\\\"positional_only\\\",\\\"var_positional\\\",\\\"keyword_only\\\",",
        "__k::ParamKind::PositionalOnly,",
        "__k::ParamKind::VarKeyword,",
        "__kernpack_body(6usize, 54u64)",
    ] {
        assert!(output.contains(expected), "{expected} in {output}");
    }
    for (signature, default) in
        [("(a, b=None)", "Option::None"), ("(a, *, b=-3)", "Option::Some(-3)"), ("(a, b=7, /)", "Option::Some(7)")]
    {
        let options = format!("signature = {signature:?}");
        let output =
            pretty(expand_packed_func(tokens(&options), tokens("fn f(a: i64, b: Option<i64>) {}"), &environment()));
        assert!(output.contains(default), "{signature}: {output}");
    }
    for (ty, signature, json) in [
        ("f64", "(a=2)", "2.0"),
        ("Option<f64>", "(a=2)", "2.0"),
        ("f32", "(a=-1)", "-1.0"),
        ("&str", "(a=\"x\")", "\\\"x\\\""),
        ("String", "(a='x')", "\\\"x\\\""),
        ("String", "(a='\"\\'')", "\\\"\\\\\\\"'\\\""),
        ("Option<Str>", "(a=\"x\")", "\\\"x\\\""),
        ("Vec<i64>", "(a=[])", "[]"),
        ("bool", "(a=True)", "true"),
        ("Any", "(a=None)", "null"),
        ("kernpack::Any", "(a=-1)", "-1"),
        ("Any", "(a=\"x\")", "\\\"x\\\""),
    ] {
        let options = format!("signature = {signature:?}");
        let output =
            pretty(expand_packed_func(tokens(&options), tokens(&format!("fn f(a: {ty}) {{}}")), &environment()));
        let expected = format!("defaults: &[\"{json}\"],");
        assert!(output.contains(&expected), "{expected} in {output}");
    }
}

#[test]
fn declared_signatures_with_mistakes() {
    const ITEM: &str = "fn f(a: i64, b: Vec<i64>) {}";
    for (signature, says) in [
        ("a, b", "a signature is in parentheses"),
        ("(a, b) -> int", "ends with its parenthesis"),
        ("(a, b=)", "expected a default after `=`"),
        ("(a: int, b)", "expected `,` after a parameter"),
        ("(a, b='xy)", "is written as in Python"),
        ("(/, a, b)", "`/` follows the parameters"),
        ("(a, /, b, /)", "`/` occurs once"),
        ("(a, *, b, /)", "`/` occurs once"),
        ("(a, b, *)", "`*` is followed by a parameter"),
        ("(a, *, *b)", "`*` occurs once"),
        ("(*, **b)", "`*` is followed by a parameter"),
        ("(**a, b)", "is the last parameter"),
        ("(a, *b=[])", "it has no default"),
        ("(a)", "the signature lacks the parameter `b`"),
        ("(a, b, c)", "the signature has `c`, which is not a parameter"),
        ("(b, a)", "the signature has `b` where the function has `a`"),
        ("(self, a, b)", "begins after `self`"),
        ("(a, class)", "`class` is a keyword of Python"),
        ("(*a, b)", "`*a` is a `Vec<T>`"),
        ("(a, **b)", "`**b` is a `HashMap<String, T>`"),
        ("(a=1, b)", "`b` without a default follows one with a default"),
        ("(a=x, b)", "the default of `a` is not None"),
        ("(a=1j, b=[])", "the default of `a` is not None"),
        ("(a=..., b=[])", "`a=...` needs #[default(...)]"),
    ] {
        check_mistakes(&format!("signature = {signature:?}"), ITEM, &[says]);
    }
    for (signature, says) in [
        ("(a)", "`a` has #[default(...)]; write `a=...`"),
        ("(a=2)", "`a` has another #[default(...)]"),
        ("(*a)", "remove #[default(...)]"),
    ] {
        let item = "fn f(#[default(Vec::new())] a: Vec<i64>) {}";
        let output = expand_packed_func(tokens(&format!("signature = {signature:?}")), tokens(item), &environment());
        let found = mistakes(output);
        assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
    }
    let parallel = "parallel, signature = \"(x, *rest)\"";
    check_mistakes(parallel, "fn f(x: &mut f32, rest: Vec<i64>) {}", &["a parallel function does not take `*args`"]);
}

#[test]
fn no_parameters_no_result_no_doc() {
    check(
        "global = false, crate = my::kernpack",
        "fn r#type() {}",
        expect![[r#"
            fn r#type() {}
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! packed_function_named_type__give_one_of_them_another_name {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use my::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                #[__k::linkme::distributed_slice(__k::KERNPACK_FUNCTIONS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_FUNCTION: __k::FunctionInfo = __k::FunctionInfo {
                    name: "type",
                    global_name: ::core::option::Option::None,
                    doc: "",
                    params: &[],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <() as __k::IntoReturn>::TYPE,
                    call: __kernpack_call,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body<'a>(
                    args: &'a [my::kernpack::AnyView<'a>; 0usize],
                    place: __k::ResultPlace,
                ) -> my::kernpack::Result<__k::TVMFFIAny> {
                    <() as __k::IntoReturn>::into_return_at(r#type(), place)
                }
                __k::packed_function!(
                    __KERNPACK_FUNCTION, __kernpack_call = __kernpack_body(0usize), "__tvm_ffi_type",
                    "__tvm_ffi__metadata_type"
                );
            };
        "#]],
    );
}

#[test]
fn lifetimes_and_written_views() {
    check(
        "name = \"imagekit.blend\"",
        "fn blend<'a>(a: TensorView<'a, u8>, args: TensorViewMut<'_, u8>, b: &'a [u8]) -> &'static str { \"\" }",
        expect![[r#"
            fn blend<'a>(
                a: TensorView<'a, u8>,
                args: TensorViewMut<'_, u8>,
                b: &'a [u8],
            ) -> &'static str {
                ""
            }
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! packed_function_with_path_imagekit_dot_blend__give_one_of_them_another_name {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                #[__k::linkme::distributed_slice(__k::KERNPACK_FUNCTIONS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_FUNCTION: __k::FunctionInfo = __k::FunctionInfo {
                    name: "imagekit.blend",
                    global_name: ::core::option::Option::Some("imagekit.blend"),
                    doc: "",
                    params: &[
                        __k::ParamInfo {
                            name: "a",
                            ty: __k::SchemaOf::<TensorView<'_, u8>>::TYPE,
                            access: __k::SchemaOf::<TensorView<'_, u8>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "args",
                            ty: __k::SchemaOf::<TensorViewMut<'_, u8>>::TYPE,
                            access: __k::SchemaOf::<TensorViewMut<'_, u8>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "b",
                            ty: __k::SchemaOf::<&'_ [u8]>::TYPE,
                            access: __k::SchemaOf::<&'_ [u8]>::ACCESS,
                        },
                    ],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <&'static str as __k::IntoReturn>::TYPE,
                    call: __kernpack_call,
                    detach: ::core::option::Option::None,
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body<'a>(
                    args: &'a [::kernpack::AnyView<'a>; 3usize],
                    place: __k::ResultPlace,
                ) -> ::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe {
                        __k::arg::<TensorView<'_, u8>>(&__KERNPACK_FUNCTION, args, 0usize)
                    }?;
                    let __arg1 = unsafe {
                        __k::arg::<TensorViewMut<'_, u8>>(&__KERNPACK_FUNCTION, args, 1usize)
                    }?;
                    let __arg2 = unsafe {
                        __k::arg::<&'_ [u8]>(&__KERNPACK_FUNCTION, args, 2usize)
                    }?;
                    <&'static str as __k::IntoReturn>::into_return_at(
                        blend(__arg0, __arg1, __arg2),
                        place,
                    )
                }
                __k::packed_function!(
                    __KERNPACK_FUNCTION, __kernpack_call = __kernpack_body(3usize),
                    "__tvm_ffi_imagekit.blend", "__tvm_ffi__metadata_imagekit.blend"
                );
            };
        "#]],
    );
}

#[test]
fn signatures() {
    for (item, says) in [
        ("fn f<T>(x: T) {}", "type parameters"),
        ("fn f<const N: usize>() {}", "const parameters"),
        ("async fn f() {}", "async functions"),
        ("unsafe fn f() {}", "unsafe functions"),
        ("extern fn f() {}", "extern functions"),
        ("extern \"C\" fn f() {}", "extern functions"),
        ("fn f(&self) {}", "`self` is not supported"),
        ("fn f(mut self: Box<Self>) {}", "`self` is not supported"),
        ("fn f((a, b): (i64, i64)) {}", "patterns"),
        ("fn f(ref a: i64) {}", "patterns"),
        ("fn f(a @ 1: i64) {}", "patterns"),
        ("fn f(&a: &i64) {}", "patterns"),
        ("fn f(_: i64) {}", "need a name"),
        ("fn f(#[cfg(unix)] a: i64) {}", "conditional parameters"),
        ("fn f();", "without a body"),
        ("pub fn f(a: i64) -> i64;", "without a body"),
        ("#[target_feature(enable = \"avx2\")] fn f() {}", "is_x86_feature_detected"),
        ("#[kernpack::packed_func] fn f() {}", "second #[packed_func]"),
        ("struct S;", "#[derive(Object)]"),
        ("impl S { fn f() {} }", "use #[object_methods]"),
        ("enum E {}", "free functions"),
        ("mod m {}", "each function"),
        ("trait T {}", "calls the method"),
        ("use a::b;", "free functions"),
        ("let x = 1;", "free functions"),
        ("fn _metadata_x() {}", "metadata of functions"),
        ("fn größe() {}", "`name = \"...\"` sets the exported name"),
    ] {
        check_mistakes("", item, &[says]);
    }
}

#[test]
fn types() {
    for (ty, says) in [
        ("f16", "use `f32` or `f64`"),
        ("f128", "64 bits"),
        ("Vec<Option<(i64, f16)>>", "use `f32` or `f64`"),
        ("[f16; 4]", "use `f32` or `f64`"),
        ("&[f128]", "use `f32` or `f64`"),
        ("&mut i64", "TensorViewMut"),
        ("Option<&mut [u8]>", "TensorViewMut"),
        ("&'static str", "as long as the call"),
        ("TensorView<'static, u8>", "as long as the call"),
        ("fn(i64) -> i64", "function pointers"),
        ("Option<unsafe extern \"C\" fn()>", "function pointers"),
        ("Box<dyn Fn(i64) -> i64>", "boxed closures"),
        ("&dyn FnMut(i64)", "boxed closures"),
        ("Box<dyn std::fmt::Display + Send>", "trait objects"),
        ("impl Fn(i64) -> i64", "`impl Trait`"),
        ("&impl Clone", "`impl Trait`"),
        ("Vec<&str>", "elements that borrow are not supported in `Vec`; use `String`"),
        ("Vec<Option<&str>>", "use `String`"),
        ("Vec<&[u8]>", "use `Bytes` for bytes"),
        ("Vec<&std::path::Path>", "in `Vec`; use `PathBuf`"),
        ("HashSet<&OsStr>", "in `HashSet`; use `OsString`"),
        ("Vec<Option<Cow<'_, str>>>", "in `Vec`; use an owned type"),
        ("Cow<'static, str>", "as long as the call"),
        ("Vec<kernpack::TensorView<'_, f32>>", "use `Tensor`, and `tensor.view::<f32>()?`"),
        ("Option<HashMap<String, TensorViewMut<f32>>>", "in `HashMap`; take each tensor"),
        ("(&str, i64)", "in a tuple; use `String`"),
        ("[AnyView; 2]", "in an array; use `Any`"),
    ] {
        check_mistakes("", &format!("fn f(x: {ty}) {{}}"), &[says]);
    }
    for (ty, says) in [
        ("!", "never return"),
        ("Result<f16, Error>", "use `f32` or `f64`"),
        ("std::result::Result<f128>", "64 bits"),
        ("impl Iterator", "Function::from_fn"),
        ("&mut i64", "return the new value"),
        ("Vec<fn()>", "function pointers"),
    ] {
        check_mistakes("", &format!("fn f() -> {ty} {{ todo!() }}"), &[says]);
    }
}

#[test]
fn accepted() {
    for item in [
        "fn f(a: usize, b: isize, c: &str, d: &[u8], e: &Tensor, g: Any, h: *mut c_void) {}",
        "fn f(g: TypedFunction<(i64, fn()), i64>) {}",
        "fn f(a: char, b: &Path, c: Cow<'_, str>, d: HashSet<i128>, e: NonZero<u8>, g: [u128; 2]) -> char { 'a' }",
        "fn f() -> Vec<Cow<'static, str>> { todo!() }",
        "fn f() -> Result<i64, Box<dyn std::error::Error>> { Ok(1) }",
        "fn f(a: Option<&str>, b: Vec<String>) -> Vec<&'static str> { todo!() }",
        "fn f() -> Result<(), &'static str> { Ok(()) }",
        "fn f() -> &'static str { \"\" }",
        "const fn f() -> i64 { 1 }",
        "fn f<'a, 'b: 'a>(a: &'a str, b: &'b str) -> &'a str where i64: Copy { a }",
        "fn f(r#in: i64, my::Type { .. }: my::Type) {}",
    ] {
        let found = mistakes(expand_packed_func(tokens(""), tokens(item), &environment()));
        let patterns = item.contains("{ .. }") as usize;
        assert_eq!(found.len(), patterns, "{item}: {found:#?}");
    }
}

#[test]
fn associated_functions() {
    let environment = kernpack_macros_backend::Environment { in_impl: true, ..environment() };
    let output = expand_packed_func(tokens(""), tokens("pub fn zero() -> i64 { 0 }"), &environment);
    assert!(output.to_string().starts_with("pub fn zero"), "{output}");
    let found = mistakes(output);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("put #[object_methods] on the impl"), "{}", found[0]);
}

#[test]
fn parameter_count() {
    let parameters = |count: usize| (0..count).map(|i| format!("a{i}: i64, ")).collect::<String>();
    check_mistakes("", &format!("fn f({}) {{}}", parameters(65)), &["more than 64 parameters"]);
    let code = expand_packed_func(tokens(""), tokens(&format!("fn f({}) {{}}", parameters(64))), &environment());
    assert!(code.to_string().contains("__kernpack_body (64usize)"));
}

#[test]
fn options() {
    for (options, says) in [
        ("nam = \"x\"", "unknown option `nam`"),
        ("name = \"x\", name = \"y\"", "`name` is given twice"),
        ("name", "`name` has no value"),
        ("name =", "`name` has no value"),
        ("name = 3", "`name` takes a string literal"),
        ("name = a.b", "`name` takes a string literal"),
        ("name(\"x\")", "expected `=` after `name`"),
        ("global = 0", "`global` takes `true` or `false`"),
        ("crate = \"x\"", "`crate` takes a path"),
        ("\"x\"", "expected an option"),
        ("::", "expected an option"),
        ("name = \"\"", "an empty name"),
        ("name = \"a b\"", "white space"),
        ("name = \"a\\0b\"", "NUL"),
        ("name = \"_library_ctx\"", "`_library_`"),
    ] {
        check_mistakes(options, "fn f() {}", &[says]);
    }
}

#[test]
fn all_mistakes_at_once() {
    check_mistakes(
        "nam = \"x\", global = 1",
        "async unsafe fn f<T>(_: &mut i64, c: f16) -> fn() { todo!() }",
        &[
            "unknown option",
            "`global` takes",
            "async",
            "unsafe",
            "type parameters",
            "mutable references",
            "need a name",
            "use `f32` or `f64`",
            "function pointers",
        ],
    );
}

#[test]
fn crate_name_is_needed() {
    let nothing = kernpack_macros_backend::Environment::default();
    let found = mistakes(expand_packed_func(tokens(""), tokens("fn f() {}"), &nothing));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("CARGO_CRATE_NAME"));
}

#[test]
fn parallel_functions() {
    check(
        "parallel, grain = 64, global = false",
        "/// Adds a multiple.\nfn saxpy(x: &[f32], y: &mut f32, a: f32, table: &TensorView<f32>) -> Result<()> { Ok(()) }",
        expect![[r#"
            /// Adds a multiple.
            fn saxpy(x: &[f32], y: &mut f32, a: f32, table: &TensorView<f32>) -> Result<()> {
                Ok(())
            }
            #[doc(hidden)]
            #[macro_export]
            #[allow(non_local_definitions)]
            macro_rules! packed_function_named_saxpy__give_one_of_them_another_name {
                () => {};
            }
            #[allow(deprecated)]
            const _: () = {
                use ::kernpack::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::NoSchema as _;
                #[__k::linkme::distributed_slice(__k::KERNPACK_FUNCTIONS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_FUNCTION: __k::FunctionInfo = __k::FunctionInfo {
                    name: "saxpy",
                    global_name: ::core::option::Option::None,
                    doc: ::core::concat!(
                        "Adds a multiple.",
                        "\n\nRuns in parallel over rows of `x` (f32), elements of `y` (f32); writes to `y`."
                    ),
                    params: &[
                        __k::ParamInfo {
                            name: "x",
                            ty: __k::SchemaOf::<__k::TensorView<'_, f32>>::TYPE,
                            access: __k::SchemaOf::<__k::TensorView<'_, f32>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "y",
                            ty: __k::SchemaOf::<__k::TensorViewMut<'_, f32>>::TYPE,
                            access: __k::SchemaOf::<__k::TensorViewMut<'_, f32>>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "a",
                            ty: __k::SchemaOf::<f32>::TYPE,
                            access: __k::SchemaOf::<f32>::ACCESS,
                        },
                        __k::ParamInfo {
                            name: "table",
                            ty: __k::SchemaOf::<TensorView<f32>>::TYPE,
                            access: __k::SchemaOf::<TensorView<f32>>::ACCESS,
                        },
                    ],
                    defaults: &[],
                    more_metadata: "",
                    kinds: ::core::option::Option::None,
                    role: __k::FunctionRole::Function,
                    ret: <() as __k::IntoReturn>::TYPE,
                    call: __kernpack_call,
                    detach: ::core::option::Option::Some(true),
                    crate_name: "imagekit",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
                #[inline]
                fn __kernpack_body<'a>(
                    args: &'a [::kernpack::AnyView<'a>; 4usize],
                    place: __k::ResultPlace,
                ) -> ::kernpack::Result<__k::TVMFFIAny> {
                    let __arg0 = unsafe {
                        __k::read_tensor::<f32>(&__KERNPACK_FUNCTION, args, 0usize)
                    }?;
                    let __arg1 = unsafe {
                        __k::written_tensor::<f32>(&__KERNPACK_FUNCTION, args, 1usize)
                    }?;
                    let __arg2 = unsafe { __k::arg::<f32>(&__KERNPACK_FUNCTION, args, 2usize) }?;
                    let __arg3 = unsafe {
                        __k::arg::<TensorView<f32>>(&__KERNPACK_FUNCTION, args, 3usize)
                    }?;
                    let mut __arg1 = __arg1;
                    let __arg2 = __k::for_each_call(__arg2);
                    let __arg3 = &__arg3;
                    let __looped = __k::parallel_for_each::<
                        _,
                        Result<()>,
                    >(
                        &__KERNPACK_FUNCTION,
                        &[0usize, 1usize],
                        64,
                        (
                            __k::ReadTensor::rows(&__arg0),
                            __k::WrittenTensor::elements_mut(&mut __arg1),
                        ),
                        move |(__item0, __item1)| saxpy(__item0, __item1, __arg2, __arg3),
                    );
                    __k::IntoReturn::into_return_at(__looped, place)
                }
                __k::packed_function!(
                    __KERNPACK_FUNCTION, __kernpack_call = __kernpack_body(4usize),
                    "__tvm_ffi_saxpy", "__tvm_ffi__metadata_saxpy", "__tvm_ffi__doc_saxpy"
                );
            };
        "#]],
    );
    for (item, doc) in [
        ("fn f(x: &f32) -> f32 { *x }", "Runs in parallel over elements of `x` (f32); returns a new tensor."),
        (
            "fn f(x: &f32) -> Result<f32> { Ok(*x) }",
            "Runs in parallel over elements of `x` (f32); returns a new tensor.",
        ),
        ("fn f<'a>(x: &'a mut [u8]) {}", "Runs in parallel over rows of `x` (u8); writes to `x`."),
        (
            "fn f(x: &mut u8, y: &mut [i64]) -> () {}",
            "Runs in parallel over elements of `x` (u8), rows of `y` (i64); writes to `x`, `y`.",
        ),
        ("/// Own.\nfn f(x: &f32) -> Result<(), E> { Ok(()) }", "Runs in parallel over elements of `x` (f32)."),
    ] {
        let code = expand_packed_func(tokens("parallel"), tokens(item), &environment());
        assert!(code.to_string().contains(&format!("{doc}\"")), "{item}: {code}");
    }
}

#[test]
fn parallel_mistakes() {
    for (item, says) in [
        ("fn f(a: i64) {}", "this one takes none"),
        ("fn f(text: &str) -> f32 { 0.0 }", "this one takes none"),
        ("fn f(x: &f32) {}", "no result"),
        ("fn f(x: &f32, y: &mut TensorViewMut<f32>) {}", "calls at the same time share everything else"),
        ("fn f(x: &f32, y: &mut Tensor) {}", "calls at the same time share everything else"),
        ("fn f(x: &mut f32, c: f16) {}", "use `f32` or `f64`"),
        ("fn f(x: &mut f32, c: fn()) {}", "function pointers"),
        ("fn f(x: &mut f32, s: &'static str) {}", "as long as the call"),
    ] {
        let expected: &[&str] = match says {
            "calls at the same time share everything else" => &[says, "no result"],
            _ => &[says],
        };
        check_mistakes("parallel", item, expected);
    }
    let nine = (0..9).map(|i| format!("a{i}: &mut i64, ")).collect::<String>();
    check_mistakes("parallel", &format!("fn f({nine}) {{}}"), &["more than 8 tensors"]);
    for (options, says) in [
        ("parallel, grain = 0", "a grain is 1 or more"),
        ("parallel, grain = -1", "a grain is 1 or more"),
        ("parallel = true", "`parallel` takes no value"),
    ] {
        check_mistakes(options, "fn f(x: &mut i64) {}", &[says]);
    }
    check_mistakes("grain = 4", "fn f(x: i64) {}", &["write `parallel, grain = ...`"]);
}
