//! Many threads use the tables of the embedded implementation at the same time, through the C
//! functions like any language.
//!
//! `cargo xtask` runs this under the thread sanitizer, too; `tests/loom` verifies the underlying
//! protocols.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::Barrier;

use kernpack::reflect::TypeInfo;
use kernpack::sys::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIObject, TVMFFITypeAttrColumn, TVMFFITypeInfo, type_index,
};
use kernpack::sys::embedded::{dec_weak, function_table, inc_ref, inc_weak, strong_count, table, try_promote};
use kernpack::{
    Any, Array, Dict, Function, IntoAny, List, ObjRef, Object, Tensor, TensorView, TensorViewMut, packed_func,
    parallel, reflect, structural,
};

const THREADS: usize = 8;
const ROUNDS: usize = 2000;

/// Runs `body` on all threads at the same time. Each gets its number and a generator of numbers
/// that depend on it.
fn on_threads(body: impl Fn(usize, &dyn Fn(usize) -> usize) + Sync) {
    let start = Barrier::new(THREADS);
    // The thread sanitizer does not see how the standard library waits for threads.
    let ended = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (body, start, ended) = (&body, &start, &ended);
            scope.spawn(move || {
                let state = Cell::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread as u64 + 1));
                let below = |end: usize| {
                    let mut next = state.get();
                    next ^= next << 13;
                    next ^= next >> 7;
                    next ^= next << 17;
                    state.set(next);
                    (next >> 33) as usize % end
                };
                start.wait();
                body(thread, &below);
                ended.fetch_add(1, Ordering::Release);
            });
        }
    });
    assert_eq!(ended.load(Ordering::Acquire), THREADS);
}

fn drop_raised() {
    let mut error = null_mut();
    // SAFETY: the function gives its reference up.
    unsafe {
        (table().error_move_from_raised)(&raw mut error);
        assert!(!error.is_null());
        (table().object_dec_ref)(error);
    }
}

/// Records a value on which all threads have to agree.
fn agree(known: &AtomicUsize, value: usize) {
    if let Err(other) = known.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed) {
        assert_eq!(other, value);
    }
}

fn register_type(key: &str) -> i32 {
    let key = TVMFFIByteArray::new(key.as_bytes());
    // SAFETY: the key lives for the call.
    let index = unsafe { (table().type_get_or_alloc_index)(&raw const key, -1, 1, 0, 1, type_index::OBJECT) };
    assert!(index >= type_index::DYN_OBJECT_BEGIN);
    index
}

#[test]
fn types() {
    const KEYS: usize = 1500;
    let indices = [const { AtomicUsize::new(0) }; KEYS];
    let infos = [const { AtomicUsize::new(0) }; KEYS];
    on_threads(|_, below| {
        for _ in 0..ROUNDS {
            let number = below(KEYS);
            let key = format!("threads.types.{number}");
            let index = register_type(&key);
            agree(&indices[number], index as usize);
            // SAFETY: types live forever.
            unsafe {
                let info = (table().get_type_info)(index);
                agree(&infos[number], info.addr());
                assert_eq!((*info).type_key.as_slice(), key.as_bytes());
                assert_eq!(((*info).type_index, (*info).type_depth), (index, 1));
                assert_eq!((**(*info).type_ancestors).type_index, type_index::OBJECT);
            }
            let other = below(KEYS);
            let (key, mut found) = (format!("threads.types.{other}"), -1);
            let array = TVMFFIByteArray::new(key.as_bytes());
            // SAFETY: the key lives for the call.
            if unsafe { (table().type_key_to_index)(&raw const array, &raw mut found) } == 0 {
                agree(&indices[other], found as usize);
            } else {
                drop_raised();
            }
        }
    });
}

/// Reads a column as C++ code does, with the memory order that its machine provides.
unsafe fn column_value(column: *const TVMFFITypeAttrColumn, index: i32) -> Option<TVMFFIAny> {
    // SAFETY: columns live forever, and so do their outgrown arrays; others change them by atomic
    // stores.
    unsafe {
        let size = AtomicI32::from_ptr((&raw const (*column).size).cast_mut()).load(Ordering::Acquire);
        if index >= size {
            return None;
        }
        let data = AtomicPtr::from_ptr((&raw const (*column).data).cast::<*mut TVMFFIAny>().cast_mut());
        let value = data.load(Ordering::Acquire).add(index as usize);
        let found = AtomicI32::from_ptr(&raw mut (*value).type_index).load(Ordering::Acquire);
        (found != type_index::NONE).then(|| *value)
    }
}

