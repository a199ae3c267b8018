//! Libraries made of several crates, and several libraries with crates in common: everything is
//! registered, in any order of loading. Each case is a process of its own, in which this test runs
//! itself again.

use std::path::{Path, PathBuf};

use kernpack::device::device_type;
use kernpack::device::{self, DeviceAttribute, Event, Stream};
use kernpack::sys::provider::{Origin, origin};
use kernpack::{Any, DataType, Device, Function, IntoAny, Module, Result, Tensor};
use kernpack_tests::beside::test_again;
use kernpack_tests::stock::stock_library;

/// The steps of the inner process: the libraries in their order, `host` for a first use by the
/// program itself.
const STEPS: &str = "KERNPACK_TEST_STEPS";

fn library(name: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(format!("lib{name}.so"))
}

/// The source of the process's implementation of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Host {
    Program,
    Stock,
}

/// Returns whether this is the inner process; the outer one starts it with each of `cases`, under
/// each host.
fn runs_inside(test: &str, cases: &[&str], hosts: &[Host]) -> bool {
    if std::env::var_os(STEPS).is_some() {
        return true;
    }
    for host in hosts {
        let preloaded = match host {
            Host::Program => None,
            Host::Stock => match stock_library() {
                None => continue,
                library => library,
            },
        };
        for steps in cases {
            let mut inside = test_again(module_path!(), test);
            inside.arg("--nocapture").env(STEPS, steps);
            inside.envs(preloaded.iter().map(|path| ("LD_PRELOAD", path)));
            let output = inside.output().unwrap();
            let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            assert!(output.status.success() && text.contains("1 passed"), "{steps} ({host:?}): {text}");
            assert!(!text.contains("kernpack: "), "nothing to notice: {text}");
        }
    }
    false
}

/// Performs the steps, and returns the libraries by their names.
fn take_steps() -> Result<Vec<(String, Result<Module>)>> {
    let mut loaded = Vec::new();
    for step in std::env::var(STEPS).unwrap().split(' ') {
        if step == "host" {
            Function::register_global("test.decentralised.host", &Function::from_fn(|| 1i64))?;
        } else {
            loaded.push((step.to_owned(), Module::load(library(step))));
        }
    }
    let expected = if std::env::var_os("LD_PRELOAD").is_some() { Origin::Process } else { Origin::Embedded };
    assert_eq!(origin(), expected);
    Ok(loaded)
}

fn call(name: &str, arguments: &[Any]) -> Any {
    Function::global(name).unwrap().call(arguments).unwrap()
}

fn float(value: f64) -> Any {
    value.into_any()
}

#[test]
fn every_order_of_loading() -> Result<()> {
    let cases =
        ["left right", "right left", "host left right", "host right left", "left right left", "left left right"];
    if !runs_inside("every_order_of_loading", &cases, &[Host::Program, Host::Stock]) {
        return Ok(());
    }
    for (name, module) in take_steps()? {
        // The functions that a library exports include those of its dependencies.
        let point = module?.function("shapes.point")?.call((3.0, 4.0))?;
        assert_eq!(call("right.norm", &[point]).to::<f64>()?, 5.0, "{name}");
    }
    // Functions and types of crates that are referred to, in modules that are not.
    let point = call("shapes.point", &[float(1.0), float(4.0)]);
    let moved = call("left.shift", &[point, float(2.0)]);
    assert_eq!((moved.type_name(), moved.field("x")?.to::<f64>()?), ("shapes.Point".into(), 3.0));
    assert_eq!(call("right.norm", std::slice::from_ref(&moved)).to::<f64>()?, 5.0);
    let circle = call("shapes.circle", &[moved, float(1.0)]);
    assert_eq!(circle.field("center")?.field("y")?.to::<f64>()?, 4.0);
    assert_eq!(call("shapes.area", &[circle]).to::<f64>()?, std::f64::consts::PI);
    // Functions of the crate that no code refers to.
    let color = call("colors.color", &[0xff_8000_i64.into_any()]);
    assert_eq!((color.type_name(), color.field("rgb")?.to::<i64>()?), ("colors.Color".into(), 0xff_8000));
    let mixed = call("colors.mix", &[0xff_0000_i64.into_any(), 0x00_00ff_i64.into_any()]);
    assert_eq!(mixed.to::<i64>()?, 0x7f_007f);
    Ok(())
}

