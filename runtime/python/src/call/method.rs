//! Methods: descriptors of CPython's own kind, which the interpreter calls without a bound object.
//!
//! CPython passes the function of such a descriptor the object and the arguments, but nothing that
//! identifies the method. So each method gets an entry of a table of stubs: pieces of machine code
//! that differ only in a number.

use core::ffi::{c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use kernpack_core::function::FunctionInfo;

use super::function;
use super::given::Given;
use crate::cpython::capi::{Py, PyMethodDef, PyObject, constant};
use crate::cpython::heap_type::leaked;
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::state::State;
use crate::signature::callable::{Callable, Origin};
use crate::signature::text::documentation;

/// The number of stubs.
const COUNT: usize = 256;

/// The methods by the number of their stub.
static METHODS: [AtomicPtr<Callable>; COUNT] = [const { AtomicPtr::new(ptr::null_mut()) }; COUNT];
/// The number of used stubs.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The size of a stub in bytes: a move of one byte, and a jump.
const STUB: usize = 8;

/// Defines a function that is a table of stubs: each passes its number, in the lowest byte, after
/// four arguments and continues in another function.
macro_rules! stubs {
    ($(#[$attribute:meta])* $name:ident, $label:literal, $call:ident) => {
        $(#[$attribute])*
        #[cfg(all(unix, target_arch = "x86_64"))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!(".set .L", $label, ", 0"),
                ".rept {count}",
                ".p2align 3",
                concat!("movb $.L", $label, ", %r8b"),
                "jmp {call}",
                concat!(".set .L", $label, ", .L", $label, " + 1"),
                ".endr",
                count = const COUNT,
                call = sym $call,
                options(att_syntax),
            )
        }

        $(#[$attribute])*
        #[cfg(all(unix, target_arch = "aarch64"))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!(".set .L", $label, ", 0"),
                ".rept {count}",
                ".p2align 3",
                concat!("mov w4, #.L", $label),
                "b {call}",
                concat!(".set .L", $label, ", .L", $label, " + 1"),
                ".endr",
                count = const COUNT,
                call = sym $call,
            )
        }
    };
}

stubs! {
    /// The stubs of methods with arguments.
    stubs, "kernpack_python_stub", call
}
stubs! {
    /// The stubs of methods that take only the object.
    lone_stubs, "kernpack_python_lone_stub", call_alone
}

/// The address of the stub with this number, if this machine has stubs.
fn stub(number: usize, is_alone: bool) -> Option<*const c_void> {
    #[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
    return (number < COUNT).then(|| {
        let start = if is_alone { lone_stubs as *const c_void } else { stubs as *const c_void };
        // The assembler aligns the first stub, too.
        start.wrapping_byte_add(start.addr().next_multiple_of(STUB) - start.addr() + STUB * number)
    });
    #[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))))]
    return None;
}

/// The function that the stubs of methods without arguments jump to.
unsafe extern "C" fn call_alone(
    this: *mut PyObject,
    _: *mut PyObject,
    _: usize,
    _: usize,
    number: u32,
) -> *mut PyObject {
    // SAFETY: as for `call`; there are no arguments.
    let result = unsafe {
        let py = Py::held();
        let callable = &*METHODS[usize::from(number as u8)].load(Ordering::Acquire);
        function::run_on(py, callable, this)
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// The function that the stubs of methods with arguments jump to.
unsafe extern "C" fn call(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
    number: u32,
) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with an object of the method's class and
    // arguments that live for the call; a stub has a method before its descriptor is made, and
    // methods live forever.
    let result = unsafe {
        let py = Py::held();
        let callable = &*METHODS[usize::from(number as u8)].load(Ordering::Acquire);
        function::run(py, callable, Given::behind(this, Given::new(args, count, names)))
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// Creates a method of a class, which takes the object first. It is the attribute of the class
/// under its name.
pub(crate) fn new(py: Py, class: &Owned, info: &'static FunctionInfo, name: &str) -> PyResult<Owned> {
    let number = USED.fetch_add(1, Ordering::Relaxed);
    let is_alone = info.params.len() == 1 && info.kinds.is_none();
    let Some(stub) = stub(number, is_alone) else {
        USED.store(COUNT, Ordering::Relaxed);
        let function = function::of_class(py, info, name)?;
        // SAFETY: the function is alive.
        return unsafe { Owned::take(py, py.PyInstanceMethod_New(function.as_ptr())) };
    };
    let callable = Callable::new(py, info, &State::get(py).module, vec![name.to_owned()], Origin::Function)?;
    METHODS[number].store(Box::into_raw(Box::new(callable)), Ordering::Release);
    let method = PyMethodDef {
        name: leaked(name),
        function: stub,
        flags: if is_alone { constant::METH_NOARGS } else { constant::METH_FASTCALL | constant::METH_KEYWORDS },
        doc: leaked(&documentation(name, "$self", info, 1)) as *const c_char,
    };
    // SAFETY: a class, and a definition that lives forever.
    unsafe { Owned::take(py, py.PyDescr_NewMethod(class.as_ptr(), Box::leak(Box::new(method)))) }
}
