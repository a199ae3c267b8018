//! The macros of the crate `kernpack`. Use them through that crate, which re-exports them.
//!
//! The entry points here only call `kernpack-macros-backend`, a normal library, so that parsing and
//! expansion have unit tests.

use kernpack_macros_backend::{
    Environment, expand_constant, expand_library, expand_object, expand_object_methods, expand_packed_func,
};
use proc_macro::{Span, TokenStream};

/// Exports a free function as a packed function, callable from every language that loads the
/// library.
///
/// ```
/// use kernpack::packed_func;
///
/// /// Adds two integers.
/// #[packed_func(name = "macros.add")]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// let anyone = kernpack::Function::global("macros.add")?;
/// assert_eq!(anyone.call_as::<i64>((add(1, 2), 4))?, 7);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// The library then has the symbol `__tvm_ffi_<name>` with metadata and documentation symbols, and
/// registers the global function `<crate>.<name>` when it is loaded. The function itself is
/// unchanged and can be called from Rust.
///
/// Options:
/// - `name = "..."`: the exported name. A name with a `.` is also the global name, unchanged.
/// - `signature = "..."`: the parameters as in Python; see [below](#signatures).
/// - `parallel`: the function is called for each element or row of tensors, on all CPUs; see
///   [below](#parallel-functions).
/// - `grain = N`: with `parallel`, the minimum number of elements or rows that a thread takes at a
///   time.
/// - `global = false`: register no global function.
/// - `crate = path`: the path of the `kernpack` crate, if it is renamed or re-exported.
///
/// Parameters and results are the types that implement `FromAny` and `IntoReturn`: numbers, `bool`,
/// text, bytes, `Option`, `Vec`, tuples, maps, tensors, functions, modules, objects. A parameter
/// may be `&T` (or `&ObjRef<T>`) for an object, and a returned `T` becomes a new object; `&Tensor`,
/// `&String`, `&Vec<..>` and similar types are borrowed for the call, too. A function may return
/// `Result<T, E>` with any error that converts to `kernpack::Error`. Lifetimes are allowed; type
/// parameters, `async`, `unsafe`, `extern` and `self` are compile errors with advice.
///
/// # Defaults
/// A parameter may have a default, `#[default(expression)]`, and an `Option` at the end defaults to
/// `None`: callers in other languages may omit these arguments. The expression is evaluated for
/// each call that omits the argument. Rust callers pass all arguments.
///
/// ```
/// use kernpack::{Function, packed_func};
///
/// /// Multiplies a number, and adds another.
/// #[packed_func(name = "macros.scaled")]
/// fn scaled(x: f64, #[default(0.5)] gain: f64, offset: Option<f64>) -> f64 {
///     x * gain + offset.unwrap_or_default()
/// }
///
/// let function = Function::global("macros.scaled")?;
/// assert_eq!(function.call_as::<f64>((8.0,))?, 4.0);
/// assert_eq!(function.call_as::<f64>((8.0, 2.0, 1.0))?, scaled(8.0, 2.0, Some(1.0)));
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Signatures
/// `signature = "(data, /, *rest, key=None, **options)"` declares how Python passes the arguments,
/// in Python's syntax: parameters before `/` by position only, those after `*` by name only,
/// `*rest` and `**options` for all further arguments. The names and their order are those of the
/// Rust function. `*rest` is a `Vec<T>` or an `Array<T>`, and `**options` a `HashMap<String, T>`, a
/// `BTreeMap<String, T>` or a `Map<Str, T>`, which keeps the order of the call.
///
/// A default is `None`, `True`, `False`, a number, a text or `[]`. For another one the signature
/// has `key=...`, and the parameter has `#[default(expression)]`. A parameter without `=` is
/// required, also if it is an `Option`.
///
/// ```
/// use std::collections::HashMap;
///
/// use kernpack::{Function, packed_func};
///
/// #[packed_func(name = "macros.pack", signature = "(data, /, *parts, level=6, **options)")]
/// fn pack(data: &[u8], parts: Vec<i64>, level: i64, options: HashMap<String, i64>) -> i64 {
///     data.len() as i64 + parts.len() as i64 + level + options.len() as i64
/// }
///
/// // In Python: pack(b"abc", 1, 2, window=15)
/// let options = HashMap::from([("window", 15)]);
/// let function = Function::global("macros.pack")?;
/// assert_eq!(function.call_as::<i64>((&b"abc"[..], vec![1, 2], 6, options))?, 12);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// An extension module binds arguments by the signature, with the exceptions of a Python function,
/// and `inspect.signature` and the stubs show it. Callers through the C ABI (Rust, C++, `tvm_ffi`)
/// pass all arguments by position as before, with a list for `*parts` and a map for `**options`.
///
/// # Parallel functions
/// With `parallel`, a parameter `&f32` is an element of a tensor, and `&[f32]` is a row (all of its
/// last axis). With `&mut`, the function writes to it. Every other parameter is an argument that is
/// the same for all calls: by value if it is `Copy`, otherwise by reference, as in
/// `&TensorView<f32>`. The packed function takes whole tensors.
///
/// ```
/// use kernpack::{Function, Tensor, packed_func};
///
/// /// Adds a multiple.
/// #[packed_func(name = "macros.saxpy", parallel)]
/// fn saxpy(x: &f32, y: &mut f32, a: f32) {
///     *y += a * x;
/// }
///
/// /// The length of each row.
/// #[packed_func(name = "macros.norm", parallel)]
/// fn norm(row: &[f32]) -> f32 {
///     row.iter().map(|x| x * x).sum::<f32>().sqrt()
/// }
///
/// let (x, y) = (Tensor::from_vec(vec![3.0f32, 4.0], &[2])?, Tensor::zeros::<f32>(&[2])?);
/// Function::global("macros.saxpy")?.call((&x, &y, 2.0))?;
/// assert_eq!(y.view::<f32>()?.to_vec(), [6.0, 8.0]);
/// let length: Tensor = Function::global("macros.norm")?.call_as((&x,))?;
/// assert_eq!(length.view::<f32>()?.to_vec(), [5.0]);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// The function returns nothing, an element (the results become a new tensor), or a `Result` of
/// these. Input tensors are broadcast as in NumPy. Strides are arbitrary, but the elements of a row
/// must be contiguous. Tensors that are written must not share memory with any other argument. See
/// `kernpack::parallel` for custom loops.
#[proc_macro_attribute]
pub fn packed_func(options: TokenStream, item: TokenStream) -> TokenStream {
    let here = Span::call_site();
    let environment = Environment::read_for_item(here.local_file().as_deref(), here.line(), here.column());
    expand_packed_func(options.into(), item.into(), &environment).into()
}

