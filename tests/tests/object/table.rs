//! The table of types and operations, `tests/data/objects.json`, from Rust, with the typed
//! operations. `tests/python/objects_table.py` documents the table and runs the same rows from
//! Python, `tests/c/objects_table.cc` from C++.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::slice::from_ref;

use kernpack::reflect::{AttrColumn, TypeInfo, from_json, repr, to_json};
use kernpack::structural::{Options, deep_copy, equal, hash, recursive_compare, recursive_equal, recursive_hash};
use kernpack::sys::abi::type_index;
use kernpack::{
    Any, Array, Bytes, DataType, Device, Error, Function, IntoAny, Map, Module, ObjRef, ObjectRoot, Result, Shape,
    Tensor,
};
use kernpack_tests::{headers, library};
use serde_json::{Value, json};

fn table() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/objects.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The context of the rows.
struct Table {
    library: Module,
    names: HashMap<String, Any>,
}

impl Table {
    /// Cargo builds the library as a dependency of this test, next to it.
    fn open() -> Self {
        let path: PathBuf = std::env::current_exe().unwrap().with_file_name("libobjects.so");
        Self { library: Module::load(path.to_str().unwrap()).unwrap(), names: HashMap::new() }
    }

    /// The Rust value of a value in the table.
    fn evaluate(&self, value: &Value) -> Result<Any> {
        let object = match value {
            Value::Null => return Ok(Any::NONE),
            Value::Bool(bool) => return Ok(Any::from(*bool)),
            Value::Number(number) => {
                return Ok(number.as_i64().map_or_else(|| Any::from(number.as_f64().unwrap()), Any::from));
            }
            Value::String(text) => return Ok(Any::from(text.as_str())),
            Value::Array(_) => return Ok(self.list(value)?.into_iter().collect::<Array<Any>>().into_any()),
            Value::Object(object) => object,
        };
        let text = |key: &str| object[key].as_str().unwrap();
        let args = || object.get("args").map_or(Ok(Vec::new()), |args| self.list(args));
        let of = || self.evaluate(&object["of"]);
        if object.contains_key("new") {
            let mut args = args()?;
            if let Some(keywords) = object.get("kwargs") {
                args.push(Function::global("ffi.GetKwargsObject")?.call(())?);
                for (name, value) in keywords.as_object().unwrap() {
                    args.extend([Any::from(name.as_str()), self.evaluate(value)?]);
                }
            }
            return constructor(text("new"))?.call(args.as_slice());
        }
        if object.contains_key("call") {
            return self.library.function(text("call"))?.call(args()?.as_slice());
        }
        if object.contains_key("method") {
            let mut all = vec![of()?];
            all.extend(args()?);
            return method(TypeInfo::find(all[0].type_index()).unwrap(), text("method")).call(all.as_slice());
        }
        if object.contains_key("static") {
            return method(TypeInfo::by_key(text("type").as_bytes())?, text("static")).call(args()?.as_slice());
        }
        if object.contains_key("get") {
            return of()?.field(text("get"));
        }
        if object.contains_key("set") {
            let target = of()?;
            set(&target, text("set"), &self.evaluate(&object["to"])?)?;
            return Ok(target);
        }
        if object.contains_key("op") {
            return operation(text("op"), &args()?);
        }
        if object.contains_key("var") {
            return Ok(self.names[text("var")].clone());
        }
        let (tag, content) = object.iter().next().unwrap();
        Ok(match tag.as_str() {
            "bytes" => Any::from(unhex(content.as_str().unwrap()).as_slice()),
            "map" => {
                let pair = |pair: &Value| Ok((self.evaluate(&pair[0])?, self.evaluate(&pair[1])?));
                let pairs = content.as_array().unwrap().iter().map(pair).collect::<Result<Vec<_>>>()?;
                pairs.into_iter().collect::<Map<Any, Any>>().into_any()
            }
            "dtype" => Any::from(text("dtype").parse::<DataType>()?),
            "device" => {
                assert_eq!(text("device"), "cpu:0");
                Any::from(Device::CPU)
            }
            "shape" => {
                let extents: Vec<i64> =
                    content.as_array().unwrap().iter().map(|extent| extent.as_i64().unwrap()).collect();
                Shape::new(&extents).into_any()
            }
            "function" => Any::from(self.library.function(text("function"))?),
            _ => panic!("unknown tag {tag}"),
        })
    }

