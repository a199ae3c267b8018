//! `libtvm_ffi.so` from Rust against C and C++ code that is compiled with the headers of the PyPI wheel: plain C through
//! dlopen, a C++ program linked with it, and C++ code that works on the same containers as Rust does, in turn.

mod headers;

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::OnceLock;

use kernpack::abi::*;
use kernpack::embedded::{
    self, dec_ref, inc_ref, map, new_string, new_string_object, release, seq, shape, tensor, text_of,
};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const RTLD_GLOBAL: c_int = 0x100;

/// Builds the library as the tests were built, and says where it is.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile_dir = test.parent().and_then(Path::parent).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--package", "kernpack-capi", "--target-dir"]);
        cargo.arg(profile_dir.parent().unwrap());
        match profile_dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") => {}
            Some(profile) => _ = cargo.args(["--profile", profile]),
            None => panic!("no profile folder in {}", test.display()),
        }
        headers::run(&mut cargo);
        profile_dir.join("libtvm_ffi.so")
    })
}

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

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name)
}

fn compile_cpp(name: &str, output: &Path, include_dirs: &[PathBuf], more: &[&str]) {
    let dir = library().parent().unwrap().display();
    let (search, run_path) = (format!("-L{dir}"), format!("-Wl,-rpath,{dir}"));
    let mut options = vec!["-std=c++17", "-O1", &search, "-l:libtvm_ffi.so", &run_path];
    options.extend_from_slice(more);
    headers::compile("g++", &source(name), output, include_dirs, &options);
}

type Handle = TVMFFIObjectHandle;

macro_rules! cells {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions of cells.cc.
        #[allow(non_snake_case)]
        struct Cells { $($name: unsafe extern "C" fn($($type),*) $(-> $ret)?,)* }

        impl Cells {
            fn load(library: *mut c_void) -> Self {
                // SAFETY: cells.cc defines each function with this type.
                unsafe {
                    Self { $($name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $ret)?>(
                        symbol(library, stringify!($name))),)* }
                }
            }
        }
    };
}

cells! {
    MapSet(map: *mut Handle, key: *const TVMFFIAny, value: *const TVMFFIAny) -> c_int;
    MapErase(map: *mut Handle, key: *const TVMFFIAny) -> c_int;
    DictSet(dict: Handle, key: *const TVMFFIAny, value: *const TVMFFIAny) -> c_int;
    DictErase(dict: Handle, key: *const TVMFFIAny) -> c_int;
    DictClear(dict: Handle) -> c_int;
    MapGet(map: Handle, key: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
    MapEntries(map: Handle, out: *mut TVMFFIAny) -> i64;
    NewMap() -> Handle;
    NewDict() -> Handle;
    NewList() -> Handle;
    ListPush(list: Handle, value: *const TVMFFIAny) -> c_int;
    ListErase(list: Handle, index: i64) -> c_int;
    ArrayChange(array: *mut Handle, value: *const TVMFFIAny, last: *mut TVMFFIAny) -> c_int;
    ShapeProduct(shape: Handle) -> i64;
    TensorSum(tensor: Handle) -> f64;
    ThrowAndRaise(error: Handle) -> c_int;
    CallTwice(function: Handle, argument: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int;
    RegisterNumber() -> c_int;
    NewNumber(number: i64, out: *mut TVMFFIAny);
}

fn open(path: &Path) -> *mut c_void {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name is NUL-terminated, and our libraries may be loaded at any time.
    unsafe {
        let library = dlopen(name.as_ptr(), RTLD_NOW | RTLD_GLOBAL);
        assert!(!library.is_null(), "{:?}", std::ffi::CStr::from_ptr(dlerror()));
        library
    }
}

fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the library is loaded and the name is NUL-terminated.
    let address = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!address.is_null(), "{name:?}");
    address
}

/// C++ and Rust on the same objects; `None` (with a line that says why) without headers. The cells of this process use the
/// tables of libtvm_ffi.so from then on, as C++ does.
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