/// Exports a constant.
///
/// ```
/// use kernpack::{Function, constant};
///
/// /// The size of a key in bytes.
/// #[constant(name = "macros.KEY_SIZE")]
/// const KEY_SIZE: i64 = 32;
///
/// assert_eq!(Function::global("macros.KEY_SIZE")?.call_as::<i64>(())?, KEY_SIZE);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// In an extension module, and in the package of a wheel, it is an attribute of the module. Callers
/// through the C ABI get it from a function without parameters, because libraries only have
/// functions. The options are `name`, `global` and `crate`, as for
/// [`packed_func`](macro@packed_func). The type is one that a function may return.
/// `#[constant(name = "__version__")]` on a constant with `env!("CARGO_PKG_VERSION")` is the
/// version of a module.
#[proc_macro_attribute]
pub fn constant(options: TokenStream, item: TokenStream) -> TokenStream {
    let here = Span::call_site();
    let environment = Environment::read_for_item(here.local_file().as_deref(), here.line(), here.column());
    expand_constant(options.into(), item.into(), &environment).into()
}

/// Makes a struct an object type, which other languages hold by reference, with access to its
/// public fields. For enums, see [below](#enums-without-data).
///
/// ```
/// use kernpack::{Array, ObjRef, Object};
///
/// /// Brightness counts of an image.
/// #[derive(Object)]
/// #[object(key = "macros.Histogram")]
/// #[repr(C)]
/// pub struct Histogram {
///     /// Pixels counted.
///     pub total: i64,
///     pub bins: Array<i64>,
/// }
///
/// let histogram = ObjRef::new(Histogram { total: 3, bins: Array::from(vec![1, 2]) });
/// assert_eq!(histogram.total, 3);
/// ```
///
/// The type is registered when the library is loaded, with its doc comments. Other languages can
/// then read its fields, and create, print, compare, hash, copy, serialize and traverse its
/// objects. The derive also implements `VisitAttrs` and, for a type with a base, `Deref` to it.
///
/// A struct needs `#[repr(C)]`, named fields, no generic parameters, and fields that are `Send`,
/// `Sync` and aligned to at most 8 bytes. Every error is a compile error at its place, with advice.
///
/// # Options of the type: `#[object(...)]`
/// - `key = "..."`: the type's name in all languages, with a namespace. Required.
/// - `structural = "..."`: the treatment of its objects by structural equality and hash. `"tree"`
///   (the default): by content; `"const_tree"`: by content, without variables inside; `"dag"`: by
///   content, where sharing matters; `"var"`: as a variable, which a mapping binds; `"singleton"`:
///   by address; `"unsupported"`: not at all.
/// - `child_slots = N`: reserves N type indices next to its own for subtypes, which makes type
///   checks faster.
/// - `final`: no type may be derived from it. (Python's `@py_class` derives from such a type
///   anyway; Rust code rejects its objects.)
/// - `init = false`: other languages get no constructor generated from the fields.
/// - `create = false`: other languages cannot create objects at all, neither by a constructor nor
///   by a copy or from a file; only Rust creates them.
/// - `crate = path`: the path of the `kernpack` crate, if it is renamed or re-exported.
///
/// ```
/// # mod reexports { pub use kernpack; }
/// use kernpack::{ObjRef, Object};
///
/// /// An open file: there is one object for each.
/// #[derive(Object)]
/// #[object(key = "macros.File", create = false, structural = "singleton", final)]
/// #[repr(C)]
/// pub struct File {
///     pub path: String,
///     handle: u64,
/// }
///
/// #[derive(Object)]
/// #[object(key = "macros.Node", structural = "dag", child_slots = 8, init = false, crate = reexports::kernpack)]
/// #[repr(C)]
/// pub struct Node {
///     pub inputs: Vec<ObjRef<Node>>,
/// }
/// ```
///
/// # The parent: `#[base]`
/// The first field may be the value of the parent type. Its fields come first in all languages, and
/// `Deref` gives access to them.
///
/// ```
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "macros.Shape")]
/// #[repr(C)]
/// pub struct Shape {
///     pub sides: i64,
/// }
///
/// #[derive(Object)]
/// #[object(key = "macros.Square")]
/// #[repr(C)]
/// pub struct Square {
///     #[base]
///     shape: Shape,
///     pub width: f64,
/// }
///
/// let square = ObjRef::new(Square { shape: Shape { sides: 4 }, width: 2.0 });
/// assert_eq!(square.sides, 4);
/// let shape: ObjRef<Shape> = square.upcast();
/// ```
///
/// # Fields and their options: `#[field(...)]`
/// Other languages see `pub` fields, and private ones with the attribute. They cannot change values
/// that Rust holds references to.
///
/// - `writable`: other languages may set the field at any time. Its type is `Field<T>` or an atomic
///   number, which are designed for that.
/// - `default = expr`: the field's value when an object is created without it; an expression of the
///   field's type, evaluated once (or for each object if the type is or contains a `List` or
///   `Dict`, which all objects would share otherwise).
/// - `default_factory = function`: the same, from a function or closure that is called for each
///   object.
/// - `kw_only`: the constructor accepts it only by name.
/// - `init = false`: the constructor does not accept it; its default is used.
/// - `repr = false`, `compare = false`, `hash = false`: excludes it from printing, comparing and
///   hashing.
/// - `structural = "..."`: structural equality and hash ignore it (`"ignore"`), or find definitions
///   of variables in it: `"def"` like a function's parameters, whose types may define variables,
///   too; `"def_simple"` like a `let`, whose type only uses them.
/// - `name = "..."`: its name in other languages. In Python a parameter of the constructor must not
///   be `self` or a keyword (`lambda`, `in`, `from`): binding a class to such a type fails. Give
///   these fields another name, or `init = false`.
/// - `skip`: hides it from other languages. `default` and `default_factory` then set its value when
///   another language creates an object. Without them only Rust creates objects, because hidden
///   values would be lost in copies and files of other languages.
///
/// Objects can be copied (`copy`, `deepcopy`, `make_mut`) and rewritten if all fields are `Clone`
/// or atomic, including the hidden ones, or if the struct itself is `Clone`, which then defines the
/// copy. Constructors and JSON do not require that.
///
/// ```
/// use std::sync::atomic::AtomicI64;
///
/// use kernpack::{Array, Field, ObjRef, Object};
///
/// pub struct Connection(String);
///
/// #[derive(Object)]
/// #[object(key = "macros.Task")]
/// #[repr(C)]
/// pub struct Task {
///     pub name: String,
///     #[field(default = 1)]
///     pub priority: i64,
///     #[field(default_factory = || Array::from(vec!["new".to_owned()]), kw_only)]
///     pub labels: Array<String>,
///     #[field(writable, default = Field::new("open".to_owned()))]
///     pub state: Field<String>,
///     #[field(writable, init = false, default_factory = AtomicI64::default, compare = false, hash = false)]
///     pub views: AtomicI64,
///     #[field(default = None, repr = false, structural = "ignore")]
///     pub note: Option<String>,
///     #[field(name = "type", default = 0)]
///     kind: i64,
///     #[field(skip, default_factory = Vec::new)]
///     pub cache: Vec<u8>,
///     #[field(skip, default = Connection("localhost".to_owned()))]
///     connection: Connection,
/// }
///
/// /// A function's parameters are variables that its body uses.
/// #[derive(Object)]
/// #[object(key = "macros.Lambda")]
/// #[repr(C)]
/// pub struct Lambda {
///     #[field(structural = "def")]
///     pub parameters: Array<ObjRef<Variable>>,
///     #[field(structural = "def_simple")]
///     pub name: Option<ObjRef<Variable>>,
///     pub body: kernpack::Any,
/// }
///
/// #[derive(Object)]
/// #[object(key = "macros.Variable", structural = "var")]
/// #[repr(C)]
/// pub struct Variable {
///     #[field(structural = "ignore")]
///     pub name: String,
/// }
/// ```
///
/// # Enums without data
/// `#[object(key = "...", enum = "int")]` or `enum = "str"` makes such an enum an enum of the ABI,
/// derived from `ffi.IntEnum` or `ffi.StrEnum`. The Rust enum is the value itself, in parameters,
/// results, fields and elements. Other languages have one object for each variant; the discriminant
/// (`"int"`) or the name (`"str"`) may be passed in its place.
///
/// - `rename_all = "..."`: the case of variant names in other languages: `lowercase`, `UPPERCASE`,
///   `snake_case`, `SCREAMING_SNAKE_CASE` or `kebab-case`.
/// - on a variant, `#[object(name = "...")]`: the name of this variant.
///
/// Also derive `Clone` for fields of this type. `EnumType` has the names and the list of all
/// variants.
///
/// ```
/// use kernpack::{EnumType, Function, Object};
///
/// #[derive(Object, Clone, Copy, PartialEq, Debug)]
/// #[object(key = "macros.Mode", enum = "int", rename_all = "SCREAMING_SNAKE_CASE")]
/// pub enum Mode {
///     Fast = 1,
///     VeryExact,
/// }
///
/// #[derive(Object, Clone, Copy, PartialEq, Debug)]
/// #[object(key = "macros.Layout", enum = "str")]
/// pub enum Layout {
///     #[object(name = "row major")]
///     RowMajor,
///     #[object(name = "column major")]
///     ColumnMajor,
/// }
///
/// let other = Function::from_fn(|mode: Mode| if mode == Mode::Fast { Mode::VeryExact } else { Mode::Fast });
/// assert_eq!(other.call_as::<Mode>((Mode::Fast,))?, Mode::VeryExact);
/// assert_eq!(other.call_as::<Mode>((2,))?, Mode::Fast);
/// assert_eq!(Mode::VeryExact.name(), "VERY_EXACT");
/// assert_eq!(Layout::variants().map(|layout| layout.name()).collect::<Vec<_>>(), ["row major", "column major"]);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Enums with data
/// Such an enum is a family of object types: the enum is the parent type, and each variant is a
/// separate type, with the key `<key of the enum>.<variant>` unless `#[object(key = "...")]` on the
/// variant sets another. `structural = "..."` on a variant applies to that variant, as `"var"` for
/// the variables among expressions; the other options are set on the enum. The enum needs
/// `#[repr(C, u32)]`, and named fields, which accept the options of a struct's fields. All fields
/// are visible to other languages, except those with `#[field(skip)]`.
///
/// ```
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "macros.Expr")]
/// #[repr(C, u32)]
/// pub enum Expr {
///     /// A number.
///     Const { value: i64 },
///     /// A sum.
///     Add { lhs: ObjRef<Expr>, rhs: ObjRef<Expr> },
///     #[object(key = "macros.Nothing")]
///     Nil,
/// }
///
/// fn evaluate(expr: &ObjRef<Expr>) -> i64 {
///     match &**expr {
///         Expr::Const { value } => *value,
///         Expr::Add { lhs, rhs } => evaluate(lhs) + evaluate(rhs),
///         Expr::Nil => 0,
///     }
/// }
///
/// let sum = ObjRef::new(Expr::Add { lhs: ObjRef::new(Expr::Const { value: 2 }), rhs: ObjRef::new(Expr::Nil) });
/// assert_eq!(evaluate(&sum), 2);
/// assert_eq!(sum.type_key(), "macros.Expr.Add");
/// ```
#[proc_macro_derive(Object, attributes(object, base, field))]
pub fn object(item: TokenStream) -> TokenStream {
    expand_object(item.into(), &Environment::read()).into()
}

