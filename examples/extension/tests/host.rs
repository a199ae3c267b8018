//! The calls of `python/run.py` in a Rust program: it links the crate `expr` for its types, and
//! loads both libraries.

use std::process::Command;

use expr::{Add, Expr, Var};
use kernpack::device::device_type;
use kernpack::device::{self, DeviceAttribute, Stream};
use kernpack::reflect::{self, AttrColumn, TypeInfo};
use kernpack::{Any, AnyView, Array, DataType, Device, Function, Module, ObjRef, Result, Str, Tensor};

/// Set for a process that loads the libraries in the opposite order.
const EXTENSION_FIRST: &str = "EXTENSION_FIRST";

const EXT_DEV: Device = Device::new(device_type::EXT_DEV, 0);

/// Loads `libexpr.so` and `libextension.so`. Cargo builds them next to the test.
fn load() -> Result<(Module, Module)> {
    let folder = std::env::current_exe()?;
    let library = |name: &str| Module::load(folder.with_file_name(name));
    if std::env::var_os(EXTENSION_FIRST).is_some() {
        let extension = library("libextension.so")?;
        return Ok((library("libexpr.so")?, extension));
    }
    Ok((library("libexpr.so")?, library("libextension.so")?))
}

fn variable(name: &str) -> ObjRef<Var> {
    ObjRef::new(Var::new(Str::new(name), DataType::INT32))
}

/// Creates an `IntVector` like any other language does: this program does not have the type.
fn vector(elements: &[i64]) -> Result<Any> {
    let constructor = AttrColumn::new("__ffi_init__").get(TypeInfo::by_key(b"extension.IntVector")?.index());
    constructor.unwrap_or(AnyView::NONE).get::<Function>()?.call((elements.to_vec(),))
}

/// Calls a method of an object: the registered function with this name.
fn call(object: &Any, name: &str, arguments: &[Any]) -> Result<Any> {
    let methods =
        TypeInfo::find(object.type_index()).into_iter().flat_map(TypeInfo::lineage).flat_map(TypeInfo::own_methods);
    let Some(method) = methods.into_iter().find(|method| method.name_bytes() == name.as_bytes()) else {
        kernpack::bail!(AttributeError, "{} has no method {name}", object.type_name());
    };
    let arguments: Vec<Any> = [object].into_iter().chain(arguments).cloned().collect();
    method.value().get::<Function>()?.call(arguments.as_slice())
}

#[test]
fn functions_take_and_return_functions() -> Result<()> {
    let (_, extension) = load()?;
    let subtract = Function::from_fn(|a: i64, b: i64| a - b);
    let bound: Function = extension.function("bind_add")?.call_as((&subtract, 10))?;
    assert_eq!(bound.call_as::<i64>((3,))?, 7, "the bound argument comes first");

    let vector = vector(&[1, 2, 3])?;
    let fail = Function::from_fn(|_: i64| -> Result<i64> { Err(kernpack::error!(PermissionError, "not today")) });
    let error = extension.function("map_vector")?.call((&vector, &fail)).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("PermissionError", "not today"));
    Ok(())
}

