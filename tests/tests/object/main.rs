//! Objects as Rust sees them: types, fields, methods, enums, references, structural operations.

mod attacks;
mod attr_visitor;
mod conversions;
mod core;
mod enums;
mod families;
mod fields;
mod leaks;
mod methods;
mod shapes;
mod structural;
mod table;
mod visits;
mod weak;
