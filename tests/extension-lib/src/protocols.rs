//! Types with Python's special methods for items, iteration, attributes, pickles and buffers.
//! `tests/python_extension/special.py` compares them with those of Python.

use std::sync::{Mutex, MutexGuard};

use kernpack::{
    Any, Array, Bytes, Field, IntoAny, ObjRef, Object, Result, Slice, Subscript, Tensor, bail, object_methods,
};

/// A list of numbers of its own.
#[derive(Object)]
#[object(key = "extmod.Row")]
#[repr(C)]
pub struct Row {
    #[field(skip, default_factory = || Mutex::new(Vec::new()))]
    numbers: Mutex<Vec<i64>>,
}

impl Row {
    fn numbers(&self) -> MutexGuard<'_, Vec<i64>> {
        self.numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[object_methods]
impl Row {
    /// The numbers of a list.
    #[init]
    pub fn new(numbers: Vec<i64>) -> Self {
        Self { numbers: Mutex::new(numbers) }
    }

    #[method(name = "__len__")]
    fn len(&self) -> usize {
        self.numbers().len()
    }

    #[method(name = "__getitem__")]
    fn get(&self, key: Subscript) -> Result<Any> {
        let numbers = self.numbers();
        Ok(match key {
            Subscript::Index(index) => numbers[Subscript::place(index, numbers.len())?].into_any(),
            Subscript::Slice(slice) => {
                let picked: Array<i64> = slice.positions(numbers.len()).map(|position| numbers[position]).collect();
                picked.into_any()
            }
        })
    }

    #[method(name = "__setitem__")]
    fn set(&self, key: Subscript, value: Any) -> Result<()> {
        let mut numbers = self.numbers();
        match key {
            Subscript::Index(index) => {
                let place = Subscript::place(index, numbers.len())?;
                numbers[place] = value.to()?;
            }
            Subscript::Slice(slice) => {
                let values: Vec<i64> = value.to()?;
                if slice.step == 1 {
                    let (start, stop, _) = slice.indices(numbers.len());
                    numbers.splice(start as usize..stop.max(start) as usize, values);
                    return Ok(());
                }
                let positions = slice.positions(numbers.len());
                if positions.len() != values.len() {
                    bail!(ValueError, "{} values for {} places", values.len(), positions.len());
                }
                positions.zip(values).for_each(|(position, value)| numbers[position] = value);
            }
        }
        Ok(())
    }

    #[method(name = "__delitem__")]
    fn delete(&self, key: Subscript) -> Result<()> {
        let mut numbers = self.numbers();
        match key {
            Subscript::Index(index) => {
                let place = Subscript::place(index, numbers.len())?;
                numbers.remove(place);
            }
            Subscript::Slice(slice) => {
                let positions: Vec<usize> = slice.positions(numbers.len()).collect();
                let mut place = 0..;
                numbers.retain(|_| place.next().is_none_or(|place| !positions.contains(&place)));
            }
        }
        Ok(())
    }

    #[method(name = "__contains__")]
    fn contains(&self, value: i64) -> bool {
        self.numbers().contains(&value)
    }

    #[method(name = "__reversed__")]
    fn reversed(&self) -> Countdown {
        Countdown { left: Field::new(self.numbers().len() as i64) }
    }

    /// The slice as Rust sees it.
    pub fn bounds(&self, slice: Slice) -> (i64, i64, i64) {
        slice.indices(self.numbers().len())
    }
}

/// An iterator over the numbers below one, downwards.
#[derive(Object)]
#[object(key = "extmod.Countdown")]
#[repr(C)]
pub struct Countdown {
    /// The numbers that are left.
    #[field(writable)]
    pub left: Field<i64>,
}

#[object_methods]
impl Countdown {
    #[method(name = "__iter__")]
    fn iter(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    #[method(name = "__next__")]
    fn next(&self) -> Option<i64> {
        let left = self.left.get() - 1;
        (left >= 0).then(|| {
            self.left.set(left);
            left
        })
    }

    /// Waits for the end.
    #[method(name = "__await__")]
    fn wait(&self) -> Pauses {
        Pauses { left: Field::new(self.left.get()) }
    }
}

/// An iterator over None, which fails at 13.
#[derive(Object)]
#[object(key = "extmod.Pauses")]
#[repr(C)]
pub struct Pauses {
    /// The number that are left.
    #[field(writable)]
    pub left: Field<i64>,
}

#[object_methods]
impl Pauses {
    #[method(name = "__next__")]
    fn next(&self) -> Result<Option<()>> {
        match self.left.get() {
            0 => Ok(None),
            13 => bail!(ValueError, "thirteen"),
            left => {
                self.left.set(left - 1);
                Ok(Some(()))
            }
        }
    }

    #[method(name = "__iter__")]
    fn iter(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }
}

/// An object whose attributes are made when they are asked for; as an attribute of a class it is a
/// property.
#[derive(Object)]
#[object(key = "extmod.Maker")]
#[repr(C)]
pub struct Maker {
    /// The last change.
    #[field(writable)]
    pub last: Field<String>,
}

#[object_methods]
impl Maker {
    /// A maker.
    #[init]
    pub fn empty() -> Self {
        Self { last: Field::new(String::new()) }
    }

    #[method(name = "__getattr__")]
    fn attribute(&self, name: &str) -> Result<String> {
        match name.strip_prefix("made_") {
            Some(what) => Ok(what.to_owned()),
            None => bail!(AttributeError, "no attribute {name}"),
        }
    }

