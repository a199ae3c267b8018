//! Registrations of our `libtvm_ffi.so` against those of the stock one (apache-tvm-ffi
//! 0.1.15.post2): all global functions with their metadata, all types with fields, methods and
//! attributes. `data/globals.json` and `data/types.json` are dumps of the stock library. Every
//! difference is listed.

use std::ffi::c_int;
use std::ptr::null_mut;

use kernpack::sys::abi::*;
use serde_json::{Map, Value, json};

use kernpack_tests::library::library;
use kernpack_tests::symbols::{functions, open};

type Handle = TVMFFIObjectHandle;

functions! {
    /// The C functions that report registrations.
    struct Api {
        fn TVMFFIFunctionGetGlobal(name: *const TVMFFIByteArray, out: *mut Handle) -> c_int;
        fn TVMFFIFunctionCall(function: Handle, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> c_int;
        fn TVMFFITypeKeyToIndex(key: *const TVMFFIByteArray, out: *mut i32) -> c_int;
        fn TVMFFIGetTypeInfo(index: i32) -> *const TVMFFITypeInfo;
        fn TVMFFIGetTypeAttrColumn(name: *const TVMFFIByteArray) -> *const TVMFFITypeAttrColumn;
    }
}

impl Api {
    fn call(&self, function: Handle, args: &[TVMFFIAny]) -> TVMFFIAny {
        let mut result = TVMFFIAny::NONE;
        // SAFETY: a live function and valid arguments.
        let status = unsafe { (self.TVMFFIFunctionCall)(function, args.as_ptr(), args.len() as i32, &mut result) };
        assert_eq!(status, 0);
        result
    }

    fn global(&self, name: &str) -> Option<Handle> {
        let mut function = null_mut();
        // SAFETY: the name is valid for the call.
        let status = unsafe { (self.TVMFFIFunctionGetGlobal)(&bytes(name), &mut function) };
        assert_eq!(status, 0);
        (!function.is_null()).then_some(function)
    }

    fn globals(&self) -> Value {
        let names = self.call(self.global("ffi.FunctionListGlobalNamesFunctor").unwrap(), &[]);
        // SAFETY: the result is a function that lives as long as it is not released; its results
        // are an integer and strings.
        unsafe {
            let names = names.payload.v_obj;
            let count = self.call(names, &[TVMFFIAny::int(-1)]).payload.v_int64;
            let metadata = self.global("ffi.GetGlobalFuncMetadata").unwrap();
            let entry = |index| {
                let name = text(&self.call(names, &[TVMFFIAny::int(index)]));
                let c_name = std::ffi::CString::new(name.as_str()).unwrap();
                let argument = TVMFFIAny::pointer(type_index::RAW_STR, c_name.as_ptr().cast_mut().cast());
                (name, Value::String(text(&self.call(metadata, &[argument]))))
            };
            Value::Object((0..count).map(entry).collect())
        }
    }

    fn types(&self, columns: &[&str]) -> Value {
        let keys = self.call(self.global("ffi.GetRegisteredTypeKeys").unwrap(), &[]);
        // SAFETY: the result is an array of strings.
        let keys: Vec<String> = unsafe {
            let cell = &*keys.payload.v_obj.byte_add(size_of::<TVMFFIObject>()).cast::<TVMFFISeqCell>();
            std::slice::from_raw_parts(cell.data.cast::<TVMFFIAny>(), cell.size as usize).iter().map(text).collect()
        };
        let types = keys.iter().map(|key| {
            let mut index = -1;
            // SAFETY: the key is valid for the call; descriptions of types live forever.
            unsafe {
                assert_eq!((self.TVMFFITypeKeyToIndex)(&bytes(key), &mut index), 0, "{key}");
                (key.clone(), self.describe(&*(self.TVMFFIGetTypeInfo)(index), columns))
            }
        });
        Value::Object(types.collect())
    }

    unsafe fn describe(&self, info: &TVMFFITypeInfo, columns: &[&str]) -> Value {
        // SAFETY: the caller passes the library's description of a type; everything that it points
        // to lives forever.
        unsafe {
            let ancestors: Vec<String> =
                slice(info.type_ancestors, info.type_depth).iter().map(|info| string(&(**info).type_key)).collect();
            let metadata = info.metadata.as_ref().map(|metadata| {
                json!({
                    "doc": string(&metadata.doc),
                    "has_creator": metadata.creator.is_some(),
                    "total_size": metadata.total_size,
                    "structural_eq_hash_kind": metadata.structural_eq_hash_kind,
                })
            });
            let fields = slice(info.fields, info.num_fields).iter().map(|field| {
                json!({
                    "name": string(&field.name),
                    "doc": string(&field.doc),
                    "metadata": parsed(&field.metadata),
                    "flags": field.flags,
                    "size": field.size,
                    "alignment": field.alignment,
                    "offset": field.offset,
                    "has_getter": field.getter.is_some(),
                    "has_setter": !field.setter.is_null(),
                    "default": Value::Null,
                    "default_ti": field.default_value_or_factory.type_index,
                    "field_static_type_index": field.field_static_type_index,
                })
            });
            let methods = slice(info.methods, info.num_methods).iter().map(|method| {
                json!({
                    "name": string(&method.name),
                    "doc": string(&method.doc),
                    "metadata": parsed(&method.metadata),
                    "flags": method.flags,
                    "method_ti": method.method.type_index,
                })
            });
            let attrs =
                columns.iter().filter_map(|column| Some(((*column).to_owned(), self.attr(column, info.type_index)?)));
            json!({
                "type_key": string(&info.type_key),
                "type_index": info.type_index,
                "static": info.type_index < type_index::DYN_OBJECT_BEGIN,
                "depth": info.type_depth,
                "parent": ancestors.last(),
                "ancestors": ancestors,
                "type_key_hash": info.type_key_hash,
                "metadata": metadata,
                "fields": fields.collect::<Vec<_>>(),
                "methods": methods.collect::<Vec<_>>(),
                "attrs": attrs.collect::<Map<_, _>>(),
            })
        }
    }

    fn column(&self, name: &str) -> Option<&TVMFFITypeAttrColumn> {
        // SAFETY: the name is valid for the call; columns live forever, and do not change
        // meanwhile.
        unsafe { (self.TVMFFIGetTypeAttrColumn)(&bytes(name)).as_ref() }
    }

    fn attr(&self, column: &str, index: i32) -> Option<Value> {
        let column = self.column(column)?;
        let place = usize::try_from(index - column.begin_index).ok()?;
        // SAFETY: the column has that many values.
        let values = unsafe { slice(column.data.cast::<TVMFFIAny>(), column.size) };
        let value = values.get(place)?;
        Some(match value.type_index {
            type_index::NONE => return None,
            type_index::BOOL => Value::Bool(value.bits() != 0),
            type_index::OPAQUE_PTR => json!("<OpaquePtr>"),
            type_index::FUNCTION => json!("<ffi.Function>"),
            other => json!(format!("<type index {other}>")),
        })
    }
}

fn bytes(text: &str) -> TVMFFIByteArray {
    TVMFFIByteArray::new(text.as_bytes())
}

unsafe fn slice<'a, T>(data: *const T, len: i32) -> &'a [T] {
    // SAFETY: the caller passes a pointer to that many elements.
    if len <= 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, len as usize) } }
}

