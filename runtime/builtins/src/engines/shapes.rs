//! Tests of all walks over graphs of objects with difficult shapes. A walk that visits a part once
//! for each path to it does not terminate here.

use crate::value::{Any, IntoAny};
use crate::walker::test_graphs::{array, call, circle, dag, empty, hooked, list, problem, tree};
use crate::{Map, Result};
use kernpack_core::{Array, Dict, List};

/// A container or object of two parts.
type Make = fn(Any, Any) -> Any;

const KINDS: [(&str, Make); 7] = [
    ("Array", |a, b| array([a, b])),
    ("List", |a, b| list([a, b])),
    ("Map", |a, b| [("a".to_owned(), a), ("b".to_owned(), b)].into_iter().collect::<Map<String, Any>>().into_any()),
    ("Dict", |a, b| [("a".to_owned(), a), ("b".to_owned(), b)].into_iter().collect::<Dict<String, Any>>().into_any()),
    ("tree", |a, b| tree(a, b, 0)),
    ("dag", |a, b| dag(a, b, 0)),
    ("hooked", |a, b| hooked(a, b, 0)),
];

/// Both parts are the previous object: 2^depth paths.
fn diamonds(make: Make, depth: usize) -> Any {
    (0..depth).fold(1.into_any(), |part, _| make(part.clone(), part))
}

/// One part, of some size, in many places.
fn wide(make: Make) -> Any {
    let part = make((0..300_i64).collect::<List<i64>>().into_any(), 2.into_any());
    let parts: List<Any> = (0..4000).map(|_| part.clone()).collect();
    make(parts.into_any(), part)
}

/// Each object is a part of the next one.
fn chain(make: Make, depth: usize) -> Any {
    (0..depth).fold(1.into_any(), |part, _| make(part, 2.into_any()))
}

/// Each object is a part of the next two, so that it occurs on many levels.
fn ladder(make: Make, depth: usize) -> Any {
    let pair = (1.into_any(), make(2.into_any(), 3.into_any()));
    (0..depth).fold(pair, |(before, part), _| (part.clone(), make(part, before))).1
}

fn boolean(name: &str, arguments: &[&Any]) -> Result<bool> {
    call(name, arguments)?.to()
}

fn integer(name: &str, arguments: &[&Any]) -> Result<i64> {
    call(name, arguments)?.to()
}

fn text(name: &str, arguments: &[&Any]) -> Result<String> {
    call(name, arguments)?.to()
}

/// Runs all walks over two graphs that are equal and share nothing.
fn check(what: &str, value: &Any, same: &Any) {
    let off = false.into_any();
    let options = [&off, &off];
    let of_two = |name: &str| boolean(name, &[value, same]).unwrap();
    assert!(boolean("ffi.StructuralEqual", &[&[value, same][..], &options].concat()).unwrap(), "{what}");
    assert!(
        call("ffi.GetFirstStructuralMismatch", &[&[value, same][..], &options].concat()).unwrap().is_none(),
        "{what}"
    );
    assert!(of_two("ffi.RecursiveEq"), "{what}");
    let hash = |value: &Any| integer("ffi.StructuralHash", &[&[value][..], &options].concat()).unwrap();
    assert_eq!(hash(value), hash(same), "{what}");
    let hash = |value: &Any| integer("ffi.RecursiveHash", &[value]).unwrap();
    assert_eq!(hash(value), hash(same), "{what}");
    assert_eq!(text("ffi.ReprPrint", &[value]).unwrap(), text("ffi.ReprPrint", &[same]).unwrap(), "{what}");
    assert_eq!(crate::reflect::Tree::of(value).to_string(), crate::reflect::Tree::of(same).to_string(), "{what}");
    // The objects here can neither be copied nor written; tests/object has some that can.
    if matches!(what.split(' ').next(), Some("Array" | "List" | "Map" | "Dict")) {
        let copy = call("ffi.DeepCopy", &[value]).unwrap();
        assert!(boolean("ffi.RecursiveEq", &[value, &copy]).unwrap(), "{what}");
        let graph = text("ffi.ToJSONGraphString", &[value, &Any::NONE]).unwrap();
        let again = call("ffi.FromJSONGraphString", &[&graph.into_any()]).unwrap();
        assert!(boolean("ffi.RecursiveEq", &[value, &again]).unwrap(), "{what}");
        let graph = call("ffi.ToJSONGraph", &[value, &Any::NONE]).unwrap();
        let again = call("ffi.FromJSONGraph", &[&graph]).unwrap();
        assert!(boolean("ffi.RecursiveEq", &[value, &again]).unwrap(), "{what}");
    }
    if matches!(what.split(' ').next(), Some("Array" | "List" | "tree" | "dag")) {
        assert!(!of_two("ffi.RecursiveLt"), "{what}");
        assert!(of_two("ffi.RecursiveLe"), "{what}");
    }
}

