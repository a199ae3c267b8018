//! Visitors of fields: the same calls by generated code and by registered fields, on Rust types;
//! registered fields of C++ types, with the stock libtvm_ffi in the process and with ours; JSON,
//! repr and trees of both.

use std::path::Path;

use kernpack::reflect::{
    AttrSlot, AttrVisitor, AttrVisitorMut, Tree, VisitAttrs, from_json, repr, to_json, visit_object,
};
use kernpack::sys::provider::{Origin, origin};
use kernpack::{Any, DataType, Device, Function, IntoAny, ObjRef, Object, ObjectRoot, Result, Shape, Tensor};

use crate::visits::types::{All, Base, Figure, Node, Shared};
use crate::visits::{self, Log, log};
use kernpack_tests::beside::test_again;
use kernpack_tests::stock::stock_library;
use kernpack_tests::{headers, library};

/// The variable that names the `libtvm_ffi.so` of a second run of this program.
const INSIDE: &str = "KERNPACK_TEST_INSIDE_HOST";
/// The library made of `fields.cc`.
const CPP_LIBRARY: &str = "KERNPACK_TEST_CPP_LIBRARY";

/// Generated code and registered fields make the same calls.
fn same_calls<T: Object + VisitAttrs>(object: &ObjRef<T>) -> Vec<String> {
    let mut generated = Log::default();
    object.visit_attrs(&mut generated).unwrap();
    let registered = log(object);
    assert_eq!(generated.0, registered);
    registered
}

#[test]
fn generated_code_and_registered_fields_make_the_same_calls() {
    let all = ObjRef::new(All::example());
    assert_eq!(same_calls(&all), All::CALLS);
    same_calls(&ObjRef::new(All::other_example()));
    assert_eq!(same_calls(&ObjRef::new(Base { id: 3, name: "x".into() })), ["i64 id 3", "str name \"x\""]);
    assert_eq!(same_calls(&ObjRef::new(Shared::default())), Shared::CALLS);
    assert_eq!(same_calls(&Node::chain(2)), ["i64 value 1", "object next visits.Node"]);
    // Through a reference to the base, the object's own type is visited.
    assert_eq!(log(&all.upcast()), All::CALLS);
}

#[test]
fn an_error_of_the_visitor_ends_the_visit() {
    struct Stops(usize);
    impl AttrVisitor for Stops {
        fn visit_other(&mut self, name: &str, _: &kernpack::AnyView<'_>) -> Result<()> {
            self.0 += 1;
            if self.0 == 3 { Err(kernpack::error!(ValueError, "enough at {name}")) } else { Ok(()) }
        }
    }
    let all = ObjRef::new(All::example());
    let outcomes = [all.visit_attrs(&mut Stops(0)), visit_object(&all, &mut Stops(0))];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.message()), ("ValueError", "enough at f64"));
    }
}

