//! No operation on objects leaks one: `objects.Tracked` of tests/objects-lib counts its live
//! objects. This is a separate process, so that other tests do not create objects meanwhile.

use std::path::PathBuf;

use kernpack::reflect::{AttrColumn, from_json, repr, to_json};
use kernpack::structural::{
    Rewrite, StructuralKey, Walk, deep_copy, equal, first_mismatch, hash, recursive_compare, recursive_equal,
    recursive_hash,
};
use kernpack::{Any, Function, Module, ObjRef, ObjectRoot, Result};
use kernpack_tests::beside::test_again;

const INSIDE: &str = "KERNPACK_TEST_INSIDE_ALONE";

type Operation = (&'static str, fn(&Any, &Any) -> Result<()>);

const OPERATIONS: &[Operation] = &[
    ("read", |value, _| value.field("other").map(drop)),
    ("read what is not there", |value, _| fails(value.field("no_such_field"))),
    ("cast up and down", |value, _| {
        let object: ObjRef<ObjectRoot> = value.to()?;
        let weak = object.downgrade();
        assert!(weak.upgrade().is_some_and(|again| again.ptr_eq(&object)));
        Ok(())
    }),
    ("==", |left, right| recursive_equal(left, right).map(|same| assert!(same))),
    ("order", |left, right| recursive_compare(left, right).map(|order| assert!(order.is_eq()))),
    ("hash", |value, _| recursive_hash(value).map(drop)),
    ("structural equality", |left, right| equal(left, right).map(|same| assert!(same))),
    ("structural hash", |value, _| hash(value).map(drop)),
    ("structural key", |value, _| StructuralKey::new(value.clone()).map(drop)),
    ("first mismatch", |left, right| {
        assert!(first_mismatch(left, &right.field("other")?)?.is_some());
        Ok(())
    }),
    ("repr", |value, _| repr(value).map(drop)),
    ("copy", |value, _| {
        static COPY: AttrColumn = AttrColumn::new("__ffi_shallow_copy__");
        let copy: Function = COPY.get(value.type_index()).unwrap().try_to_owned()?.to()?;
        copy.call((value,)).map(drop)
    }),
    ("deep copy", |value, _| deep_copy(value).map(drop)),
    ("JSON", |value, _| from_json(&to_json(value)?).map(drop)),
    ("JSON that ends early", |value, _| {
        let text = to_json(value)?;
        fails(from_json(&text[..text.len() / 2]))
    }),
    ("JSON of another type", |value, _| fails(from_json(&to_json(value)?.replace("\"value\"", "\"other\"")))),
    ("walk", |value, _| Walk::new().pre(|_: i64| {}).run(value).map(drop)),
    ("walk that fails", |value, _| {
        fails(Walk::new().post(|_: i64| -> Result<()> { kernpack::bail!(ValueError, "no") }).run(value))
    }),
    ("rewrite that changes nothing", |value, _| Rewrite::new().post(|number: i64| number).run(value.clone()).map(drop)),
    ("rewrite", |value, _| Rewrite::new().post(|number: i64| number + 1).run(value.clone()).map(drop)),
    ("rewrite that fails", |value, _| {
        fails(Rewrite::new().post(|_: i64| -> Result<i64> { kernpack::bail!(ValueError, "no") }).run(value.clone()))
    }),
];

fn fails<T>(result: Result<T>) -> Result<()> {
    assert!(result.is_err());
    Ok(())
}

#[test]
fn no_operation_leaks() {
    if std::env::var_os(INSIDE).is_none() {
        let output = test_again(module_path!(), "no_operation_leaks").env(INSIDE, "1").output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let path: PathBuf = std::env::current_exe().unwrap().with_file_name("libobjects.so");
    let library = Module::load(path.to_str().unwrap()).unwrap();
    let alive = || library.function("alive").unwrap().call_as::<i64>(()).unwrap();
    let track = library.function("track").unwrap();
    let make = || {
        let last = track.call((2, "two", ())).unwrap();
        track.call((1, "a text that does not fit into a value", last)).unwrap()
    };
    for (name, operation) in OPERATIONS {
        let (left, right) = (make(), make());
        let before = alive();
        let owners = |value: &Any| value.to::<ObjRef<ObjectRoot>>().unwrap().strong_count();
        let counts = [owners(&left), owners(&right)];
        for _ in 0..100 {
            operation(&left, &right).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!([owners(&left), owners(&right)], counts, "{name}");
        assert_eq!(alive(), before, "{name}");
        drop((left, right));
        assert_eq!(alive(), 0, "{name}");
    }
}
