//! Registration by the options of `#[derive(Object)]`, and objects that are made from it field by
//! field, as other languages do.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::reflect::{AttrVisitor, VisitAttrs};
use kernpack::sys::abi::{self, TVMFFIAny, TVMFFIFieldInfo, TVMFFITypeInfo, field_flag, seq_hash_kind, type_index};
use kernpack::{Any, AnyView, Array, Field, FromAny, Function, IntoAny, ObjRef, Object, Result, sys::provider};

/// A parent.
#[derive(Object)]
#[object(key = "object_fields.Parent", child_slots = 2)]
#[repr(C)]
pub struct Parent {
    /// The name.
    pub name: String,
    #[field(skip, default = 7)]
    pub made: u64,
}

/// A value that only an expression creates.
#[derive(Clone)]
struct Token(&'static str);

static MADE: AtomicI64 = AtomicI64::new(0);

fn count() -> i64 {
    MADE.fetch_add(1, Ordering::Relaxed)
}

/// Every option.
#[derive(Object)]
#[object(key = "object_fields.Every", structural = "dag", final)]
#[repr(C)]
pub struct Every {
    #[base]
    parent: Parent,
    pub plain: i64,
    #[field(default = Self::LIMIT / 2)]
    pub limit: i64,
    #[field(default_factory = count, kw_only)]
    pub number: i64,
    #[field(writable, default = Field::new("open".to_owned()))]
    pub state: Field<String>,
    #[field(writable, init = false, default_factory = AtomicI64::default)]
    pub hits: AtomicI64,
    #[field(default = None, repr = false, compare = false, hash = false)]
    pub next: Option<ObjRef<Self>>,
    #[field(default_factory = || vec![0.5], structural = "ignore")]
    pub weights: Vec<f64>,
    #[field(default_factory = || Array::from(vec![]), structural = "def")]
    pub variables: Array<Any>,
    #[field(default_factory = || Array::from(vec![]), structural = "def_simple")]
    pub more: Array<Any>,
    /// Private, and registered under another name.
    #[field(name = "kind", default = 3)]
    r#type: i64,
    #[field(skip, default_factory = Mutex::default)]
    secret: Mutex<Vec<u8>>,
    #[field(skip, default = Token("made"))]
    token: Token,
    #[field(skip, default_factory = || Token("by factory"))]
    other_token: Token,
}

impl Every {
    const LIMIT: i64 = 20;
}

struct NoDefault;

/// Its private field has no default, so only Rust creates objects.
#[derive(Object)]
#[object(key = "object_fields.Handle", structural = "singleton")]
#[repr(C)]
pub struct Handle {
    pub number: i64,
    secret: NoDefault,
}

/// Only Rust creates its parent.
#[derive(Object)]
#[object(key = "object_fields.DerivedHandle")]
#[repr(C)]
pub struct DerivedHandle {
    #[base]
    handle: Handle,
}

#[derive(Object)]
#[object(key = "object_fields.OnlyRust", create = false, structural = "unsupported")]
#[repr(C)]
pub struct OnlyRust {
    pub number: i64,
}

fn info<T: Object>() -> &'static TVMFFITypeInfo {
    // SAFETY: descriptions of registered types live forever.
    unsafe { &*(provider::api().get_type_info)(T::type_index()) }
}

fn own_fields(info: &TVMFFITypeInfo) -> &'static [TVMFFIFieldInfo] {
    match info.num_fields {
        0 => &[],
        // SAFETY: the table's fields live forever.
        count => unsafe { std::slice::from_raw_parts(info.fields, count as usize) },
    }
}

fn text(bytes: &abi::TVMFFIByteArray) -> &str {
    // SAFETY: the table's text lives forever.
    std::str::from_utf8(unsafe { bytes.as_slice() }).unwrap()
}

