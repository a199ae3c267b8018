//! `#[object_methods]`: the registrations, and calls as another language makes them, with our own
//! implementation.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use kernpack::reflect::{AttrColumn, Method, TypeInfo, from_json, repr, to_json};
use kernpack::sys::abi::{TVMFFIByteArray, field_flag};
use kernpack::{
    Any, Error, FromAny, Function, IntoAny, Map, ObjRef, Object, Result, bail, load_problems, object_methods,
    structural,
};

/// A point in the plane.
#[derive(Object, Clone, Debug)]
#[object(key = "methods.Point")]
#[repr(C)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

#[object_methods]
impl Point {
    /// The origin.
    #[type_attr(name = "methods.origin")]
    pub const ORIGIN: (f64, f64) = (0.0, 0.0);

    /// Not seen by others.
    pub const UNSEEN: i64 = 1;

    /// A point; `y` is 0 unless it is given.
    #[init]
    pub fn new(x: f64, #[default(0.0)] y: f64) -> Result<Self> {
        if x.is_nan() || y.is_nan() {
            bail!(ValueError, "a point has a place");
        }
        Ok(Self { x, y })
    }

    /// The point on the unit circle.
    pub fn on_circle(angle: f64) -> Self {
        Self { x: angle.cos(), y: angle.sin() }
    }

    /// The point's distance from the origin.
    #[getter]
    pub fn length(&self) -> f64 {
        self.x.hypot(self.y)
    }

    #[getter(name = "direction")]
    fn angle(&self) -> Result<f64> {
        if self.length() == 0.0 {
            bail!(ValueError, "the origin has no direction");
        }
        Ok(self.y.atan2(self.x))
    }

    /// The point moved.
    pub fn moved(&self, by: &Self, #[default(1.0)] times: f64) -> Self {
        Self { x: self.x + times * by.x, y: self.y + times * by.y }
    }

    /// The same object.
    pub fn same(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    /// Returns whether two references are one object.
    #[method(name = "is_same")]
    pub fn same_object(this: &ObjRef<Self>, other: &ObjRef<Point>) -> bool {
        this.ptr_eq(other)
    }

    pub fn at_half(&self, place: &str) -> Option<Self> {
        (place == "half").then(|| Self { x: self.x / 2.0, y: self.y / 2.0 })
    }

    pub fn r#type(&self) -> &'static str {
        "point"
    }

    #[method(name = "__add__")]
    pub fn plus(&self, other: &Self) -> Self {
        self.moved(other, 1.0)
    }

    #[skip]
    pub fn generic<T: From<f64>>(&self) -> T {
        T::from(self.x)
    }

    fn private(&self) -> f64 {
        self.generic::<f64>() + Self::UNSEEN as f64
    }

    #[type_attr(name = "methods.describe")]
    pub fn describe(&self, prefix: String) -> String {
        format!("{prefix}{}", self.private())
    }

    #[operator(repr)]
    fn repr(&self) -> String {
        format!("<{}, {}>", self.x, self.y)
    }

    #[operator(eq)]
    pub fn equal(&self, other: &Self) -> bool {
        self.x == other.x && self.y == other.y
    }

    #[operator(hash)]
    pub fn hash(&self) -> u64 {
        self.x.to_bits() ^ self.y.to_bits().rotate_left(1)
    }

    #[operator(lt)]
    pub fn shorter(&self, other: &Self) -> Result<bool, std::fmt::Error> {
        Ok(self.length() < other.length())
    }

    pub fn panics(&self) {
        panic!("of {}", self.x);
    }
}

/// Counts calls, to check that defaults are not evaluated twice.
static DEFAULTS: AtomicI64 = AtomicI64::new(0);

#[derive(Object)]
#[object(key = "methods.Version")]
#[repr(C)]
pub struct Version {
    pub text: String,
    /// A nested object.
    pub place: ObjRef<Point>,
}