    fn list(&self, values: &Value) -> Result<Vec<Any>> {
        values.as_array().unwrap().iter().map(|value| self.evaluate(value)).collect()
    }

    /// The result of a row, or its error as `[kind, message]`.
    fn run(&mut self, row: &Value) -> Value {
        self.names.clear();
        let result = (|| {
            for named in row.get("let").and_then(Value::as_array).into_iter().flatten() {
                let value = self.evaluate(&named[1])?;
                self.names.insert(named[0].as_str().unwrap().to_owned(), value);
            }
            encode(&self.evaluate(&row["value"])?)
        })();
        result.unwrap_or_else(|error| failure(&error))
    }
}

fn failure(error: &Error) -> Value {
    json!([error.kind(), error.message()])
}

/// The constructor of a type: a method, or a type attribute if it is made of the fields.
fn constructor(key: &str) -> Result<Function> {
    static INIT: AttrColumn = AttrColumn::new("__ffi_init__");
    let info = TypeInfo::by_key(key.as_bytes())?;
    match INIT.get(info.index()) {
        Some(function) => function.try_to_owned()?.to(),
        None => Ok(method(info, "__ffi_init__")),
    }
}

fn method(info: TypeInfo, name: &str) -> Function {
    let own = |info: TypeInfo| info.own_methods().find(|method| method.name_bytes() == name.as_bytes());
    let found = info.lineage().collect::<Vec<_>>().into_iter().rev().find_map(own);
    found.unwrap_or_else(|| panic!("{} has no method {name}", info.key())).value().try_to_owned().unwrap().to().unwrap()
}

fn set(target: &Any, name: &str, value: &Any) -> Result<()> {
    let field = TypeInfo::find(target.type_index()).unwrap().fields().find(|field| field.name() == name).unwrap();
    // SAFETY: the field is one of the object's type, `target` keeps the object alive, and no other
    // thread knows it.
    unsafe { field.set(target.as_view().as_raw().payload.v_obj, value.as_view()) }
}

fn operation(name: &str, args: &[Any]) -> Result<Any> {
    static SHALLOW_COPY: AttrColumn = AttrColumn::new("__ffi_shallow_copy__");
    Ok(match (name, args) {
        ("eq", [a, b]) => Any::from(recursive_equal(a, b)?),
        ("lt", [a, b]) => Any::from(recursive_compare(a, b)?.is_lt()),
        ("le", [a, b]) => Any::from(recursive_compare(a, b)?.is_le()),
        ("hash_equal", [a, b]) => Any::from(recursive_hash(a)? == recursive_hash(b)?),
        ("repr", [a]) => Any::from(repr(a)?.as_str()),
        ("copy", [a]) => match SHALLOW_COPY.get(a.type_index()) {
            Some(function) => function.try_to_owned()?.to::<Function>()?.call((a,))?,
            None => return Err(Error::type_error(format!("Type `{}` does not support copy", a.type_name()))),
        },
        ("deepcopy", [a]) => deep_copy(a)?,
        ("json", [a]) => from_json(&to_json(a)?)?,
        ("same", [a, b]) => Any::from(a.to::<ObjRef<ObjectRoot>>()?.ptr_eq(&b.to::<ObjRef<ObjectRoot>>()?)),
        ("is", [a, key]) => {
            let wanted = TypeInfo::by_key(key.to::<String>()?.as_bytes())?;
            Any::from(TypeInfo::find(a.type_index()).unwrap().is_a(wanted.index()))
        }
        ("structural_equal", [a, b]) => Any::from(equal(a, b)?),
        ("structural_equal_mapped", [a, b]) => Any::from(Options::new().map_free_vars(true).equal(a, b)?),
        ("structural_hash_equal", [a, b]) => Any::from(hash(a)? == hash(b)?),
        _ => panic!("unknown operation {name} of {} arguments", args.len()),
    })
}

