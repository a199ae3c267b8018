use core::cell::Cell;

use crate::Function;
use crate::value::{Any, DataType, Device, IntoAny};
use crate::walker::test_graphs::{
    KEPT, SHARED, array, behaviour, call, chain, circle, dag, empty, hooked, list, nested, plain, problem, scope,
    simple_scope, tree, unique, var,
};
use crate::{Map, Result, Shape};

fn equal(left: &Any, right: &Any, map_free_vars: bool) -> Result<bool> {
    call("ffi.StructuralEqual", &[left, right, &map_free_vars.into_any(), &false.into_any()])?.to()
}

fn hash(value: &Any, map_free_vars: bool) -> Result<i64> {
    call("ffi.StructuralHash", &[value, &map_free_vars.into_any(), &false.into_any()])?.to()
}

/// The paths to the first difference, printed.
fn mismatch(left: &Any, right: &Any) -> String {
    let options = false.into_any();
    let pair = call("ffi.GetFirstStructuralMismatch", &[left, right, &options, &options]).unwrap();
    call("ffi.ReprPrint", &[&pair]).unwrap().to().unwrap()
}

/// Asserts that the values are equal as expected, and that their hashes are equal exactly then.
#[track_caller]
fn check(left: &Any, right: &Any, map_free_vars: bool, expected: bool) {
    assert_eq!(equal(left, right, map_free_vars).unwrap(), expected);
    assert_eq!(equal(right, left, map_free_vars).unwrap(), expected);
    let hashes = [left, right].map(|value| hash(value, map_free_vars).unwrap());
    assert_eq!(hashes[0] == hashes[1], expected);
}

#[test]
fn hashes_of_the_stock_library() {
    let map: Map<String, i64> = [("a".to_owned(), 1), ("b".to_owned(), 2)].into_iter().collect();
    for (value, expected) in [
        (Any::NONE, 2_654_435_769),
        (1.into_any(), 2_654_435_835),
        (true.into_any(), 2_654_435_896),
        ((-0.0).into_any(), -9_223_372_034_200_339_846),
        (f64::NAN.into_any(), 9_221_120_239_695_526_522),
        ((-f64::NAN).into_any(), 9_221_120_239_695_526_522),
        ("abc".into_any(), 2_660_953_131),
        ("a longer text".into_any(), 4_795_401_852),
        (array([1.into_any(), "x".into_any(), Any::NONE]), -988_909_162_461_018_944),
        (list([1.into_any(), "x".into_any(), Any::NONE]), -8_297_481_971_342_425_691),
        (Shape::from(vec![1, 2, 3]).into_any(), -142_990_502_110_543_205),
        ("float32".parse::<DataType>().unwrap().into_any(), 2_654_509_817),
        ("cuda:1".parse::<Device>().unwrap().into_any(), 6_949_403_450),
    ] {
        assert_eq!(hash(&value, false).unwrap(), expected, "{}", value.type_name());
    }
    // The order of a map is ignored.
    let other: Map<String, i64> = [("b".to_owned(), 2), ("a".to_owned(), 1)].into_iter().collect();
    check(&map.into_any(), &other.into_any(), false, true);
}

#[test]
fn trees_graphs_and_instances() {
    let [one, same, other] = [1, 1, 2].map(|number| tree(tree(0, "x", 0), array([1.into_any()]), number));
    check(&one, &same, false, true);
    check(&one, &other, false, false);
    // A shared node is different from two equal nodes.
    let shared = dag(1, 2, 3);
    let (graph, nodes) = (tree(shared.clone(), shared.clone(), 0), tree(dag(1, 2, 3), dag(1, 2, 3), 0));
    check(&graph, &nodes, false, false);
    check(&graph, &tree(shared.clone(), shared, 0), false, true);
    assert!(!equal(&unique(1, 2, 3), &unique(1, 2, 3), false).unwrap());
    for (value, message) in [
        (plain(1, 2, 3), "TypeError: _type_s_eq_hash_kind is not set for type `tests.graphs.Plain`, so StructuralHash"),
        (Function::from_fn(|| ()).into_any(), "TypeError: Type metadata is not set for type `ffi.Function`, so Struct"),
    ] {
        let nested = array([value]);
        assert!(hash(&nested, false).unwrap_err().to_string().starts_with(message));
        assert!(equal(&nested, &nested, false).unwrap_err().to_string().starts_with(message));
    }
}