#[test]
fn one_device_for_all_libraries() -> Result<()> {
    let cases = ["left right", "right left", "host left right", "right left left"];
    if !runs_inside("one_device_for_all_libraries", &cases, &[Host::Program, Host::Stock]) {
        return Ok(());
    }
    // Either no code requests the device before a library provides it, or the first request fails.
    let canvas = Device::new(device_type::HEXAGON, 0);
    if std::env::var(STEPS).unwrap().starts_with("host") {
        assert!(!device::exists(canvas));
        assert_eq!(
            Tensor::zeros::<i32>(&[1])?.to(canvas).unwrap_err().message(),
            "no library in this process provides hexagon devices; load a library that brings them (kernpack::device_api!)"
        );
    }
    for (_, module) in take_steps()? {
        module?;
    }
    let made = || ["left.canvases", "right.canvases_made"].map(|name| call(name, &[]).to::<i64>().unwrap());
    assert_eq!(made(), [0, 0], "not before it is used");
    assert!(device::exists(canvas) && !device::exists(Device::new(device_type::HEXAGON, 1)));

    // Allocated by one library, read by the other and by the program, regardless of which library
    // added the device.
    let numbers = Tensor::from_slice(&[1i32, 2, 3], &[3])?;
    let there: Tensor = Function::global("left.onto_canvas")?.call_as((&numbers,))?;
    assert_eq!(there.device(), canvas);
    let api = device::api(device_type::HEXAGON)?;
    assert_eq!(api.native_handle(0, "blocks")? as usize, 1);
    let back: Tensor = Function::global("right.off_canvas")?.call_as((&there.slice(1..3)?,))?;
    assert_eq!(back.view::<i32>()?.to_vec(), [2, 3]);
    assert_eq!(there.to(Device::CPU)?.view::<i32>()?.to_vec(), [1, 2, 3]);
    assert_eq!(made().iter().sum::<i64>(), 1, "one object for all: {:?}", made());
    drop(there);
    assert_eq!(api.native_handle(0, "blocks")? as usize, 0);

    // Its errors are passed on unchanged.
    assert_eq!((api.name(), api.device_count()?), ("hexagon", 1));
    assert_eq!(api.attribute(0, DeviceAttribute::DeviceName)?.to::<String>()?, "a canvas");
    assert!(api.attribute(0, DeviceAttribute::WarpSize)?.to::<Option<i64>>()?.is_none());
    for (result, problem) in [
        (api.native_handle(0, "everything").map(drop), "LookupError: a canvas has no 'everything'"),
        (
            Tensor::empty(DataType::INT8, &[1 << 40], canvas).map(drop),
            "MemoryError: a canvas has no 1099511627776 bytes",
        ),
        (Stream::new(canvas).map(drop), "RuntimeError: a canvas has no streams"),
        (Event::new(canvas).map(drop), "RuntimeError: hexagon devices have no events"),
    ] {
        assert_eq!(result.unwrap_err().to_string(), problem);
    }
    let error = api.native_handle(0, "panic").unwrap_err();
    assert_eq!(error.kind(), "InternalError");
    assert!(error.message().ends_with(": a canvas on purpose"), "{error}");
    Ok(())
}

/// The place of a line of a library's source, as messages show it.
fn place(krate: &str, line: &str) -> String {
    let file = format!("decentralised/{krate}/src/lib.rs");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap();
    let number = text.lines().position(|text| text == line).unwrap() + 1;
    format!("tests/{file}:{number}")
}

#[test]
fn a_library_names_the_dependencies_that_were_not_linked() {
    let path = library("forgetful");
    let place = place("forgetful", "kernpack::library!();");
    let lines = [("colors", "colors"), ("shapes", "forms")].map(|(krate, name)| {
        format!(
            "crate {krate} is a dependency of crate forgetful ({place}), but its functions and types are not in this library: no \
             code refers to it, so it was not linked; write kernpack::library!(with = [{name}]) there, or \
             kernpack::library!(without = [{name}]) if they are meant to stay out"
        )
    });
    // A second attempt fails in the same way.
    for _ in 0..2 {
        let error = Module::load(&path).err().unwrap();
        assert_eq!(error.message(), format!("cannot load {}: {}", path.display(), lines.join("\n")));
    }
}

#[test]
fn two_libraries_with_different_types_of_one_key() -> Result<()> {
    let cases = ["left clash", "clash left"];
    if !runs_inside("two_libraries_with_different_types_of_one_key", &cases, &[Host::Program]) {
        return Ok(());
    }
    let loaded = take_steps()?;
    let [(first, Ok(_)), (second, Err(error))] = &loaded[..] else { panic!("the first loads, the second does not") };
    // The message has both definitions, and the file of the first one.
    let (shapes, clash) = (place("shapes", "    pub struct Point {"), place("clash", "pub struct Point {"));
    let [of_first, of_second] = match first.as_str() {
        "left" => [(shapes, "shapes", 40), (clash, "clash", 48)],
        _ => [(clash, "clash", 48), (shapes, "shapes", 40)],
    };
    let problem = format!(
        "cannot load {}: type 'shapes.Point' ({}, crate {}) is already registered in this process by {}, crate {}, in {}, with another \
         layout: it has {} bytes, ours {}; give one of them another key, or build both from the same version",
        library(second).display(),
        of_second.0,
        of_second.1,
        of_first.0,
        of_first.1,
        library(first).display(),
        of_first.2,
        of_second.2,
    );
    assert_eq!(error.message().lines().next().unwrap(), problem);
    // Objects of the two are never confused.
    let (point, other): (Any, Any) = match first.as_str() {
        "left" => (call("shapes.point", &[float(1.0), float(2.0)]), call("clash.point", &[1.0, 2.0, 3.0].map(float))),
        _ => (call("clash.point", &[1.0, 2.0, 3.0].map(float)), call("shapes.point", &[float(1.0), float(2.0)])),
    };
    assert_eq!(point.type_name(), "shapes.Point");
    assert!(other.type_name().starts_with("shapes.Point@tests/decentralised/"), "{}", other.type_name());
    let (flat, deep) = if first == "left" { (point, other) } else { (other, point) };
    assert_eq!(call("clash.z", std::slice::from_ref(&deep)).to::<f64>()?, 3.0);
    assert!(Function::global("clash.z")?.call((&flat,)).is_err());
    assert!(Function::global("left.shift")?.call((&deep, 1.0)).is_err());
    Ok(())
}

#[test]
fn one_crate_in_two_versions() -> Result<()> {
    if !runs_inside("one_crate_in_two_versions", &["host"], &[Host::Program]) {
        return Ok(());
    }
    take_steps()?;
    let other = Function::from_fn(|| vec!["0.2.0", "/elsewhere/libother.so"]);
    Function::register_global("kernpack.library.shapes", &other)?;
    let path = library("left");
    let error = Module::load(&path).err().unwrap();
    assert_eq!(
        error.message(),
        format!(
            "cannot load {0}: crate shapes 0.2.0 is in this process already (from /elsewhere/libother.so), so 0.1.0 (from {0}) cannot \
             be loaded beside it; build both with the same version of shapes",
            path.display()
        )
    );
    Ok(())
}
