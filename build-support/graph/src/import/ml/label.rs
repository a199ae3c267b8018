//! `LabelEncoder` of numbers: a table from keys to values.

use kernpack_compiler::ir::{DataTypeExt, F32, I64};

use super::site::int;
use crate::attrs::{Attr, Attrs};
use crate::constant::{Constant, element_bytes};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;
use crate::op::ml::LOOKUP;

/// Up to this number of keys, an element is compared with each of them.
const FEW: usize = 16;

const TEXTS: &str =
    "keys or values that are texts are not supported in a model of numbers: export the model with integer labels";

/// Returns the list in one of three attributes: integers, floats, or a tensor.
fn list(site: &Site<'_>, what: &str) -> Result<Constant> {
    require!(site.attrs.texts(&format!("{what}_strings"))?.is_empty(), "{TEXTS}");
    let mut found = Vec::new();
    if let Some(ints) = site.attrs.ints(&format!("{what}_int64s"))?.filter(|ints| !ints.is_empty()) {
        found.push(Constant::of_ints(&ints));
    }
    let floats = site.attrs.floats(&format!("{what}_floats"))?;
    if !floats.is_empty() {
        found.push(Constant::of_floats(&floats));
    }
    if let Some(Attr::Tensor(tensor)) = site.attrs.get(&format!("{what}_tensor")) {
        found.push(tensor.reshaped(&[int(tensor.len())])?);
    }
    match <[Constant; 1]>::try_from(found) {
        Ok([list]) => Ok(list),
        Err(found) => fail!("expected one list of {what}, got {}", found.len()),
    }
}

/// Returns the value for elements that are not keys.
fn default(site: &Site<'_>, values: &Constant) -> Result<Constant> {
    let dtype = values.dtype();
    if let Some(Attr::Tensor(given)) = site.attrs.get("default_tensor") {
        require!(given.len() == 1, "attribute `default_tensor` has {} elements, not 1", given.len());
        require!(given.dtype() == dtype, "values are {dtype}, and the default is {}", given.dtype());
        return given.reshaped(&[1]);
    }
    let float = match site.attrs.get("default_float") {
        Some(Attr::Float(value)) => *value,
        _ => -0.0,
    };
    match dtype {
        dtype if dtype == I64 => Ok(Constant::of_ints(&[site.attrs.int("default_int64", -1)?])),
        dtype if dtype == F32 => Ok(Constant::of_floats(&[float])),
        // -1, or minus zero.
        dtype if dtype.is_integer() => Constant::new(dtype, &[1], vec![0xff; element_bytes(dtype)]),
        dtype => {
            let mut bytes = vec![0; element_bytes(dtype)];
            if let Some(last) = bytes.last_mut() {
                *last = 0x80;
            }
            Constant::new(dtype, &[1], bytes)
        }
    }
}

/// The keys in increasing order with the places of their values. The first one of equal keys
/// counts. Zeros are equal, and so are NaN, whose place is apart.
struct Sorted {
    places: Vec<usize>,
    of_nan: Option<usize>,
}

fn sorted(keys: &Constant) -> Result<Sorted> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    if !keys.dtype().is_float() {
        let values = keys.to_ints()?;
        places.sort_by_key(|place| values[*place]);
        places.dedup_by_key(|place| values[*place]);
        return Ok(Sorted { places, of_nan: None });
    }
    let values: Vec<f64> = keys.to_floats()?.into_iter().map(|value| value + 0.0).collect();
    let of_nan = values.iter().position(|value| value.is_nan());
    places.retain(|place| !values[*place].is_nan());
    places.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    places.dedup_by(|one, other| values[*one].total_cmp(&values[*other]).is_eq());
    Ok(Sorted { places, of_nan })
}

/// Returns the elements at these places.
fn taken(constant: &Constant, places: impl Iterator<Item = usize>) -> Result<Constant> {
    let width = element_bytes(constant.dtype());
    let bytes: Vec<u8> =
        places.flat_map(|place| &constant.bytes()[place * width..(place + 1) * width]).copied().collect();
    Constant::new(constant.dtype(), &[int(bytes.len() / width)], bytes)
}

/// Returns a value for each element.
pub(super) fn encoder(site: &mut Site<'_>) -> Result<ValueId> {
    require!(site.attrs.texts("classes_strings")?.is_empty(), "{TEXTS}");
    let (keys, values) = (list(site, "keys")?, list(site, "values")?);
    require!(keys.len() == values.len(), "{} keys and {} values", keys.len(), values.len());
    require!(!keys.is_empty(), "the list of keys is empty");
    let x = site.input(0)?;
    require!(site.dtype(x) == keys.dtype(), "the input is {}, and the keys are {}", site.dtype(x), keys.dtype());
    let default = default(site, &values)?;
    let Sorted { places, of_nan } = sorted(&keys)?;
    let known = |site: &mut Site<'_>, constant: Constant| site.emitter.graph.add_known(site.emitter.name, constant);
    let one = |constant: &Constant, place: usize| taken(constant, core::iter::once(place))?.reshaped(&[]);
    let otherwise = known(site, default.reshaped(&[])?);
    if places.len() > FEW {
        let mut bytes = taken(&values, places.iter().copied())?.bytes().to_vec();
        bytes.extend_from_slice(default.bytes());
        bytes.extend_from_slice(
            of_nan.map(|place| one(&values, place)).transpose()?.as_ref().unwrap_or(&default).bytes(),
        );
        let values = Constant::new(values.dtype(), &[int(places.len()) + 2], bytes)?;
        let keys = taken(&keys, places.iter().copied())?;
        let (keys, values) = (known(site, keys), known(site, values));
        return site.own(&LOOKUP, Attrs::default(), &[x, keys, values]);
    }
    let mut found = otherwise;
    for place in places {
        let (key, value) = (known(site, one(&keys, place)?), known(site, one(&values, place)?));
        let is_key = site.binary("Equal", x, key)?;
        found = site.node("Where", &[], &[is_key, value, found])?;
    }
    if let Some(place) = of_nan {
        let (is_nan, value) = (site.unary("IsNaN", x)?, known(site, one(&values, place)?));
        found = site.node("Where", &[], &[is_nan, value, found])?;
    }
    Ok(found)
}
