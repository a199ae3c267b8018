//! `libtvm_ffi.so` from Rust, used by C and C++ code that is compiled with the headers of the PyPI
//! wheel: plain C through dlopen, a C++ program linked with it, and C++ code that works on the same
//! objects as Rust. `layouts` tests containers.

use std::ffi::{c_int, c_void};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::OnceLock;

use kernpack::sys::abi::*;
use kernpack::sys::embedded::{self, dec_ref, map, release, shape, tensor};

use kernpack_tests::headers;
use kernpack_tests::library::{compile_cpp, library, source};
use kernpack_tests::symbols::{functions, open, symbol};

#[test]
fn the_library_exports_the_functions_of_the_abi_under_its_soname() {
    let output = headers::run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let mut exported: Vec<_> =
        symbols.lines().filter_map(|line| line.split(' ').nth(2)).filter(|s| s.starts_with("TVMFFI")).collect();
    let mut expected = ApiTable::NAMES.to_vec();
    exported.sort_unstable();
    expected.sort_unstable();
    assert_eq!(exported, expected);
    let output = headers::run(Command::new("readelf").arg("-d").arg(library()));
    assert!(String::from_utf8(output.stdout).unwrap().contains("soname: [libtvm_ffi.so]"));
}

#[test]
fn plain_c_through_dlopen() {
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    let program = headers::scratch_dir("capi_plain").join("plain");
    headers::compile("cc", &source("plain.c"), &program, &include_dirs, &["-std=gnu11", "-ldl"]);
    let output = headers::run(Command::new(&program).arg(library()));
    assert_eq!(output.stdout, b"plain C: all checks passed\n");
}

#[test]
fn inline_cpp_linked_with_the_library() {
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    let program = headers::scratch_dir("capi_inline").join("inline");
    compile_cpp("inline.cc", &program, &include_dirs, &[]);
    let output = headers::run(&mut Command::new(&program));
    assert_eq!(output.stdout, b"inline C++: all checks passed\n");
}

type Handle = TVMFFIObjectHandle;

functions! {
    /// The functions of cells.cc.
    struct Cells {
        fn DictSet(dict: Handle, key: *const TVMFFIAny, value: *const TVMFFIAny) -> c_int;
        fn MapGet(map: Handle, key: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
        fn ShapeProduct(shape: Handle) -> i64;
        fn TensorSum(tensor: Handle) -> f64;
        fn ThrowAndRaise(error: Handle) -> c_int;
        fn DescribeError(error: Handle, text: *mut TVMFFIAny, cause: *mut TVMFFIAny, extra: *mut TVMFFIAny) -> c_int;
        fn CallTwice(function: Handle, argument: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
        fn RegisterNumber() -> c_int;
        fn NewNumber(number: i64, out: *mut TVMFFIAny);
    }
}

/// Prepares C++ and Rust for the same objects. Without headers, prints a line with the reason and
/// returns `None`. The cells of this process use the tables of libtvm_ffi.so from then on, as C++
/// does.
fn shared() -> Option<&'static (Cells, ApiTable)> {
    static SHARED: OnceLock<Option<(Cells, ApiTable)>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let include_dirs = headers::include_dirs_or_skip()?;
        let output = headers::scratch_dir("capi_cells").join("libcells.so");
        compile_cpp("cells.cc", &output, &include_dirs, &["-shared", "-fPIC"]);
        let ffi = open(library());
        // SAFETY: the library exports each function of the ABI under its name.
        let table = unsafe { ApiTable::from_symbols(|name| symbol(ffi, name.to_str().unwrap())) }.unwrap();
        Some((Cells::load(open(&output)), table))
    });
    let shared = shared.as_ref()?;
    embedded::serving::set_serving(&shared.1);
    Some(shared)
}

#[test]
fn hooks_of_foreign_types_hash_and_compare_keys() {
    let Some((cells, table)) = shared() else { return };
    let number = |number: i64| {
        let mut value = TVMFFIAny::NONE;
        // SAFETY: the result is writable.
        unsafe { (cells.NewNumber)(number, &mut value) };
        value
    };
    // SAFETY: all values are valid, and references are given and released once each.
    unsafe {
        assert_eq!((cells.RegisterNumber)(), 0);
        let dict = map::new_dict(vec![]).unwrap();
        for n in 0..200 {
            let key = number(n);
            if n % 2 == 0 {
                assert_eq!((cells.DictSet)(dict, &key, &TVMFFIAny::int(n)), 0);
                release::release(key);
            } else {
                map::set(dict, key, TVMFFIAny::int(n)).unwrap();
            }
        }
        for n in 0..200 {
            // Another object with an equal number.
            let key = number(n + 3000);
            assert_eq!(map::get(dict, &key).unwrap().unwrap().bits(), n as u64);
            let mut found = TVMFFIAny::NONE;
            assert_eq!((cells.MapGet)(dict, &key, &mut found), 0);
            assert_eq!(found.bits(), n as u64);
            release::release(key);
        }
        let bad = number(-1);
        let failure = map::get(dict, &bad).err().unwrap();
        assert_eq!(
            (failure.kind().as_str(), failure.message().as_str()),
            ("ValueError", "negative numbers have no hash")
        );
        assert!(map::set(dict, release::retain(&bad), TVMFFIAny::int(0)).is_err());
        assert_eq!((cells.DictSet)(dict, &bad, &TVMFFIAny::int(0)), -1);
        let mut error = null_mut();
        (table.error_move_from_raised)(&mut error);
        dec_ref(error);
        assert_eq!(map::len(dict), 200);
        release::release(bad);
        dec_ref(dict);
    }
}