#[test]
fn parts_are_visited_once() {
    for (kind, make) in KINDS {
        check(&format!("{kind} diamonds"), &diamonds(make, 60), &diamonds(make, 60));
        check(&format!("{kind} ladder"), &ladder(make, 60), &ladder(make, 60));
        check(&format!("{kind} wide"), &wide(make), &wide(make));
        // Hooks nest natively, and other tests cover the limit of that.
        let depth = match kind {
            "hooked" => continue,
            "List" | "tree" => 100_000,
            _ => 10_000,
        };
        check(&format!("{kind} chain"), &chain(make, depth), &chain(make, depth));
    }
}

/// In each pair of the two graphs only one side is shared, alternating between the two sides.
#[test]
fn parts_that_one_side_shares_are_compared_once() {
    let off = false.into_any();
    for (kind, make) in KINDS {
        let (mut left, mut right) = (1.into_any(), 1.into_any());
        for _ in 0..40 {
            left = make(make(left.clone(), 2.into_any()), make(left, 2.into_any()));
            let part = make(right, 2.into_any());
            right = make(part.clone(), part);
        }
        for pair in [[&left, &right], [&right, &left]] {
            let of_two = |name: &str| boolean(name, &pair).unwrap();
            // Nodes of a DAG are equal only if they are shared in the same way.
            let is_equal = boolean("ffi.StructuralEqual", &[&pair[..], &[&off, &off]].concat()).unwrap();
            assert_eq!(is_equal, kind != "dag", "{kind}");
            assert!(of_two("ffi.RecursiveEq"), "{kind}");
            if matches!(kind, "Array" | "List" | "tree") {
                assert!(!of_two("ffi.RecursiveLt") && of_two("ffi.RecursiveLe"), "{kind}");
            }
        }
    }
}

#[test]
fn differences_are_found_at_the_end_of_many_paths() {
    let off = false.into_any();
    for (kind, make) in KINDS {
        let other = (0..60).fold(7.into_any(), |part, _| make(part.clone(), part));
        let value = diamonds(make, 60);
        assert!(!boolean("ffi.StructuralEqual", &[&value, &other, &off, &off]).unwrap(), "{kind}");
        assert!(!boolean("ffi.RecursiveEq", &[&value, &other]).unwrap(), "{kind}");
        let mismatch = call("ffi.GetFirstStructuralMismatch", &[&value, &other, &off, &off]).unwrap();
        assert!(!mismatch.is_none(), "{kind}");
        if !matches!(kind, "Map" | "Dict" | "hooked") {
            assert!(boolean("ffi.RecursiveLt", &[&value, &other]).unwrap(), "{kind}");
        }
    }
}

#[test]
fn short_texts_are_whole_and_long_ones_are_cut() {
    let pair: Make = |a, b| array([a, b]);
    let whole = text("ffi.ReprPrint", &[&diamonds(pair, 17)]).unwrap();
    assert_eq!((whole.len(), whole.contains("before")), ((1 << 17) * 7 - 6 * (1 << 17) + ((1 << 17) - 1) * 4, false));
    let cut = text("ffi.ReprPrint", &[&diamonds(pair, 60)]).unwrap();
    assert!(cut.len() < 17 << 20 && cut.ends_with(", <ffi.Array, shown before>)"), "{}", cut.len());
    let parts = text("ffi.ReprPrint", &[&array([wide(pair), 1.into_any()])]).unwrap();
    assert!(parts.len() < 9 << 20 && parts.contains("<ffi.Array, shown before>"), "{}", parts.len());
    // A short text is repeated any number of times.
    let short = array([1.into_any(); 1]);
    let many: List<Any> = (0..1_000_000).map(|_| short.clone()).collect();
    assert_eq!(text("ffi.ReprPrint", &[&many.into_any()]).unwrap().len(), 6 * 1_000_000);
}

#[test]
fn json_repeats_parts_or_says_that_it_cannot() {
    let compact = Any::NONE;
    let indented = 2.into_any();
    let containers = KINDS.into_iter().filter(|(kind, _)| matches!(*kind, "Array" | "List" | "Map"));
    for (kind, make) in containers {
        for indent in [&compact, &indented] {
            let write = |value: &Any| text("ffi.json.Stringify", &[value, indent]);
            // A graph with shared parts has the same text as a tree.
            let tree = |make: Make| {
                fn grow(make: Make, depth: usize) -> Any {
                    if depth == 0 { 1.into_any() } else { make(grow(make, depth - 1), grow(make, depth - 1)) }
                }
                grow(make, 7)
            };
            assert_eq!(write(&diamonds(make, 7)).unwrap(), write(&tree(make)).unwrap(), "{kind}");
            let uneven = |shared: bool| {
                let part = make(1.into_any(), 2.into_any());
                let other = if shared { part.clone() } else { make(1.into_any(), 2.into_any()) };
                make(make(part, 3.into_any()), other)
            };
            assert_eq!(write(&uneven(true)).unwrap(), write(&uneven(false)).unwrap(), "{kind}");
            let message = "ValueError: The text is too long: its parts are shared, and JSON repeats them to more than 256 MiB. \
                           ToJSONGraphString writes each of them once";
            assert_eq!(write(&diamonds(make, 60)).unwrap_err().to_string(), message, "{kind}");
            assert_eq!(write(&ladder(make, 60)).unwrap_err().to_string(), message, "{kind}");
            write(&wide(make)).unwrap();
        }
        assert!(text("ffi.json.Stringify", &[&chain(make, 100_000), &compact]).is_ok(), "{kind}");
    }
}

