//! Rust types with fields of every kind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicU64};

use kernpack::{
    Any, Array, Bytes, DataType, Device, Field, Function, IntoAny, Map, ObjRef, Object, ObjectRoot, Shape, Str, Tensor,
};

#[derive(Object, Clone)]
#[object(key = "visits.Base")]
#[repr(C)]
pub struct Base {
    pub id: i64,
    pub name: String,
}

#[derive(Object, Clone)]
#[object(key = "visits.All")]
#[repr(C)]
pub struct All {
    #[base]
    pub base: Base,
    pub f64: f64,
    pub f32: f32,
    pub i8: i8,
    pub i16: i16,
    pub i32: i32,
    pub i64: i64,
    pub isize: isize,
    pub u8: u8,
    pub u16: u16,
    pub u32: u32,
    pub u64: u64,
    pub usize: usize,
    pub bool: bool,
    pub string: String,
    pub text: Str,
    pub bytes: Bytes,
    pub data_type: DataType,
    pub device: Device,
    pub some_i32: Option<i32>,
    pub some_u64: Option<u64>,
    pub no_f64: Option<f64>,
    pub some_text: Option<String>,
    pub any: Any,
    pub any_text: Any,
    pub vec: Vec<f64>,
    pub words: Vec<String>,
    pub pair: (i64, String),
    pub array: Array<i64>,
    pub map: Map<Str, i64>,
    pub tree: BTreeMap<String, Option<i64>>,
    pub shape: Shape,
    pub tensor: Tensor,
    pub some_tensor: Option<Tensor>,
    pub function: Function,
    pub object: ObjRef<Base>,
    pub root: ObjRef<ObjectRoot>,
    pub no_object: Option<ObjRef<Base>>,
    hidden: u8,
}

impl All {
    pub const CALLS: [&str; 39] = [
        "i64 id 1",
        "str name \"base\"",
        "f64 f64 1.5",
        "f64 f32 0.25",
        "i32 i8 -8",
        "i32 i16 -16",
        "i32 i32 -32",
        "i64 i64 -64",
        "i64 isize -65",
        "i32 u8 8",
        "i32 u16 16",
        "u64 u32 32",
        "u64 u64 9223372036854775808",
        "u64 usize 7",
        "bool bool true",
        "str string \"short\"",
        "str text \"a text that is an object\"",
        "bytes bytes [0, 255]",
        "data_type data_type float32",
        "device device cuda:1",
        "i64 some_i32 3",
        "i64 some_u64 4",
        "none no_f64",
        "str some_text \"some\"",
        "i64 any 5",
        "str any_text \"any\"",
        "object vec ffi.Array",
        "object words ffi.Array",
        "object pair ffi.Array",
        "object array ffi.Array",
        "object map ffi.Map",
        "object tree ffi.Map",
        "object shape ffi.Shape",
        "tensor tensor Tensor(int32, [2], cpu:0)",
        "tensor some_tensor Tensor(int32, [2], cpu:0)",
        "object function ffi.Function",
        "object object visits.Base",
        "object root visits.Base",
        "none no_object",
    ];

    pub fn example() -> Self {
        let tensor = Tensor::from_vec(vec![1_i32, 2], &[2]).unwrap();
        let object = ObjRef::new(Base { id: 2, name: String::new() });
        Self {
            base: Base { id: 1, name: "base".into() },
            f64: 1.5,
            f32: 0.25,
            i8: -8,
            i16: -16,
            i32: -32,
            i64: -64,
            isize: -65,
            u8: 8,
            u16: 16,
            u32: 32,
            u64: 1 << 63,
            usize: 7,
            bool: true,
            string: "short".into(),
            text: Str::new("a text that is an object"),
            bytes: Bytes::new(b"\0\xff"),
            data_type: DataType::FLOAT32,
            device: Device::cuda(1),
            some_i32: Some(3),
            some_u64: Some(4),
            no_f64: None,
            some_text: Some("some".into()),
            any: 5_i64.into(),
            any_text: "any".into(),
            vec: vec![1.0, 2.0],
            words: vec!["a".into()],
            pair: (1, "one".into()),
            array: Array::from(vec![1, 2]),
            map: [(Str::new("a"), 1)].into_iter().collect(),
            tree: [("b".into(), None)].into(),
            shape: Shape::new(&[2, 3]),
            some_tensor: Some(tensor.clone()),
            tensor,
            function: Function::from_fn(|| 1_i64),
            root: object.clone().upcast(),
            object,
            no_object: None,
            hidden: 1,
        }
    }

    /// Other values, at the ends of their ranges.
    pub fn other_example() -> Self {
        Self {
            i8: i8::MIN,
            i16: i16::MAX,
            i32: i32::MIN,
            i64: i64::MIN,
            isize: isize::MAX,
            u8: u8::MAX,
            u16: u16::MAX,
            u32: u32::MAX,
            u64: u64::MAX,
            usize: usize::MAX,
            f64: f64::NAN,
            f32: f32::INFINITY,
            some_i32: None,
            some_u64: Some(u64::MAX),
            no_f64: Some(0.5),
            some_text: None,
            any: u64::MAX.into(),
            any_text: Shape::new(&[]).into_any(),
            some_tensor: None,
            string: String::new(),
            hidden: 2,
            ..Self::example()
        }
    }
}

/// Fields for shared mutation.
#[derive(Object)]
#[object(key = "visits.Shared")]
#[repr(C)]
pub struct Shared {
    #[field(writable)]
    pub count: AtomicU64,
    #[field(writable)]
    pub small: AtomicI32,
    #[field(writable)]
    pub number: Field<i32>,
    #[field(writable)]
    pub unsigned: Field<u64>,
    #[field(writable)]
    pub text: Field<String>,
    #[field(writable)]
    pub items: Field<Vec<i64>>,
}

impl Shared {
    pub const CALLS: [&str; 6] = [
        "u64 count 18446744073709551615",
        "i32 small -1",
        "i64 number 2",
        "u64 unsigned 18446744073709551615",
        "str text \"shared\"",
        "object items ffi.Array",
    ];
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(u64::MAX),
            small: AtomicI32::new(-1),
            number: Field::new(2),
            unsigned: Field::new(u64::MAX),
            text: Field::new("shared".into()),
            items: Field::new(vec![1]),
        }
    }
}

#[derive(Object)]
#[object(key = "visits.Pair")]
#[repr(C)]
pub struct Pair {
    pub left: Option<ObjRef<Node>>,
    pub right: Option<ObjRef<Node>>,
    pub note: Option<f64>,
}

#[derive(Object)]
#[object(key = "visits.Node")]
#[repr(C)]
pub struct Node {
    pub value: i64,
    pub next: Option<ObjRef<Self>>,
}

impl Node {
    /// A chain of nodes, the last one with the value 0.
    pub fn chain(length: i64) -> ObjRef<Self> {
        let mut chain = ObjRef::new(Self { value: 0, next: None });
        for value in 1..length {
            chain = ObjRef::new(Self { value, next: Some(chain) });
        }
        chain
    }

    pub fn length(mut chain: &ObjRef<Self>) -> i64 {
        let mut length = 1;
        while let Some(next) = &chain.next {
            chain = next;
            length += 1;
        }
        length
    }
}

/// A family.
#[derive(Object)]
#[object(key = "visits.Figure")]
#[repr(C, u32)]
pub enum Figure {
    Circle { radius: f64, label: String },
    Both { left: ObjRef<Figure>, right: ObjRef<Figure> },
    Nothing,
}