/// A simple sequence of numbers that depends on its seed only.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// Key number `n`: every kind of key that is compared by content.
fn key(n: u64) -> TVMFFIAny {
    match n % 5 {
        0 => TVMFFIAny::int(n as i64),
        1 => new_string(format!("k{n}").as_bytes()),
        2 => new_string(format!("a longer key, number {n}").as_bytes()),
        // A short string as an object: equal to the small form.
        3 => TVMFFIAny::pointer(type_index::STR, new_string_object(format!("s{n}").as_bytes()).cast()),
        _ => TVMFFIAny::float(n as f64),
    }
}

/// Keys as text, to be compared and shown.
fn show(value: &TVMFFIAny) -> String {
    // SAFETY: the tests only make valid values.
    match unsafe { text_of(value) } {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => format!("{}:{}", value.type_index, value.bits()),
    }
}

fn is_small(map: Handle) -> bool {
    // SAFETY: every map begins with this cell.
    unsafe { embedded::body::<TVMFFIMapCell>(map).slots >> 63 == 1 }
}

/// Random operations on one map or dict, done in turn by C++ and by Rust, beside a list of what must come out.
fn exercise(cells: &Cells, mut map: Handle, is_dict: bool, keys: u64, steps: u64) {
    let mut random = Random(keys * 1000 + steps);
    let mut expected: Vec<(String, u64)> = Vec::new();
    // Values are references to one object, so that each lost or doubled reference shows in the end.
    let object = new_string_object(b"the value");
    for step in 0..steps {
        let n = random.below(keys);
        let key = key(n);
        let name = show(&key);
        let place = expected.iter().position(|(known, _)| *known == name);
        let value = if n.is_multiple_of(2) {
            TVMFFIAny::int(step as i64)
        } else {
            TVMFFIAny::pointer(type_index::STR, object.cast())
        };
        // SAFETY: keys and values are valid, and references are given and released once each.
        unsafe {
            match (random.below(4), random.below(2) == 0) {
                (0 | 1, by_rust) => {
                    if by_rust {
                        map::set(map, release::retain(&key), release::retain(&value)).unwrap();
                    } else if is_dict {
                        assert_eq!((cells.DictSet)(map, &key, &value), 0);
                    } else {
                        assert_eq!((cells.MapSet)(&mut map, &key, &value), 0);
                    }
                    match place {
                        Some(place) if is_small(map) => expected[place].1 = value.bits(),
                        Some(place) => {
                            expected.remove(place);
                            expected.push((name, value.bits()));
                        }
                        None => expected.push((name, value.bits())),
                    }
                }
                (2, by_rust) => {
                    if by_rust {
                        let erased = map::erase(map, &key).unwrap();
                        assert_eq!(erased.map(|value| value.bits()), place.map(|place| expected[place].1));
                        erased.into_iter().for_each(|value| release::release(value));
                    } else if is_dict {
                        assert_eq!((cells.DictErase)(map, &key), 0);
                    } else {
                        assert_eq!((cells.MapErase)(&mut map, &key), 0);
                    }
                    place.map(|place| expected.remove(place));
                }
                (_, by_rust) => {
                    let mut found = TVMFFIAny::NONE;
                    if by_rust {
                        found = map::get(map, &key).unwrap().map_or(TVMFFIAny::NONE, |value| release::retain(&value));
                    } else {
                        assert_eq!((cells.MapGet)(map, &key, &mut found), 0);
                    }
                    assert_eq!(found.bits(), place.map_or(0, |place| expected[place].1), "{name} after {step} steps");
                    release::release(found);
                }
            }
            release::release(key);
            if step.is_multiple_of(16) || step == steps - 1 {
                check_entries(cells, map, &expected);
            }
        }
    }
    // SAFETY: the map and the object are ours.
    unsafe {
        if is_dict && steps.is_multiple_of(2) {
            assert_eq!((cells.DictClear)(map), 0);
            check_entries(cells, map, &[]);
            map::set(map, TVMFFIAny::int(1), TVMFFIAny::int(2)).unwrap();
            check_entries(cells, map, &[(show(&TVMFFIAny::int(1)), 2)]);
        }
        let copy = map::copy(map);
        dec_ref(map);
        dec_ref(copy);
        assert_eq!(embedded::strong_count(object), 1, "all references are given back");
        dec_ref(object);
    }
}

