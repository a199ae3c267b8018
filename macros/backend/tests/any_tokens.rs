//! No input makes a macro panic, and every output can be parsed by the compiler's front end again.
//!
//! Inputs are random sequences from a vocabulary: fragments of real items, so that many are almost
//! valid. The seed is fixed; `KERNPACK_FUZZ_CASES` sets the number of cases.

mod show;

use std::fmt::Write;

use kernpack_macros_backend::{expand_library, expand_object, expand_packed_func};
use proc_macro2::TokenStream;
use show::{environment, mistakes};

/// Whole fragments and single tokens. Brackets only occur in pairs, because the compiler passes
/// nothing else.
const VOCABULARY: [&str; 124] = [
    "#[field(default = a::<B, C>(), writable)]",
    "#[field(skip, default_factory = || 3)]",
    "#[field]",
    "#[field(",
    "structural = \"dag\"",
    "structural = \"def\"",
    "child_slots = 4",
    "final",
    "init = false",
    "skip",
    "writable",
    "#[object(key = \"a.B\", final)] #[repr(C)] struct S { #[field(init = false)] pub a: Self }",
    "fn",
    "f",
    "fn f",
    "fn f(",
    "()",
    "(a: i64)",
    "(a: i64, b: &str)",
    "(self)",
    "(&mut self)",
    "(_: i64, (x, y): T)",
    "{}",
    "{ a }",
    "-> i64",
    "-> Result<T, E>",
    "->",
    "async",
    "unsafe",
    "const",
    "extern",
    "extern \"C\"",
    "pub",
    "pub(crate)",
    "default",
    "safe",
    "struct",
    "struct S",
    "enum",
    "union",
    "impl",
    "trait",
    "mod",
    "type",
    "use",
    "static",
    "let",
    "match",
    "#[object(key = \"a.B\")]",
    "#[object]",
    "#[object(",
    "#[repr(C)]",
    "#[repr(packed(2))]",
    "#[repr]",
    "#[base]",
    "#[base(x)]",
    "#[doc = \"x\"]",
    "#[doc(hidden)]",
    "#[doc = concat!(\"a\")]",
    "#[cfg(unix)]",
    "#[",
    "#",
    "!",
    "#![x]",
    "/// text\n",
    "/** block\n * more */",
    "<T>",
    "<'a>",
    "<'a, const N: usize>",
    "<",
    ">",
    ">>",
    "where T: Copy",
    "where",
    "T",
    "'a",
    "'static",
    "'_",
    "&",
    "&mut",
    "&'a",
    "*const",
    "*mut",
    "dyn",
    "dyn Fn(i64) -> i64",
    "impl Fn()",
    "fn(i64)",
    "Vec<",
    "Box<dyn T>",
    "TensorViewMut<u8>",
    "char",
    "i128",
    "_",
    "!",
    "..",
    "...",
    "..=",
    "@",
    "=",
    "==",
    "=>",
    ",",
    ";",
    ":",
    "::",
    "|",
    "||",
    "?",
    "$",
    "~",
    "name",
    "name = \"x\"",
    "name = \"\"",
    "global = false",
    "crate = a::b",
    "crate",
    "key = \"a.B\"",
    "r#type",
    "\"text\"",
    "b\"bytes\"",
    "c\"c\"",
    "'c'",
    "1.5e3",
    "macro_rules! m { () => {} }",
];

/// A small linear congruential generator; the tests need variety, not randomness.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    fn text(&mut self, depth: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.below(14) {
            if depth < 3 && self.below(6) == 0 {
                let (open, close) = [('(', ')'), ('{', '}'), ('[', ']')][self.below(3)];
                let inner = self.text(depth + 1);
                let _ = write!(text, "{open} {inner} {close} ");
            } else {
                text.push_str(VOCABULARY[self.below(VOCABULARY.len())]);
                text.push(' ');
            }
        }
        text
    }

    /// Returns a token stream. A text that does not lex is generated again.
    fn tokens(&mut self, around: impl Fn(&str) -> String) -> TokenStream {
        loop {
            if let Ok(tokens) = around(&self.text(0)).parse() {
                return tokens;
            }
        }
    }
}

fn cases() -> usize {
    std::env::var("KERNPACK_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(4000)
}

/// Checks that the items that the macro adds can be parsed.
#[track_caller]
fn check_output(added: TokenStream) {
    let text = added.to_string();
    if let Err(error) = syn::parse2::<syn::File>(added) {
        panic!("{error}: {text}");
    }
}

#[test]
fn packed_func_never_panics() {
    let mut numbers = Numbers(1);
    let mut accepted = 0;
    for case in 0..cases() {
        let options = numbers.tokens(|text| if case % 2 == 0 { String::new() } else { text.to_owned() });
        let item = numbers.tokens(|text| match case % 5 {
            0 => text.to_owned(),
            1 => format!("fn f({text}) {{}}"),
            2 => format!("fn f(a: {text}) -> i64 {{ 1 }}"),
            3 => format!("fn f() -> {text} {{}}"),
            _ => format!("{text} fn f() {{}}"),
        });
        let length = item.clone().into_iter().count();
        let output = expand_packed_func(options, item, &environment());
        let added: TokenStream = output.into_iter().skip(length).collect();
        accepted += usize::from(mistakes(added.clone()).is_empty());
        check_output(added);
    }
    assert!(accepted > 0, "the vocabulary is too wild to test what is accepted");
}

#[test]
fn object_never_panics() {
    let mut numbers = Numbers(2);
    let mut accepted = 0;
    for case in 0..cases() {
        let item = numbers.tokens(|text| match case % 4 {
            0 => text.to_owned(),
            1 => format!("{text} #[object(key = \"a.B\")] #[repr(C)] struct S {{ a: i64 }}"),
            2 => format!("#[object(key = \"a.B\")] #[repr(C)] struct S {{ {text} a: i64 }}"),
            _ => format!("#[object({text})] #[repr(C)] struct S {{ pub a: i64 }}"),
        });
        let output = expand_object(item, &environment());
        accepted += usize::from(mistakes(output.clone()).is_empty());
        check_output(output);
    }
    assert!(accepted > 0, "the vocabulary is too wild to test what is accepted");
}

#[test]
fn library_never_panics() {
    let mut numbers = Numbers(3);
    for _ in 0..cases() / 4 {
        check_output(expand_library(numbers.tokens(str::to_owned), &environment()));
    }
}
