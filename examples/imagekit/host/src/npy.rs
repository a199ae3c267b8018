//! Reads NumPy's `.npy` files: the references that prepare.py wrote.

use std::fs;
use std::path::Path;

use crate::Failure;

/// Reads the elements of an array, converted to f64 so that they can be compared.
pub(crate) fn read(path: &Path) -> Result<Vec<f64>, Failure> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()).into())
}

/// Parses format 1.0: magic, version, u16 length of the header, the header (a Python dictionary as
/// text), the elements.
fn parse(bytes: &[u8]) -> Result<Vec<f64>, String> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00").ok_or("not a .npy file of format 1.0")?;
    let (length, rest) = rest.split_first_chunk::<2>().ok_or("the file ends inside the header's length")?;
    let (header, data) =
        rest.split_at_checked(u16::from_le_bytes(*length).into()).ok_or("the file ends inside the header")?;
    let header = str::from_utf8(header).map_err(|_| "the header is not text")?;
    if !header.contains("'fortran_order': False") {
        return Err(format!("expected elements in C order, the header says {header}"));
    }
    let count = element_count(header).ok_or_else(|| format!("no shape in the header {header}"))?;
    let elements: Vec<f64> = match between(header, "'descr': '", "'") {
        Some("<f4") => data.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four).into()).collect(),
        Some("<f8") => data.as_chunks().0.iter().map(|&eight| f64::from_le_bytes(eight)).collect(),
        Some("<i8") => data.as_chunks().0.iter().map(|&eight| i64::from_le_bytes(eight) as f64).collect(),
        other => return Err(format!("expected float32, float64 or int64, got {other:?}")),
    };
    if elements.len() != count {
        return Err(format!("the shape says {count} elements, the file has {}", elements.len()));
    }
    Ok(elements)
}

/// Returns the product of `'shape': (427, 640)`.
fn element_count(header: &str) -> Option<usize> {
    between(header, "'shape': (", ")")?
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty())
        .try_fold(1_usize, |product, extent| product.checked_mul(extent.parse().ok()?))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), data].concat()
    }

    #[test]
    fn reads_float32() {
        let data = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n";
        assert_eq!(parse(&file(header, &data)), Ok(vec![1.5, -2.0]));
    }

    #[test]
    fn names_what_is_wrong() {
        assert_eq!(parse(b"PNG"), Err("not a .npy file of format 1.0".to_owned()));
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n";
        assert_eq!(parse(&file(header, &[0; 16])), Err("the shape says 3 elements, the file has 2".to_owned()));
    }
}
