//! Types whose comparisons know other types, partial orders and sets. `tests/python_extension`
//! compares them with classes of Python that have the same methods.

use std::cmp::Ordering;

use kernpack::{Any, ObjRef, Object, Result, bail, object_methods};

/// A number that is compared with numbers of its own type and of Python.
#[derive(Object)]
#[object(key = "extmod.Number")]
#[repr(C)]
pub struct Number {
    /// The number.
    pub value: f64,
}

/// The value of a number of either kind.
fn value_of(other: &Any) -> Option<f64> {
    match other.to::<ObjRef<Number>>() {
        Ok(number) => Some(number.value),
        Err(_) => other.to::<f64>().ok(),
    }
}

#[object_methods]
impl Number {
    #[operator(eq)]
    fn eq(&self, other: &Any) -> Option<bool> {
        value_of(other).map(|value| self.value == value)
    }

    #[operator(lt)]
    fn lt(&self, other: &Any) -> Option<bool> {
        value_of(other).map(|value| self.value < value)
    }

    #[operator(le)]
    fn le(&self, other: &Any) -> Option<bool> {
        value_of(other).map(|value| self.value <= value)
    }

    #[operator(gt)]
    fn gt(&self, other: &Any) -> Option<bool> {
        value_of(other).map(|value| self.value > value)
    }

    #[operator(ge)]
    fn ge(&self, other: &Any) -> Option<bool> {
        value_of(other).map(|value| self.value >= value)
    }
}

/// A number with a partial order: not a number has no order.
#[derive(Object)]
#[object(key = "extmod.Measure")]
#[repr(C)]
pub struct Measure {
    /// The number.
    pub value: f64,
}

#[object_methods]
impl Measure {
    #[operator(compare)]
    fn order(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

/// A set of small numbers, ordered by inclusion.
#[derive(Object)]
#[object(key = "extmod.Bits")]
#[repr(C)]
pub struct Bits {
    /// A bit for each number.
    pub bits: i64,
}

#[object_methods]
impl Bits {
    #[operator(eq)]
    fn equal(&self, other: &Self) -> bool {
        self.bits == other.bits
    }

    #[operator(hash)]
    fn hash(&self) -> u64 {
        self.bits as u64
    }

    #[operator(lt)]
    fn is_part(&self, other: &Self) -> bool {
        self.bits != other.bits && self.is_inside(other)
    }

    #[operator(le)]
    fn is_inside(&self, other: &Self) -> bool {
        self.bits & !other.bits == 0
    }
}

/// A temperature that is compared with numbers alone.
#[derive(Object)]
#[object(key = "extmod.Celsius")]
#[repr(C)]
pub struct Celsius {
    /// The temperature.
    pub degrees: f64,
}

#[object_methods]
impl Celsius {
    #[operator(compare)]
    fn order(&self, degrees: f64) -> Option<Ordering> {
        self.degrees.partial_cmp(&degrees)
    }
}

/// A temperature that is compared with those of another type alone.
#[derive(Object)]
#[object(key = "extmod.Fahrenheit")]
#[repr(C)]
pub struct Fahrenheit {
    /// The temperature.
    pub degrees: f64,
}

#[object_methods]
impl Fahrenheit {
    #[operator(lt)]
    fn is_colder(&self, other: &Celsius) -> bool {
        self.degrees < other.degrees * 1.8 + 32.0
    }

    #[operator(eq)]
    fn is_same(&self, other: &Celsius) -> Result<bool> {
        if self.degrees < -459.67 {
            bail!(ValueError, "there is no such temperature");
        }
        Ok(self.degrees == other.degrees * 1.8 + 32.0)
    }

    /// Not the opposite of `==`.
    #[operator(ne)]
    fn is_other(&self, _other: &Celsius) -> bool {
        true
    }
}
