//! Versions of a function for several kinds of devices, in `MakePackedAPI`: the version for CPUs is
//! the function that callers know. It passes a call to the version for the device of the first
//! tensor argument.

use kernpack::{Array, Str};

use super::make_packed_api::{CPU, Entry, Handle, struct_get};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::builtin::StructField;
use crate::ir::{CallKind, Expr, I32, LoweredFunc, Stmt, Var};

/// The attribute of a function that lists the kinds of devices it has versions for, `cpu` first: an
/// array of texts.
pub const VERSIONS: &str = "versions";

/// The kinds of devices with names: their numbers in DLPack.
const KINDS: [(i64, &str); 6] = [(1, "cpu"), (2, "cuda"), (4, "opencl"), (7, "vulkan"), (8, "metal"), (10, "rocm")];

/// The C symbol of the version of a function for a kind of device other than the CPU.
pub fn version_symbol(device: &str, function: &str) -> String {
    format!("__kernpack_te_{device}_{function}")
}

/// The number in DLPack of a kind of device.
pub fn device_type(name: &str) -> Option<i64> {
    KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
}

/// The name of a kind of device.
fn device_name(kind: i64) -> String {
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    known.map_or_else(|| format!("device type {kind}"), |(_, name)| (*name).to_owned())
}

/// Returns a function that has versions for these kinds of devices.
pub fn with_versions(function: &LoweredFunc, names: &[String]) -> LoweredFunc {
    let names: Array<Str> = names.iter().map(|name| Str::from(name.as_str())).collect();
    function.with_attr(VERSIONS, names)
}

/// The kinds of devices that a function has versions for; empty for a function with one version.
pub(super) fn versions(function: &LoweredFunc) -> Result<Vec<String>> {
    let Some(attribute) = function.attr(VERSIONS) else { return Ok(Vec::new()) };
    let names: Option<Array<Str>> = attribute.to().ok();
    let names: Vec<String> = names.iter().flat_map(Array::iter).map(|name| name.as_str().to_owned()).collect();
    match names.iter().find(|name| device_type(name).is_none()) {
        None if !names.is_empty() => Ok(names),
        _ => {
            let what = format!("attribute `{VERSIONS}` of `{}` is not a list of kinds of devices", function.name);
            Err(CompileError::new(ErrorKind::Lower, what)
                .note("it is an array of names, such as [\"cpu\", \"opencl\"]"))
        }
    }
}

impl Entry {
    /// In the version for CPUs, calls the version for the device of the first tensor.
    pub(super) fn other_versions(&mut self, function: &LoweredFunc, first: Option<&Handle>, params: &[Var; 4]) {
        let Some(first) = first.filter(|_| self.device_type == CPU) else { return };
        for device in self.versions.clone() {
            let Some(kind) = device_type(&device).filter(|kind| *kind != CPU) else { continue };
            let found = struct_get(first.pointer.expr(), 0, StructField::DeviceType, I32);
            let symbol = version_symbol(&device, function.name.as_str());
            let call = Expr::call(CallKind::Extern, &symbol, I32, params.iter().map(|param| param.expr().clone()));
            self.stmts.push(Stmt::if_then(found.equals(kind), Stmt::return_value(call), None));
        }
    }

    /// The device that a tensor has to be on, for the error about another one.
    pub(super) fn expected_device(&self) -> String {
        let own = device_name(self.device_type);
        let Some((last, others)) = self.versions.split_last().filter(|(_, others)| !others.is_empty()) else {
            return own;
        };
        let others = others.join(", ");
        match &self.device_id {
            None => format!("{others} or {last}: the devices that the function was built for"),
            Some((_, first)) => {
                format!("{own}, where {first} is; the function was built for {others} and {last}")
            }
        }
    }
}
