//! Safe code and well-behaved foreign code cannot break the process: panics in unusual places, ends
//! of threads, races, names that two libraries share.

use std::cell::RefCell;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::panic::panic_any;
use std::path::Path;
use std::process::Command;

use kernpack::module::device_image::DeviceImage;
use kernpack::sys::abi::{TVMFFIAny, TVMFFIByteArray, type_index};
use kernpack::{Any, AnyView, Error, Function, IntoAny, Map, Module, ObjRef, Object, Result, Str};

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb went off");
    }
}

#[test]
fn panics_that_carry_a_bomb() {
    let call = Function::from_fn(|| -> i64 { panic_any(Bomb) });
    let error = call.call(()).unwrap_err();
    assert_eq!(error.kind(), "InternalError");
    assert!(error.message().ends_with("a value that is not text"), "{error}");

    struct DroppedWithBomb;
    impl Drop for DroppedWithBomb {
        fn drop(&mut self) {
            panic_any(Bomb);
        }
    }
    let bomb = DroppedWithBomb;
    let function = Function::from_fn(move || {
        let _captured = &bomb;
    });
    drop(function);
}

#[test]
fn calls_in_destructors_of_a_thread_that_ends() {
    struct CallsAtEnd(Function);
    impl Drop for CallsAtEnd {
        fn drop(&mut self) {
            assert_eq!(self.0.call_as::<i64>((1,)).unwrap(), 1);
            self.0.call((0,)).unwrap_err();
        }
    }
    thread_local!(static LAST: RefCell<Option<CallsAtEnd>> = const { RefCell::new(None) });
    let panics = Function::from_fn(|x: i64| 1 / x);
    std::thread::spawn(move || {
        LAST.with(|last| *last.borrow_mut() = Some(CallsAtEnd(panics.clone())));
        // The thread-locals for errors and panics are created after it, so they are destroyed
        // before it.
        panics.call((0,)).unwrap_err();
    })
    .join()
    .unwrap();
}

#[test]
fn imports_change_while_others_look() {
    kernpack::module::enable("cuda").unwrap();
    let payload = DeviceImage::new("ptx", Vec::new(), b"// nothing").to_vec();
    let make = || -> Module {
        Function::global("ffi.Module.load_from_bytes.cuda").unwrap().call_as((payload.as_slice(),)).unwrap()
    };
    let (parent, child) = (make(), make());
    let clear = Function::global("ffi.ModuleClearImports").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..500 {
                parent.import(&child).unwrap();
                if round % 8 == 7 {
                    clear.call((&parent,)).unwrap();
                }
            }
        });
        scope.spawn(|| {
            for _ in 0..2000 {
                assert!(parent.imports().iter().all(|import| import.kind() == "cuda"));
            }
        });
    });
    assert_eq!(parent.imports().len(), 500 % 8);
    let error = child.import(&parent).unwrap_err();
    assert_eq!(
        error.message(),
        "Cyclic dependency detected during import: a module of kind 'cuda' would import itself"
    );
}

/// Its hash function raises an error.
#[derive(Object)]
#[object(key = "robust.Unhashable")]
#[repr(C)]
pub struct Unhashable {
    pub x: i64,
}

#[test]
fn keys_that_cannot_be_hashed() {
    let hash = Function::from_fn(|_key: Any| -> Result<i64> { Err(Error::type_error("unhashable")) }).into_any();
    // SAFETY: the name and the value live for the call, and the host takes its own reference.
    let status = unsafe {
        let name = TVMFFIByteArray::new(b"__any_hash__");
        (kernpack::sys::provider::api().type_register_attr)(Unhashable::type_index(), &name, hash.as_view().as_raw())
    };
    assert_eq!(status, 0);
    let make_map = Function::from_fn(|count: i64| -> Map<Any, i64> {
        (0..count).map(|x| (ObjRef::new(Unhashable { x }).into_any(), x)).collect()
    });
    // A small map compares keys and does not hash them.
    assert_eq!(make_map.call_as::<Map<Any, i64>>((3,)).unwrap().len(), 3);
    let error = make_map.call((5,)).unwrap_err();
    assert!(error.message().ends_with("a key cannot be hashed: unhashable"), "{error}");
}

