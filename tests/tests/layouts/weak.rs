//! Weak references, and strings.

use kernpack::abi::TVMFFIAny;
use kernpack::embedded::release::release;
use kernpack::embedded::{dec_ref, dec_weak, inc_weak, new_string_object, seq, strong_count, text_of, try_promote};
use proptest::prelude::*;

use crate::check;
use crate::cpp::containers;
use crate::value::{Objects, OwnedValues, Text, Value};

#[test]
fn weak_references_of_both_sides() {
    let Some(cpp) = containers() else { return };
    let inner = new_string_object(b"what dies with the object");
    // SAFETY: every reference is given back once; after the last strong one, only weak ones are used.
    unsafe {
        for theirs_first in [false, true] {
            kernpack::embedded::inc_ref(inner);
            let object = seq::new_array(vec![TVMFFIAny::pointer((*inner).type_index, inner.cast())]);
            let weak = (cpp.NewWeak)(object);
            inc_weak(object);
            let locked = (cpp.WeakLock)(weak);
            assert_eq!((locked, strong_count(object)), (object, 2));
            assert!(try_promote(object));
            for _ in 0..2 {
                dec_ref(object);
            }
            assert_eq!(strong_count(inner), 2);
            dec_ref(object);
            assert_eq!(strong_count(inner), 1, "destroyed with the last strong reference");
            assert!((cpp.WeakLock)(weak).is_null() && !try_promote(object));
            // The storage goes with the last of these.
            if theirs_first {
                (cpp.DropWeak)(weak);
                dec_weak(object);
            } else {
                dec_weak(object);
                (cpp.DropWeak)(weak);
            }
        }
        // An object that C++ made.
        let made = (cpp.NewList)(core::ptr::null(), 0);
        inc_weak(made);
        dec_ref(made);
        assert!(!try_promote(made));
        dec_weak(made);
        dec_ref(inner);
    }
}

#[test]
fn strings_of_both_sides() {
    let Some(cpp) = containers() else { return };
    let text = || {
        (prop::collection::vec(prop::sample::select(&b"ab\0~"[..]), 0..12), any::<bool>())
            .prop_map(|(bytes, on_heap)| Text { bytes, on_heap })
    };
    check(500, (text(), text()), |(left, right)| {
        let objects = Objects::new();
        let joined = [&left.bytes[..], &right.bytes[..]].concat();
        let order = left.bytes.cmp(&right.bytes) as i32;
        let owned = OwnedValues::of(&[Value::Str(left), Value::Str(right)], &objects);
        // SAFETY: the values are valid strings.
        unsafe {
            assert_eq!((cpp.CompareStrings)(&owned.0[0], &owned.0[1]), order);
            let mut out = TVMFFIAny::NONE;
            (cpp.JoinStrings)(&owned.0[0], &owned.0[1], &mut out);
            assert_eq!(text_of(&out).unwrap(), joined);
            release(out);
        }
    });
}
