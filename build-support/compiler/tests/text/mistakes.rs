//! The errors for text that is not a program.

use kernpack_compiler::text;

#[track_caller]
fn fails(source: &str, expected: &str) {
    let error = text::parse(source).expect_err("an error is expected").to_string();
    assert_eq!(error, expected);
}

#[test]
fn mistakes_name_the_place_and_what_was_expected() {
    let in_body = |line: &str| format!("func f(a: mut f32[n], n_1: i32) {{\n  {line}\n}}\n");
    for (line, what, column) in [
        ("a[0] = 1.0 +", "expected an expression, got the end of the line", 15),
        ("a[0] = b", "unknown name `b`", 10),
        ("a[0] = n", "the element is f32, got a value of i64", 10),
        ("a[0] = a", "buffer `a` in place of a value", 10),
        ("a[0.5] = 1.0", "an index of f32", 8),
        ("a[n_1 + n] = 1.0", "an operation of i32 and i64", 9),
        ("for i in 1..n { }", "a range with `..` begins at 0", 13),
        ("for i in 0,n { }", "expected `..`, got `,`", 13),
        ("let x = foo(1)", "the type of the value of `foo` is not known", 11),
        ("a[0] = exp(1.0", "expected `,` or `)`, got `}`", 1),
        ("a[0] = 1.0 2.0", "expected the end of the statement, got `2.0`", 14),
        ("alloc t: f33x[4]", "expected a type like f32, i64x4, bool or ptr, got `f33x`", 12),
        ("a[0 : 1] = 1.0", "1 lanes: a vector has 2 to 65535", 9),
        ("if n { }", "a condition is bool, got a value of i64", 6),
        ("a[0] = \"text", "no closing \" on the line", 10),
        ("a[0] = 1.0 ? 2", "unexpected character `?`", 14),
        ("a[0] = (1.0 where true)", "a mask belongs to a load: `(a[i : 8] where m)`", 15),
        ("let z = 300u9x", "unknown type `u9x` behind a number", 11),
        ("assert n < 3 < 4, \"V\"", "comparisons do not follow each other: write parentheses", 16),
    ] {
        let source = in_body(line);
        let error = text::parse(&source).expect_err(line);
        assert_eq!(error.what(), what, "{line}");
        let at = if what.ends_with("got `}`") { "3:1".to_owned() } else { format!("2:{column}") };
        assert!(error.to_string().contains(&format!("--> {at}\n")), "{line}: {error}");
    }
}

#[test]
fn a_message_shows_the_line() {
    fails(
        "func f(a: f32[4]) {\n  a[0] = 1.0 + c[1]\n}\n",
        "SyntaxError: unknown name `c`\n  --> 2:16\n   =   a[0] = 1.0 + c[1]\n   =                ^",
    );
    fails(
        "fun f() { }",
        "SyntaxError: expected `func`, a declaration (`var`, `buffer`, `tensor`) or `#[key = value]`, got `fun`\n  --> 1:1\n   = fun f() { }\n   = ^",
    );
    fails(
        "func f() {\n  for i in 0..4 {\n    let j = i\n  }\n  return j\n}",
        "SyntaxError: unknown name `j`\n  --> 5:10\n   =   return j\n   =          ^\n   = it was defined in a body that has ended",
    );
}
