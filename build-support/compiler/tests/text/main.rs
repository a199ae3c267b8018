//! The text form: round trips of random and of real programs, the verifier on programs that have no
//! text, and the functions for other languages. Programs and messages are in `filetests`.

use kernpack_compiler::text;

mod pipeline;
mod programs;
mod properties;
mod verify;

#[test]
fn other_languages_print_and_parse() {
    let source = "func f(a: mut f32[n]) {\n  parallel i in 0..n {\n    a[i] = 1.0\n  }\n}\n";
    let module: kernpack_compiler::ir::IrModule =
        kernpack::Function::global("kernpack.ir.parse").unwrap().call((source,)).unwrap().to().unwrap();
    assert_eq!(text::print(&module), source);
    let printed = kernpack::Function::global("kernpack.ir.print").unwrap().call((&module,)).unwrap();
    assert_eq!(printed.to::<String>().unwrap(), source);
    let error = kernpack::Function::global("kernpack.ir.parse").unwrap().call(("func",)).unwrap_err();
    assert!(error.message().contains("expected a name, got the end of the text\n  --> 1:5"), "{error}");
}
