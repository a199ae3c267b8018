//! Broken files: each results in an error or a report, never a panic.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
use kernpack::module::library_bin::LibraryBinWriter;

use super::{json, picture, report};
use crate::library::file;
use crate::library::inspection::Inspection;

/// A library with `blob` as its import tree.
fn compile(name: &str, blob: &[u8]) -> Vec<u8> {
    let folder: PathBuf = std::env::temp_dir().join(format!("kernpack-cli-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    let numbers: Vec<String> = blob.iter().map(u8::to_string).collect();
    let text = format!(
        "const unsigned char __tvm_ffi__library_bin[] = {{{}}};\nint __tvm_ffi_one(void) {{ return 0; }}\n",
        numbers.join(",")
    );
    std::fs::write(&source, text).unwrap();
    let status = Command::new("cc").args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source).status();
    assert!(status.expect("a C compiler named cc is needed").success());
    let bytes = file::read(&library).unwrap();
    std::fs::remove_dir_all(folder).ok();
    bytes
}

fn sound() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let kernel = DeviceFunction::new("scale", vec![ArgType::POINTER, ArgType::FLOAT32], true);
        let ptx = DeviceImage::new("ptx", vec![kernel], b".version 8.0\n.target sm_80\n").to_vec();
        let mut writer = LibraryBinWriter::new();
        let root = writer.add_module("relax.VMExecutable", b"executable").unwrap();
        let library = writer.add_library().unwrap();
        let cuda = writer.add_module("cuda", &ptx).unwrap();
        let broken = writer.add_module("opencl", b"no image").unwrap();
        let evil = writer.add_module("e\u{1b}[31m<&\"vil", b"x").unwrap();
        for (parent, child) in [(root, library), (root, cuda), (library, cuda), (library, broken), (cuda, evil)] {
            writer.import(parent, child).unwrap();
        }
        compile("sound", &writer.to_vec())
    })
}

/// Reads the file and writes all reports.
fn all(bytes: &[u8]) -> Result<[String; 3], String> {
    let inspection = Inspection::read(bytes)?;
    Ok([report::write("x.so", &inspection), json::write("x.so", &inspection), picture::svg(&inspection)])
}

#[test]
fn a_tree_with_everything() {
    let [text, json, picture] = all(sound()).unwrap();
    let tree = text.split_once("import tree").unwrap().1;
    assert_eq!(
        tree.split_once('\n').unwrap().1,
        "  0 relax.VMExecutable, 10 bytes
    1 the library itself
      2 cuda ptx, 27 bytes of code: sm_80
          kernel scale(pointer, float32) over blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, \
tirx.use_dyn_shared_memory
        4 e\\u{1b}[31m<&\"vil, 1 bytes
      3 opencl, 8 bytes
          cannot be read: device image: format at byte 0x0: claims 7306916042974981998 bytes, but only 0 follow
    2 cuda (shared, see above)
"
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["functions"][0]["name"], "one");
    assert_eq!(json["import_tree"]["modules"][1]["imports"], serde_json::json!([2, 3]));
    assert_eq!(json["import_tree"]["modules"][2]["image"]["architectures"][0], "sm_80");
    assert!(picture.contains("e\\u{1b}[31m&lt;&amp;&quot;vil") && !picture.contains('\u{1b}'));
}

#[test]
fn images_are_found_by_number_and_kind() {
    let inspection = Inspection::read(sound()).unwrap();
    let tree = inspection.tree.unwrap();
    assert_eq!(tree.find("2").ok().unwrap().code(), b".version 8.0\n.target sm_80\n");
    assert_eq!(tree.find("relax.VMExecutable").ok().unwrap().code(), b"executable");
    let problem = tree.find("1").err().unwrap();
    assert!(problem.starts_with("no module is \"1\"; there are: 0 (relax.VMExecutable), 2 (cuda)"), "{problem}");
}

#[test]
fn broken_trees_are_named() {
    for (blob, problem) in [
        (&b"abc"[..], "its __tvm_ffi__library_bin is corrupt: "),
        (
            &[0xff; 64],
            "its __tvm_ffi__library_bin is corrupt: library_bin: size at byte 0x0: claims 18446744073709551615 bytes",
        ),
        (
            &[0, 0, 0, 1, 0, 0, 0, 0, 1],
            "its __tvm_ffi__library_bin is corrupt: it says that it has 16777224 bytes, but",
        ),
    ] {
        let error = all(&compile(&format!("broken{}", blob.len()), blob)).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn cut_off_and_changed_files() {
    let sound = sound();
    for len in (0..sound.len()).step_by(7) {
        // The missing bytes at the very end may be sections that are not read.
        let _ = all(&sound[..len]);
    }
    assert_eq!(all(b"").unwrap_err(), "not a shared library (no ELF header)");
    let error = all(&sound[..40]).unwrap_err();
    assert!(error.starts_with("its ELF structure is broken or cut off: "), "{error}");
    let error = all(&sound[..sound.len() / 2]).unwrap_err();
    assert!(error.starts_with("its ELF structure is broken or cut off: "), "{error}");
    let mut bytes = sound.to_vec();
    for position in 0..bytes.len() {
        let before = bytes[position];
        // Padding is most of the file.
        if before == 0 && position % 16 != 0 {
            continue;
        }
        for value in [0, 0xff, before ^ 0x10] {
            bytes[position] = value;
            let _ = all(&bytes);
        }
        bytes[position] = before;
    }
}

#[test]
fn shared_children_are_written_once_and_chains_need_no_stack() {
    let mut writer = LibraryBinWriter::new();
    let count = 3000;
    for _ in 0..count {
        writer.add_module("m", b"x").unwrap();
    }
    for index in 0..count - 2 {
        writer.import(index, index + 1).unwrap();
        writer.import(index, index + 2).unwrap();
    }
    let [text, _, picture] = all(&compile("lattice", &writer.to_vec())).unwrap();
    assert!(text.lines().count() < 3 * count);
    assert_eq!(picture.matches("<rect").count(), count);
}