/// Exports the functions of an inherent impl as methods of an object type to other languages.
///
/// ```
/// use kernpack::{ObjRef, Object, Result, bail, object_methods};
///
/// #[derive(Object)]
/// #[object(key = "macros.Point")]
/// #[repr(C)]
/// pub struct Point {
///     pub x: f64,
///     pub y: f64,
/// }
///
/// #[object_methods]
/// impl Point {
///     /// A point with a place. In Python: `Point(3)`, `Point(3, 4)`, `Point(3, y=4)`.
///     #[init]
///     pub fn new(x: f64, #[default(0.0)] y: f64) -> Result<Self> {
///         if x.is_nan() || y.is_nan() {
///             bail!(ValueError, "a point has a place");
///         }
///         Ok(Self { x, y })
///     }
///
///     /// A static method: it takes no object.
///     pub fn origin() -> Self {
///         Self { x: 0.0, y: 0.0 }
///     }
///
///     /// A method.
///     pub fn dot(&self, other: &Self) -> f64 {
///         self.x * other.x + self.y * other.y
///     }
///
///     /// A method that needs the reference itself.
///     pub fn or(this: &ObjRef<Self>, other: Option<ObjRef<Self>>) -> ObjRef<Self> {
///         other.unwrap_or_else(|| this.clone())
///     }
///
///     /// A property. In Python: `point.length`.
///     #[getter]
///     pub fn length(&self) -> f64 {
///         self.dot(self).sqrt()
///     }
///
///     #[operator(repr)]
///     fn repr(&self) -> String {
///         format!("({}, {})", self.x, self.y)
///     }
///
///     /// What `a + b` does in Python.
///     #[method(name = "__add__")]
///     pub fn plus(&self, other: &Self) -> Self {
///         Self { x: self.x + other.x, y: self.y + other.y }
///     }
///
///     /// For Rust alone.
///     #[skip]
///     pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
///         Self { x: f(self.x), y: f(self.y) }
///     }
/// }
///
/// let point = ObjRef::new(Point::new(3.0, 4.0)?);
/// assert_eq!(point.length(), 5.0);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// The impl is unchanged, and its functions can be called from Rust as before. Each `pub fn`
/// becomes a method with its documentation and type schema. Private functions are ignored, unless
/// they have one of these attributes:
///
/// - `#[method(class)]` on a function that returns `Self`, `ObjRef<Self>` or a `Result` of one: a
///   class method, which in Python returns an object of the class that it is called on, also of one
///   that Python derives; its `__init__` does not run. Without it, a function without `self` is a
///   static method.
/// - `#[method(signature = "(key, /, *, default=None)")]`: the parameters behind `self` as in
///   Python, as for [`packed_func`](macro@packed_func#signatures); also
///   `#[init(signature = "...")]`.
/// - `#[method(name = "...")]`: a method with another name. Python's names for operators work:
///   `__add__`, `__len__`, `__getitem__`, `__contains__`, `__call__`, `__or__`, `__enter__`,
///   `__exit__` and similar names; `__iter__` may return a list of the elements, or an object with
///   `__next__`, which ends with `None` of an `Option`, or an error of kind `StopIteration`. An
///   operator such as `__add__` does not apply to an operand of another type, or if it returns
///   `None` for an `Option`: an extension module returns `NotImplemented`, and Python tries the
///   other operand. `__iadd__` and the like without a result return the object. The key of
///   `__getitem__` may be a `kernpack::Subscript`, a position or a slice. Extension modules and
///   wheels support all of them. A class that is written by hand for the stock package lacks
///   `__call__`, `__or__`, `__ror__` and `__str__`: that package skips a method whose name the
///   Python class already has, and every class has these. The class can define them:
///   `def __or__(self, other): return self.union(other)`. For the same reason a method of a derived
///   type does not replace one with the same name that the Python class of its parent has. There,
///   too, the class must define it, or the method of the parent must check the type.
/// - `#[init]`: the constructor, which replaces the one generated from the fields. It returns
///   `Self`, `ObjRef<Self>` or a `Result` of one of these, and accepts arguments by position and by
///   name. Copies with other values (`copy.replace`), JSON, `pickle` and rewriting create objects
///   from the fields without it: if other code relies on its checks, use `create = false` and let
///   other languages create objects with a static method.
/// - `#[getter]`, `#[getter(name = "...")]`: a property, which is computed from the object each
///   time it is read. Other languages see it as a read-only field that printing, comparing,
///   hashing, shallow copies, JSON and structural operations ignore. But a deep copy reads it and
///   copies the result: a property that returns a new object of its own type each time never ends
///   then, and a `Function` cannot be copied. The stock library also computes it before it leaves
///   it out of JSON: if the property returns an error, JSON, `pickle` and deep copies of that
///   object return it, too. Make such properties methods.
/// - `#[setter]` on `set_x`, `#[setter(name = "x")]`: a method with one parameter beside the
///   object, which returns nothing or a `Result<()>`. In Python it writes the attribute `x`: a
///   `#[getter]`, a field that is not `writable`, also one of an ancestor, or an attribute that can
///   only be written. For callers through the C ABI it is the method `set_x`. Constructors, copies,
///   JSON and structural operations do not call it.
/// - `#[method(detach)]`, `#[init(detach)]`, `#[setter(detach)]`: an extension module releases
///   Python's lock for the duration of a call, as for [`packed_func`](macro@packed_func);
///   `detach = false` keeps it whatever the parameters are.
/// - `#[operator(...)]`: an operation that languages perform on an object without naming a method:
///   - `repr`: `fn(&self) -> String`. Python's `repr()` and, unless the type has another, `str()`.
///   - `str`: `fn(&self) -> String`. The method `__str__`; without a `repr`, it is that as well.
///     Python's `str()` always shows the `repr`, unless its class defines `def __str__(self)`
///     itself.
///   - `eq`: `fn(&self, &Self) -> bool` and `hash`: `fn(&self) -> u64`. For `==` and `hash()` of a
///     `@tvm_ffi.dataclasses.c_class` and for `RecursiveEq` and `RecursiveHash`. Equal objects must
///     have the same hash. A type with `eq` and without `hash` is not hashable.
///   - `lt`: `fn(&self, &Self) -> bool`, or `compare`: `fn(&self, &Self) -> Ordering`. For `<`,
///     `<=`, `>` and `>=`.
///   - `compare`: `fn(&self, &Self) -> Option<Ordering>`, a partial order, such as `partial_cmp`.
///     With `None`, all four are false, and so is `==`, unless the type has its own `eq`.
///   - `le`, `gt`, `ge`, `ne`: `fn(&self, &Self) -> bool`, each for its own operator. In a block
///     with one of the first three, `lt` is for `<` alone. Python uses `a < b` for `b > a`, and
///     the opposite of `==` for `!=`, where a type has only one of the two.
///
///   The other operand of a comparison may have any type that a parameter may have, such as `f64`,
///   `&Other` or `Any`. If it cannot be converted, or if the function returns `None` in place of a
///   `bool` (`fn(&self, Any) -> Option<bool>`), Python gets `NotImplemented`: it asks the other
///   operand, and then `==` is false and `<` is a TypeError. Callers through the C ABI get None.
///   Such comparisons, and all of the last two items, are methods with Python's names: derived
///   types inherit them, and classes that are written by hand for the stock package lack them.
///
///   `repr` and `hash`, and `eq` and `compare` of two objects with the results above, may have one
///   more parameter, a `Function` that performs the same operation on a nested value: it tracks the
///   objects that are being visited, so it terminates on objects that contain themselves. A
///   `Result` of the result may be returned. Types derived from this one do not inherit the other
///   operators (like all type attributes), unlike methods.
/// - `#[constant]`, `#[constant(name = "...")]` on a `const`: a constant of the class, which is an
///   attribute of the class in Python, and a static method without parameters for callers through
///   the C ABI.
/// - `#[type_attr(name = "...")]` on a function or a `const`: a type attribute, which runtimes look
///   up by type.
/// - `#[skip]`: hides a `pub fn` from other languages.
///
/// A parameter may have a default, `#[default(expression)]`: the expression is evaluated for each
/// call that omits the argument. An `Option` parameter at the end may be omitted without one. An
/// extension module accepts all arguments by name, too; the package tvm_ffi only those of
/// constructors. Parameters and results are those of [`packed_func`] (`Option<ObjRef<T>>` for an
/// object that may be missing), and `Self` as a result, alone or in an `Option` or `Result`. `self`
/// is `&self`, because others hold references to the object, too. If the reference is needed, the
/// first parameter is `this: &ObjRef<Self>`, because stable Rust does not allow `self` of that
/// type.
///
/// A type may have several such blocks. `#[object_methods(crate = path)]` sets the path of the
/// `kernpack` crate.
#[proc_macro_attribute]
pub fn object_methods(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_object_methods(options.into(), item.into(), &Environment::read()).into()
}

