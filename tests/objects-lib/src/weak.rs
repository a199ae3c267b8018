//! Weak references as fields: a tree whose nodes know their parents.

use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::{Array, Field, ObjRef, Object, Result, WeakRef, bail, object_methods, packed_func};

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// Increments the counter while it lives.
struct Presence;

impl Presence {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Clone for Presence {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A folder in another one.
#[derive(Object, Clone)]
#[object(key = "objects.Folder")]
#[repr(C)]
pub struct Folder {
    pub name: String,
    #[field(writable, default = Field::default())]
    pub folders: Field<Array<ObjRef<Folder>>>,
    #[field(skip)]
    pub parent: Field<WeakRef<Folder>>,
    #[field(skip, default_factory = Presence::new)]
    presence: Presence,
}

#[object_methods]
impl Folder {
    /// Puts a folder into this one.
    pub fn adopt(this: &ObjRef<Self>, folder: &ObjRef<Self>) {
        this.folders.set(this.folders.get().iter().chain([folder.clone()]).collect());
        folder.parent.set(this.downgrade());
    }

    /// The folder that this one is in; None at the top, and once it is gone.
    #[getter]
    pub fn parent(&self) -> Option<ObjRef<Self>> {
        self.parent.get().upgrade()
    }

    /// Names from the top down to this folder.
    pub fn path(&self) -> String {
        match self.parent() {
            Some(parent) => format!("{}/{}", parent.path(), self.name),
            None => self.name.clone(),
        }
    }
}

/// A note on a folder, which does not keep it.
#[derive(Object, Clone)]
#[object(key = "objects.Note")]
#[repr(C)]
pub struct Note {
    pub text: String,
    about: Option<WeakRef<Folder>>,
}

#[object_methods]
impl Note {
    /// A note on a folder.
    #[init]
    pub fn new(text: String, about: &ObjRef<Folder>) -> Self {
        Self { text, about: Some(about.downgrade()) }
    }

    /// The folder.
    pub fn folder(&self) -> Result<ObjRef<Folder>> {
        match self.about.as_ref().and_then(WeakRef::upgrade) {
            Some(folder) => Ok(folder),
            None => bail!(RuntimeError, "the folder of the note '{}' is gone", self.text),
        }
    }
}

/// A folder for Rust code.
pub fn folder(name: &str) -> ObjRef<Folder> {
    ObjRef::new(Folder {
        name: name.to_owned(),
        folders: Field::default(),
        parent: Field::default(),
        presence: Presence::new(),
    })
}

/// The number of live folders.
#[packed_func]
pub fn folders_alive() -> i64 {
    ALIVE.load(Ordering::Relaxed)
}