/// Both sides see the same entries in the same order.
unsafe fn check_entries(cells: &Cells, map: Handle, expected: &[(String, u64)]) {
    // SAFETY: the map is alive; C++ gives owned values.
    unsafe {
        let seen: Vec<_> = map::iter(map).map(|(key, value)| (show(&key), value.bits())).collect();
        assert_eq!(seen, expected);
        assert_eq!(map::len(map), expected.len());
        let mut values = vec![TVMFFIAny::NONE; 2 * expected.len()];
        assert_eq!((cells.MapEntries)(map, values.as_mut_ptr()), expected.len() as i64);
        let seen: Vec<_> = values.chunks(2).map(|pair| (show(&pair[0]), pair[1].bits())).collect();
        assert_eq!(seen, expected);
        values.into_iter().for_each(|value| release::release(value));
    }
}

#[test]
fn maps_are_changed_by_both_sides_in_turn() {
    let Some((cells, _)) = shared() else { return };
    for (keys, steps) in [(3, 100), (5, 200), (8, 301), (40, 1000), (300, 4000), (5000, 8001)] {
        exercise(cells, map::new_dict(vec![]).unwrap(), true, keys, steps);
        exercise(cells, map::new_map(vec![]).unwrap(), false, keys, steps + 1);
        // SAFETY: no arguments.
        let (dict, map) = unsafe { ((cells.NewDict)(), (cells.NewMap)()) };
        exercise(cells, dict, true, keys, steps + 2);
        exercise(cells, map, false, keys, steps + 3);
    }
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

#[test]
fn arrays_and_lists_are_changed_by_both_sides() {
    let Some((cells, _)) = shared() else { return };
    let object = new_string_object(b"an element");
    let value = TVMFFIAny::pointer(type_index::STR, object.cast());
    // SAFETY: all values are valid, and references are given and released once each.
    unsafe {
        for capacity in [0, 1, 2, 8] {
            for shared in [false, true] {
                let elements = vec![release::retain(&value), TVMFFIAny::int(2)];
                let mut array = seq::new_array_with_capacity(elements, capacity);
                let old = array;
                if shared {
                    inc_ref(old);
                }
                let mut last = TVMFFIAny::NONE;
                assert_eq!((cells.ArrayChange)(&mut array, &value, &mut last), 0);
                assert_eq!(last.bits(), value.bits());
                release::release(last);
                assert_eq!(seq::elements(array).len(), 2);
                assert_eq!(seq::elements(array)[0].bits(), value.bits());
                assert_eq!(array == old, !shared && capacity > 2, "changed in place when unique and roomy");
                if shared {
                    dec_ref(old);
                }
                dec_ref(array);
                assert_eq!(embedded::strong_count(object), 1);
            }
        }
        for list in [seq::new_list(vec![]), seq::new_list(vec![TVMFFIAny::int(0); 3]), (cells.NewList)()] {
            let mut random = Random(7);
            let mut expected: Vec<u64> = seq::elements(list).iter().map(|value| value.bits()).collect();
            for step in 0..500 {
                let index = random.below(expected.len() as u64 + 1) as usize;
                match random.below(5) {
                    0 => assert_eq!((cells.ListPush)(list, &value), 0),
                    1 => seq::push_to_list(list, release::retain(&value)),
                    2 => seq::insert_into_list(list, index as i64, TVMFFIAny::int(step)).unwrap(),
                    3 if index < expected.len() => assert_eq!((cells.ListErase)(list, index as i64), 0),
                    4 if index < expected.len() => release::release(seq::remove(list, index as i64).unwrap()),
                    _ => continue,
                }
                // What must have happened follows from the length.
                let now: Vec<u64> = seq::elements(list).iter().map(|value| value.bits()).collect();
                if now.len() < expected.len() {
                    expected.remove(index);
                } else if now.last() == Some(&value.bits()) && now[..now.len() - 1] == expected {
                    expected.push(value.bits());
                } else {
                    expected.insert(index, step as u64);
                }
                assert_eq!(now, expected, "after {step} steps");
            }
            dec_ref(list);
            assert_eq!(embedded::strong_count(object), 1);
        }
        dec_ref(object);
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

        let dimensions = shape::new_shape(&[2, 3, 7]);
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