/// Makes the crate a library of packed functions, and includes the kernels that its `build.rs`
/// compiled. Call it once, in the crate root.
///
/// ```
/// kernpack::library!();
/// # fn main() {}
/// ```
///
/// A crate can be both a separate library and a part of others: its functions and types are
/// registered by each artifact that links it. rustc links the whole of a dependency, with all its
/// functions and types, as soon as code refers to an item in it, and nothing of a dependency that
/// no code refers to. `with` refers to each crate that it names:
///
/// ```
/// # mod shapes { pub use super::KERNPACK_LIBRARY_V1; }
/// # mod colors { pub use super::KERNPACK_LIBRARY_V1; }
/// kernpack::library!(with = [shapes, colors]);
/// # fn main() {}
/// ```
///
/// If a dependency that calls `library!()` was left out, loading the library is an error that names
/// the crate and this remedy: `Module::load` returns it, and if another language loads the library
/// it is printed to stderr. (`library!()` records the dependencies on the compiler's command line
/// that call `library!()` themselves; when the library is loaded, the records of all its crates are
/// compared with the crates that it contains.) `without = [shapes]` declares that the dependency is
/// left out on purpose, for example because it is loaded as a separate library.
///
/// Two libraries may have a crate in common, in one version, and may be loaded in any order: its
/// types are the same types, and its global functions are those of the library that was loaded
/// first. Kernels that `build.rs` compiled for a dependency are available as global functions, too,
/// but only the library's own crate exports its kernels by name.
///
/// Options:
/// - `with = [...]`: crates that belong to this library, by their names in code. Each must call
///   `library!()` in its root.
/// - `without = [...]`: dependencies that do not belong to it.
/// - `crate = path`: the path of the `kernpack` crate, if it is renamed or re-exported.
///
/// In a `staticlib` the final linker decides; pass it the archive between `-Wl,--whole-archive` and
/// `-Wl,--no-whole-archive`.
#[proc_macro]
pub fn library(input: TokenStream) -> TokenStream {
    let source = Span::call_site().local_file();
    expand_library(input.into(), &Environment::read_for_library(source)).into()
}
