//! Single objects: weak references, strings, big integers.

use kernpack::sys::abi::TVMFFIAny;
use kernpack::sys::embedded::big_int;
use kernpack::sys::embedded::release::release;
use kernpack::sys::embedded::{
    any_hash, dec_ref, dec_weak, inc_weak, new_string_object, seq, strong_count, text_of, try_promote,
};
use proptest::prelude::*;

use super::check;
use super::cpp::containers;
use super::value::{Objects, OwnedValues, Text, Value};

#[test]
fn weak_references_of_both_sides() {
    let Some(cpp) = containers() else { return };
    let inner = new_string_object(b"what dies with the object");
    // SAFETY: every reference is released once; after the last strong one, only weak ones are used.
    unsafe {
        for theirs_first in [false, true] {
            kernpack::sys::embedded::inc_ref(inner);
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
            // The storage is freed with the last of these.
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

/// An owned integer value of ours.
fn integer(number: i128, redundant_words: usize) -> TVMFFIAny {
    let mut bytes = number.to_ne_bytes().to_vec();
    let sign = if number < 0 { 0xff } else { 0 };
    bytes.resize(16 + 8 * redundant_words, sign);
    big_int::from_words(&bytes).unwrap()
}

#[test]
fn big_integers_of_both_sides() {
    let Some(cpp) = containers() else { return };
    let near = |center: i128| (-2..3_i128).prop_map(move |offset| center.wrapping_add(offset));
    let number = || {
        prop_oneof![
            any::<i128>().prop_map(|number| number >> 1),
            any::<i64>().prop_map(i128::from),
            near(0),
            near(i64::MAX.into()),
            near(i64::MIN.into()),
            near(1 << 64),
        ]
    };
    check(500, (number(), number(), 0..3_usize), |(left, right, redundant_words)| {
        // SAFETY: the values are owned and released once.
        unsafe {
            let (first, second) = (integer(left, redundant_words), integer(right, 0));
            assert_eq!((cpp.CompareIntegers)(&first, &second), left.cmp(&right) as i32);
            let mut sum = TVMFFIAny::NONE;
            (cpp.AddIntegers)(&first, &second, &mut sum);
            // The words of C++'s result, which must be the same as ours.
            let expected = integer(left + right, 0);
            assert_eq!(big_int::content(&sum).as_slice(), big_int::content(&expected).as_slice());
            assert_eq!(sum.type_index, expected.type_index);
            // The library's hooks hash and compare them as keys.
            assert_eq!(any_hash::hash(&sum).unwrap(), (cpp.Hash)(&expected));
            assert!(any_hash::equal(&sum, &expected).unwrap() && (cpp.Equal)(&sum, &expected) == 1);
            assert_eq!(any_hash::equal(&first, &second).unwrap(), left == right);
            for value in [first, second, sum, expected] {
                release(value);
            }
        }
    });
}
