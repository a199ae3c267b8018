//! A library that Python imports as an extension module. `tests/python_extension` imports it with
//! every available Python; it also contains the functions of tests/conversions-lib, so that the
//! rows of tests/python/conversions.json run through extension modules as well.

pub mod comparison;
pub mod detached;
pub mod exceptions;
pub mod identity;
pub mod interface;
pub mod places;
pub mod protocols;
pub mod python_objects;
pub mod setters;
pub mod shared;
pub mod signatures;
pub mod special;
pub mod standard;
pub mod tensors;
pub mod values;

use std::collections::HashMap;
use std::sync::Mutex;

use kernpack::{Any, Error, Function, IntoAny, ObjRef, Object, Result, Tensor, WithPath, bail, packed_func};

kernpack::library!(with = [conversions, objects]);

/// Subtracts one integer from another.
///
/// The second paragraph.
#[packed_func]
pub fn subtract(minuend: i64, subtrahend: i64) -> i64 {
    minuend - subtrahend
}

/// Ten digits of a number: more parameters than fit on the stack of a call.
#[packed_func]
#[expect(clippy::too_many_arguments, reason = "that is what is tested")]
pub fn digits(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64, j: i64) -> i64 {
    [a, b, c, d, e, f, g, h, i, j].into_iter().fold(0, |number, digit| number * 10 + digit)
}

/// The number of bytes of a text in UTF-8.
#[packed_func]
pub fn text_size(text: &str) -> usize {
    text.len()
}

/// The number of times a character occurs.
#[packed_func(name = "extmod.text.count")]
pub fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// A line of text about a number.
#[packed_func]
pub fn line(
    x: f64,
    #[default(0.5)] gain: f64,
    #[default("x")] name: &str,
    #[default(f64::from(2))] factor: f64,
    mode: Option<ObjRef<Record>>,
) -> String {
    format!("{name}={} of {}", x * gain * factor, mode.map_or(0, |record| record.count))
}

/// Half of a number.
#[packed_func]
pub fn half(x: f64) -> f64 {
    x / 2.0
}

/// Fails with an error of this kind.
#[packed_func]
pub fn fail(kind: &str, message: &str) -> Result<()> {
    Err(Error::new(kind, message))
}

kernpack::exception! {
    /// Something that cannot be filtered.
    pub FilterFault: ValueError
}

kernpack::exception!(KernelFault: FilterFault);

/// Fails with an error that the library declares.
#[packed_func]
pub fn filter(size: i64) -> Result<()> {
    match size {
        0 => bail!(FilterFault, "a filter of size 0"),
        _ => bail!(KernelFault, "no kernel of size {size}"),
    }
}

/// Fails with an error that comes from another, which comes from a third.
#[packed_func]
pub fn fail_with_causes() -> Result<()> {
    let first = Error::new("OSError", "the disk is full");
    let second = Error::new("KeyError", "no entry").caused_by(first);
    Err(Error::value_error("the table cannot be written").caused_by(second))
}

/// The number of bytes.
#[packed_func]
pub fn byte_count(bytes: &[u8]) -> usize {
    bytes.len()
}

/// Panics, which is an error of the function.
#[packed_func]
pub fn panics() {
    panic!("a panic on purpose");
}

/// The size of a file.
#[packed_func]
pub fn file_size(path: &str) -> Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}

/// The content of a file, whose name an error has.
#[packed_func]
pub fn file_text(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_path(path)
}

/// Gives a file another name.
#[packed_func]
pub fn rename_file(from: &str, to: &str) -> Result<()> {
    std::fs::rename(from, to).with_paths(from, to)
}

/// An error of a kind, with a message and perhaps another error of the same that it comes from.
#[packed_func]
pub fn fail_as(kind: &str, message: &str, caused: bool) -> Result<()> {
    let error = Error::new(kind, message);
    Err(if caused { error.clone().caused_by(error) } else { error })
}

/// Waits, for as long as no signal ends it.
#[packed_func]
pub fn wait(seconds: f64) -> Result<bool> {
    wait_here(seconds)
}

/// The same, with Python's lock held.
#[packed_func(detach = false)]
pub fn wait_here(seconds: f64) -> Result<bool> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    while std::time::Instant::now() < end {
        kernpack::check_signals()?;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(true)
}

/// Calls a function for each number below a limit, and adds up what it gives.
#[packed_func]
pub fn sum_of(f: Function, limit: i64) -> Result<i64> {
    (0..limit).try_fold(0, |sum, number| Ok(sum + f.call_as::<i64>((number,))?))
}

/// Calls a function, and fails with an error of its own that tells what happened.
#[packed_func]
pub fn explain(f: Function) -> Result<Any> {
    match f.call(()) {
        Ok(value) => Ok(value),
        Err(error) => bail!(RuntimeError, "the function said: {} ({})", error.message(), error.kind()),
    }
}

/// Calls a function for each number below a limit, without giving Python's lock away: on the thread
/// of the call.
#[packed_func(detach = false)]
pub fn sum_here(f: Function, limit: i64) -> Result<i64> {
    (0..limit).try_fold(0, |sum, number| Ok(sum + f.call_as::<i64>((number,))?))
}

/// Calls a function on another thread, and waits for it.
#[packed_func]
pub fn on_a_thread(f: Function) -> Result<Any> {
    std::thread::spawn(move || f.call(())).join().unwrap_or_else(|_| bail!(RuntimeError, "the thread panicked"))
}

static KEPT: Mutex<Option<Function>> = Mutex::new(None);

