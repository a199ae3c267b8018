//! Tests of the workspace that start no other program, as one program for another machine;
//! `tests/tests/export/on_aarch64.rs` runs it under qemu.

#![allow(dead_code, unreachable_pub, unused_qualifications, reason = "each module is a crate of its own, too")]

#[path = "../../tests/module/cpp.rs"]
mod cpp_modules;
#[path = "../../tests/device/registered.rs"]
mod devices;
#[path = "../../tests/object/enums.rs"]
mod enums;
#[path = "../../tests/device/fake.rs"]
mod fake;
#[path = "../../tests/object/families.rs"]
mod families;
#[path = "../../tests/function/registry.rs"]
mod functions;
#[path = "../../tests/module/lookup.rs"]
mod module_lookup;
#[path = "../../tests/object/attacks.rs"]
mod object_attacks;
#[path = "../../tests/object/core.rs"]
mod object_core;
#[path = "../../tests/object/fields.rs"]
mod object_fields;
#[path = "../../tests/object/methods.rs"]
mod object_methods;
#[path = "../../tests/object/conversions.rs"]
mod objects;
#[path = "../../tests/object/structural.rs"]
mod structural;
