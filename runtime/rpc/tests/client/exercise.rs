//! Tests of a session with a server that has the functions `rpc_test.*`, either Kernpack's or the
//! stock one.

use kernpack::device::{self, DeviceAttribute, Stream};
use kernpack::{Any, Bytes, DataType, Device, Function, IntoAny, Module, ObjRef, Tensor};
use kernpack_rpc::{RemoteObject, Session};

fn function(session: &Session, name: &str) -> Function {
    session.global_function(&format!("rpc_test.{name}")).unwrap()
}

/// Files of the session's folder.
pub(crate) fn files(session: &Session) {
    let content: Vec<u8> = (0..100_000u32).map(|i| (i * 7) as u8).collect();
    for content in [&content[..], b"", b"short\0"] {
        session.upload_as("data.bin", content).unwrap();
        assert_eq!(session.download("data.bin").unwrap().as_slice(), content);
    }
    session.remove("data.bin").unwrap();
    let error = session.download("data.bin").unwrap_err();
    assert!(!error.message().is_empty(), "{error}");
    let error = session.upload("no/such/file").unwrap_err();
    assert_eq!(error.kind(), "OSError");
    assert!(error.message().starts_with("no/such/file cannot be read: "), "{error}");
}

/// Sends and returns every kind of value.
pub(crate) fn values(session: &Session) {
    let echo = function(session, "echo");
    for value in [
        Any::NONE,
        Any::from(0i64),
        Any::from(-7i64),
        Any::from(i64::MIN),
        Any::from(true),
        Any::from(false),
        Any::from(0.5f64),
        Any::from(f64::MIN_POSITIVE),
        Any::from(""),
        Any::from("short"),
        Any::from("a text that is longer than seven bytes, with an ä"),
        Bytes::new(b"").into_any(),
        Bytes::new(b"\0\x01").into_any(),
        Bytes::new(&[200; 5000]).into_any(),
        DataType::FLOAT32.into_any(),
        "float32x4".parse::<DataType>().unwrap().into_any(),
    ] {
        let back = echo.call(&[value.clone()][..]).unwrap();
        assert_eq!(format!("{back:?}"), format!("{value:?}"));
        assert_eq!(back.type_name(), value.type_name());
    }
    assert!(echo.call_as::<f64>((f64::NAN,)).unwrap().is_nan());
    let there = session.device("cpu:0").unwrap();
    assert_eq!(echo.call_as::<Device>((there,)).unwrap(), there);
    let many = function(session, "kind");
    assert_eq!(many.call_as::<String>((there,)).unwrap(), "Device");
    // Values that cannot be sent are rejected before anything is sent.
    for (value, problem) in [
        (kernpack::Shape::new(&[1, 2]).into_any(), "TypeError: argument 0: a Shape cannot be sent to a server"),
        (kernpack::Array::from(vec![1i64]).into_any(), "TypeError: argument 0: a Array cannot be sent to a server"),
        (Function::from_fn(|x: i64| x).into_any(), "TypeError: argument 0: a function of this process cannot be sent"),
        (
            Tensor::zeros::<f32>(&[1]).unwrap().into_any(),
            "ValueError: argument 0: the tensor is on cpu:0 of this process",
        ),
    ] {
        let error = echo.call(&[value][..]).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}

/// Errors keep their message, and their kind if the server sends it.
pub(crate) fn exceptions(session: &Session, kinds: bool) {
    let throw = function(session, "raise");
    for kind in ["ValueError", "TypeError", "IndexError"] {
        let error = throw.call((kind, "number 7 is not allowed: really")).unwrap_err();
        assert_eq!(error.kind(), if kinds { kind } else { "RPCError" }, "{error}");
        assert!(error.message().starts_with("number 7 is not allowed: really"), "{error}");
    }
    let error = session.global_function("rpc_test.not_there").unwrap_err();
    assert_eq!(error.to_string(), format!("KeyError: {} has no global function 'rpc_test.not_there'", session.peer()));
    // The session continues.
    assert_eq!(function(session, "echo").call_as::<i64>((1,)).unwrap(), 1);
}

/// Closures, objects, and their destruction.
pub(crate) fn objects(session: &Session) {
    let add: Function = function(session, "adder").call_as((5,)).unwrap();
    assert_eq!(add.call_as::<i64>((3,)).unwrap(), 8);
    assert_eq!(function(session, "call").call_as::<i64>((&add, 10)).unwrap(), 15);
    let pair: ObjRef<RemoteObject> = function(session, "pair").call_as((30, 12)).unwrap();
    assert_eq!(function(session, "sum_of_pair").call_as::<i64>((&pair,)).unwrap(), 42);
    let alive = function(session, "alive");
    let before: i64 = alive.call_as(()).unwrap();
    let make = function(session, "counted");
    let functions: Vec<Function> = (0..20).map(|_| make.call_as(()).unwrap()).collect();
    assert_eq!(alive.call_as::<i64>(()).unwrap(), before + 20);
    // References are dropped by several threads, while others call.
    let echo = function(session, "echo");
    std::thread::scope(|threads| {
        for part in functions.chunks(5).map(<[Function]>::to_vec) {
            threads.spawn(move || part.into_iter().for_each(drop));
        }
        drop(functions);
        threads.spawn(|| (0..100).for_each(|i| assert_eq!(echo.call_as::<i64>((i,)).unwrap(), i)));
    });
    assert_eq!(alive.call_as::<i64>(()).unwrap(), before, "all handles were given back");
}

/// Sends and returns tensors of each element type.
pub(crate) fn tensors(session: &Session) {
    let there = session.device("cpu:0").unwrap();
    assert!(device::exists(there) && !device::exists(Device::new(there.device_type(), 1)));
    assert!(device::attribute(there, DeviceAttribute::Exist).unwrap().to::<i64>().unwrap() == 1);
    let arange = function(session, "arange");
    let total = function(session, "total");
    for dtype in
        ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
    {
        let remote: Tensor = arange.call_as((12, dtype)).unwrap();
        assert_eq!(
            (remote.shape(), remote.dtype().to_string().as_str(), remote.device()),
            (&[12i64][..], dtype, there)
        );
        assert_eq!(total.call_as::<f64>((&remote,)).unwrap(), 66.0, "{dtype}");
        let here = remote.to(Device::CPU).unwrap();
        let back = here.to(there).unwrap();
        assert_eq!(total.call_as::<f64>((&back,)).unwrap(), 66.0, "{dtype}");
        let part = back.slice(10..12).unwrap();
        assert_eq!(total.call_as::<f64>((&part,)).unwrap(), 21.0, "{dtype}");
    }
    let matrix = Tensor::from_vec((0..6).collect::<Vec<i32>>(), &[2, 3]).unwrap();
    let remote = matrix.to(there).unwrap();
    assert_eq!(remote.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(remote.slice(1..2).unwrap().to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [3, 4, 5]);
    // Within the server.
    let copy = remote.to(there).unwrap();
    assert_eq!(copy.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [0, 1, 2, 3, 4, 5]);
    let empty = Tensor::empty(DataType::FLOAT32, &[4, 5], there).unwrap();
    function(session, "fill").call((&empty, 2.5)).unwrap();
    assert_eq!(empty.to(Device::CPU).unwrap().view::<f32>().unwrap().to_vec(), [2.5; 20]);
    // Streams, and attributes of a device.
    let stream = Stream::new(there).unwrap();
    let in_order = stream.scope(|| remote.to(there)).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(in_order.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [0, 1, 2, 3, 4, 5]);
    drop(stream);
    for attribute in DeviceAttribute::ALL {
        device::attribute(there, attribute).unwrap();
    }
    assert!(device::Event::new(there).is_err());
    // Larger than any buffer.
    let large: Vec<u32> = (0..3_000_000u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let there_and_back = Tensor::from_slice(&large, &[1000, 3000]).unwrap().to(there).unwrap().to(Device::CPU).unwrap();
    assert!(there_and_back.view::<u32>().unwrap().as_slice().unwrap() == large);
    // Without elements, and without dimensions.
    assert!(Tensor::zeros::<f32>(&[0, 3]).unwrap().to(there).unwrap().to(Device::CPU).unwrap().is_empty());
    let scalar = Tensor::from_slice(&[7i64], &[]).unwrap().to(there).unwrap();
    assert_eq!(total.call_as::<f64>((&scalar,)).unwrap(), 7.0);
    // Code here cannot read the remote memory.
    let error = remote.view::<i32>().unwrap_err().to_string();
    assert!(error.contains(&format!("the tensor is on {there}")), "{error}");
    let mut remote = remote;
    assert!(remote.view_mut::<i32>().is_err());
    remote.copy_from(&Tensor::from_slice(&[9i32; 6], &[2, 3]).unwrap()).unwrap();
    assert_eq!(remote.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [9; 6]);
}

/// Uploads and calls a library: the one of tests/conversions-lib.
pub(crate) fn library(session: &Session, kinds: bool, path: &str) {
    session.upload(path).unwrap();
    let name = std::path::Path::new(path).file_name().unwrap().to_str().unwrap();
    let library: Module = session.load_module(name).unwrap();
    assert_eq!(library.kind(), "rpc");
    assert_eq!(library.function("add").unwrap().call_as::<i64>((1, 2)).unwrap(), 3);
    assert_eq!(library.function("echo_str").unwrap().call_as::<String>(("grün",)).unwrap(), "grün");
    assert!(library.find_function("not_there").unwrap().is_none());
    let error = library.function("add").unwrap().call(("one", 2)).unwrap_err();
    assert_eq!(error.kind(), if kinds { "TypeError" } else { "RPCError" }, "{error}");
    assert!(error.message().contains("add(a: int, b: int): argument 'a': expected int, got str"), "{error}");
    // Modules of the session import each other; functions of imports are found, too.
    let system = session.system_lib().unwrap();
    assert!(system.find_function("add").unwrap().is_none());
    session.import_module(&system, &library).unwrap();
    assert_eq!(system.function("add").unwrap().call_as::<i64>((20, 22)).unwrap(), 42);
    let there = session.device("cpu").unwrap();
    let tensor = Tensor::from_slice(&[1i32, 2, 3], &[3]).unwrap().to(there).unwrap();
    library.function("increase_i32").unwrap().call((&tensor, 10)).unwrap();
    assert_eq!(tensor.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [11, 12, 13]);
    let timing = session.time_evaluator(&library, "increase_i32", there).unwrap();
    let timing = timing.number(3).repeat(4).run((&tensor, 1)).unwrap();
    assert_eq!(timing.results.len(), 4);
    assert!(timing.min > 0.0 && timing.min <= timing.median && timing.median <= timing.max, "{timing:?}");
    // One call to warm up, and 12 measured ones.
    assert_eq!(tensor.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [24, 25, 26]);
    assert!(timing.to_string().starts_with("Execution time summary:\n mean (ms)   median (ms) "), "{timing}");
    let missing = session.time_evaluator(&library, "not_there", there).unwrap().run((&tensor,)).unwrap_err();
    assert!(!missing.message().is_empty());
    let of_global = session.time_evaluator_of_global("rpc_test.echo", there).unwrap().number(2).run((1,)).unwrap();
    assert_eq!(of_global.results.len(), 1);
    let object: ObjRef<RemoteObject> = library.function("point").unwrap().call_as((3, 4)).unwrap();
    let coordinates: ObjRef<RemoteObject> = library.function("coordinates").unwrap().call_as((&object,)).unwrap();
    drop((object, coordinates));
}

/// A session rejects values that belong to another session.
pub(crate) fn two_sessions(a: &Session, b: &Session) {
    let echo = function(b, "echo");
    let tensor: Tensor = function(a, "arange").call_as((3, "int32")).unwrap();
    let pair: Any = function(a, "pair").call((1, 2)).unwrap();
    let closure: Any = function(a, "adder").call((1,)).unwrap();
    for value in [tensor.clone().into_any(), pair, closure, a.device("cpu").unwrap().into_any()] {
        let error = echo.call(&[value][..]).unwrap_err();
        assert_eq!(error.kind(), "ValueError");
        assert!(error.message().starts_with("argument 0: ") && error.message().contains("session"), "{error}");
    }
    // A copy through this process is allowed.
    let over = tensor.to(b.device("cpu").unwrap()).unwrap();
    assert_eq!(function(b, "total").call_as::<f64>((&over,)).unwrap(), 3.0);
    assert_ne!(a.number(), b.number());
}

/// All tests that do not need a library.
pub(crate) fn all(session: &Session, kinds: bool) {
    files(session);
    values(session);
    exceptions(session, kinds);
    objects(session);
    tensors(session);
}
