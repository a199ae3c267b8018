//! Tests: more strong references than a count can hold end the process, whatever adds them.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering;

use super::object::{counts, inc_ref, inc_ref_in_order, new_object, try_promote};
use crate::abi::TVMFFIObject;

/// Names, to a process of its own, the way that it goes to its end.
const WAY: &str = "TEST_OF_TOO_MANY_REFERENCES";

/// The least count that nothing is added to.
const LIMIT: u64 = 1 << 31;

/// Adds to the references of an object.
type Add = unsafe fn(*mut TVMFFIObject);

/// Each way to add, and a count that it may not add to.
const WAYS: [(&str, u64, Add); 3] = [
    ("inc_ref", LIMIT, inc_ref),
    ("inc_ref_in_order", LIMIT, inc_ref_in_order),
    // SAFETY: promised by the caller.
    ("try_promote", LIMIT, |object| assert!(unsafe { try_promote(object) })),
];

#[test]
fn end_the_process() {
    if let Some(chosen) = std::env::var_os(WAY) {
        let object = new_object(128, 0u64);
        for (_, count, add) in WAYS.into_iter().filter(|(way, ..)| chosen == *way) {
            // SAFETY: the object is alive, and as if references to it had been made and forgotten.
            unsafe {
                counts(object).store((1 << 32) | (count - 1).max(1), Ordering::Relaxed);
                inc_ref(object);
                std::io::stdout().write_all(b"one below the limit is allowed\n").unwrap();
                add(object);
            }
        }
        return;
    }
    for (way, ..) in WAYS {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", "cells::too_many::end_the_process"]).env(WAY, way).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("is allowed"), "{way}");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{way}");
    }
}