/// The form of a result in the table.
fn encode(value: &Any) -> Result<Value> {
    Ok(match value.type_index() {
        type_index::NONE => Value::Null,
        type_index::BOOL => json!(value.to::<bool>()?),
        type_index::INT => json!(value.to::<i64>()?),
        type_index::FLOAT => json!(value.to::<f64>()?),
        type_index::SMALL_STR | type_index::STR => json!(value.to::<String>()?),
        type_index::SMALL_BYTES | type_index::BYTES => json!({"bytes": hex(&value.to::<Bytes>()?)}),
        type_index::DATA_TYPE => json!({"dtype": value.to::<DataType>()?.to_string()}),
        type_index::DEVICE => json!({"device": value.to::<Device>()?.to_string()}),
        type_index::SHAPE => json!({"shape": value.to::<Shape>()?.to_vec()}),
        type_index::FUNCTION => json!({"function": true}),
        type_index::ARRAY => {
            json!(value.to::<Array<Any>>()?.iter().map(|element| encode(&element)).collect::<Result<Vec<_>>>()?)
        }
        type_index::MAP => {
            let pair = |(key, value)| Ok(json!([encode(&key)?, encode(&value)?]));
            json!({"map": value.to::<Map<Any, Any>>()?.iter().map(pair).collect::<Result<Vec<_>>>()?})
        }
        type_index::TENSOR => {
            let tensor: Tensor = value.to()?;
            let data = tensor.view::<i32>()?.to_vec();
            json!({"tensor": {"dtype": tensor.dtype().to_string(), "shape": tensor.shape(), "data": data}})
        }
        _ => encode_object(value)?,
    })
}

