//! The interface that type checkers, `inspect` and `help()` see: each kind of parameter and
//! default, and types with Python's operators.

use kernpack::{Any, Array, Field, ObjRef, Object, Result, Tensor, TypedFunction, bail, object_methods, packed_func};

/// A direction.
#[derive(Object, Clone, Copy, Debug, PartialEq)]
#[object(key = "extmod.Turn", enum = "str")]
pub enum Turn {
    /// Against the clock.
    Left,
    /// With the clock.
    Right,
}

/// A level.
#[derive(Object, Clone, Copy, Debug, PartialEq)]
#[object(key = "extmod.Level", enum = "int")]
pub enum Level {
    /// Little.
    Low = 1,
    /// Much.
    High = 2,
}

/// Only the library itself offers it; there is no global function.
#[packed_func(global = false)]
pub fn shifted(x: f64, #[default(1.0)] by: f64) -> f64 {
    x + by
}

/// The sum of a function's values.
#[packed_func]
pub fn sum_of_values(f: TypedFunction<(f64,), f64>, points: Vec<f64>) -> Result<f64> {
    points.into_iter().map(|point| f.call((point,))).sum()
}

/// Enums are given as members, values or texts.
#[packed_func]
pub fn turned(turn: Turn, #[default(Level::High)] level: Level) -> Turn {
    match (turn, level) {
        (turn, Level::Low) => turn,
        (Turn::Left, Level::High) => Turn::Right,
        (Turn::Right, Level::High) => Turn::Left,
    }
}

/// Every kind of literal that a default is.
#[packed_func]
#[expect(clippy::too_many_arguments, reason = "a parameter for each kind")]
pub fn literals(
    #[default(-3)] whole: i64,
    #[default(0xff)] mask: u64,
    #[default(-2.5e-3)] part: f64,
    #[default(f64::INFINITY)] most: f64,
    #[default(f64::NAN)] unknown: f64,
    #[default("a \"b\"\n'c'\\\u{e9}\t")] text: &str,
    #[default(true)] flag: bool,
    #[default(Turn::Left)] turn: Turn,
    #[default(Vec::new())] list: Vec<i64>,
    nothing: Option<i64>,
) -> String {
    format!("{whole} {mask} {part} {most} {unknown} {text:?} {flag} {turn:?} {list:?} {nothing:?}")
}

/// A number that is held between limits.
#[derive(Object)]
#[object(key = "extmod.Clip")]
#[repr(C)]
pub struct Clip {
    /// The number.
    pub x: f64,
    /// Additional data.
    pub meta: String,
}

#[object_methods]
impl Clip {
    /// A clip of a number.
    #[init]
    pub fn new(x: f64, #[default("none")] meta: &str) -> Self {
        Self { x, meta: meta.to_owned() }
    }

    /// The number times another.
    pub fn scaled(&self, #[default(-2)] factor: i64, turn: Option<Turn>) -> f64 {
        let sign = if turn == Some(Turn::Left) { -1.0 } else { 1.0 };
        self.x * factor as f64 * sign
    }

    /// The clip that a text says.
    pub fn parse(text: &str, #[default("text")] meta: &str) -> Result<Self> {
        match text.parse() {
            Ok(x) => Ok(Self::new(x, meta)),
            Err(_) => bail!(ValueError, "'{text}' is not a number"),
        }
    }

    #[operator(eq)]
    fn equal(&self, other: &Self) -> bool {
        self.x == other.x
    }
}

/// A type whose operators fail, each in its way.
#[derive(Object)]
#[object(key = "extmod.Odd")]
#[repr(C)]
pub struct Odd {
    /// The value that `len()` returns.
    pub length: i64,
    #[field(skip, default_factory = || Field::new(0))]
    left: Field<i64>,
}

#[object_methods]
impl Odd {
    #[method(name = "__len__")]
    fn len(&self) -> i64 {
        self.length
    }

    #[method(name = "__iter__")]
    fn iter(&self) -> Result<Array<i64>> {
        match self.length {
            0.. => Ok((0..self.length).collect()),
            _ => bail!(LookupError, "nothing to iterate over"),
        }
    }

    #[method(name = "__contains__")]
    fn contains(&self, value: i64) -> Result<bool> {
        match self.length {
            0.. => Ok(value < self.length),
            _ => bail!(LookupError, "nothing to look into"),
        }
    }

    #[method(name = "__call__")]
    fn call(&self, #[default(1)] times: i64) -> i64 {
        self.length * times
    }

    #[method(name = "__or__")]
    fn or(&self, other: &Odd) -> Odd {
        Odd { length: self.length + other.length, left: Field::new(0) }
    }

    #[method(name = "__enter__")]
    fn enter(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    /// Takes away an exception if the length is 1.
    #[method(name = "__exit__")]
    fn exit(&self, _kind: Any, _error: Any, _traceback: Any) -> Result<bool> {
        self.left.set(self.left.get() + 1);
        match self.length {
            2 => bail!(BufferError, "the end fails"),
            length => Ok(length == 1),
        }
    }

    /// The number of `with` blocks that ended.
    #[getter]
    pub fn exits(&self) -> i64 {
        self.left.get()
    }

    #[operator(compare)]
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.length.cmp(&other.length)
    }

    #[operator(hash)]
    fn hash(&self) -> u64 {
        self.length as u64
    }

    #[operator(str)]
    fn text(&self) -> Result<String> {
        match self.length {
            0.. => Ok(format!("odd {}", self.length)),
            _ => bail!(LookupError, "nothing to show"),
        }
    }
}

/// A tensor with a name.
#[derive(Object, Clone)]
#[object(key = "extmod.Named")]
#[repr(C)]
pub struct Named {
    /// The tensor, wherever it is.
    pub tensor: Tensor,
    /// The name.
    pub name: String,
}