#[test]
fn variables() {
    let body = |x: &Any, y: &Any| array([x.clone(), y.clone(), x.clone()]);
    let [x, y, u, v] = [1, 2, 3, 4].map(|number| var(Any::NONE, Any::NONE, number));
    let params = |x: &Any, y: &Any| array([x.clone(), y.clone()]);
    let left = scope(params(&x, &y), body(&x, &y), 0);
    check(&left, &scope(params(&u, &v), body(&u, &v), 0), false, true);
    check(&left, &scope(params(&u, &v), body(&v, &u), 0), false, false);
    // These have no definition, unless all variables count as defined.
    check(&body(&x, &y), &body(&u, &v), false, false);
    check(&body(&x, &y), &body(&u, &v), true, true);
    check(&body(&x, &x), &body(&u, &v), true, false);
    // A variable in a variable: a pattern defines it, too.
    let [outer, other] = [&x, &u].map(|inner| var(inner.clone(), Any::NONE, 0));
    assert!(equal(&scope(outer.clone(), 0, 0), &scope(other.clone(), 0, 0), false).unwrap());
    assert!(!equal(&simple_scope(outer, 0, 0), &simple_scope(other, 0, 0), false).unwrap());
    assert_eq!(mismatch(&left, &scope(params(&u, &v), body(&v, &u), 0)), "(<root>.b[0], <root>.b[0])");
}

