//! Tests of the workspace that need no other program, in one program for another machine; `tests/tests/aarch64.rs` runs it under qemu.

#![allow(dead_code, unreachable_pub, unused_qualifications, reason = "each module is a crate of its own, too")]

#[path = "../../tests/cpp_modules.rs"]
mod cpp_modules;
#[path = "../../tests/devices.rs"]
mod devices;
#[path = "../../tests/enums.rs"]
mod enums;
#[path = "../../tests/families.rs"]
mod families;
#[path = "../../tests/functions.rs"]
mod functions;
#[path = "../../tests/module_lookup.rs"]
mod module_lookup;
#[path = "../../tests/object_attacks.rs"]
mod object_attacks;
#[path = "../../tests/object_core.rs"]
mod object_core;
#[path = "../../tests/object_fields.rs"]
mod object_fields;
#[path = "../../tests/object_methods.rs"]
mod object_methods;
#[path = "../../tests/objects.rs"]
mod objects;
#[path = "../../tests/structural.rs"]
mod structural;