unsafe extern "C" fn double_or_fail(
    _: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the caller follows the calling convention.
    unsafe {
        let number = if num_args == 1 { (*args).bits() as i64 } else { i64::MAX };
        if number > 100 {
            let table = &shared().unwrap().1;
            (table.error_set_raised_from_c_str)(c"OverflowError".as_ptr(), c"more than 100".as_ptr());
            return -1;
        }
        result.write(TVMFFIAny::int(number * 2));
        0
    }
}

#[test]
fn errors_functions_shapes_and_tensors_are_understood() {
    let Some((cells, table)) = shared() else { return };
    // SAFETY: all values are valid, and references are given and released once each.
    unsafe {
        let raised = || {
            let mut error = null_mut();
            (table.error_move_from_raised)(&mut error);
            error
        };
        let error = embedded::new_error(b"KeyError", b"no such key", b"  in Rust\n", null_mut(), null_mut());
        assert_eq!((cells.ThrowAndRaise)(error), -1);
        let caught = raised();
        assert_eq!(caught, error);
        let cell = embedded::body::<TVMFFIErrorCell>(error);
        assert!(cell.backtrace.as_slice().starts_with(b"  in Rust\n  in C++\n"));
        dec_ref(caught);

        let dimensions = shape::new_shape(&[2, 3, 7]);
        let outer = embedded::new_error(b"ValueError", b"outer", b"  second\n  first\n", error, dimensions);
        let [mut text, mut cause, mut extra] = [TVMFFIAny::NONE; 3];
        assert_eq!((cells.DescribeError)(outer, &mut text, &mut cause, &mut extra), 0);
        let expected = "Traceback (most recent call last):\n  first\n  second\nValueError: outer\n";
        assert_eq!(embedded::text_of(&text).unwrap(), expected.as_bytes());
        assert_eq!(embedded::text_of(&cause).unwrap(), b"no such key");
        assert_eq!((extra.type_index, extra.payload.v_obj), (type_index::SHAPE, dimensions));
        [text, cause, extra].into_iter().for_each(|value| release::release(value));
        assert_eq!((embedded::strong_count(error), embedded::strong_count(dimensions)), (2, 2));
        dec_ref(outer);
        assert_eq!((embedded::strong_count(error), embedded::strong_count(dimensions)), (1, 1));
        dec_ref(error);

        let function = embedded::new_function(double_or_fail, ());
        let mut result = TVMFFIAny::NONE;
        assert_eq!((cells.CallTwice)(function, &TVMFFIAny::int(10), &mut result), 0);
        assert_eq!(result.bits(), 40);
        assert_eq!((cells.CallTwice)(function, &TVMFFIAny::int(60), &mut result), -1);
        let error = raised();
        assert_eq!(embedded::body::<TVMFFIErrorCell>(error).kind.as_slice(), b"OverflowError");
        dec_ref(error);
        dec_ref(function);

        assert_eq!((cells.ShapeProduct)(dimensions), 42);
        dec_ref(dimensions);

        let mut data: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let (pointer, cpu) = (data.as_mut_ptr().cast(), DLDevice { device_type: device_type::CPU, device_id: 0 });
        let float = DLDataType { code: dtype_code::FLOAT, bits: 32, lanes: 1 };
        let whole = tensor::new_tensor(pointer, cpu, float, &[3, 4], None, 0, data).unwrap();
        assert_eq!((cells.TensorSum)(whole), 66.0);
        let mut prototype = *tensor::dl_tensor(whole);
        let (mut dimensions, mut strides) = ([2_i64, 2], [2_i64, 4]);
        (prototype.shape, prototype.strides) = (dimensions.as_mut_ptr(), strides.as_mut_ptr());
        let view = tensor::unsafe_view(whole, &prototype).unwrap();
        dec_ref(whole);
        assert_eq!((cells.TensorSum)(view), 0.0 + 4.0 + 2.0 + 6.0);
        dec_ref(view);
        assert!(raised().is_null());
    }
}