    #[method(name = "__delattr__")]
    fn delete(&self, name: &str) {
        self.last.set(format!("deleted {name}"));
    }

    #[method(name = "__dir__")]
    fn names(&self) -> Vec<String> {
        vec!["made_b".to_owned(), "made_a".to_owned()]
    }

    #[method(name = "__call__")]
    fn call(&self, first: i64, #[default(2)] second: i64) -> (i64, i64) {
        (first, second)
    }

    #[method(name = "__get__")]
    fn get(&self, object: &Any, _class: &Any) -> String {
        if object.is_none() { "of the class".to_owned() } else { format!("of an object {}", self.last.get()) }
    }

    #[method(name = "__set__")]
    fn set(&self, _object: &Any, value: i64) {
        self.last.set(format!("set {value}"));
    }

    #[method(name = "__delete__")]
    fn unset(&self, _object: &Any) {
        self.last.set("unset".to_owned());
    }

    #[method(name = "__set_name__")]
    fn set_name(&self, _class: &Any, name: &str) {
        self.last.set(format!("named {name}"));
    }
}

/// Random numbers, whose state no field shows.
#[derive(Object)]
#[object(key = "extmod.Dice")]
#[repr(C)]
pub struct Dice {
    #[field(skip, default_factory = || 1)]
    sides: u64,
    #[field(skip, default_factory = || Field::new((0, Vec::new())))]
    state: Field<(u64, Vec<i64>)>,
}

#[object_methods]
impl Dice {
    /// Dice with this many sides.
    #[init]
    pub fn new(sides: u64, #[default(1)] seed: u64) -> Result<Self> {
        if sides == 0 {
            bail!(ValueError, "dice have sides");
        }
        Ok(Self { sides, state: Field::new((seed, Vec::new())) })
    }

    /// The next number.
    pub fn throw(&self) -> i64 {
        let (state, mut thrown) = self.state.get();
        let state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = ((state >> 33) % self.sides) as i64;
        thrown.push(number);
        self.state.set((state, thrown));
        number
    }

    /// All numbers until now.
    pub fn thrown(&self) -> Vec<i64> {
        self.state.get().1
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (u64,) {
        (self.sides,)
    }

    #[method(name = "__getstate__")]
    fn save(&self) -> (Bytes, Vec<i64>) {
        let (state, thrown) = self.state.get();
        (Bytes::from(state.to_le_bytes().to_vec()), thrown)
    }

    #[method(name = "__setstate__")]
    fn load(&self, state: (Bytes, Vec<i64>)) -> Result<()> {
        let (bytes, thrown) = state;
        let Ok(bytes) = <[u8; 8]>::try_from(&*bytes) else { bail!(ValueError, "the state of dice has 8 bytes") };
        self.state.set((u64::from_le_bytes(bytes), thrown));
        Ok(())
    }
}

/// A pair that is made again from a text.
#[derive(Object)]
#[object(key = "extmod.Route")]
#[repr(C)]
pub struct Route {
    /// The start.
    pub start: String,
    /// The end.
    pub end: String,
}

#[object_methods]
impl Route {
    /// The route that a text says: `A-B`.
    #[init]
    pub fn new(text: &str) -> Result<Self> {
        match text.split_once('-') {
            Some((start, end)) => Ok(Self { start: start.to_owned(), end: end.to_owned() }),
            None => bail!(ValueError, "'{text}' is no route"),
        }
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (String,) {
        (format!("{}-{}", self.start, self.end),)
    }
}

/// A type whose methods for pickles return what they must not.
#[derive(Object)]
#[object(key = "extmod.Stray")]
#[repr(C)]
pub struct Stray {
    /// A number.
    pub number: i64,
}

#[object_methods]
impl Stray {
    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> i64 {
        self.number
    }
}

/// A tensor that is read as a buffer of the object.
#[derive(Object)]
#[object(key = "extmod.Grid")]
#[repr(C)]
pub struct Grid {
    #[field(skip, default_factory = || None)]
    cells: Option<Tensor>,
}

#[object_methods]
impl Grid {
    /// A grid of zeros, of at most 1000 rows and columns.
    #[init]
    pub fn new(rows: i64, columns: i64) -> Result<Self> {
        for extent in [rows, columns] {
            if !(0..=1000).contains(&extent) {
                bail!(ValueError, "{extent} rows or columns are not between 0 and 1000");
            }
        }
        let cells = vec![0.0f32; usize::try_from(rows * columns).unwrap_or(0)];
        Ok(Self { cells: Some(Tensor::from_vec(cells, &[rows, columns])?) })
    }

    #[method(name = "__buffer__")]
    fn buffer(&self) -> Result<Tensor> {
        match &self.cells {
            Some(cells) => Ok(cells.clone()),
            None => bail!(BufferError, "the grid has no cells"),
        }
    }
}

/// Bytes, or what is no memory.
#[derive(Object)]
#[object(key = "extmod.Chunk")]
#[repr(C)]
pub struct Chunk {
    /// Nothing, the object itself, a number, or text.
    pub content: Any,
}

#[object_methods]
impl Chunk {
    #[method(name = "__buffer__")]
    fn buffer(this: &ObjRef<Self>) -> Result<Any> {
        match this.content.to::<String>() {
            Ok(text) if text == "fail" => bail!(ValueError, "no memory today"),
            Ok(text) if text == "self" => Ok(this.clone().into_any()),
            Ok(text) => Ok(Bytes::from(text.into_bytes()).into_any()),
            Err(_) => Ok(this.content.clone()),
        }
    }
}