#[test]
fn attributes() {
    const COLUMNS: usize = 40;
    const TYPES: usize = 400;
    let columns = [const { AtomicUsize::new(0) }; COLUMNS];
    let value = |column: usize, index: i32| index as i64 * 100 + column as i64;
    on_threads(|_, below| {
        for _ in 0..ROUNDS {
            let (column, index) = (below(COLUMNS), 5000 + below(TYPES) as i32);
            let name = format!("threads.attr{column}");
            let name = TVMFFIByteArray::new(name.as_bytes());
            // SAFETY: the name and the value live for the call.
            unsafe {
                let any = TVMFFIAny::int(value(column, index));
                if (table().type_register_attr)(index, &raw const name, &raw const any) != 0 {
                    drop_raised();
                }
                let address = (table().get_type_attr_column)(&raw const name);
                agree(&columns[column], address.addr());
                assert_eq!(column_value(address, index).map(|value| value.bits() as i64), Some(value(column, index)));
                let other = 5000 + below(TYPES) as i32;
                if let Some(found) = column_value(address, other) {
                    assert_eq!(found.bits() as i64, value(column, other));
                }
            }
        }
    });
}

#[test]
fn fields() {
    const FIELDS: usize = 300;
    let index = register_type("threads.fields");
    let names = [const { AtomicUsize::new(0) }; FIELDS];
    /// The fields at this moment.
    unsafe fn fields<'a>(info: *const TVMFFITypeInfo) -> &'a [TVMFFIFieldInfo] {
        // SAFETY: as for columns.
        unsafe {
            let count = AtomicI32::from_ptr((&raw const (*info).num_fields).cast_mut()).load(Ordering::Acquire);
            let array = AtomicPtr::from_ptr((&raw const (*info).fields).cast::<*mut TVMFFIFieldInfo>().cast_mut());
            match count {
                0 => &[],
                _ => core::slice::from_raw_parts(array.load(Ordering::Acquire), count as usize),
            }
        }
    }
    on_threads(|_, below| {
        // SAFETY: the field's object lives during the call; types live forever.
        unsafe {
            let info = (table().get_type_info)(index);
            let mut seen = 0;
            for _ in 0..ROUNDS / 4 {
                let number = below(FIELDS);
                let name = format!("field{number}");
                let field = TVMFFIFieldInfo {
                    name: TVMFFIByteArray::new(name.as_bytes()),
                    doc: TVMFFIByteArray::EMPTY,
                    metadata: TVMFFIByteArray::EMPTY,
                    flags: 0,
                    size: 8,
                    alignment: 8,
                    offset: number as i64,
                    getter: None,
                    setter: null_mut(),
                    default_value_or_factory: TVMFFIAny::NONE,
                    field_static_type_index: type_index::INT,
                };
                let added = (table().type_register_field)(index, &raw const field) == 0;
                if added {
                    assert_eq!(names[number].fetch_add(1, Ordering::Relaxed), 0, "{name} was added twice");
                } else {
                    drop_raised();
                }
                let all = fields(info);
                assert!(all.len() >= seen);
                seen = all.len();
                for field in all {
                    assert_eq!(field.name.as_slice(), format!("field{}", field.offset).as_bytes());
                }
            }
        }
    });
}

/// The context of a function.
struct Number {
    value: i64,
    /// The number of functions that were created with this counter and are not destroyed.
    alive: &'static AtomicUsize,
}

unsafe extern "C" fn answer(this: *mut c_void, _: *const TVMFFIAny, _: i32, result: *mut TVMFFIAny) -> c_int {
    // SAFETY: `this` is the argument that the function was created with, which lives as long as the
    // function.
    unsafe { result.write(TVMFFIAny::int((*this.cast::<Number>()).value)) };
    0
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    // SAFETY: called once, with the argument that the function was created with. A second call
    // would read a wrong number.
    unsafe {
        let mut number = Box::from_raw(this.cast::<Number>());
        number.alive.fetch_sub(1, Ordering::Relaxed);
        number.value = -1;
    }
}