/// A byte array of the library.
unsafe fn string(bytes: &TVMFFIByteArray) -> String {
    // SAFETY: the caller passes a valid byte array.
    String::from_utf8(unsafe { bytes.as_slice() }.to_vec()).unwrap()
}

unsafe fn parsed(metadata: &TVMFFIByteArray) -> Value {
    // SAFETY: promised by the caller.
    let text = unsafe { string(metadata) };
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// A string or bytes value.
fn text(value: &TVMFFIAny) -> String {
    // SAFETY: the values of this test are valid.
    let text = unsafe { kernpack::sys::embedded::text_of(value) };
    String::from_utf8(text.unwrap_or_else(|| panic!("type index {} is not text", value.type_index)).to_vec()).unwrap()
}

fn data(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A list of objects as one object, with the value of a member as key.
fn by(member: &str, list: &Value) -> Value {
    let entries =
        list.as_array().unwrap().iter().map(|entry| (entry[member].as_str().unwrap().to_owned(), entry.clone()));
    Value::Object(entries.collect())
}

/// Lists the differences of two values.
fn compare(path: &str, expected: &Value, got: &Value, differences: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (name, expected) in expected {
                let path = format!("{path}/{name}");
                match got.get(name) {
                    Some(got) => compare(&path, expected, got, differences),
                    None => differences.push(format!("{path} is missing")),
                }
            }
            for name in got.keys().filter(|name| !expected.contains_key(*name)) {
                differences.push(format!("{path}/{name} is too much"));
            }
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                compare(&format!("{path}/{index}"), expected, got, differences);
            }
        }
        _ if expected == got => {}
        _ => differences.push(format!("{path}: expected {expected}, got {got}")),
    }
}

#[track_caller]
fn assert_same(expected: &Value, got: &Value) {
    let mut differences = Vec::new();
    compare("", expected, got, &mut differences);
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Functions that the stock library does not have: through these, libraries share the record of
/// borrowed tensors, the CPU, and the symbols that they give their own libraries.
const OWN: &[&str] = &["kernpack.tensor_borrows_v3", "kernpack.device_api_v1.1", "kernpack.context_symbols_v1"];

#[test]
fn global_functions() {
    let expected = by("name", &data("globals.json"));
    let expected: Map<String, Value> =
        expected.as_object().unwrap().iter().map(|(name, entry)| (name.clone(), entry["metadata"].clone())).collect();
    assert_eq!(expected.len(), 100);
    let mut got = Api::load(open(library())).globals();
    if let Value::Object(got) = &mut got {
        got.retain(|name, _| !OWN.contains(&name.as_str()));
    }
    assert_same(&Value::Object(expected), &got);
}

#[test]
fn types() {
    let expected = data("types.json");
    let columns: Vec<&str> = expected["attr_columns"].as_object().unwrap().keys().map(String::as_str).collect();
    let got = Api::load(open(library())).types(&columns);
    assert_same(&by("type_key", &expected["types"]), &got);
    let mut indices: Vec<i64> =
        got.as_object().unwrap().values().map(|info| info["type_index"].as_i64().unwrap()).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), 39);
}

#[test]
fn attribute_columns() {
    let expected = &data("types.json")["attr_columns"];
    let api = Api::load(open(library()));
    let columns = expected.as_object().unwrap().keys().map(|name| {
        let column = api.column(name);
        (
            name.clone(),
            column.map_or(Value::Null, |column| json!({"size": column.size, "begin_index": column.begin_index})),
        )
    });
    assert_same(expected, &Value::Object(columns.collect()));
}
