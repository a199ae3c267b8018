//! A constructor in the same program that uses Kernpack before Kernpack's own constructor has run,
//! as constructors of C++ libraries may.

use core::sync::atomic::{AtomicBool, Ordering};

use kernpack::{Function, ObjRef, Object, packed_func, sys::provider};

#[packed_func(name = "early_use.add")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// A type of this program.
#[derive(Object)]
#[object(key = "early_use.Point")]
#[repr(C)]
pub struct Point {
    /// A field.
    pub x: i64,
}

static WAS_THERE: AtomicBool = AtomicBool::new(true);

extern "C" fn too_early() {
    provider::api();
    WAS_THERE.store(Function::find_global("early_use.add").unwrap().is_some(), Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array.00050")]
static TOO_EARLY: extern "C" fn() = too_early;

#[test]
fn what_comes_after_the_first_use_is_registered_all_the_same() {
    assert!(!WAS_THERE.load(Ordering::Relaxed), "this test is about a constructor that runs first");
    assert_eq!(Function::global("early_use.add").unwrap().call_as::<i64>((1, 2)).unwrap(), 3);
    let x = ObjRef::new(Point { x: 7 });
    assert_eq!(kernpack::reflect::repr(&x).unwrap(), "early_use.Point(x=7)");
    assert!(
        Function::find_global("ffi.ModuleGetKind").unwrap().is_some(),
        "what every artifact brings that serves itself"
    );
    assert!(kernpack::load_problems().is_empty(), "{:?}", kernpack::load_problems());
}