/// Keeps a function for `call_kept`, or lets go of the one that is kept.
#[packed_func]
pub fn keep(f: Option<Function>) {
    let before = std::mem::replace(&mut *KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), f);
    // Not while the mutex is locked: dropping a callable takes Python's lock, which may belong to a
    // thread that waits for the mutex.
    drop(before);
}

/// Calls the function that is kept.
#[packed_func]
pub fn call_kept(argument: Any) -> Result<Any> {
    let kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    match kept {
        Some(function) => function.call((argument,)),
        None => bail!(RuntimeError, "no function is kept"),
    }
}

/// Calls the function that is kept on another thread, and waits for it: without Python's lock,
/// which the thread needs.
#[packed_func(detach)]
pub fn call_kept_on_a_thread() -> Result<Any> {
    std::thread::spawn(|| call_kept(Any::NONE)).join().unwrap_or_else(|_| bail!(RuntimeError, "the thread panicked"))
}

/// A function that multiplies by a factor.
#[packed_func]
pub fn multiplier(factor: i64) -> Function {
    Function::from_fn(move |x: i64| x * factor)
}

/// The number of occurrences of each word.
#[packed_func]
pub fn words(text: &str) -> HashMap<String, i64> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_owned()).or_insert(0) += 1;
    }
    counts
}

/// A pair of quotient and remainder, unless the divisor is 0.
#[packed_func]
pub fn divide(dividend: i64, divisor: i64) -> Option<(i64, i64)> {
    Some((dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?))
}

/// A list with one of each kind of value.
#[packed_func]
pub fn one_of_each() -> Vec<Any> {
    vec![Any::NONE, true.into_any(), 7i64.into_any(), 2.5.into_any(), "text".into_any(), "a longer text".into_any()]
}

/// A list that is nested this deep.
#[packed_func]
pub fn nest(depth: i64) -> Any {
    (0..depth).fold(Vec::<Any>::new().into_any(), |inner, _| vec![inner].into_any())
}

/// A count with a label.
#[derive(Object)]
#[object(key = "extmod.Record")]
#[repr(C)]
pub struct Record {
    /// The count.
    pub count: i64,
    /// The scale.
    pub scale: f64,
    /// The label.
    pub label: String,
    /// Shape of something, as a pair.
    pub pair: (i64, i64),
}

/// Something that holds a function.
#[derive(Object)]
#[object(key = "extmod.Holder")]
#[repr(C)]
pub struct Holder {
    /// A function.
    pub function: Function,
    /// Another function.
    pub other: Option<Function>,
}

/// Copies the function that a holder has, again and again and without Python's lock; gives the
/// number of copies.
#[packed_func(detach)]
pub fn copy_function(holder: &Holder, seconds: f64) -> i64 {
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    let mut copies = 0;
    while std::time::Instant::now() < end {
        for _ in 0..1000 {
            std::hint::black_box(holder.function.clone());
            copies += 1;
        }
    }
    copies
}

/// Makes a record.
#[packed_func]
pub fn record(count: i64, label: &str) -> ObjRef<Record> {
    ObjRef::new(Record { count, scale: 1.0, label: label.to_owned(), pair: (count, count) })
}

/// The count of a record.
#[packed_func]
pub fn count_of(record: ObjRef<Record>) -> i64 {
    record.count
}

/// The count of a record, which is borrowed.
#[packed_func]
pub fn count_in(record: &Record) -> i64 {
    record.count
}

/// The counts of a record and of another one, if there is another one.
#[packed_func]
pub fn counts_in(record: &Record, other: Option<&Record>) -> (i64, Option<i64>) {
    (record.count, other.map(|other| other.count))
}

/// Calls a borrowed function twice, and gives both results with a further reference to it.
#[packed_func]
pub fn call_twice(f: &Function) -> Result<(Any, Any, Function)> {
    Ok((f.call(())?, f.call(())?, f.clone()))
}

/// The fields of a record, and the record; an error without a count.
#[packed_func]
#[expect(clippy::type_complexity, reason = "that is what is tested")]
pub fn parts(
    record: ObjRef<Record>,
) -> Result<(i64, f64, String, (i64, i64), Vec<u8>, Option<Tensor>, ObjRef<Record>)> {
    if record.count == 0 {
        bail!(ValueError, "a record without a count");
    }
    let bytes = record.label.as_bytes().to_vec();
    let tensor = Tensor::from_vec(vec![1.0f32; 2], &[2])?;
    Ok((record.count, record.scale, record.label.clone(), record.pair, bytes, Some(tensor), record.clone()))
}

/// The same, called as other libraries call it.
#[packed_func]
pub fn parts_by_name(record: ObjRef<Record>) -> Result<(Any, i64)> {
    Ok((Function::global("extmod.parts")?.call((record,))?, 1))
}

/// A tuple of as many elements as a call has places for, beside one of its own.
#[packed_func]
#[expect(clippy::type_complexity, reason = "that is what is tested")]
pub fn eight_and_one() -> ((i64, i64, i64, i64, i64, i64, i64, i64), (i64,)) {
    ((1, 2, 3, 4, 5, 6, 7, 8), (9,))
}

/// Calls a function with a value.
#[packed_func]
pub fn apply_to(f: Function, x: Any) -> Result<Any> {
    f.call((x,))
}

/// The texts of a list, repeated.
#[packed_func]
pub fn repeated(texts: Vec<String>, times: f64) -> Vec<String> {
    texts.into_iter().map(|text| text.repeat(times as usize)).collect()
}
