//! Pipelines, and the errors of passes. Programs before and after a pass are in `filetests`.

#[path = "passes/errors.rs"]
mod errors;

use kernpack_compiler::ir::LoweredFunc;
use kernpack_compiler::pass::{PassContext, pipeline};
use kernpack_compiler::text;

#[test]
fn pipelines_are_lists_of_names_and_functions() {
    let source = "func f(a: f32[16], b: mut f32[16]) {\n vectorized i in 0..8 { b[i] = a[i] }\n}";
    let f = text::parse_func(source).unwrap();
    let context = PassContext::default();
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = seen.clone();
    let own = kernpack::Function::from_fn(move |program: LoweredFunc, _: PassContext| -> LoweredFunc {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        program
    });
    let passes = [kernpack::Any::from("VectorizeLoop"), own.into(), "kernpack.pass.RemoveNoOp".into()].into();
    let after: LoweredFunc = pipeline::run(f.clone(), &passes, &context).unwrap().to().unwrap();
    assert!(!text::print(&after).contains("vectorized"), "{after}");
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 1);
    let unknown = pipeline::run(f, &[kernpack::Any::from("Vectorise")].into(), &context).err().unwrap().to_string();
    assert!(unknown.starts_with("LowerError: unknown pass `Vectorise`"), "{unknown}");
}