#[object_methods]
impl Version {
    #[init]
    fn make(
        #[default(DEFAULTS.fetch_add(1, Relaxed).to_string())] text: String,
        #[default(ObjRef::new(Point { x: 1.0, y: 2.0 }))] place: ObjRef<Point>,
    ) -> ObjRef<Self> {
        ObjRef::new(Self { text, place })
    }

    #[operator(str)]
    fn shown(&self) -> String {
        format!("v{}", self.text)
    }

    #[operator(compare)]
    fn order(&self, other: &ObjRef<Self>, compare: Function) -> Result<Ordering> {
        let nested = compare.call_as::<i64>((&self.place, &other.place))?;
        Ok(self.text.cmp(&other.text).then(nested.cmp(&0)))
    }
}

// A second block of the same type.
#[object_methods]
impl Version {
    pub fn many(&self, a: i64, #[default(10)] b: i64, #[default(self::seven())] c: i64) -> i64 {
        100 * a + b + c
    }
}

fn seven() -> i64 {
    7
}

fn info(key: &str) -> TypeInfo {
    TypeInfo::by_key(key.as_bytes()).unwrap()
}

fn find_method(key: &str, name: &str) -> Method {
    let method = info(key).own_methods().find(|method| method.name_bytes() == name.as_bytes());
    method.unwrap_or_else(|| panic!("{key} has no method {name}"))
}

/// The method of a type as a function.
fn method(key: &str, name: &str) -> Function {
    find_method(key, name).value().get().unwrap()
}

fn attribute<T: for<'a> FromAny<'a>>(key: &str, name: &'static str) -> Result<T> {
    AttrColumn::new(name).get(info(key).index()).unwrap().try_to_owned()?.to()
}

fn text(bytes: TVMFFIByteArray) -> &'static str {
    // SAFETY: the table keeps texts forever.
    str::from_utf8(unsafe { bytes.as_slice() }).unwrap()
}

fn point(x: f64, y: f64) -> ObjRef<Point> {
    ObjRef::new(Point { x, y })
}

#[test]
fn nothing_went_wrong() {
    assert!(point(0.0, 0.0).is::<Point>());
    assert_eq!(load_problems(), Vec::<String>::new());
}

#[test]
fn instance_methods() -> Result<()> {
    let moved = method("methods.Point", "moved");
    let to = moved.call_as::<ObjRef<Point>>((point(1.0, 2.0), point(10.0, 20.0), 0.5))?;
    assert_eq!((to.x, to.y), (6.0, 12.0));
    let to = moved.call_as::<ObjRef<Point>>((point(1.0, 2.0), point(10.0, 20.0)))?;
    assert_eq!((to.x, to.y), (11.0, 22.0), "the default");
    let sum = method("methods.Point", "__add__").call_as::<ObjRef<Point>>((point(1.0, 2.0), point(3.0, 4.0)))?;
    assert_eq!((sum.x, sum.y), (4.0, 6.0));

    let here = point(3.0, 4.0);
    let same = method("methods.Point", "same").call_as::<ObjRef<Point>>((&here,))?;
    assert!(same.ptr_eq(&here));
    assert!(method("methods.Point", "is_same").call_as::<bool>((&here, &same))?);
    assert!(!method("methods.Point", "is_same").call_as::<bool>((&here, point(3.0, 4.0)))?);

    let half = method("methods.Point", "at_half");
    assert_eq!(half.call_as::<Option<ObjRef<Point>>>((&here, "half"))?.map(|half| half.y), Some(2.0));
    assert!(half.call((&here, "third"))?.is_none());
    assert_eq!(method("methods.Point", "type").call_as::<String>((&here,))?, "point");
    Ok(())
}

#[test]
fn static_methods_and_the_rest_stays_in_rust() -> Result<()> {
    let on_circle = method("methods.Point", "on_circle").call_as::<ObjRef<Point>>((0,))?;
    assert_eq!((on_circle.x, on_circle.y), (1.0, 0.0));
    let methods = info("methods.Point").own_methods();
    let mut names: Vec<&str> = methods.map(|method| text(method.as_raw().name)).collect();
    names.sort();
    assert_eq!(
        names,
        ["__add__", "__ffi_init__", "at_half", "is_same", "moved", "on_circle", "panics", "same", "type"]
    );
    assert_eq!(point(2.0, 0.0).generic::<f64>(), 2.0);
    assert_eq!(Point::on_circle(0.0).x, 1.0, "still a Rust function");
    Ok(())
}

