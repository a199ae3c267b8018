//! Lookups of names while others are registered.

use core::ptr::null_mut;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::atomic::{AtomicPtr, Mutex};
use crate::check;
use crate::name_table::NameTable;

/// A value that was written before it was added to the table.
struct Value(UnsafeCell<usize>);

// SAFETY: loom reports unordered accesses.
unsafe impl Sync for Value {}

impl Value {
    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}

type Table = Arc<NameTable<Value>>;

fn new_table() -> Table {
    // SAFETY: NULL and 0.
    Arc::new(unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) })
}

fn register(table: &Table, name: &[u8], value: usize) -> usize {
    let registered = table.get_or_insert(name, || {
        let made = Value(UnsafeCell::new(0));
        // SAFETY: no other code has it yet.
        made.0.with_mut(|made| unsafe { *made = value });
        made
    });
    registered.get()
}

fn look_up(table: &Table, name: &[u8]) -> Option<usize> {
    table.get(name).map(Value::get)
}

/// A thread that finds a name sees its complete value, and names that were registered in order are
/// found in that order.
pub fn looked_up() {
    check(|| {
        let table = new_table();
        let other = table.clone();
        let thread = thread::spawn(move || {
            let second = look_up(&other, b"second");
            let first = look_up(&other, b"first");
            assert!(matches!(second, None | Some(2)) && matches!(first, None | Some(1)));
            assert!(second.is_none() || first.is_some(), "the first name was there before the second");
        });
        register(&table, b"first", 1);
        register(&table, b"second", 2);
        thread.join().unwrap();
        assert_eq!((look_up(&table, b"first"), look_up(&table, b"second")), (Some(1), Some(2)));
    });
}

/// Two threads register the same name: both get the same value.
pub fn registered_twice() {
    check(|| {
        let table = new_table();
        let other = table.clone();
        let thread = thread::spawn(move || register(&other, b"name", 1));
        let mine = register(&table, b"name", 2);
        let theirs = thread.join().unwrap();
        assert_eq!((mine, look_up(&table, b"name")), (theirs, Some(theirs)));
    });
}

/// A name is still found while the index grows.
pub fn grown() {
    check(|| {
        let table = new_table();
        for number in 0..8 {
            register(&table, &[number], number as usize);
        }
        let other = table.clone();
        let thread = thread::spawn(move || {
            assert_eq!((look_up(&other, &[0]), look_up(&other, &[7])), (Some(0), Some(7)));
            assert!(matches!(look_up(&other, b"ninth"), None | Some(9)));
        });
        register(&table, b"ninth", 9);
        thread.join().unwrap();
        assert_eq!(
            (look_up(&table, &[0]), look_up(&table, &[7]), look_up(&table, b"ninth")),
            (Some(0), Some(7), Some(9))
        );
    });
}
