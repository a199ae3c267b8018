//! Types with Python's operators. `tests/python_extension/special.py` compares them with classes of
//! Python that have the same methods.

use kernpack::reflect::TypeInfo;
use kernpack::{Any, Bytes, Field, Function, ObjRef, Object, Result, bail, object_methods};

/// A number whose operators return what they are: `7 + 2` is a text.
#[derive(Object)]
#[object(key = "extmod.Term")]
#[repr(C)]
pub struct Term {
    /// The number.
    pub number: i64,
}

macro_rules! operators {
    ($($name:literal $function:ident $reflected:literal $other:ident $sign:literal,)*) => {
        #[object_methods]
        impl Term {
            $(
                #[method(name = $name)]
                fn $function(&self, other: i64) -> String {
                    format!("{} {} {other}", self.number, $sign)
                }

                #[method(name = $reflected)]
                fn $other(&self, other: i64) -> String {
                    format!("{other} {} {}", $sign, self.number)
                }
            )*
        }
    };
}

operators! {
    "__add__" add "__radd__" radd "+",
    "__sub__" sub "__rsub__" rsub "-",
    "__mul__" mul "__rmul__" rmul "*",
    "__matmul__" matmul "__rmatmul__" rmatmul "@",
    "__truediv__" truediv "__rtruediv__" rtruediv "/",
    "__floordiv__" floordiv "__rfloordiv__" rfloordiv "//",
    "__mod__" modulo "__rmod__" rmodulo "%",
    "__divmod__" divmod "__rdivmod__" rdivmod "divmod",
    "__lshift__" lshift "__rlshift__" rlshift "<<",
    "__rshift__" rshift "__rrshift__" rrshift ">>",
    "__and__" and "__rand__" rand "&",
    "__xor__" xor "__rxor__" rxor "^",
    "__or__" or "__ror__" ror "|",
}

#[object_methods]
impl Term {
    #[method(name = "__pow__")]
    fn pow(&self, exponent: i64, modulus: Option<i64>) -> String {
        format!("{} ** {exponent} % {modulus:?}", self.number)
    }

    #[method(name = "__rpow__")]
    fn rpow(&self, base: i64, modulus: Option<i64>) -> String {
        format!("{base} ** {} % {modulus:?}", self.number)
    }

    #[method(name = "__neg__")]
    fn neg(&self) -> i64 {
        -self.number
    }

    #[method(name = "__pos__")]
    fn pos(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    #[method(name = "__abs__")]
    fn abs(&self) -> i64 {
        self.number.abs()
    }

    #[method(name = "__invert__")]
    fn invert(&self) -> i64 {
        !self.number
    }

    #[method(name = "__bool__")]
    fn is_there(&self) -> Result<bool> {
        match self.number {
            -1 => bail!(ValueError, "neither true nor false"),
            number => Ok(number != 0),
        }
    }

    #[method(name = "__int__")]
    fn int(&self) -> i64 {
        self.number + 1
    }

    #[method(name = "__float__")]
    fn float(&self) -> f64 {
        self.number as f64 + 0.5
    }

    #[method(name = "__index__")]
    fn index(&self) -> i64 {
        self.number
    }

    #[method(name = "__round__")]
    fn round(&self, digits: Option<i64>) -> String {
        format!("round {digits:?}")
    }

    #[method(name = "__trunc__")]
    fn trunc(&self) -> i64 {
        self.number + 2
    }

    #[method(name = "__floor__")]
    fn floor(&self) -> i64 {
        self.number + 3
    }

    #[method(name = "__ceil__")]
    fn ceil(&self) -> i64 {
        self.number + 4
    }

    #[method(name = "__bytes__")]
    fn bytes(&self) -> Bytes {
        Bytes::from(self.number.to_string().into_bytes())
    }

    #[method(name = "__format__")]
    fn format(&self, form: &str) -> String {
        format!("{}:{form}", self.number)
    }

    #[method(name = "__fspath__")]
    fn path(&self) -> String {
        format!("/{}", self.number)
    }

    #[method(name = "__length_hint__")]
    fn length_hint(&self) -> i64 {
        self.number
    }

    #[method(name = "__sizeof__")]
    fn size(&self) -> i64 {
        1000 + self.number
    }
}

/// A sum that changes, and is added to others of its type.
#[derive(Object)]
#[object(key = "extmod.Sum")]
#[repr(C)]
pub struct Sum {
    /// The sum.
    #[field(writable)]
    pub total: Field<i64>,
}

#[object_methods]
impl Sum {
    /// A sum.
    #[init]
    pub fn new(total: i64) -> Self {
        Self { total: Field::new(total) }
    }

    #[method(name = "__add__")]
    fn add(&self, other: &Self) -> Self {
        Self::new(self.total.get() + other.total.get())
    }

