//! Loads and stores of vectors.

use kernpack::DataType;

use crate::codegen::source::access::Place;
use crate::codegen::source::half;
use crate::codegen::source::unit::Unit;
use crate::codegen::source::vocabulary::{is_half, is_native};
use crate::error::Result;
use crate::ir::DataTypeExt;

impl Place {
    fn describe(&self) -> (&'static str, Option<DataType>) {
        match self {
            Self::Contiguous(_) => ("", None),
            Self::Scattered(_, _, dtype) => ("_at", Some(*dtype)),
        }
    }

    fn args(&self) -> String {
        match self {
            Self::Contiguous(address) => format!("({address})"),
            Self::Scattered(address, indices, _) => format!("{address}, {indices}"),
        }
    }
}

/// Reads lanes; those whose mask is false are 0.
pub(crate) fn load(unit: &mut Unit, dtype: DataType, place: &Place, mask: Option<&str>) -> Result<String> {
    let (suffix, index_type) = place.describe();
    let masked = if mask.is_some() { "_masked" } else { "" };
    let index_name = index_type.map(|index| index.short_name()).unwrap_or_default();
    let name = format!("kp_load{suffix}{index_name}{masked}_{}", dtype.short_name());
    if !unit.has(&name) {
        let (ty, memory) = (unit.value_type(dtype)?, unit.memory_type(dtype)?);
        let (index, mut params) = access(unit, index_type, &format!("const {memory}*"))?;
        let mut value = half::from_memory(unit, dtype.element(), format!("a[{index}]"))?;
        if dtype.is_bool() {
            value = format!("-{value}");
        }
        let mask_letter = if index_type.is_some() { "c" } else { "b" };
        if mask.is_some() {
            let truth = crate::ir::BOOLEAN.with_lanes(dtype.lanes());
            params.push(unit.value_type(truth)?);
            value = format!("{} ? {value} : 0", unit.at(truth, mask_letter, "i"));
        }
        let loops = format!(
            "{ty} r;\n  for (int i = 0; i < {}; ++i) {} = {value};\n  return r;",
            dtype.lanes(),
            unit.at(dtype, "r", "i")
        );
        let body = if whole(dtype, mask, index_type) {
            let unaligned = unaligned(dtype, &ty);
            format!("\n#if KP_VECTORS\n  {unaligned}\n  return *(const unaligned*)a;\n#else\n  {loops}\n#endif")
        } else {
            loops
        };
        unit.function(&name, &ty, &params.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    }
    let mask = mask.map(|mask| format!(", {mask}")).unwrap_or_default();
    Ok(format!("{name}({}{mask})", place.args()))
}

/// Writes the lanes for which the mask is true.
pub(crate) fn store(
    unit: &mut Unit,
    dtype: DataType,
    place: &Place,
    value: &str,
    mask: Option<&str>,
) -> Result<String> {
    let (suffix, index_type) = place.describe();
    let masked = if mask.is_some() { "_masked" } else { "" };
    let index_name = index_type.map(|index| index.short_name()).unwrap_or_default();
    let name = format!("kp_store{suffix}{index_name}{masked}_{}", dtype.short_name());
    if !unit.has(&name) {
        let (ty, memory) = (unit.value_type(dtype)?, unit.memory_type(dtype)?);
        let (index, mut params) = access(unit, index_type, &format!("{memory}*"))?;
        let (value_letter, mask_letter) = if index_type.is_some() { ("c", "d") } else { ("b", "c") };
        params.push(ty.clone());
        let mut lane_value = unit.at(dtype, value_letter, "i");
        if dtype.is_bool() {
            lane_value = format!("{lane_value} & 1");
        }
        let written = half::to_memory(unit, dtype.element(), lane_value)?;
        let mut action = format!("a[{index}] = {written};");
        if mask.is_some() {
            let truth = crate::ir::BOOLEAN.with_lanes(dtype.lanes());
            params.push(unit.value_type(truth)?);
            action = format!("if ({}) {action}", unit.at(truth, mask_letter, "i"));
        }
        let loops = format!("for (int i = 0; i < {}; ++i) {action}", dtype.lanes());
        let body = if whole(dtype, mask, index_type) {
            let unaligned = unaligned(dtype, &ty);
            format!("\n#if KP_VECTORS\n  {unaligned}\n  *(unaligned*)a = b;\n#else\n  {loops}\n#endif")
        } else {
            loops
        };
        unit.function(&name, "void", &params.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    }
    let mask = mask.map(|mask| format!(", {mask}")).unwrap_or_default();
    Ok(format!("{name}({}, {value}{mask})", place.args()))
}

/// Returns true if GNU C accesses the memory as one vector.
fn whole(dtype: DataType, mask: Option<&str>, index: Option<DataType>) -> bool {
    is_native(dtype) && mask.is_none() && index.is_none() && !dtype.is_bool() && !is_half(dtype)
}

/// A vector type for memory with the alignment of an element.
fn unaligned(dtype: DataType, ty: &str) -> String {
    format!("typedef {ty} unaligned __attribute__((aligned({}), may_alias));", dtype.lane_bytes())
}

/// The index of lane `i`, and the parameters for the location.
fn access(unit: &mut Unit, index: Option<DataType>, pointer: &str) -> Result<(String, Vec<String>)> {
    Ok(match index {
        None => ("i".to_owned(), vec![pointer.to_owned()]),
        Some(dtype) => (unit.at(dtype, "b", "i"), vec![pointer.to_owned(), unit.value_type(dtype)?]),
    })
}
