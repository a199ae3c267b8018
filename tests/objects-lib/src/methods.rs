//! Methods of every kind.

use kernpack::{Array, Function, ObjRef, Object, Result, Tensor, bail, object_methods};

/// A point in the plane.
#[derive(Object, Clone)]
#[object(key = "objects.Place")]
#[repr(C)]
pub struct Place {
    /// To the right.
    pub x: f64,
    /// Up.
    pub y: f64,
}

#[object_methods]
impl Place {
    /// The number of coordinates.
    #[type_attr(name = "objects.dimensions")]
    pub const DIMENSIONS: i64 = 2;

    /// A place; `y` is 0 unless it is given.
    #[init]
    pub fn new(x: f64, #[default(0.0)] y: f64) -> Result<Self> {
        if x.is_nan() || y.is_nan() {
            bail!(ValueError, "a place is somewhere");
        }
        Ok(Self { x, y })
    }

    /// The place on the unit circle at an angle.
    pub fn on_circle(angle: f64) -> Self {
        Self { x: angle.cos(), y: angle.sin() }
    }

    /// The distance from the origin.
    #[getter]
    pub fn length(&self) -> f64 {
        self.x.hypot(self.y)
    }

    /// Both numbers.
    #[getter]
    pub fn pair(&self) -> (f64, f64) {
        (self.x, self.y)
    }

    /// The direction as seen from the origin.
    #[getter(name = "direction")]
    fn angle(&self) -> Result<f64> {
        if self.length() == 0.0 {
            bail!(ValueError, "the origin has no direction");
        }
        Ok(self.y.atan2(self.x))
    }

    /// The place moved by another, once or so many times.
    pub fn moved(&self, by: &Self, #[default(1.0)] times: f64) -> Self {
        Self { x: self.x + times * by.x, y: self.y + times * by.y }
    }

    /// The same object.
    pub fn same(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    pub fn is_same(this: &ObjRef<Self>, other: &ObjRef<Place>) -> bool {
        this.ptr_eq(other)
    }

    /// The result of a function for the two numbers.
    pub fn apply(&self, f: Function) -> Result<f64> {
        f.call_as((self.x, self.y))
    }

    #[method(name = "__add__")]
    fn plus(&self, other: &Self) -> Self {
        self.moved(other, 1.0)
    }

    #[method(name = "__getitem__")]
    fn at(&self, index: usize) -> Result<f64> {
        match index {
            0 => Ok(self.x),
            1 => Ok(self.y),
            _ => bail!(IndexError, "a place has 2 numbers, there is none at {index}"),
        }
    }

    #[method(name = "__len__")]
    fn len(&self) -> usize {
        2
    }

    /// For Rust alone.
    #[skip]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { x: f(self.x), y: f(self.y) }
    }

    /// The cost of a step towards the place.
    #[type_attr(name = "objects.cost")]
    fn cost(&self, step: f64) -> f64 {
        self.length() * step
    }

    #[operator(repr)]
    fn repr(&self) -> String {
        format!("({}, {})", self.x, self.y)
    }

    #[operator(eq)]
    pub fn equal(&self, other: &Self) -> bool {
        self.length() == other.length()
    }

    #[operator(hash)]
    pub fn hash(&self) -> u64 {
        self.length().to_bits()
    }

    #[operator(lt)]
    pub fn shorter(&self, other: &Self) -> bool {
        self.length() < other.length()
    }
}

/// Places in a row.
#[derive(Object, Clone)]
#[object(key = "objects.Walk")]
#[repr(C)]
pub struct Walk {
    /// The places.
    pub places: Array<ObjRef<Place>>,
}

#[object_methods]
impl Walk {
    /// The first place, if there is one: an object that is a part of this one.
    #[getter]
    pub fn first(&self) -> Option<ObjRef<Place>> {
        self.places.iter().next()
    }

    /// The numbers of all places as a tensor.
    pub fn tensor(&self) -> Result<Tensor> {
        let numbers: Vec<f64> = self.places.iter().flat_map(|place| [place.x, place.y]).collect();
        Tensor::from_slice(&numbers, &[self.places.len() as i64, 2])
    }

    #[operator(str)]
    fn text(&self) -> String {
        format!("{} places", self.places.len())
    }
}