#[test]
fn paths_to_the_first_difference() {
    let map = |entries: &[(&str, i64)]| -> Any {
        entries.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect::<Map<String, i64>>().into_any()
    };
    for (left, right, expected) in [
        (array([1.into_any()]), array([2.into_any()]), "(<root>[0], <root>[0])"),
        (array([1.into_any()]), array([]), "(<root>[0], <root>[<missing:0>])"),
        (list([]), list([1.into_any()]), "(<root>[<missing:0>], <root>[0])"),
        (map(&[("a", 1)]), map(&[("a", 2)]), r#"(<root>["a"], <root>["a"])"#),
        // The key that is missing on the right is that of the left.
        (map(&[("a", 1)]), map(&[("b", 1)]), r#"(<root>["a"], <root>[<missing:"a">])"#),
        (map(&[("a", 1)]), map(&[("a", 1), ("b", 1)]), r#"(<root>[<missing:"b">], <root>["b"])"#),
        (tree(1, tree(1, 2, 3), 0), tree(1, tree(1, 2, 4), 0), "(<root>.b.number, <root>.b.number)"),
        (
            hooked(1, array([2.into_any()]), 0),
            hooked(1, array([3.into_any()]), 0),
            "(<root>.second[0], <root>.second[0])",
        ),
        (1.into_any(), "1".into_any(), "(<root>, <root>)"),
        (1.into_any(), 1.into_any(), "None"),
    ] {
        assert_eq!(mismatch(&left, &right), expected);
    }
}

#[test]
fn depth_is_no_limit_but_a_circle_is_an_error() {
    for (make, depth) in [(chain as fn(usize) -> Any, 1_000_000), (nested, 200_000)] {
        let (left, right) = (make(depth), make(depth));
        check(&left, &right, false, true);
        assert_eq!(mismatch(&left, &right), "None");
    }
    let (left, right) = (circle(1), circle(1));
    let options = false.into_any();
    let cyclic = |name: &str, arguments: &[&Any]| problem(call(name, &[arguments, &[&options, &options]].concat()));
    assert_eq!(
        cyclic("ffi.StructuralEqual", &[&left, &right]),
        "ValueError: StructuralEqual: cyclic reference detected"
    );
    assert_eq!(cyclic("ffi.StructuralHash", &[&left]), "ValueError: StructuralHash: cyclic reference detected");
    empty(&left);
    empty(&right);
}

#[test]
fn hooks_that_misbehave() {
    check(&hooked(1, "x", 0), &hooked(1, "x", 0), false, true);
    check(&hooked(1, "x", 0), &hooked(2, "x", 0), false, false);

    // A callback that outlives its operation.
    let keeps = hooked(1, 2, behaviour::KEEP);
    let late = |outcome: Result<Any>| outcome.unwrap_err().message().contains("only while the hook runs");
    assert!(equal(&keeps, &keeps, false).unwrap());
    assert!(late(KEPT.take().unwrap().call((1, 1, 0, "name"))));
    hash(&keeps, false).unwrap();
    assert!(late(KEPT.take().unwrap().call((1, 1, 0))));

    // A list is compared as it was when the walk reached it, and elements that a hook removes stay
    // alive as long as they are needed.
    let contents = || [tree(1, 2, 3), hooked(1, 2, behaviour::EMPTY), tree(tree(1, 2, 3), "text that is not small", 4)];
    let shared = list(contents());
    SHARED.set(shared.clone());
    assert!(equal(&shared, &list(contents()), false).unwrap());
    assert!(!equal(&shared, &list(contents()), false).unwrap(), "it is empty now");
    let shared = list([list(contents())]);
    SHARED.set(shared.clone());
    hash(&shared, false).unwrap();
    SHARED.set(Any::NONE);

    let fails = array([hooked(1, 2, behaviour::FAIL)]);
    assert_eq!(equal(&fails, &fails, false).unwrap_err().to_string(), "KeyError: the hook failed");
    assert_eq!(hash(&fails, false).unwrap_err().to_string(), "KeyError: the hook failed");
    // One hook's error is a difference for another hook.
    let inside = |number| hooked(1, hooked(1, 2, number), 0);
    assert!(!equal(&inside(behaviour::FAIL), &inside(behaviour::FAIL), false).unwrap());

    let deep = (0..100_000).fold(Any::NONE, |rest, _| hooked(1, rest, 0));
    assert_eq!(hash(&deep, false).unwrap_err().kind(), "RecursionError");
}

#[test]
fn keys_of_maps() {
    let keys = [1, 1, 2].map(|number| call("ffi.StructuralKey", &[&tree(number, "x", 0)]).unwrap());
    let same = |left: &Any, right: &Any| call("ffi.StructuralKeyEqual", &[left, right]).unwrap().to::<bool>().unwrap();
    assert!(same(&keys[0], &keys[0]) && same(&keys[0], &keys[1]) && !same(&keys[0], &keys[2]));
    let map = call("ffi.Map", &[&keys[0], &"found".into_any()]).unwrap();
    let count = |key: &Any| call("ffi.MapCount", &[&map, key]).unwrap().to::<i64>().unwrap();
    assert_eq!(keys.each_ref().map(count), [1, 1, 0]);
    assert_eq!(
        problem(call("ffi.StructuralKeyEqual", &[&keys[0], &1.into_any()])),
        "InternalError: Check not null: rhs_obj "
    );
}

#[test]
fn objects_are_released() {
    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            COUNT.set(COUNT.get() + 1);
        }
    }
    let counted = || {
        let counted = Counted;
        array([dag(1, 2, 3), Function::from_fn(move || _ = &counted).into_any()])
    };
    // Functions have no structure, so these fail in the middle.
    let value = array([hooked(dag(1, 2, 3), 1, 0), counted()]);
    assert!(equal(&value, &value, true).is_err());
    assert!(hash(&value, true).is_err());
    drop(value);
    assert_eq!(COUNT.get(), 1);
}

#[test]
fn shared_parts_are_compared_once() {
    // As trees these have 2^200 leaves. The second one has two equal parts on each level, both with
    // the same two parts.
    let one = |leaf: i64| (0..200).fold(tree(leaf, 0, 0), |part, _| tree(part.clone(), array([part]), 0));
    let two = |leaf: i64| {
        let first = [tree(leaf, 0, 0), tree(leaf, 0, 0)];
        let both = (0..200).fold(first, |[a, b], _| [tree(a.clone(), array([b.clone()]), 0), tree(b, array([a]), 0)]);
        both[0].clone()
    };
    for map_free_vars in [false, true] {
        check(&one(7), &one(7), map_free_vars, true);
        check(&one(7), &two(7), map_free_vars, true);
        check(&two(7), &two(8), map_free_vars, false);
    }
    assert_ne!(mismatch(&one(7), &two(8)), "None");
    // A variable that is bound on one path is the same variable on the other.
    let (x, y) = (var(1, 0, 0), var(1, 0, 0));
    let graph = |v: &Any| {
        let part = (0..100).fold(v.clone(), |part, _| array([part.clone(), part]));
        array([part.clone(), part])
    };
    assert!(equal(&graph(&x), &graph(&x), false).unwrap());
    assert!(!equal(&graph(&x), &graph(&y), false).unwrap());
    assert!(equal(&graph(&x), &graph(&y), true).unwrap());
    let (a, b) = (graph(&x), graph(&y));
    assert!(!equal(&array([a.clone(), x.clone(), y.clone()]), &array([b, y.clone(), y.clone()]), true).unwrap());
}