#[test]
fn copies_of_cycles_do_not_lead_back_to_the_original() {
    /// Collects the addresses of all reachable containers.
    fn reach(value: &Any, found: &mut std::collections::HashSet<usize>) {
        let Some(object) = value.as_view().object() else { return };
        if !found.insert(object.addr()) {
            return;
        }
        if let Ok(list) = value.to::<List<Any>>() {
            list.iter().for_each(|part| reach(&part.unwrap(), found));
        } else if let Ok(dict) = value.to::<Dict<Any, Any>>() {
            dict.entries()
                .unwrap()
                .iter()
                .for_each(|(key, part)| [key, part].iter().for_each(|part| reach(part, found)));
        } else if let Ok(array) = value.to::<Array<Any>>() {
            array.iter().for_each(|part| reach(&part, found));
        } else if let Ok(map) = value.to::<Map<Any, Any>>() {
            map.iter().for_each(|(key, part)| [key, part].iter().for_each(|part| reach(part, found)));
        }
    }
    let keyed: Make = |a, b| [(a, b)].into_iter().collect::<Map<Any, Any>>().into_any();
    let containers = KINDS.into_iter().take(4).chain([("keyed", keyed)]);
    for (kind, make) in containers {
        // From each container on the cycle.
        let knot: List<Any> = List::new();
        let outer = make(knot.clone().into_any(), 1.into_any());
        let inner = make(outer.clone(), 2.into_any());
        let middle = make(inner.clone(), outer.clone());
        knot.push(middle.clone());
        for root in [knot.clone().into_any(), outer, inner, middle] {
            let copy = call("ffi.DeepCopy", &[&root]).unwrap();
            let (mut originals, mut copies) = Default::default();
            reach(&root, &mut originals);
            reach(&copy, &mut copies);
            assert!(originals.is_disjoint(&copies), "{kind}");
            assert_eq!(originals.len(), copies.len(), "{kind}");
            if kind != "keyed" {
                assert!(boolean("ffi.RecursiveEq", &[&root, &copy]).unwrap(), "{kind}");
            }
        }
        knot.clear();
    }
}

#[test]
fn cycles_end_in_a_mark_or_an_error() {
    let off = false.into_any();
    for (kind, make) in KINDS {
        // A list with an object that contains the list twice.
        let knot = || {
            let knot: List<Any> = List::new();
            knot.push(make(knot.clone().into_any(), knot.clone().into_any()));
            knot.into_any()
        };
        let (value, same) = (knot(), knot());
        assert!(text("ffi.ReprPrint", &[&value]).unwrap().contains("..."), "{kind}");
        assert!(boolean("ffi.RecursiveEq", &[&value, &same]).unwrap(), "{kind}");
        integer("ffi.RecursiveHash", &[&value]).unwrap();
        let cyclic = ["StructuralEqual: cyclic reference detected", "StructuralHash: cyclic reference detected"];
        if kind != "hooked" {
            let equal = problem(call("ffi.StructuralEqual", &[&value, &same, &off, &off]));
            assert_eq!(equal, format!("ValueError: {}", cyclic[0]), "{kind}");
            let hash = problem(call("ffi.StructuralHash", &[&value, &off, &off]));
            assert_eq!(hash, format!("ValueError: {}", cyclic[1]), "{kind}");
            let order = problem(call("ffi.RecursiveLt", &[&value, &same]));
            assert_eq!(order, "ValueError: RecursiveCompare: cyclic reference detected in ordering", "{kind}");
            let graph = problem(call("ffi.ToJSONGraphString", &[&value, &Any::NONE]));
            assert_eq!(graph, "ValueError: Cycle detected during serialization: a List contains itself", "{kind}");
        }
        if matches!(kind, "Array" | "List" | "Map") {
            let json = problem(call("ffi.json.Stringify", &[&value, &Any::NONE]));
            assert_eq!(json, "ValueError: Cycle detected: List contains itself", "{kind}");
        }
        if matches!(kind, "Array" | "List" | "Map" | "Dict") {
            let copy = call("ffi.DeepCopy", &[&value]).unwrap();
            assert!(boolean("ffi.RecursiveEq", &[&value, &copy]).unwrap(), "{kind}");
            empty(&copy);
        }
        [value, same].iter().for_each(empty);
    }
    let alone = circle(1);
    assert_eq!(text("ffi.ReprPrint", &[&alone]).unwrap(), "[1, ...]");
    empty(&alone);
}
