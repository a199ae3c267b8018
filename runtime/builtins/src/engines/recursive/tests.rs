use core::cmp::Ordering;

use crate::value::{Any, IntoAny};
use crate::walker::test_graphs::{
    KEPT, array, behaviour, call, chain, circle, dag, empty, hooked, list, nested, plain, problem, tree,
};
use crate::{Map, Result, Shape};

fn holds(relation: &str, left: &Any, right: &Any) -> Result<bool> {
    call(&format!("ffi.Recursive{relation}"), &[left, right])?.to()
}

fn hash(value: &Any) -> Result<i64> {
    call("ffi.RecursiveHash", &[value])?.to()
}

/// Asserts that all five comparisons agree with an order, and that equal values have the same hash.
#[track_caller]
fn check(left: &Any, right: &Any, expected: Ordering) {
    for (relation, holds_for) in [
        ("Eq", Ordering::is_eq as fn(Ordering) -> bool),
        ("Lt", Ordering::is_lt),
        ("Le", Ordering::is_le),
        ("Gt", Ordering::is_gt),
        ("Ge", Ordering::is_ge),
    ] {
        assert_eq!(holds(relation, left, right).unwrap(), holds_for(expected), "{relation}");
        assert_eq!(holds(relation, right, left).unwrap(), holds_for(expected.reverse()), "{relation}, the other way");
    }
    if expected.is_eq() {
        assert_eq!(hash(left).unwrap(), hash(right).unwrap());
    }
}

#[test]
fn order() {
    let shape = |dimensions: &[i64]| Shape::from(dimensions).into_any();
    for (left, right, expected) in [
        (1.into_any(), 2.into_any(), Ordering::Less),
        (Any::NONE, 2.into_any(), Ordering::Less),
        (Any::NONE, Any::NONE, Ordering::Equal),
        (0.0.into_any(), (-0.0).into_any(), Ordering::Equal),
        (false.into_any(), true.into_any(), Ordering::Less),
        ("short".into_any(), "short and more".into_any(), Ordering::Less),
        ("b".into_any(), "a text that is long".into_any(), Ordering::Greater),
        (array([1.into_any()]), array([1.into_any(), 2.into_any()]), Ordering::Less),
        (array([2.into_any()]), array([1.into_any(), 2.into_any()]), Ordering::Greater),
        (list([]), list([]), Ordering::Equal),
        (shape(&[1, 2]), shape(&[1, 3]), Ordering::Less),
        (shape(&[2]), shape(&[1, 3]), Ordering::Greater),
        (tree(1, "x", 2), tree(1, "x", 3), Ordering::Less),
        (tree(1, "y", 2), tree(1, "x", 3), Ordering::Greater),
        (plain(dag(1, 2, 3), 1, 1), plain(dag(1, 2, 3), 1, 1), Ordering::Equal),
    ] {
        check(&left, &right, expected);
    }
}

#[test]
fn values_without_an_order() {
    let map: Map<String, i64> = [("a".to_owned(), 1)].into_iter().collect();
    let other: Map<String, i64> = [("a".to_owned(), 2)].into_iter().collect();
    let (map, other) = (map.into_any(), other.into_any());
    for (left, right, message) in [
        (1.into_any(), "x".into_any(), "TypeError: Cannot compare values of different types: int vs ffi.SmallStr"),
        (f64::NAN.into_any(), f64::NAN.into_any(), "TypeError: Cannot order NaN values"),
        (map.clone(), other, "TypeError: Cannot order Map/Dict values"),
        (circle(1), circle(1), "ValueError: RecursiveCompare: cyclic reference detected in ordering"),
    ] {
        assert_eq!(holds("Lt", &left, &right).unwrap_err().to_string(), message);
        let equal = message.contains("cyclic") || message.contains("NaN");
        assert_eq!(holds("Eq", &left, &right).unwrap(), equal, "{message}");
        if message.contains("cyclic") {
            assert_eq!(hash(&left).unwrap(), hash(&right).unwrap());
            empty(&left);
            empty(&right);
        }
    }
    check(&map, &map.clone(), Ordering::Equal);
}

#[test]
fn hashes_of_the_stock_library() {
    for (value, expected) in [
        (Any::NONE, 2_654_435_769),
        (1.into_any(), 2_654_435_835),
        ((-0.0).into_any(), 2_654_435_962),
        (f64::NAN.into_any(), 9_221_120_239_695_526_522),
        ("abc".into_any(), 2_660_953_131),
        ("a longer text".into_any(), 4_795_401_852),
        (array([1.into_any(), "x".into_any(), Any::NONE]), -982_932_835_638_243_341),
        (list([1.into_any(), "x".into_any(), Any::NONE]), -8_298_198_594_341_105_168),
        (Shape::from(vec![1, 2, 3]).into_any(), -142_990_502_110_543_205),
    ] {
        assert_eq!(hash(&value).unwrap(), expected, "{}", value.type_name());
    }
}

#[test]
fn depth() {
    for (make, depth) in [(chain as fn(usize) -> Any, 1_000_000), (nested, 200_000)] {
        let (left, right) = (make(depth), make(depth));
        assert!(holds("Eq", &left, &right).unwrap() && !holds("Lt", &left, &right).unwrap());
        assert_eq!(hash(&left).unwrap(), hash(&right).unwrap());
    }
    let (left, right) = (nested((1 << 20) + 1), nested((1 << 20) + 1));
    assert_eq!(
        problem(call("ffi.RecursiveEq", &[&left, &right])),
        "ValueError: RecursiveCompare: maximum stack depth (1048576) exceeded"
    );
    assert_eq!(
        problem(call("ffi.RecursiveHash", &[&left])),
        "ValueError: ObjectGraphDFS: maximum stack depth (1048576) exceeded"
    );
}

#[test]
fn hooks_that_misbehave() {
    assert!(holds("Eq", &hooked(1, "x", 0), &hooked(1, "x", 0)).unwrap());
    assert!(!holds("Eq", &hooked(1, "x", 0), &hooked(1, "y", 0)).unwrap());
    let keeps = [hooked(1, 2, behaviour::KEEP), hooked(1, 2, behaviour::KEEP)];
    assert!(holds("Eq", &keeps[0], &keeps[1]).unwrap());
    let kept = KEPT.take().unwrap();
    assert!(kept.call((1, 1)).unwrap_err().message().contains("only while the hook runs"));
    let threads = [hooked(1, 2, behaviour::OTHER_THREAD), hooked(1, 2, behaviour::OTHER_THREAD)];
    assert!(problem(call("ffi.RecursiveEq", &[&threads[0], &threads[1]])).contains("and on its thread"));
    let fails = [hooked(1, 2, behaviour::FAIL), hooked(1, 2, behaviour::FAIL)];
    assert_eq!(problem(call("ffi.RecursiveEq", &[&fails[0], &fails[1]])), "KeyError: the hook failed");
    assert_eq!(problem(call("ffi.RecursiveHash", &[&fails[0]])), "KeyError: the hook failed");
    let [deep, same] = [(); 2].map(|()| (0..100_000).fold(Any::NONE, |rest, _| hooked(rest, 1, 0)));
    assert_eq!(hash(&deep).unwrap_err().kind(), "RecursionError");
    // This hook treats an error as a difference.
    assert!(!holds("Eq", &deep, &same).unwrap());
}
