//! Types whose fields are objects.

use kernpack::{Array, Map, ObjRef, Object, Str};

/// A point in the plane.
#[derive(Object, Clone)]
#[object(key = "objects.Point")]
#[repr(C)]
pub struct Point {
    /// To the right.
    pub x: i64,
    /// Upwards.
    pub y: i64,
}

/// Two points.
#[derive(Object, Clone)]
#[object(key = "objects.Line")]
#[repr(C)]
pub struct Line {
    /// The start.
    pub start: ObjRef<Point>,
    /// The end.
    pub end: ObjRef<Point>,
}

/// Many points.
#[derive(Object)]
#[object(key = "objects.Trail")]
#[repr(C)]
pub struct Trail {
    pub points: Array<ObjRef<Point>>,
    pub corners: Vec<ObjRef<Point>>,
    pub named: Map<Str, ObjRef<Point>>,
    pub center: Option<ObjRef<Point>>,
}

/// A list, one object for each element.
#[derive(Object)]
#[object(key = "objects.Node")]
#[repr(C)]
pub struct Node {
    pub value: i64,
    pub next: Option<ObjRef<Node>>,
}