#[test]
fn docs_and_metadata() {
    let moved = find_method("methods.Point", "moved").as_raw();
    assert_eq!((text(moved.doc), moved.flags), ("The point moved.", 0));
    let schema = r#"{"type":"ffi.Function","named_args":{"return":[{"type":"methods.Point"}],"params":[{"type":"methods.Point"},{"type":"methods.Point"},{"type":"float"}]}}"#;
    assert_eq!(type_schema(moved.metadata), schema);
    let init = find_method("methods.Point", "__ffi_init__").as_raw();
    assert_eq!(init.flags, field_flag::IS_STATIC_METHOD);
    assert_eq!(text(init.doc), "A point; `y` is 0 unless it is given.");
    let schema = r#"{"type":"ffi.Function","named_args":{"return":[{"type":"methods.Point"}],"params":[{"type":"float"},{"type":"float"}]}}"#;
    assert_eq!(type_schema(init.metadata), schema);
    assert!(
        text(moved.metadata).ends_with(r#","arg_names":["self","by","times"],"arg_defaults":[1.0]}"#),
        "{}",
        text(moved.metadata)
    );
    assert!(text(init.metadata).contains(r#","arg_names":["x","y"],"arg_defaults":[0.0]}"#), "{}", text(init.metadata));
    let length = *info("methods.Point").own_fields().find(|field| field.name() == "length").unwrap().as_raw();
    assert_eq!(text(length.doc), "The point's distance from the origin.");
    assert_eq!(type_schema(length.metadata), r#"{"type":"float"}"#);
}

fn type_schema(metadata: TVMFFIByteArray) -> String {
    let metadata: serde_json::Value = serde_json::from_str(text(metadata)).unwrap();
    metadata["type_schema"].as_str().unwrap().to_owned()
}

fn keywords() -> Any {
    Function::global("ffi.GetKwargsObject").unwrap().call(()).unwrap()
}

#[test]
fn constructors_take_arguments_by_place_and_by_name() -> Result<()> {
    let new = attribute::<Function>("methods.Point", "__ffi_init__")?;
    let made = |result: Result<ObjRef<Point>>| result.map(|point| (point.x, point.y));
    let marker = keywords();
    assert_eq!(made(new.call_as((1.5, 2.5)))?, (1.5, 2.5));
    assert_eq!(made(new.call_as((1.5,)))?, (1.5, 0.0));
    assert_eq!(made(new.call_as((1.5, &marker)))?, (1.5, 0.0));
    assert_eq!(made(new.call_as((1.5, &marker, "y", 2)))?, (1.5, 2.0));
    assert_eq!(made(new.call_as((&marker, "y", 2, "x", 1)))?, (1.0, 2.0));

    for (result, message) in [
        (new.call((1, 2, 3)), "expected at most 2 arguments, got 3"),
        (new.call(()), "argument 'x' is missing"),
        (new.call((&marker, "y", 1)), "argument 'x' is missing"),
        (new.call((1, &marker, "x", 1)), "argument 'x' is given twice"),
        (new.call((1, &marker, "y", 1, "y", 2)), "argument 'y' is given twice"),
        (new.call((1, &marker, "z", 1)), "there is no argument 'z'; did you mean 'x' or 'y'?"),
        (new.call((1, &marker, 2, 1)), "expected the name of an argument, got int"),
        (
            new.call((1, &marker, "y")),
            "behind the marker, names and values come in turn, but the last name has no value",
        ),
        (new.call(("x",)), "argument 'x': expected float, got str"),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), "TypeError");
        assert_eq!(error.message(), format!("methods.Point.__ffi_init__(x: float, y: float): {message}"));
    }
    let error = new.call((f64::NAN,)).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("ValueError", "a point has a place"));
    Ok(())
}

#[test]
fn defaults_are_evaluated_for_each_call_that_needs_them() -> Result<()> {
    let new = attribute::<Function>("methods.Version", "__ffi_init__")?;
    let before = DEFAULTS.load(Relaxed);
    assert_eq!(new.call_as::<ObjRef<Version>>(("7",))?.text, "7");
    assert_eq!(DEFAULTS.load(Relaxed), before);
    assert_eq!(new.call_as::<ObjRef<Version>>(())?.text, before.to_string());
    let marker = keywords();
    let made = new.call_as::<ObjRef<Version>>((&marker, "place", point(5.0, 6.0)))?;
    assert_eq!((made.text.as_str(), made.place.x), ((before + 1).to_string().as_str(), 5.0));

    let many = method("methods.Version", "many");
    let version = &made;
    assert_eq!(many.call_as::<i64>((version, 1))?, 117);
    assert_eq!(many.call_as::<i64>((version, 1, 2))?, 109);
    assert_eq!(many.call_as::<i64>((version, 1, 2, 3))?, 105);
    assert_eq!(many.call_as::<i64>((version, 1, &marker, "c", 3))?, 113);
    let error = many.call((version,)).unwrap_err();
    let signature = "methods.Version.many(self: methods.Version, a: int, b: int, c: int)";
    assert_eq!(error.message(), format!("{signature}: argument 'a' is missing"));
    Ok(())
}

#[test]
fn properties() -> Result<()> {
    let object = point(3.0, 4.0).into_any();
    assert_eq!(object.field("length")?.to::<f64>()?, 5.0);
    assert_eq!(object.field("direction")?.to::<f64>()?, 4f64.atan2(3.0));
    let error = point(0.0, 0.0).into_any().field("direction").unwrap_err();
    assert_eq!((error.kind(), error.message()), ("ValueError", "the origin has no direction"));
    assert!(error.backtrace().contains("methods.Point.direction"), "{}", error.backtrace());
    Ok(())
}

#[test]
fn what_makes_and_copies_objects_passes_over_properties() -> Result<()> {
    let here = point(3.0, 4.0);
    let json = to_json(&here)?;
    let graph: serde_json::Value = serde_json::from_str(&json).unwrap();
    let data = serde_json::json!({"x": 3.0, "y": 4.0, "length": null, "direction": null});
    assert_eq!(graph["nodes"][graph["root_index"].as_u64().unwrap() as usize]["data"], data);
    let loaded = from_json(&json)?;
    assert_eq!(loaded.field("length")?.to::<f64>()?, 5.0);
    let copy = structural::deep_copy(&here)?;
    assert!(!copy.ptr_eq(&here) && copy.equal(&here));
    // Only values from a loader or a copier are ignored.
    let setter = *info("methods.Point").own_fields().find(|field| field.name() == "length").unwrap().as_raw();
    assert!(!setter.setter.is_null());
    let error = set_field(&here, "length", 6.0).unwrap_err();
    assert_eq!(error.kind(), "AttributeError");
    assert_eq!(error.message(), "a property is computed from the fields of its object and cannot be set");
    Ok(())
}

/// Sets a field as other languages do.
fn set_field(object: &ObjRef<Point>, name: &str, value: f64) -> Result<()> {
    let field = info("methods.Point").own_fields().find(|field| field.name() == name).unwrap();
    let any = object.clone().into_any();
    // SAFETY: the field belongs to the object, which is alive; setters of Rust fields ensure that
    // it is not read meanwhile.
    unsafe { field.set(any.as_view().as_raw().payload.v_obj, Any::from(value).as_view()) }
}

#[test]
fn a_method_call_ends_that_fields_are_set() -> Result<()> {
    let set = |object: &Any, value: f64| {
        let field = info("methods.Point").own_fields().find(|field| field.name() == "x").unwrap();
        // SAFETY: as above.
        unsafe { field.set(object.as_view().as_raw().payload.v_obj, Any::from(value).as_view()) }
    };
    let new = attribute::<Function>("methods.Point", "__ffi_init__")?;
    let object = new.call((1.0, 2.0))?;
    set(&object, 3.0)?;
    assert_eq!(object.field("x")?.to::<f64>()?, 3.0, "there is one owner, and no Rust code reads");
    let count = || object.clone().to::<ObjRef<Point>>().map(|point| point.strong_count());
    assert_eq!(object.field("length")?.to::<f64>()?, 3f64.hypot(2.0));
    let error = set(&object, 4.0).unwrap_err();
    assert!(error.message().contains("read-only"), "{}", error.message());
    assert_eq!(count()?, 3, "calls left no reference behind");
    Ok(())
}

#[derive(Object, Clone)]
#[object(key = "methods.Steady")]
#[repr(C)]
pub struct Steady {
    pub value: String,
}

#[object_methods]
impl Steady {
    /// Returns whether the object stays unchanged while a method reads it.
    pub fn is_steady(&self) -> bool {
        let address = |text: &String| (text.as_ptr() as usize, text.len());
        let before = address(std::hint::black_box(&self.value));
        (0..2000).for_each(|_| std::hint::spin_loop());
        address(std::hint::black_box(&self.value)) == before && self.value.starts_with("value")
    }
}

#[test]
fn nobody_writes_while_a_method_reads() -> Result<()> {
    let new = attribute::<Function>("methods.Steady", "__ffi_new__")?;
    let is_steady = method("methods.Steady", "is_steady");
    let mut written = 0;
    for round in 0..300 {
        let object = new.call(())?;
        let raw = object.as_view().as_raw().bits() as usize;
        let set = |text: String| {
            let field = info("methods.Steady").own_fields().next().unwrap();
            // SAFETY: the field belongs to the object, which is alive; its setter ensures that it
            // is not read meanwhile.
            unsafe { field.set(raw as *mut _, Any::from(text).as_view()) }
        };
        set("value".to_owned())?;
        written += std::thread::scope(|scope| {
            // Later in some rounds, so that the setter comes first.
            let reader = scope.spawn(|| {
                (0..round % 20).for_each(|_| std::thread::yield_now());
                is_steady.call_as::<bool>((&object,))
            });
            let writer = scope
                .spawn(|| (round % 7..200).take_while(|turn| set(format!("value {round} {turn}")).is_ok()).count());
            assert!(reader.join().unwrap().unwrap());
            writer.join().unwrap()
        });
        assert!(set("late".to_owned()).is_err(), "a method has seen the object");
    }
    assert!(written > 0, "no setter ever came before the method");
    Ok(())
}

/// A family of types with common methods.
#[derive(Object)]
#[object(key = "methods.Shape")]
#[repr(C, u32)]
pub enum Shape {
    /// All sides equal.
    Square {
        /// Length of a side.
        side: f64,
    },
    /// Round.
    Circle {
        /// Its half width.
        radius: f64,
    },
}

#[object_methods]
impl Shape {
    pub fn area(&self) -> f64 {
        match self {
            Self::Square { side } => side * side,
            Self::Circle { radius } => std::f64::consts::PI * radius * radius,
        }
    }

    pub fn square(side: f64) -> Self {
        Self::Square { side }
    }

    pub fn larger(this: &ObjRef<Self>, other: &ObjRef<Self>) -> ObjRef<Self> {
        if this.area() < other.area() { other.clone() } else { this.clone() }
    }
}

#[test]
fn methods_of_families() -> Result<()> {
    let square = method("methods.Shape", "square").call_as::<ObjRef<Shape>>((2.0,))?;
    assert_eq!(square.type_key(), "methods.Shape.Square");
    let circle = ObjRef::new(Shape::Circle { radius: 0.5 });
    assert_eq!(method("methods.Shape", "area").call_as::<f64>((&square,))?, 4.0);
    assert!(method("methods.Shape", "larger").call_as::<ObjRef<Shape>>((&circle, &square))?.ptr_eq(&square));
    let error = method("methods.Shape", "area").call((point(1.0, 1.0),)).unwrap_err();
    assert!(error.message().ends_with("argument 'self': expected methods.Shape, got methods.Point"), "{error}");
    Ok(())
}

/// A point with a name.
#[derive(Object)]
#[object(key = "methods.Named")]
#[repr(C)]
pub struct Named {
    #[base]
    point: Point,
    pub name: String,
}

#[object_methods]
impl Named {
    #[init]
    fn new(name: String, x: f64, #[default(0.0)] y: f64) -> Self {
        Self { point: Point { x, y }, name }
    }
}

#[test]
fn methods_of_the_parent() -> Result<()> {
    let named = attribute::<Function>("methods.Named", "__ffi_init__")?.call(("here", 3, 4))?;
    let moved = method("methods.Point", "moved").call_as::<ObjRef<Point>>((&named, &named))?;
    assert_eq!((moved.x, moved.y), (6.0, 8.0));
    assert!(method("methods.Point", "same").call_as::<ObjRef<Point>>((&named,))?.is::<Named>());
    assert_eq!(named.field("length")?.to::<f64>()?, 5.0);
    Ok(())
}

#[test]
fn operators() -> Result<()> {
    let (a, b, c) = (point(3.0, 4.0), point(3.0, 4.0), point(6.0, 8.0));
    assert_eq!(repr(&a)?, "<3, 4>");
    let nested = Map::from_iter([("a".to_owned(), a.clone())]);
    assert_eq!(repr(&nested)?, "{\"a\": <3, 4>}");
    assert!(structural::recursive_equal(&a, &b)?);
    assert!(!structural::recursive_equal(&a, &c)?);
    let hash = |point: &ObjRef<Point>| structural::recursive_hash(point);
    assert_eq!(hash(&a)?, a.hash());
    assert_eq!(hash(&a)?, hash(&b)?);
    for (left, right, expect) in [(&a, &c, Ordering::Less), (&a, &b, Ordering::Equal), (&c, &a, Ordering::Greater)] {
        assert_eq!(structural::recursive_compare(left, right)?, expect);
    }

    let version = |text: &str, x: f64| ObjRef::new(Version { text: text.to_owned(), place: point(x, 0.0) });
    assert_eq!(repr(&version("1.2", 0.0))?, "v1.2", "str serves as repr where there is none");
    assert_eq!(method("methods.Version", "__str__").call_as::<String>((version("1.2", 0.0),))?, "v1.2");
    let compare = |left, right| structural::recursive_compare(&left, &right);
    assert_eq!(compare(version("1", 5.0), version("2", 1.0))?, Ordering::Less);
    assert_eq!(compare(version("2", 1.0), version("2", 5.0))?, Ordering::Less, "by the nested object");
    assert_eq!(compare(version("2", 5.0), version("2", 5.0))?, Ordering::Equal);
    Ok(())
}

#[test]
fn type_attributes() -> Result<()> {
    assert_eq!(attribute::<(f64, f64)>("methods.Point", "methods.origin")?, (0.0, 0.0));
    let describe = attribute::<Function>("methods.Point", "methods.describe")?;
    assert_eq!(describe.call_as::<String>((point(2.0, 0.0), "at "))?, "at 3");
    Ok(())
}

#[test]
fn errors_name_the_method() {
    let moved = method("methods.Point", "moved");
    let signature = "methods.Point.moved(self: methods.Point, by: methods.Point, times: float)";
    let error = moved.call((1, 2)).unwrap_err();
    assert_eq!(error.message(), format!("{signature}: argument 'self': expected methods.Point, got int"));
    let error = moved.call((point(1.0, 1.0), "x")).unwrap_err();
    assert_eq!(error.message(), format!("{signature}: argument 'by': expected methods.Point, got str"));
    let same = method("methods.Point", "same");
    let error = same.call(()).unwrap_err();
    assert_eq!(error.message(), "methods.Point.same(self: methods.Point): expected 1 argument, got 0");
    let error: Error = method("methods.Point", "panics").call((point(1.0, 1.0),)).unwrap_err();
    assert_eq!(error.kind(), "InternalError");
    assert!(error.message().ends_with("of 1"), "{}", error.message());
}
