//! Arrays in NumPy's file formats: `.npy`, and `.npz`, which is a zip archive of `.npy` files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kernpack::DataType;
use kernpack_graph::Constant;
use kernpack_graph::diff::Values;

use crate::Result;

/// The maximum size of an array in a zip archive.
const MOST_BYTES: u64 = 4 << 30;

/// The element types, by their names in the header: all are little-endian.
const TYPES: [(&str, u8, u8); 12] = [
    ("|b1", 6, 8),
    ("|i1", 0, 8),
    ("<i2", 0, 16),
    ("<i4", 0, 32),
    ("<i8", 0, 64),
    ("|u1", 1, 8),
    ("<u2", 1, 16),
    ("<u4", 1, 32),
    ("<u8", 1, 64),
    ("<f2", 2, 16),
    ("<f4", 2, 32),
    ("<f8", 2, 64),
];

/// Reads the array of a `.npy` file.
pub(super) fn array(bytes: &[u8]) -> Result<Constant> {
    let no_array = || "it is no .npy file".to_owned();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(no_array)?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(no_array)?;
    let wide = if version[0] >= 2 { 4 } else { 2 };
    let (length, rest) = rest.split_at_checked(wide).ok_or_else(no_array)?;
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let (header, data) = rest.split_at_checked(length).ok_or_else(no_array)?;
    let header = str::from_utf8(header).map_err(|_| no_array())?;
    let after = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start_matches([' ', ':']));
    let name = after("'descr'").and_then(|rest| rest.split('\'').nth(1)).unwrap_or_default();
    let Some((_, code, bits)) = TYPES.iter().find(|(known, ..)| *known == name) else {
        return Err(format!("its elements have the type '{name}', which is not supported"));
    };
    if !after("'fortran_order'").is_some_and(|rest| rest.starts_with("False")) {
        return Err("it lies column by column: write it with np.ascontiguousarray".to_owned());
    }
    let shape = after("'shape'").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).map(|(shape, _)| shape);
    let extents = shape.unwrap_or_default().split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape: Vec<i64> = extents.map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| no_array())?;
    Constant::new(DataType::scalar(*code, *bits), &shape, data).map_err(|error| error.to_string())
}

/// Reads all arrays of a `.npz` file, by name.
pub(super) fn arrays(path: &Path) -> Result<Values> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| problem(&error))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| problem(&error))?;
    let mut values = Values::new();
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| problem(&error))?;
        let name = entry.name().map_err(|error| problem(&error))?.trim_end_matches(".npy").to_owned();
        let mut bytes = Vec::new();
        entry.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
        let array = array(&bytes).map_err(|error| problem(&format!("array '{name}': {error}")))?;
        values.insert(name, array);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn arrays_are_read() {
        let data: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let read = |header: &str, data: &[u8]| array(&file(header, data));
        let one = read("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }  \n", &data).unwrap();
        assert_eq!((one.shape(), one.to_floats().unwrap()), (&[2, 1][..], vec![1.5, -2.0]));
        let scalar = read("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", &[7]).unwrap();
        assert_eq!((scalar.shape(), scalar.to_ints().unwrap()), (&[][..], vec![7]));
        for (header, problem) in [
            (
                "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
                "its elements have the type '<c8', which is not supported",
            ),
            (
                "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }",
                "it lies column by column: write it with np.ascontiguousarray",
            ),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "8 bytes for float32[3], which has 12"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }", "it is no .npy file"),
            ("", "its elements have the type '', which is not supported"),
        ] {
            assert_eq!(read(header, &data).unwrap_err(), problem);
        }
        for bytes in [&b""[..], b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff", b"\x93NUMPY\x02\x00\xff\xff\xff\xff"] {
            assert_eq!(array(bytes).unwrap_err(), "it is no .npy file");
        }
    }
}