/// Creates a function that returns `value`.
fn function_of(value: usize, alive: &'static AtomicUsize) -> *mut TVMFFIObject {
    let mut function = null_mut();
    alive.fetch_add(1, Ordering::Relaxed);
    let number = Box::into_raw(Box::new(Number { value: value as i64, alive })).cast();
    // SAFETY: the functions above are for such a number.
    assert_eq!(unsafe { (table().function_create)(number, Some(answer), Some(destroy), &raw mut function) }, 0);
    function
}

#[test]
fn functions() {
    const NAMES: usize = 2;
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    let name_of = |number: usize| format!("threads.function{number}");
    // The same object is registered again and again under the last name.
    let faithful = AtomicPtr::new(function_of(NAMES, &ALIVE));
    on_threads(|thread, below| {
        for _ in 0..10 * ROUNDS {
            let number = below(NAMES + 1);
            let name = name_of(number);
            let array = TVMFFIByteArray::new(name.as_bytes());
            // SAFETY: references are given up once; the name lives for the calls.
            unsafe {
                match below(8) {
                    0 if thread < 4 => {
                        function_table::remove_global(name.as_bytes());
                    }
                    1 | 2 if thread < 4 => {
                        let function = if number == NAMES {
                            inc_ref(faithful.load(Ordering::Relaxed));
                            faithful.load(Ordering::Relaxed)
                        } else {
                            function_of(number, &ALIVE)
                        };
                        let overriding = below(2) as c_int;
                        if (table().function_set_global)(&raw const array, function, overriding) != 0 {
                            assert_eq!(overriding, 0);
                            drop_raised();
                        }
                        (table().object_dec_ref)(function);
                    }
                    _ => {
                        let mut function = null_mut();
                        assert_eq!((table().function_get_global)(&raw const array, &raw mut function), 0);
                        if !function.is_null() {
                            let mut result = TVMFFIAny::NONE;
                            assert_eq!((table().function_call)(function, null_mut(), 0, &raw mut result), 0);
                            assert_eq!(result.bits(), number as u64, "{name} is another function, or destroyed");
                            (table().object_dec_ref)(function);
                        }
                    }
                }
            }
        }
    });
    for number in 0..=NAMES {
        function_table::remove_global(name_of(number).as_bytes());
    }
    // SAFETY: the last reference is ours.
    unsafe {
        assert_eq!(strong_count(faithful.load(Ordering::Relaxed)), 1);
        (table().object_dec_ref)(faithful.load(Ordering::Relaxed));
    }
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    let listed = function_table::list_names();
    assert!(!listed.iter().any(|name| name.starts_with(b"threads.function")));
}

#[test]
fn handles() {
    static HANDLES: [AtomicPtr<c_void>; 50] = [const { AtomicPtr::new(null_mut()) }; 50];
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn init(result: *mut *mut c_void) -> c_int {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        if call.is_multiple_of(5) {
            return 7;
        }
        // SAFETY: the argument is writable.
        unsafe { result.write(Box::into_raw(Box::new(call)).cast()) };
        0
    }
    on_threads(|_, below| {
        for _ in 0..ROUNDS {
            let handle = &HANDLES[below(HANDLES.len())];
            // SAFETY: the handle is accessed atomically, and its target is never freed.
            unsafe {
                match (table().handle_init_once)(handle.as_ptr(), Some(init)) {
                    0 => assert_ne!(*handle.load(Ordering::Acquire).cast::<usize>() % 5, 0),
                    status => assert_eq!(status, 7),
                }
            }
        }
    });
    let failed = CALLS.load(Ordering::Relaxed).div_ceil(5);
    let made = HANDLES.iter().filter(|handle| !handle.load(Ordering::Relaxed).is_null()).count();
    assert_eq!(CALLS.load(Ordering::Relaxed), made + failed, "each handle was made once");
}

#[test]
fn references() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    let object = AtomicPtr::new(function_of(1, &ALIVE));
    on_threads(|_, below| {
        let object = object.load(Ordering::Relaxed);
        for _ in 0..ROUNDS {
            // SAFETY: the test's reference keeps the object; the others are given up once.
            unsafe {
                inc_ref(object);
                if below(2) == 0 {
                    inc_weak(object);
                    assert!(try_promote(object));
                    dec_weak(object);
                    (table().object_dec_ref)(object);
                }
                (table().object_dec_ref)(object);
            }
        }
    });
    let object = object.into_inner();
    // SAFETY: the reference is ours.
    unsafe {
        assert_eq!(strong_count(object), 1);
        inc_weak(object);
        (table().object_dec_ref)(object);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
        assert!(!try_promote(object));
        dec_weak(object);
    }
}