#[test]
fn a_vector_is_shared() -> Result<()> {
    load()?;
    let vector = vector(&[1, 2, 3])?;
    let same = vector.clone();
    call(&same, "__setitem__", &[Any::from(-1), Any::from(30)])?;
    call(&same, "append", &[Any::from(4)])?;
    assert_eq!(call(&vector, "__getitem__", &[Any::from(2)])?.to::<i64>()?, 30);
    assert_eq!(call(&vector, "__len__", &[])?.to::<i64>()?, 4);
    assert_eq!(call(&vector, "to_vec", &[])?.to::<Vec<i64>>()?, [1, 2, 30, 4]);
    assert_eq!(reflect::repr(&vector)?, "IntVector([1, 2, 30, 4])");
    let error = call(&vector, "__getitem__", &[Any::from(4)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        ("IndexError", "index 4 is out of range for an IntVector of 4 elements")
    );
    Ok(())
}

#[test]
fn both_libraries_and_this_program_share_types() -> Result<()> {
    let (expr, extension) = load()?;
    let (a, b) = (variable("a"), variable("b"));
    let sum: ObjRef<Add> = extension.function("sym_add")?.call_as((&a, &b))?;
    assert!(sum.a.ptr_eq(&a) && sum.b.ptr_eq(&b));
    assert_eq!(sum.dtype, DataType::INT32);
    assert_eq!(expr.function("text")?.call_as::<String>((&sum,))?, "a + b");
    assert_eq!(extension.function("variables")?.call_as::<Vec<String>>((&sum,))?, ["a", "b"]);

    let error = extension.function("sym_add")?.call((&a, 1)).unwrap_err();
    assert_eq!(error.message(), "expected two expressions of one library (expr.Expr or ir.Expr), got expr.Var and int");
    Ok(())
}

#[test]
fn objects_in_fields_of_objects() -> Result<()> {
    let (_, extension) = load()?;
    let n = variable("n");
    let shape = vec![Any::from(4), n.clone().into()];
    let x: Any = extension.function("placeholder")?.call((shape, DataType::FLOAT32, "x"))?;
    let y: Any = extension.function("add_one")?.call((&x, "y"))?;
    let shape: Array<ObjRef<Expr>> = y.field("shape")?.to()?;
    assert!(shape.get(1).is_some_and(|dimension| dimension.ptr_eq(&n)));
    assert_eq!(y.field("value_index")?.to::<i64>()?, 0);
    let inputs: Array<Any> = y.field("op")?.field("inputs")?.to()?;
    let input = inputs.get(0).unwrap_or_default();
    assert_eq!(input.field("op")?.field("name")?.to::<String>()?, "x");
    assert_eq!(extension.function("op_name")?.call_as::<String>((&y,))?, "y");
    Ok(())
}

#[test]
fn tensors_on_the_device() -> Result<()> {
    let (_, extension) = load()?;
    let to_device = extension.function("to_device")?;
    let x = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0], &[2, 2])?;
    let there: Tensor = to_device.call_as((&x, EXT_DEV))?;
    assert_eq!((there.device(), there.shape()), (EXT_DEV, [2, 2].as_slice()));
    let error = there.view::<f32>().map(drop).unwrap_err();
    assert!(error.message().contains("on ext_dev:0"), "{error}");

    let more: Tensor = extension.function("ext_dev_add_one")?.call_as((&there,))?;
    let back: Tensor = to_device.call_as((&more, Device::CPU))?;
    assert_eq!(back.view::<f32>()?.to_vec(), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(x.view::<f32>()?.to_vec(), [1.0, 2.0, 3.0, 4.0]);

    let empty: Tensor = to_device.call_as((&Tensor::zeros::<f32>(&[0, 3])?, EXT_DEV))?;
    assert_eq!(empty.shape(), [0, 3]);
    let error = to_device.call((&x, Device::new(device_type::VULKAN, 0))).unwrap_err();
    assert!(error.message().starts_with("no library in this process provides vulkan devices"), "{error}");
    Ok(())
}

#[test]
fn the_device_is_one_for_all() -> Result<()> {
    let (_, extension) = load()?;
    let in_use = || extension.function("ext_dev_in_use")?.call_as::<i64>(());
    // This program allocates, copies and views on the device of the library.
    assert!(device::exists(EXT_DEV) && !device::exists(Device::new(device_type::EXT_DEV, 1)));
    assert_eq!(device::attribute(EXT_DEV, DeviceAttribute::DeviceName)?.to::<String>()?, "the extension's device");
    let before = in_use()?;
    let mut there = Tensor::empty(DataType::FLOAT32, &[3, 1 << 16], EXT_DEV)?;
    assert!(in_use()? >= before + 12 * (1 << 16), "seen by the library, beside what other tests use");
    let numbers: Vec<f32> = (0..3 << 16).map(|number| number as f32).collect();
    there.copy_from(&Tensor::from_slice(&numbers, &[3, 1 << 16])?)?;
    let rows: Tensor = extension.function("rows")?.call_as((&there, 1, 3))?;
    drop(there);
    let more: Tensor = extension.function("ext_dev_add_one")?.call_as((&rows,))?;
    assert_eq!(more.to(Device::CPU)?.view::<f32>()?.get(&[1, 4]), Some(numbers[(2 << 16) + 4] + 1.0));
    // Export to DLPack, and import.
    let managed = rows.to_dlpack()?;
    // SAFETY: this function owns the export, and the import takes it over.
    let again = unsafe { Tensor::from_dlpack(managed)? };
    assert_eq!(again.to(Device::CPU)?.view::<f32>()?.to_vec(), numbers[1 << 16..]);

    let error = Tensor::empty(DataType::FLOAT64, &[1 << 30], EXT_DEV).unwrap_err();
    assert_eq!(error.kind(), "MemoryError");
    assert!(error.message().starts_with("out of memory: ext_dev:0 has "), "{error}");
    let error = Stream::new(Device::new(device_type::EXT_DEV, 1)).unwrap_err();
    assert_eq!(error.message(), "there is no ext_dev:1; there is one, ext_dev:0");
    Ok(())
}

#[test]
fn the_device_api_is_registered_under_the_name_that_apache_tvm_looks_up() -> Result<()> {
    load()?;
    let error = Function::global("device_api.ext_dev")?.call(()).unwrap_err();
    assert!(error.message().ends_with("device_api.cpu is not registered; import tvm first"), "{error}");
    Ok(())
}

#[test]
fn either_library_may_be_loaded_first() {
    if std::env::var_os(EXTENSION_FIRST).is_some() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap()).env(EXTENSION_FIRST, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