fn encode_object(value: &Any) -> Result<Value> {
    let info = TypeInfo::find(value.type_index()).unwrap();
    let is_enum = info.lineage().any(|info| ["ffi.IntEnum", "ffi.StrEnum"].contains(&&*info.key()));
    if is_enum {
        return Ok(json!({"enum": info.key(), "value": encode(&value.field("value")?)?}));
    }
    let field = |name: String| Ok((name.clone(), encode(&value.field(&name)?)?));
    let fields =
        info.fields().map(|each| field(each.name().into_owned())).collect::<Result<serde_json::Map<_, _>>>()?;
    Ok(json!({"object": info.key(), "fields": fields}))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// Returns whether a row is for Rust. Arguments by name need the embedded builtins, which are there
/// when the whole workspace is built.
fn is_ours(row: &Value) -> bool {
    let hosts = row.get("hosts").is_none_or(|hosts| hosts.as_array().unwrap().contains(&json!("rust")));
    let keywords =
        Function::find_global("ffi.GetKwargsObject").unwrap().is_some() || !row.to_string().contains("kwargs");
    hosts && keywords
}

#[test]
fn every_row() {
    let mut run = Table::open();
    let (mut ran, mut failures) = (0, Vec::new());
    for row in table()["rows"].as_array().unwrap().iter().filter(|row| is_ours(row)) {
        ran += 1;
        let (got, expected) = (run.run(row), row.get("result").or(row.get("error")).unwrap());
        if got != *expected {
            failures.push(format!("{}\n  expected {expected}\n  got      {got}", row["rule"]));
        }
    }
    assert!(ran > 60, "only {ran} rows ran");
    assert!(failures.is_empty(), "{} of {ran} rows failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_operation_on_every_sample() {
    let run = Table::open();
    let mut failures = Vec::new();
    for sample in table()["samples"].as_array().unwrap().iter().filter(|sample| is_ours(sample)) {
        let make = || run.evaluate(&sample["value"]).unwrap();
        let value = make();
        let mut check = |what: &str, got: Value, expected: &Value| {
            if got != *expected {
                failures.push(format!("{} {what}\n  expected {expected}\n  got      {got}", sample["value"]));
            }
        };
        let outcome = |name: &str, args: &[Any]| {
            operation(name, args).and_then(|value| encode(&value)).unwrap_or_else(|error| failure(&error))
        };
        check("reads", reads(&value), &sample["reads"]);
        check("repr", outcome("repr", from_ref(&value)), &sample["repr"]);
        for name in ["eq", "le", "hash_equal", "structural_equal", "structural_hash_equal"] {
            let expected = sample["fails"].get(name).unwrap_or(&json!(true));
            check(name, outcome(name, &[value.clone(), make()]), expected);
        }
        for name in ["copy", "deepcopy", "json"] {
            match sample["fails"].get(name) {
                // Python tests the way in which a type declares that it cannot be copied.
                Some(_) if name == "copy" => assert!(operation(name, from_ref(&value)).is_err()),
                Some(expected) => check(name, outcome(name, from_ref(&value)), expected),
                None => {
                    let copy = operation(name, from_ref(&value)).unwrap();
                    check(name, reads(&copy), &sample["reads"]);
                    check(name, json!(copy.type_name()), &json!(value.type_name()));
                    check(name, outcome("same", &[value.clone(), copy]), &json!(false));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn reads(value: &Any) -> Value {
    encode(value).unwrap()["fields"].clone()
}

#[test]
fn types_are_described() {
    let _library = Table::open();
    for row in table()["types"].as_array().unwrap() {
        let key = row["key"].as_str().unwrap();
        let info = TypeInfo::by_key(key.as_bytes()).unwrap();
        // SAFETY: the host keeps what types register forever.
        let text = |bytes: &kernpack::sys::abi::TVMFFIByteArray| unsafe { String::from_utf8_lossy(bytes.as_slice()) };
        assert_eq!(text(&info.metadata().unwrap().doc), row["doc"].as_str().unwrap_or_default(), "{key}");
        let parent = info.ancestor(info.depth() - 1).unwrap();
        assert_eq!(parent.key(), row.get("parent").map_or("ffi.Object", |parent| parent.as_str().unwrap()), "{key}");
        let fields: Vec<_> = info.own_fields().map(|field| field.name().into_owned()).collect();
        let expected = row["fields"].as_object().unwrap();
        assert_eq!(fields.len(), expected.len(), "{key}");
        for field in info.own_fields() {
            let doc = expected[&*field.name()].get(1).map_or("", |doc| doc.as_str().unwrap());
            assert_eq!(text(&field.as_raw().doc), doc, "{key}.{}", field.name());
            let writable = row["writable"].as_array().is_some_and(|names| names.contains(&json!(field.name())));
            assert_eq!(field.has(kernpack::sys::abi::field_flag::WRITABLE), writable, "{key}.{}", field.name());
        }
        for (name, doc) in row.get("methods").and_then(Value::as_object).into_iter().flatten() {
            let method = info.own_methods().find(|method| method.name_bytes() == name.as_bytes()).unwrap();
            assert_eq!(text(&method.as_raw().doc), doc.as_str().unwrap(), "{key}.{name}");
        }
    }
}

#[test]
fn every_row_from_cpp() {
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    let program = headers::scratch_dir("objects_table").join("objects_table");
    library::compile_cpp("objects_table.cc", &program, &include_dirs, &[]);
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/data/objects.json");
    let objects = std::env::current_exe().unwrap().with_file_name("libobjects.so");
    let ours = library::library().parent().unwrap().to_owned();
    let stock = std::env::var_os("KERNPACK_TVM_FFI_LIB").map(PathBuf::from);
    for folder in stock.into_iter().chain([ours]) {
        let output = Command::new(&program).arg(table).arg(&objects).env("LD_LIBRARY_PATH", &folder).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {printed}{}", folder.display(), String::from_utf8_lossy(&output.stderr));
        assert!(printed.ends_with(" ran, 0 failures\n"), "{printed}");
    }
}