/// A text that is borrowed from an argument stays valid, whatever happens to the argument: an
/// object that the caller passes as an rvalue reference is lent, and not passed on as one.
#[test]
fn offered_objects_are_not_offered_on() {
    let seen = Function::from_packed(|args: &[AnyView<'_>]| Ok(Any::from(args[0].type_index())));
    let forward = Function::from_packed(move |args: &[AnyView<'_>]| -> Result<Any> {
        let text: &str = args[0].get()?;
        let indices = [seen.call_as::<i32>((args[0],))?, seen.call_as::<i32>(args)?];
        assert_eq!(indices, [type_index::STR; 2]);
        Ok(text.into_any())
    });
    let text = "a text that is long enough to be an object";
    let value = Str::new(text).into_any();
    // SAFETY: the payload of a string is its object, which `value` keeps alive.
    let mut slot = unsafe { value.as_view().as_raw().payload.v_obj };
    let offer = TVMFFIAny::pointer(type_index::OBJECT_RVALUE_REF, (&raw mut slot).cast());
    // SAFETY: an rvalue reference is the address of an object pointer, which outlives the call.
    let offer = [unsafe { AnyView::from_raw(offer) }];
    assert_eq!(forward.call_as::<String>(offer.as_slice()).unwrap(), text);
    assert!(!slot.is_null());
}

/// With RTLD_GLOBAL the first definition of a name applies to the whole process; a library still
/// calls its own functions.
#[test]
fn libraries_that_export_the_same_name() {
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_add.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&other)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("c/other_add.c"))
        .status()
        .expect("a C compiler named cc is needed");
    assert!(status.success());
    // Cargo builds the library as a dependency of this test, next to it.
    let library = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    for path in [&other, &library] {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: these are our own libraries.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!handle.is_null());
    }
    let module = Module::load(&library).unwrap();
    assert_eq!(module.function("add").unwrap().call_as::<i64>((1, 2)).unwrap(), 3);
    assert_eq!(Function::global("conversions.add").unwrap().call_as::<i64>((1, 2)).unwrap(), 3);
    let theirs = Module::load(&other).unwrap();
    assert_eq!(theirs.function("add").unwrap().call_as::<i64>((1, 2)).unwrap(), 999);
}

/// Views of the same memory, across functions and libraries: a writer is refused while a reader is
/// alive, and vice versa.
#[test]
fn a_tensor_is_not_written_to_while_it_is_viewed() {
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libconversions.so")).unwrap();
    let increase = library.function("increase_i32").unwrap();
    let tensor = kernpack::Tensor::from_vec(vec![1i32, 2, 3], &[3]).unwrap();

    let view = tensor.view::<i32>().unwrap();
    let slice = view.as_slice().unwrap();
    let error = increase.call((&tensor, 1)).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (
            "ValueError",
            "increase_i32(x: Tensor, amount: int): argument 'x': the tensor's memory is in use by a view that is still alive, \
             so it cannot be written to; wait for it, or pass a copy"
        )
    );
    assert_eq!(slice, [1, 2, 3]);
    drop(view);
    increase.call((&tensor, 1)).unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [2, 3, 4]);

    // A function that calls back while it writes.
    let mut own = kernpack::Tensor::from_vec(vec![0i32; 3], &[3]).unwrap();
    let raw = *own.dl_tensor();
    let writer = own.view_mut::<i32>().unwrap();
    // SAFETY: a view of a tensor that lives as long as `own`.
    let alias = unsafe { kernpack::AnyView::from_raw(dl_tensor_view(&raw)) };
    let error = library.function("list_i32").unwrap().call(&[alias][..]).unwrap_err();
    assert!(
        error.message().ends_with("is being written to by a view that is still alive; wait for it, or pass a copy")
    );
    drop(writer);
    library.function("list_i32").unwrap().call(&[alias][..]).unwrap();
}

fn dl_tensor_view(tensor: &kernpack::sys::abi::DLTensor) -> TVMFFIAny {
    TVMFFIAny::pointer(kernpack::sys::abi::type_index::DL_TENSOR_PTR, std::ptr::from_ref(tensor).cast_mut().cast())
}