/// Makes an object as another language does: creator, then each field's setter, with the given
/// value or the default.
fn create<T: Object>(values: &[(&str, Any)]) -> Result<Any> {
    let api = provider::api();
    let info = info::<T>();
    let mut lineage = Vec::new();
    // SAFETY: ancestors and metadata live forever; the object is new and ours, and the fields are
    // those of its type.
    unsafe {
        for depth in 1..info.type_depth {
            lineage.push(&**info.type_ancestors.add(depth as usize));
        }
        lineage.push(info);
        let creator = (*info.metadata).creator.expect("the type has a creator");
        let mut object = std::ptr::null_mut();
        assert_eq!(creator(&mut object), 0);
        let made = Any::from_raw(TVMFFIAny::pointer(T::type_index(), object.cast()));
        for field in lineage.into_iter().flat_map(own_fields) {
            let given = values.iter().find(|(name, _)| *name == text(&field.name)).map(|(_, value)| value.clone());
            let value = match given {
                Some(value) => value,
                None if field.flags & field_flag::DEFAULT_FROM_FACTORY != 0 => {
                    let factory = AnyView::from_raw(field.default_value_or_factory);
                    Any::from_any(&factory).unwrap().to::<Function>()?.call(())?
                }
                None if field.flags & field_flag::HAS_DEFAULT != 0 => {
                    Any::from_any(&AnyView::from_raw(field.default_value_or_factory)).unwrap()
                }
                None => continue,
            };
            assert_eq!(field.flags & field_flag::SETTER_IS_FUNCTION_OBJ, 0);
            let setter: abi::TVMFFIFieldSetter = std::mem::transmute(field.setter);
            let raw = value.as_view().as_raw();
            if setter(object.cast::<std::ffi::c_void>().byte_add(field.offset as usize), raw) != 0 {
                let mut error = std::ptr::null_mut();
                (api.error_move_from_raised)(&mut error);
                let error = Any::from_raw(TVMFFIAny::pointer(type_index::ERROR, error.cast()));
                return Err(error.to::<kernpack::Error>()?);
            }
        }
        Ok(made)
    }
}