#[test]
fn errors_stay_on_their_thread() {
    on_threads(|thread, _| {
        for round in 0..ROUNDS {
            let message = format!("{thread} {round}\0");
            let mut error = null_mut();
            // SAFETY: the texts end with a NUL; the reference is given up once.
            unsafe {
                (table().error_set_raised_from_c_str)(c"ValueError".as_ptr(), message.as_ptr().cast());
                (table().error_move_from_raised)(&raw mut error);
                let cell = kernpack::sys::embedded::body::<kernpack::sys::abi::TVMFFIErrorCell>(error);
                assert_eq!(cell.message.as_slice(), &message.as_bytes()[..message.len() - 1]);
                (table().object_dec_ref)(error);
                (table().error_move_from_raised)(&raw mut error);
            }
            assert!(error.is_null());
        }
    });
}

/// A text that must consist of one repeated letter.
#[derive(Object)]
#[object(key = "threads.Label")]
#[repr(C)]
pub struct Label {
    /// The text.
    pub text: String,
}

/// One thread sets a read-only field of an object as often as possible, while others read the
/// object, all through one reference that none of them owns: a frontend without a global lock could
/// do this.
#[test]
fn a_setter_and_readers() {
    let label = ObjRef::new(Label { text: "0".repeat(20) }).into_any();
    let (written, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    on_threads(|thread, below| {
        let field = TypeInfo::by_key(b"threads.Label").unwrap().fields().next().unwrap();
        for round in 0..ROUNDS {
            if thread == 0 {
                let text = char::from(b'a' + (round % 26) as u8).to_string().repeat(1 + below(40)).into_any();
                // SAFETY: the object has this field, and `label` keeps it. The setter detects that
                // others use it.
                match unsafe { field.set(label.as_view().as_raw().payload.v_obj, text.as_view()) } {
                    Ok(()) => written.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        assert_eq!(error.kind(), "AttributeError");
                        refused.fetch_add(1, Ordering::Relaxed)
                    }
                };
                continue;
            }
            let label: ObjRef<Label> = label.to().unwrap();
            let first = label.text.as_bytes()[0];
            assert!(label.text.bytes().all(|byte| byte == first), "{}", label.text);
            drop(label);
            if below(4) == 0 {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(written.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed), ROUNDS);
    assert!(written.load(Ordering::Relaxed) > 0);
}

/// Loops of many callers on the same pool: the caller sees everything that a piece writes, and
/// nothing is written after a loop has returned.
#[test]
fn parallel_loops() {
    const LEN: usize = 4096;
    on_threads(|thread, below| {
        let mut values: Vec<usize> = (0..LEN).collect();
        for round in 0..ROUNDS / 20 {
            let grain = 1 + below(LEN);
            parallel::zip(&mut values).grain(grain).for_each(|value| *value += thread).unwrap();
            let sum = |sum: &mut usize, value: &usize| *sum += value;
            let total = parallel::zip(&values).grain(grain).reduce(|| 0, sum, |a, b| a + b).unwrap();
            assert_eq!(total, LEN * (LEN - 1) / 2 + (round + 1) * thread * LEN);
            // The data that a failing loop writes to is freed as soon as it has returned.
            let mut short_lived = vec![0u8; LEN];
            let bad = below(LEN / 64);
            let failed = parallel::chunks_mut(&mut short_lived, 64, |number, chunk| {
                chunk.fill(1);
                if number == bad { Err("bad") } else { Ok(()) }
            });
            assert_eq!(failed.unwrap_err().message(), "bad");
            assert!(short_lived[bad * 64..][..64].iter().all(|byte| *byte == 1));
        }
    });
}

/// Adds to all elements.
#[packed_func(name = "threads.add_to_all")]
fn add_to_all(mut values: TensorViewMut<'_, i64>, amount: i64) -> kernpack::Result<()> {
    for value in values.as_slice_mut()? {
        *value += amount;
    }
    Ok(())
}

/// The sum of the elements, which are all the same.
#[packed_func(name = "threads.sum_of_same")]
fn sum_of_same(values: TensorView<'_, i64>) -> kernpack::Result<i64> {
    let values = values.as_slice()?;
    assert!(values.iter().all(|value| *value == values[0]));
    Ok(values.iter().sum())
}

/// Views of tensors and of parts of them, which are read and written as the record of live views
/// allows.
#[test]
fn views_of_tensors() {
    const PARTS: i64 = 4;
    const LEN: i64 = 8;
    let whole = Tensor::from_vec(vec![0_i64; (PARTS * LEN) as usize], &[PARTS * LEN]).unwrap();
    let parts: Vec<Tensor> = (0..PARTS).map(|part| whole.slice(part * LEN..(part + 1) * LEN).unwrap()).collect();
    let [add, sum] = ["threads.add_to_all", "threads.sum_of_same"].map(|name| Function::global(name).unwrap());
    let (expected, refused) = ([const { AtomicUsize::new(0) }; PARTS as usize], AtomicUsize::new(0));
    let is_done = |result: kernpack::Result<Any>| match result {
        Ok(_) => true,
        Err(error) => {
            assert!(error.message().contains("view that is still alive"), "{error}");
            refused.fetch_add(1, Ordering::Relaxed);
            false
        }
    };
    on_threads(|thread, below| {
        let own = Tensor::from_vec(vec![0_i64; 8], &[8]).unwrap();
        for round in 1..=ROUNDS / 4 {
            let part = below(PARTS as usize);
            match below(4) {
                0 => _ = is_done(sum.call((&parts[part],))),
                1 if is_done(add.call((&parts[part], 1))) => _ = expected[part].fetch_add(1, Ordering::Relaxed),
                2 if is_done(add.call((&whole, 2))) => {
                    expected.iter().for_each(|expected| _ = expected.fetch_add(2, Ordering::Relaxed));
                }
                // Many tensors, one after another, at reused addresses.
                _ => assert_eq!(
                    sum.call_as::<i64>((&Tensor::from_vec(vec![thread as i64; 5], &[5]).unwrap(),)).unwrap(),
                    5 * thread as i64
                ),
            }
            // A tensor of a single thread is never rejected.
            add.call((&own, 1)).unwrap();
            assert_eq!(sum.call_as::<i64>((&own,)).unwrap(), 8 * round as i64);
        }
    });
    for (part, expected) in parts.iter().zip(expected) {
        assert_eq!(sum.call_as::<i64>((part,)).unwrap(), LEN * expected.into_inner() as i64);
    }
    assert!(refused.into_inner() < THREADS * ROUNDS);
}

/// Uses one list and one dict on many threads in every way that safe Rust can, also through
/// operations that only read them: conversions, JSON, comparison, hashes, copies.
#[test]
fn lists_and_dicts() {
    let list = List::from([Array::from([1i64]), Array::from([2])]);
    let dict: Dict<i64, Any> = (0..6).map(|key| (key, list.clone().into_any())).collect();
    let both = Array::from([list.clone().into_any(), dict.clone().into_any()]).into_any();
    let copy = structural::deep_copy(&both).unwrap();
    on_threads(|thread, below| {
        let rounds = if cfg!(kernpack_tsan) { ROUNDS / 20 } else { ROUNDS / 4 };
        for round in 0..rounds {
            let key = below(40) as i64;
            list.push(Array::from([key]));
            dict.insert(key, Array::from([key]).into_any()).unwrap();
            match (round + thread) % 10 {
                0 => assert!(list.to_vec().unwrap().iter().all(|array| array.len() == 1)),
                1 => assert!(list.iter().all(|array| array.is_ok())),
                2 => _ = list.clone().into_any().to::<Vec<Vec<i64>>>().unwrap(),
                3 => _ = dict.clone().into_any().to::<HashMap<i64, Any>>().unwrap(),
                4 => _ = (reflect::to_json(&list).unwrap(), reflect::repr(&dict).unwrap()),
                // Keys that one of the threads set, whether or not they are still present.
                5 => _ = dict.get(&key).unwrap().map(|value| value.type_index()),
                6 => _ = (structural::hash(&both).unwrap(), structural::recursive_hash(&both).unwrap()),
                7 => _ = (structural::equal(&both, &copy).unwrap(), structural::recursive_equal(&copy, &both).unwrap()),
                8 => _ = structural::deep_copy(&both).unwrap(),
                _ => list.assign(list.to_vec().unwrap().into_iter().rev()),
            }
            if let Some(array) = list.pop().unwrap() {
                assert_eq!(array.len(), 1);
            }
            _ = dict.remove(&key).unwrap();
        }
    });
    assert!(list.len() <= 2 + THREADS * ROUNDS && dict.keys().unwrap().len() <= 40);
}