/// Sets fields to the values with the same name.
struct Assign(Vec<(&'static str, Any)>);

impl AttrVisitorMut for Assign {
    fn visit_other(&mut self, name: &str, field: &mut dyn AttrSlot) -> Result<()> {
        match self.0.iter().position(|(given, _)| *given == name) {
            Some(at) => field.set(&self.0.swap_remove(at).1),
            None => Ok(()),
        }
    }
}

#[test]
fn a_visitor_changes_any_field_of_a_value_that_nobody_else_has() {
    let mut all = All::example();
    let values = |all: &All| {
        let mut log = Log::default();
        all.visit_attrs(&mut log).unwrap();
        log.0
    };
    // Copies one example to the other, field by field.
    struct Copy(Vec<(String, Any)>);
    impl AttrVisitorMut for Copy {
        fn visit_other(&mut self, name: &str, field: &mut dyn AttrSlot) -> Result<()> {
            self.0.push((name.to_owned(), field.get()));
            Ok(())
        }
    }
    struct Paste(std::vec::IntoIter<(String, Any)>);
    impl AttrVisitorMut for Paste {
        fn visit_other(&mut self, name: &str, field: &mut dyn AttrSlot) -> Result<()> {
            let (of, value) = self.0.next().unwrap();
            assert_eq!(of, name);
            field.set(&value)
        }
    }
    let mut other = All::other_example();
    let mut copy = Copy(Vec::new());
    other.visit_attrs_mut(&mut copy).unwrap();
    // Integers narrower than the visitor's type are converted to it.
    assert_eq!(copy.0.len(), All::CALLS.len());
    all.visit_attrs_mut(&mut Paste(copy.0.into_iter())).unwrap();
    assert_eq!(values(&all), values(&other));

    let mut shared = Shared::default();
    let words = vec![7_i64, 8].into_any();
    shared.visit_attrs_mut(&mut Assign(vec![("items", words), ("count", 5.into()), ("text", "t".into())])).unwrap();
    assert_eq!((shared.items.get(), shared.count.into_inner(), shared.text.get()), (vec![7, 8], 5, "t".into()));
}

#[test]
fn what_does_not_fit_into_a_field_is_an_error() {
    struct Largest;
    impl AttrVisitorMut for Largest {
        fn visit_i32(&mut self, _: &str, value: &mut i32) -> Result<()> {
            *value = i32::MAX;
            Ok(())
        }
    }
    let mut all = All::example();
    let error = all.visit_attrs_mut(&mut Largest).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("ValueError", "field 'i8': 2147483647 is out of range (-128 to 127)"));
    assert_eq!(all.i8, -8);
    for (name, value, message) in [
        ("i64", "x".into(), "field 'i64': expected int, got str"),
        ("u8", 300.into(), "field 'u8': 300 is out of range (0 to 255)"),
        ("f32", 1e300.into(), "field 'f32': 1e300 is out of range for f32"),
        ("words", 1.into(), "field 'words': expected Array[str], got int"),
        ("object", 1.into(), "field 'object': expected visits.Base, got int"),
    ] {
        let error = all.visit_attrs_mut(&mut Assign(vec![(name, value)])).unwrap_err();
        assert_eq!(error.message(), message);
    }
}

#[test]
fn a_million_objects_in_a_row() {
    let length = kernpack_tests::chain_length() as i64;
    let chain = Node::chain(length);
    assert_eq!(repr(&chain).unwrap().matches("visits.Node(value=").count() as i64, length);
    let text = to_json(&chain).unwrap();
    let again: ObjRef<Node> = from_json(&text).unwrap().to().unwrap();
    assert_eq!(Node::length(&again), length);
    let tree = Tree::of(&again).to_string();
    assert_eq!(tree.matches("value: ").count() as i64, length);
    assert!(tree.ends_with(&format!("({length}) value: 0\n{}({length}) next: None\n", "  ".repeat(24))));
    let first = format!("visits.Node\n  value: {}\n  next: visits.Node ...\n", length - 1);
    assert_eq!(Tree::of(&again).depth(1).to_string(), first);
}

#[test]
fn json_brings_objects_back() {
    let node = Node::chain(1);
    let shared = ObjRef::new(visits::types::Pair { left: Some(node.clone()), right: Some(node), note: Some(1.5) });
    let text = to_json(&shared).unwrap();
    let again: ObjRef<visits::types::Pair> = from_json(&text).unwrap().to().unwrap();
    assert!(again.left.as_ref().unwrap().ptr_eq(again.right.as_ref().unwrap()), "{text}");
    assert_eq!(again.note, Some(1.5));
    assert_eq!(to_json(&again).unwrap(), text);
    assert_eq!(repr(&again).unwrap(), repr(&shared).unwrap());
    let error = from_json("{\"root_index\":0,\"nodes\":[{\"type\":\"visits.NoSuchType\",\"data\":{}}]}").unwrap_err();
    assert!(error.message().contains("visits.NoSuchType"), "{error}");
    assert!(from_json("{").is_err());
}

fn circles() {
    let list: Any = Function::global("ffi.List").unwrap().call((1,)).unwrap();
    Function::global("ffi.ListAppend").unwrap().call((&list, &list)).unwrap();
    assert_eq!(Tree::of(&list).to_string(), "ffi.List of 2 #1\n  [0]: 1\n  [1]: ffi.List #1, see above\n");
    assert_eq!(repr(&list).unwrap(), "[1, ...]");
    assert!(to_json(&list).unwrap_err().message().contains("contains itself"));
    Function::global("ffi.ListClear").unwrap().call((&list,)).unwrap();
}

#[test]
fn families() {
    let shape = ObjRef::new(Figure::Circle { radius: 2.0, label: "c".into() });
    assert_eq!(same_calls(&shape), ["f64 radius 2.0", "str label \"c\""]);
    let both = ObjRef::new(Figure::Both { left: shape.clone(), right: ObjRef::new(Figure::Nothing) });
    assert_eq!(same_calls(&both), ["object left visits.Figure.Circle", "object right visits.Figure.Nothing"]);
    assert_eq!(same_calls(&ObjRef::new(Figure::Nothing)), [""; 0]);
    let text = "visits.Figure.Both\n  left: visits.Figure.Circle\n    radius: 2.0\n    label: \"c\"\n  right: visits.Figure.Nothing\n";
    assert_eq!(Tree::of(&both).to_string(), text);
}

#[test]
fn trees_of_single_values_and_of_large_ones() {
    let long = "ab\u{e9}\n".repeat(100);
    let tensor = |values: Vec<f64>, shape: &[i64]| Tensor::from_vec(values, shape).unwrap().into_any();
    let rows: [(Any, &str); 16] = [
        (Any::NONE, "None"),
        (1.into(), "1"),
        (u64::MAX.into(), "18446744073709551615"),
        (0.1.into(), "0.1"),
        (true.into(), "true"),
        ("a\"b".into(), r#""a\"b""#),
        (long.as_str().into(), "\"ab\u{e9}\\nab\u{e9}\\n\"... 400 characters"),
        (vec![0_u8; 20].as_slice().into(), r#"b"\x00\x00\x00\x00\x00\x00\x00\x00"... 20 bytes"#),
        (b"".as_slice().into(), "b\"\""),
        (DataType::BFLOAT16.into(), "bfloat16"),
        (Device::CPU.into(), "cpu:0"),
        (Shape::new(&[]).into_any(), "Shape[]"),
        (tensor(vec![0.5; 4], &[2, 2]), "float64[2, 2] on cpu:0, 0.5, 0.5, 0.5, ... 1 more"),
        (tensor(vec![1.0], &[]), "float64[] on cpu:0, 1.0"),
        (Vec::<i64>::new().into_any(), "ffi.Array of 0"),
        ((0..5).collect::<Vec<i64>>().into_any(), "ffi.Array of 5\n  [0]: 0\n  [1]: 1\n  [2]: 2\n  ... 2 more"),
    ];
    for (value, expected) in rows {
        assert_eq!(Tree::of(&value).items(3).text(8).to_string(), format!("{expected}\n"));
    }
    let nested: Vec<Vec<i64>> = vec![vec![1], vec![]];
    assert_eq!(Tree::of(&nested).depth(0).to_string(), "ffi.Array of 2 ...\n");
    assert_eq!(
        Tree::of(&nested).depth(1).to_string(),
        "ffi.Array of 2\n  [0]: ffi.Array of 1 ...\n  [1]: ffi.Array of 0\n"
    );
    assert_eq!(Tree::of(&nested).items(0).to_string(), "ffi.Array of 2\n  ... 2 more\n");

    // A part that the depth limit cuts off is shown where the object occurs again on a higher
    // level.
    let node = Node::chain(1);
    let pair = |left, right| ObjRef::new(visits::types::Pair { left, right, note: None });
    let node = pair(Some(node.clone()), Some(node));
    let text = Tree::of(&(vec![vec![node.clone()]], node)).depth(2).to_string();
    assert_eq!(
        text,
        "ffi.Array of 2\n  [0]: ffi.Array of 1\n    [0]: ffi.Array of 1 ...\n  [1]: visits.Pair\n    left: visits.Node ...\n    \
         right: visits.Node ...\n    note: None\n"
    );
}

/// Runs this test again in a process that has a `libtvm_ffi.so`.
fn run_inside(host: &str, libtvm_ffi: &Path, libraries: &Path) {
    let output = test_again(module_path!(), "inside")
        .arg("--nocapture")
        .env("LD_PRELOAD", libtvm_ffi)
        .env(CPP_LIBRARY, libraries)
        .env(INSIDE, host)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{host}: {text}");
}

#[test]
fn types_of_cpp() {
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    let fields = headers::scratch_dir("attr_visitor").join("libfields.so");
    library::compile_cpp("fields.cc", &fields, &include_dirs, &["-shared", "-fPIC"]);
    run_inside("ours", library::library(), &fields);
    let Some(stock) = stock_library() else { return };
    run_inside("stock", &stock, &fields);
}

/// The part that runs in the process with another implementation; empty in an ordinary run.
#[test]
fn inside() {
    let Ok(host) = std::env::var(INSIDE) else { return };
    assert_eq!(origin(), Origin::Process);
    visits::open(Path::new(&std::env::var_os(CPP_LIBRARY).unwrap()));
    let all: ObjRef<ObjectRoot> = Function::global("fields.all").unwrap().call_as(()).unwrap();
    assert_eq!(log(&all), visits::CPP_CALLS);
    assert_eq!(Tree::of(&all).to_string(), visits::CPP_TREE);
    let global = |name: &str| Function::global(name).unwrap();
    let text: String = global("ffi.ReprPrint").call_as((&all,)).unwrap();
    assert_eq!(repr(&all).unwrap(), text, "{host}");

    // A getter that fails ends a visit, and is a line of a tree.
    let throws: ObjRef<ObjectRoot> = global("fields.throws").call_as(()).unwrap();
    let mut seen = Log::default();
    let error = visit_object(&throws, &mut seen).expect_err(&format!("{:?}", seen.0));
    assert_eq!((error.kind(), error.message()), ("KeyError", "no value today"));
    assert_eq!(seen.0, ["i64 first 1"]);
    assert_eq!(Tree::of(&throws).to_string(), "fields.Throws\n  first: 1\n  ! KeyError: no value today\n");

    // The text is the same as that of the host's own functions, for types of both languages.
    let base: ObjRef<ObjectRoot> = from_json(visits::CPP_JSON).unwrap().to().unwrap();
    let ours = ObjRef::new(visits::types::Pair { left: Some(Node::chain(3)), right: None, note: None });
    for object in [base, ours.upcast(), ObjRef::new(All::example()).upcast().upcast(), all] {
        let text = global("ffi.ToJSONGraphString").call((&object, Any::NONE)).and_then(|text| text.to::<String>());
        match (text, to_json(&object)) {
            (Ok(theirs), Ok(ours)) => {
                assert_eq!(theirs, ours);
                let again = from_json(&ours).unwrap();
                let of_theirs: Any = global("ffi.FromJSONGraphString").call((&ours,)).unwrap();
                assert_eq!(to_json(&again).unwrap(), ours);
                assert_eq!(to_json(&of_theirs).unwrap(), ours);
            }
            (Err(_), Err(_)) => {}
            (theirs, ours) => panic!("{host}: {theirs:?}, but {ours:?}"),
        }
        assert_eq!(global("ffi.ReprPrint").call_as::<String>((&object,)).unwrap(), repr(&object).unwrap());
    }
    same_calls(&ObjRef::new(All::example()));
    circles();
    let missing = global("ffi.GetInvalidObject").call(()).unwrap();
    assert_eq!(repr(&missing).unwrap(), "<MISSING>");
}
