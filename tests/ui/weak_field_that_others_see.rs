use kernpack::{Field, ObjRef, Object, WeakRef};

kernpack::library!();

#[derive(Object)]
#[object(key = "ui.Folder")]
#[repr(C)]
pub struct Folder {
    pub folders: Field<Vec<ObjRef<Folder>>>,
    pub parent: Field<Option<WeakRef<Folder>>>,
    #[field(writable)]
    other: Field<WeakRef<Folder>>,
    private: WeakRef<Folder>,
}

fn main() {}
