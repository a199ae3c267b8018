//! The same crate linked as an rlib: the annotated functions are still plain Rust functions, and
//! the kernels are Rust statics.

#[test]
fn annotated_functions_stay_callable() {
    assert_eq!(downstream::add(2, 3), 5);
    assert_eq!(downstream::make_point(3.0, 4.0).x, 3.0);
    assert_eq!(downstream::parse(" 12 ").unwrap(), 12);
    assert!(downstream::parse("twelve").is_err());
}

#[test]
fn kernels_are_typed_functions() {
    assert_eq!(downstream::kernels::scale.typed::<(i64,), i64>().call((7,)).unwrap(), 21);
    assert_eq!(downstream::kernels::negate.call((7,)).unwrap().to::<i64>().unwrap(), -7);
}
