//! Attributes that a method writes.

use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::{Field, Function, ObjRef, Object, Result, bail, object_methods};

/// A dial.
#[derive(Object)]
#[object(key = "extmod.Dial")]
#[repr(C)]
pub struct Dial {
    /// The largest angle.
    pub limit: AtomicI64,
    #[field(skip, default_factory = || Field::new(0.0))]
    angle: Field<f64>,
    #[field(skip, default_factory = || Field::new(None))]
    note: Field<Option<String>>,
    #[field(skip, default_factory = || Field::new(None))]
    next: Field<Option<ObjRef<Mark>>>,
}

/// A mark on a dial.
#[derive(Object)]
#[object(key = "extmod.Mark")]
#[repr(C)]
pub struct Mark {
    /// The place of the mark.
    pub place: i64,
}

#[object_methods]
impl Dial {
    /// The angle in degrees.
    #[getter]
    fn angle(&self) -> f64 {
        self.angle.get()
    }

    /// Turns the dial.
    #[setter]
    fn set_angle(&self, angle: f64) -> Result<()> {
        if !(0.0..=self.limit.load(Ordering::Relaxed) as f64).contains(&angle) {
            bail!(ValueError, "the angle {angle} is not between 0 and {}", self.limit.load(Ordering::Relaxed));
        }
        self.angle.set(angle);
        Ok(())
    }

    /// The field is read as it is, and written here.
    #[setter]
    pub fn set_limit(&self, limit: i64) {
        self.limit.store(limit.max(0), Ordering::Relaxed);
    }

    #[getter(name = "note")]
    fn read_note(&self) -> Option<String> {
        self.note.get()
    }

    #[setter(name = "note")]
    fn write_note(this: &ObjRef<Self>, note: Option<String>) {
        this.note.set(note);
    }

    /// Only its size is kept.
    #[setter]
    fn set_secret(&self, secret: &[u8]) -> Result<()> {
        self.note.set(Some(format!("{} bytes", secret.len())));
        Ok(())
    }

    /// The angle that a function computes from the angle.
    #[setter]
    fn set_turn(&self, turn: Function) -> Result<()> {
        self.angle.set(turn.call_as::<f64>((self.angle.get(),))?);
        Ok(())
    }

    /// The next mark.
    #[getter]
    fn next(&self) -> Option<ObjRef<Mark>> {
        self.next.get()
    }

    #[setter]
    fn set_next(&self, next: Option<ObjRef<Mark>>) {
        self.next.set(next);
    }
}

/// A dial whose limit has an attribute of its own.
#[derive(Object)]
#[object(key = "extmod.Knob")]
#[repr(C)]
pub struct Knob {
    #[base]
    dial: Dial,
    /// The number of writes.
    pub writes: AtomicI64,
}

/// A field of a parent that may only be read.
#[derive(Object)]
#[object(key = "extmod.Stop")]
#[repr(C)]
pub struct Stop {
    #[base]
    mark: Mark,
    #[field(skip, default_factory = || Field::new(0))]
    moved: Field<i64>,
}

#[object_methods]
impl Stop {
    #[getter]
    fn moved(&self) -> i64 {
        self.moved.get()
    }

    /// Moves the stop. The parent's field keeps its value.
    #[setter]
    fn set_place(&self, place: i64) {
        self.moved.set(place - self.mark.place);
    }
}
