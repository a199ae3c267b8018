//! Graphs of objects with shared parts, cycles and long chains: copies, JSON and hooks. The walks
//! over containers, and those that do not depend on a type, are tested in their crate
//! (`engines/shapes.rs` of kernpack-builtins).

use kernpack::reflect::{Tree, from_json, repr, to_json};
use kernpack::structural::{self, Rewrite};
use kernpack::{Any, IntoAny, List, ObjRef, Object, Result};

/// An object of two parts.
#[derive(Object, Clone)]
#[object(key = "tests.shapes.Pair")]
#[repr(C)]
pub struct Pair {
    pub a: Any,
    pub b: Any,
}

fn pair(a: impl IntoAny, b: impl IntoAny) -> ObjRef<Pair> {
    ObjRef::new(Pair { a: a.into_any(), b: b.into_any() })
}

/// Both parts are the previous object: 2^60 paths.
fn diamonds() -> ObjRef<Pair> {
    (0..60).fold(pair(1, 2), |part, _| pair(part.clone(), part))
}

/// Each object is a part of the next one.
fn chain(depth: usize) -> ObjRef<Pair> {
    (0..depth).fold(pair(1, 2), |part, _| pair(part, 2))
}

/// Each object is a part of the next two.
fn ladder() -> ObjRef<Pair> {
    (0..60).fold((pair(1, 2), pair(3, 4)), |(before, part), _| (part.clone(), pair(part, before))).1
}

/// The two parts of an object.
fn parts(of: &ObjRef<Pair>) -> Result<[ObjRef<Pair>; 2]> {
    Ok([of.a.to()?, of.b.to()?])
}

#[test]
fn parts_are_visited_once() -> Result<()> {
    for (what, make) in
        [("diamonds", diamonds as fn() -> ObjRef<Pair>), ("ladder", ladder), ("chain", || chain(100_000))]
    {
        let (one, same) = (make(), make());
        let copy = structural::deep_copy(&one)?;
        let again: ObjRef<Pair> = from_json(&to_json(&one)?)?.to()?;
        for other in [&same, &copy, &again] {
            assert!(!one.ptr_eq(other), "{what}");
            assert!(structural::equal(&one, other)? && structural::recursive_equal(&one, other)?, "{what}");
            assert_eq!(structural::hash(&one)?, structural::hash(other)?, "{what}");
            assert_eq!(structural::recursive_hash(&one)?, structural::recursive_hash(other)?, "{what}");
            assert!(structural::recursive_compare(&one, other)?.is_eq(), "{what}");
            assert_eq!(repr(&one)?, repr(other)?, "{what}");
        }
        assert!(Tree::of(&one).depth(200).to_string().len() < 100_000, "{what}");
    }
    for shared in [structural::deep_copy(&diamonds())?, from_json(&to_json(&diamonds())?)?.to()?] {
        let [left, right] = parts(&shared)?;
        assert!(left.ptr_eq(&right));
    }
    Ok(())
}

#[test]
fn rewrites_that_keep_sharing_visit_parts_once() -> Result<()> {
    let mut calls = 0;
    let other = Rewrite::new()
        .keep_sharing()
        .post(|part: ObjRef<Pair>| {
            calls += 1;
            if part.b.to::<i64>().is_ok() { pair(10, 20) } else { part }
        })
        .run(diamonds())?;
    assert_eq!(calls, 61);
    let [left, right] = parts(&other)?;
    assert!(left.ptr_eq(&right));
    assert!(structural::equal(&other, &(0..60).fold(pair(10, 20), |part, _| pair(part.clone(), part)))?);
    Ok(())
}

#[test]
fn copies_of_cycles_are_cycles() -> Result<()> {
    let list: List<Any> = List::new();
    let inner = pair(list.clone(), 1);
    let outer = pair(vec![inner.clone().into_any()], inner.clone());
    list.push(outer.clone().into_any());
    let copy = structural::deep_copy(&outer)?;
    let inside: ObjRef<Pair> = copy.b.to()?;
    let through: List<Any> = inside.a.to()?;
    assert!(through.at(0)?.to::<ObjRef<Pair>>()?.ptr_eq(&copy) && !copy.ptr_eq(&outer) && !inside.ptr_eq(&inner));
    assert!(copy.a.to::<Vec<ObjRef<Pair>>>()?[0].ptr_eq(&inside));
    assert!(structural::recursive_equal(&copy, &outer)?);
    assert_eq!(structural::recursive_hash(&copy)?, structural::recursive_hash(&outer)?);
    assert!(repr(&outer)?.contains("..."));
    assert_eq!(structural::equal(&copy, &outer).unwrap_err().message(), "StructuralEqual: cyclic reference detected");
    assert_eq!(to_json(&outer).unwrap_err().message(), "Cycle detected during serialization: a List contains itself");
    list.clear();
    through.clear();
    Ok(())
}