    /// `sum()` begins with 0.
    #[method(name = "__radd__")]
    fn radd(this: &ObjRef<Self>, other: i64) -> Option<ObjRef<Self>> {
        (other == 0).then(|| this.clone())
    }

    /// Does not know the number 2.
    #[method(name = "__sub__")]
    fn sub(&self, other: i64) -> Option<i64> {
        (other != 2).then(|| self.total.get() - other)
    }

    /// Takes everything, and knows sums.
    #[method(name = "__xor__")]
    fn xor(&self, other: &Any) -> Option<i64> {
        other.to::<ObjRef<Self>>().ok().map(|other| self.total.get() ^ other.total.get())
    }

    /// Adds by the other operator, whose error is one of this operator's own.
    #[method(name = "__matmul__")]
    fn matmul(this: &ObjRef<Self>, other: &Any) -> Result<i64> {
        let mut methods = TypeInfo::by_key(b"extmod.Sum")?.own_methods();
        let Some(add) = methods.find(|method| method.name_bytes() == b"__add__") else {
            bail!(RuntimeError, "there is no operator +")
        };
        let sum: ObjRef<Self> = add.value().get::<Function>()?.call_as((this, other))?;
        Ok(sum.total.get())
    }

    #[method(name = "__mul__")]
    fn mul(&self, factor: f64) -> Result<f64> {
        match factor {
            0.0.. => Ok(self.total.get() as f64 * factor),
            _ => bail!(ValueError, "a factor below 0"),
        }
    }

    #[method(name = "__truediv__")]
    fn div(&self, other: i64) -> Result<Option<f64>> {
        match other {
            0 => bail!(ZeroDivisionError, "a sum divided by 0"),
            1 => Ok(None),
            _ => Ok(Some(self.total.get() as f64 / other as f64)),
        }
    }

    /// The error of its own is no question to the other operand.
    #[method(name = "__mod__")]
    fn modulo(&self, _other: i64) -> Result<i64> {
        bail!(TypeError, "sums have no remainder")
    }

    /// A number that fits in a byte.
    #[method(name = "__and__")]
    fn and(&self, other: u8) -> i64 {
        self.total.get() & i64::from(other)
    }

    #[method(name = "__lshift__", signature = "(count, /)")]
    fn shift(&self, count: u32) -> i64 {
        self.total.get() << count
    }

    #[method(name = "__or__")]
    fn or(&self, other: Vec<i64>) -> (i64, i64) {
        (self.total.get(), other.into_iter().sum())
    }
}

/// A number that changes in place.
#[derive(Object)]
#[object(key = "extmod.Tally")]
#[repr(C)]
pub struct Tally {
    /// The number.
    #[field(writable)]
    pub count: Field<i64>,
}

macro_rules! in_place {
    ($($name:literal $function:ident $operator:tt,)*) => {
        #[object_methods]
        impl Tally {
            $(
                #[method(name = $name)]
                fn $function(&self, other: i64) {
                    self.count.set(self.count.get() $operator other);
                }
            )*
        }
    };
}

in_place! {
    "__iadd__" iadd +,
    "__isub__" isub -,
    "__imul__" imul *,
    "__ilshift__" ilshift <<,
    "__irshift__" irshift >>,
    "__iand__" iand &,
    "__ixor__" ixor ^,
    "__ior__" ior |,
}

#[object_methods]
impl Tally {
    #[method(name = "__imod__")]
    fn imodulo(&self, other: i64) -> Result<()> {
        match self.count.get().checked_rem(other) {
            Some(rest) => self.count.set(rest),
            None => bail!(ZeroDivisionError, "the remainder of a division by 0"),
        }
        Ok(())
    }

    #[method(name = "__ifloordiv__")]
    fn ifloordiv(&self, other: i64) -> Result<()> {
        match other {
            0 => bail!(ZeroDivisionError, "a tally divided by 0"),
            _ => self.count.set(self.count.get().div_euclid(other)),
        }
        Ok(())
    }

    /// Another object in place of this one.
    #[method(name = "__itruediv__")]
    fn itruediv(&self, other: i64) -> Self {
        Self { count: Field::new(self.count.get() + 1000 * other) }
    }

    #[method(name = "__imatmul__")]
    fn imatmul(this: &ObjRef<Self>, other: i64) -> ObjRef<Self> {
        this.count.set(this.count.get() - 1000 * other);
        this.clone()
    }

    #[method(name = "__ipow__")]
    fn ipow(this: &ObjRef<Self>, other: i64) -> Option<ObjRef<Self>> {
        (other == 2).then(|| {
            this.count.set(this.count.get() * this.count.get());
            this.clone()
        })
    }

    /// Taken where `**=` does not apply.
    #[method(name = "__pow__")]
    fn pow(&self, other: i64) -> i64 {
        self.count.get() * other
    }
}