#[test]
fn flags_names_and_defaults_are_registered() {
    use field_flag as flag;
    let default = flag::HAS_DEFAULT;
    let factory = flag::HAS_DEFAULT | flag::DEFAULT_FROM_FACTORY;
    let expected = [
        ("plain", 0),
        ("limit", default),
        ("number", factory | flag::KW_ONLY),
        ("state", default | flag::WRITABLE),
        ("hits", factory | flag::WRITABLE | flag::INIT_OFF),
        ("next", default | flag::REPR_OFF | flag::COMPARE_OFF | flag::HASH_OFF),
        ("weights", factory | flag::SEQ_HASH_IGNORE),
        ("variables", factory | flag::SEQ_HASH_DEF_PATTERN),
        ("more", factory | flag::SEQ_HASH_DEF_SIMPLE),
        ("kind", default),
    ];
    let fields = own_fields(info::<Every>());
    let found: Vec<_> = fields.iter().map(|field| (text(&field.name), field.flags)).collect();
    assert_eq!(found, expected);
    assert!(fields.iter().all(|field| !field.setter.is_null() && field.getter.is_some()));
    assert_eq!(text(&fields[9].doc), "Private, and registered under another name.");
    assert!(text(&fields[9].metadata).contains(r#"{\"type\":\"int\"}"#), "{}", text(&fields[9].metadata));
    assert!(text(&fields[3].metadata).contains("ffi.String"), "a Field<String> is a String to others");
    // SAFETY: a value of the table.
    let limit = unsafe { AnyView::from_raw(fields[1].default_value_or_factory) };
    assert_eq!(Any::from_any(&limit).unwrap().to::<i64>().unwrap(), 10);
    let parent = own_fields(info::<Parent>());
    assert_eq!(parent.iter().map(|field| (text(&field.name), field.flags)).collect::<Vec<_>>(), [("name", 0)]);
    assert_eq!(text(&parent[0].doc), "The name.");
}

#[test]
fn options_of_types_are_registered() {
    let kind = |info: &TVMFFITypeInfo| {
        // SAFETY: metadata live forever.
        let metadata = unsafe { &*info.metadata };
        (metadata.structural_eq_hash_kind, metadata.creator.is_some(), text(&metadata.doc).to_owned())
    };
    assert_eq!(kind(info::<Parent>()), (seq_hash_kind::TREE_NODE, true, "A parent.".to_owned()));
    assert_eq!(kind(info::<Every>()), (seq_hash_kind::DAG_NODE, true, "Every option.".to_owned()));
    assert_eq!(kind(info::<Handle>()).0, seq_hash_kind::UNIQUE_INSTANCE);
    assert_eq!(kind(info::<OnlyRust>()), (seq_hash_kind::UNSUPPORTED, false, String::new()));
    assert!(!kind(info::<Handle>()).1, "a private field cannot be made");
    assert!(!kind(info::<DerivedHandle>()).1, "a private field of the parent cannot be made");
    let base = Parent::type_index();
    assert!((base + 1..=base + 2).contains(&Every::type_index()), "the slots next to the parent are for its children");
}

#[test]
fn objects_are_made_field_by_field() -> Result<()> {
    let values = [("plain", 5.into_any()), ("name", "n".into_any()), ("state", "shut".into_any())];
    let made = create::<Every>(&values)?.to::<ObjRef<Every>>()?;
    assert_eq!((made.plain, made.limit, made.name.as_str(), made.made), (5, 10, "n", 7));
    assert_eq!((made.state.get().as_str(), made.hits.load(Ordering::Relaxed)), ("shut", 0));
    assert!(made.next.is_none() && made.variables.is_empty() && made.more.is_empty());
    assert_eq!((made.weights.as_slice(), made.r#type), ([0.5].as_slice(), 3));
    assert!(made.secret.lock().unwrap().is_empty(), "from `Default`");
    assert_eq!((made.token.0, made.other_token.0), ("made", "by factory"));
    let another = create::<Every>(&values)?.to::<ObjRef<Every>>()?;
    assert_ne!(made.number, another.number, "a factory is called for each object");
    let given = create::<Every>(&[values[0].clone(), values[1].clone(), ("next", made.clone().into_any())])?;
    let given = given.to::<ObjRef<Every>>()?;
    assert!(given.next.as_ref().unwrap().ptr_eq(&made));
    Ok(())
}

#[test]
fn what_is_missing_or_does_not_convert_is_named() {
    let incomplete = create::<Every>(&[("plain", 5.into_any())]).unwrap();
    let error = incomplete.to::<ObjRef<Every>>().err().unwrap();
    assert!(error.message().contains("name"), "{}", error.message());
    let error = create::<Every>(&[("name", "n".into_any()), ("plain", "five".into_any())]).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        ("TypeError", "field 'plain' of object_fields.Every: expected int, got str")
    );
    let error = create::<Every>(&[("name", "n".into_any()), ("state", 3.into_any())]).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        ("TypeError", "field 'state' of object_fields.Every: expected str, got int")
    );
}

#[test]
fn copies_take_all_fields_along() {
    let values = [("plain", 5.into_any()), ("name", "n".into_any())];
    let made = create::<Every>(&values).unwrap().to::<ObjRef<Every>>().unwrap();
    assert!(Every::DUPLICATE.is_none(), "a Mutex is not `Clone`");
    drop(made);
    let copy = Parent::DUPLICATE.unwrap()(&Parent { name: "p".to_owned(), made: 9 });
    assert_eq!((copy.name.as_str(), copy.made), ("p", 9), "private fields, too");
    assert!(Handle::DUPLICATE.is_none() && DerivedHandle::DUPLICATE.is_none(), "there is no way to clone the secret");
    assert_eq!(OnlyRust::DUPLICATE.unwrap()(&OnlyRust { number: 4 }).number, 4);
}

#[test]
fn visitors_see_registered_fields_of_the_parent_first() {
    #[derive(Default)]
    struct Names(Vec<String>);
    impl AttrVisitor for Names {
        fn visit_other(&mut self, name: &str, _: &AnyView<'_>) -> Result<()> {
            self.0.push(name.to_owned());
            Ok(())
        }
    }
    let values = [("plain", 5.into_any()), ("name", "n".into_any())];
    let made = create::<Every>(&values).unwrap().to::<ObjRef<Every>>().unwrap();
    let mut names = Names::default();
    made.visit_attrs(&mut names).unwrap();
    let expected =
        ["name", "plain", "limit", "number", "state", "hits", "next", "weights", "variables", "more", "kind"];
    assert_eq!(names.0, expected);
}
