//! The macros of the crate `kernpack`. Use them through that crate, which re-exports them.
//!
//! The entry points here only hand over to `kernpack-macros-backend`, a normal library, so that parsing and expansion
//! have unit tests.

use kernpack_macros_backend::{Environment, expand_library, expand_object, expand_object_methods, expand_packed_func};
use proc_macro::{Span, TokenStream};

/// Exports a free function as a packed function, callable from every language that loads the library.
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
/// The library then has the symbol `__tvm_ffi_<name>`, metadata and documentation symbols beside it, and registers the
/// global function `<crate>.<name>` when it is loaded. The function itself stays as it is and can be called from Rust.
///
/// Options:
/// - `name = "..."`: the exported name. A name with a `.` is also the global name, as it is.
/// - `parallel`: the function is called for each element or row of tensors, on all CPUs; see [below](#parallel-functions).
/// - `grain = N`: with `parallel`, how many elements or rows a thread takes at a time, at least.
/// - `global = false`: register no global function.
/// - `crate = path`: where the `kernpack` crate is, when it is renamed or re-exported.
///
/// Parameters and results are the types that implement `FromAny` and `IntoReturn`: numbers, `bool`, text, bytes,
/// `Option`, `Vec`, tuples, maps, tensors, functions, modules, objects. An object may be taken as `&T` (or `&ObjRef<T>`), and a `T` that is returned
/// becomes a new object; `&Tensor`, `&String`, `&Vec<..>` and their like are lent for the call, too. A function may return `Result<T, E>` with any
/// error that converts to `kernpack::Error`. Lifetimes are fine; type parameters, `async`, `unsafe`, `extern` and
/// `self` are compile errors that say what to write instead.
///
/// # Defaults
/// A parameter may have a default, `#[default(expression)]`, and one at the end that is an `Option` is `None` by default: callers in other languages
/// may leave these arguments away. The expression is evaluated for each call that does. Rust calls the function with all of them.
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
/// # Parallel functions
/// With `parallel`, a parameter `&f32` is an element of a tensor, `&[f32]` a row (all of its last axis), and with `&mut` it is written to. Every
/// other parameter is an argument that is the same for all calls: by value where it is `Copy`, else by reference, as in `&TensorView<f32>`. The
/// packed function takes the tensors whole.
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
/// The function returns nothing, an element (the results become a new tensor), or a `Result` of these. Tensors that are read are broadcast as in
/// NumPy; strides do not matter, but a row's elements lie side by side; tensors that are written to share memory with no other argument. See
/// `kernpack::parallel` for loops of your own.
#[proc_macro_attribute]
pub fn packed_func(options: TokenStream, item: TokenStream) -> TokenStream {
    let here = Span::call_site();
    let environment = Environment::read_for_item(here.local_file().as_deref(), here.line(), here.column());
    expand_packed_func(options.into(), item.into(), &environment).into()
}

/// Makes a struct an object type, which other languages hold by reference, and whose public fields they see. On an enum, see
/// [below](#enums-without-data).
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
/// The type is registered when the library is loaded, with its doc comments. Other languages then read its fields, and create,
/// print, compare, hash, copy, serialize and walk its objects. The derive also implements `VisitAttrs` and, for a type with a
/// base, `Deref` to it.
///
/// A struct needs `#[repr(C)]`, named fields, no generic parameters, and fields that are `Send`, `Sync` and aligned to at most 8
/// bytes. Every mistake is a compile error at its place that says what to write instead.
///
/// # Options of the type: `#[object(...)]`
/// - `key = "..."`: the type's name in all languages, with a namespace. Required.
/// - `structural = "..."`: how structural equality and hash take its objects. `"tree"` (without the option): by content;
///   `"const_tree"`: by content, without variables inside; `"dag"`: by content, where sharing matters; `"var"`: as a variable,
///   which a mapping binds; `"singleton"`: by address; `"unsupported"`: not at all.
/// - `child_slots = N`: keeps N type indices next to its own for subtypes, which makes checks for the type quicker.
/// - `final`: no type may be derived from it. (Python's `@py_class` makes such a type all the same; Rust code refuses its objects.)
/// - `init = false`: other languages get no constructor made of the fields.
/// - `create = false`: other languages cannot create objects at all, by no constructor, copy or file; only Rust makes them.
/// - `crate = path`: where the `kernpack` crate is, when it is renamed or re-exported.
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
/// The first field may be the parent type's value. Its fields come first in all languages, and `Deref` leads to them.
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
/// Other languages see `pub` fields, and private ones that have the attribute. They cannot change what Rust holds references to.
///
/// - `writable`: they may set the field at any time. Its type is `Field<T>` or an atomic number, which are made for that.
/// - `default = expr`: the field's value when an object is created without it; an expression of the field's type, evaluated once (for each object
///   where the type is or has a `List` or `Dict`, which all objects would share otherwise).
/// - `default_factory = function`: the same, made by a function or closure for each object.
/// - `kw_only`: the constructor takes it by name only.
/// - `init = false`: the constructor does not take it; its default is used.
/// - `repr = false`, `compare = false`, `hash = false`: printing, comparing and hashing leave it out.
/// - `structural = "..."`: structural equality and hash leave it out (`"ignore"`), or find definitions of variables in it: `"def"`
///   like a function's parameters, whose types may define variables, too; `"def_simple"` like a `let`, whose type only uses them.
/// - `name = "..."`: what other languages call it. In Python a parameter of the constructor must not be `self` or a keyword (`lambda`,
///   `in`, `from`): binding a class to such a type fails. Give these fields another name, or `init = false`.
/// - `skip`: other languages do not see it. `default` and `default_factory` then say how it is made when one of them creates an
///   object. Without them only Rust makes objects, because what others do not see would be lost in their copies and files.
///
/// Objects can be copied (`copy`, `deepcopy`, `make_mut`) and rewritten when all fields are `Clone` or atomic, the hidden ones as
/// well, or when the struct itself is `Clone`, which then says what a copy is. Constructors and JSON do not need that.
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
/// `#[object(key = "...", enum = "int")]` or `enum = "str"` makes such an enum one of the ABI, derived from `ffi.IntEnum` or
/// `ffi.StrEnum`. The Rust enum is the value itself, of parameters, results, fields and elements. Other languages have one object
/// for each variant; in its place the discriminant (`"int"`) or the name (`"str"`) may be passed.
///
/// - `rename_all = "..."`: how names of variants are written for other languages: `lowercase`, `UPPERCASE`, `snake_case`,
///   `SCREAMING_SNAKE_CASE` or `kebab-case`.
/// - on a variant, `#[object(name = "...")]`: the name of this one.
///
/// Derive `Clone` as well for fields of this type. `EnumType` has the names and the list of all variants.
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
/// Such an enum is a family of object types: the enum is the parent type, and each variant is a type of its own, with the key
/// `<key of the enum>.<variant>` unless `#[object(key = "...")]` on the variant says another. `structural = "..."` on a variant is for
/// that one, as `"var"` for the variables among expressions; the other options are the enum's. It needs `#[repr(C, u32)]`, and named
/// fields, which take the options of a struct's fields; all are visible to other languages, but for those with `#[field(skip)]`.
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

/// Makes the functions of an inherent impl methods of an object type, which other languages call.
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
/// The impl stays as it is, and its functions can be called from Rust as before. Each `pub fn` becomes a method with its
/// documentation and type schema; private functions are left alone, unless one of these attributes stands on them:
///
/// - `#[method(name = "...")]`: a method under another name. Python's names for operators work: `__add__`, `__len__`,
///   `__getitem__`, `__contains__`, `__call__`, `__or__`, `__enter__` and `__exit__` and the like; `__iter__` may return a list of the elements, or an object with
///   `__next__`, which ends by an error of kind `StopIteration`. Extension modules and wheels have all of them. A class that is written by hand for the stock
///   package lacks `__call__`, `__or__`, `__ror__` and `__str__`: that package leaves away a method
///   whose name the Python class has already, and every class has these. The class can define them: `def __or__(self, other):
///   return self.union(other)`. For the same reason a method of a derived type does not replace one of the same name that the
///   Python class of its parent has; there, too, the class says it itself, or one method of the parent asks for the type.
/// - `#[init]`: the constructor, in place of the one that is made of the fields. It returns `Self`, `ObjRef<Self>` or a `Result` of
///   one of these, and takes arguments by place and by name.
///   Copies with other values (`copy.replace`), JSON, `pickle` and rewriting build objects of the fields without it: where other code
///   relies on what it checks, write `create = false` and let other languages make objects by a static method.
/// - `#[getter]`, `#[getter(name = "...")]`: a property: computed from the object each time it is read. Other languages see it as a
///   read-only field that printing, comparing, hashing, shallow copies, JSON and structural operations leave out. But a deep copy
///   reads it and copies what it gives: a property that makes a new object of its own type each time has no end then, and a
///   `Function` cannot be copied. And the stock library computes it before it leaves it out of JSON: where the property
///   gives an error, JSON, `pickle` and deep copies of that object give it, too. Make such properties methods.
/// - `#[operator(...)]`: what languages do with an object without naming a method:
///   - `repr`: `fn(&self) -> String`. Python's `repr()` and, unless it has another, `str()`.
///   - `str`: `fn(&self) -> String`. The method `__str__`; without a `repr`, it is that as well. Python's `str()` always shows the
///     `repr`, unless its class says `def __str__(self)` itself.
///   - `eq`: `fn(&self, &Self) -> bool` and `hash`: `fn(&self) -> u64`. For `==` and `hash()` of a `@tvm_ffi.dataclasses.c_class`
///     and for `RecursiveEq` and `RecursiveHash`. Objects that are equal have one hash; a type with `eq` and without `hash` is
///     not hashable.
///   - `lt`: `fn(&self, &Self) -> bool`, or `compare`: `fn(&self, &Self) -> Ordering`. For `<`, `<=`, `>` and `>=`.
///
///   All but `str` and `lt` may have one more parameter, a `Function` that does the same to a nested value: it knows what is being
///   visited, so it ends on objects that contain themselves. A `Result` of the result may be returned. Types derived from this one
///   do not inherit these operators (as type attributes in general), unlike methods.
/// - `#[type_attr(name = "...")]` on a function or a `const`: a type attribute, which runtimes look up by the type.
/// - `#[skip]`: a `pub fn` that other languages do not see.
///
/// A parameter may have a default, `#[default(expression)]`: the expression is evaluated for each call that leaves the argument
/// away. A parameter at the end that is an `Option` may be left away without one. An extension module takes all arguments by name, too; the package
/// tvm_ffi those of constructors only. Parameters and results are those of
/// [`packed_func`] (`Option<ObjRef<T>>` for an object that may be missing), and `Self` as a
/// result, alone or in an `Option` or `Result`. `self` is `&self`: others hold references to the object, too. Where the reference
/// is needed, the first parameter is `this: &ObjRef<Self>`, because stable Rust has no `self` of that type.
///
/// A type may have several such blocks. `#[object_methods(crate = path)]` says where the `kernpack` crate is.
#[proc_macro_attribute]
pub fn object_methods(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_object_methods(options.into(), item.into(), &Environment::read()).into()
}

/// Makes the crate a library of packed functions, and takes in what its `build.rs` made. Write it once, in the crate
/// root.
///
/// ```
/// kernpack::library!();
/// # fn main() {}
/// ```
///
/// A crate can be a library of its own and a part of others: what it registers is registered by each artifact that links it.
/// rustc links the whole of a dependency, with all its functions and types, as soon as code refers to something in it, and
/// nothing of a dependency that no code refers to. `with` refers to each crate that it names:
///
/// ```
/// # mod shapes { pub use super::KERNPACK_LIBRARY_V1; }
/// # mod colors { pub use super::KERNPACK_LIBRARY_V1; }
/// kernpack::library!(with = [shapes, colors]);
/// # fn main() {}
/// ```
///
/// A dependency that calls `library!()` and was left out is an error when the library is loaded, which names the crate and this
/// remedy: `Module::load` returns it, and where another language loads the library it is printed to stderr. (`library!()` notes the
/// dependencies that cargo gives to the compiler and that call `library!()` themselves; what is loaded compares the notes of all its
/// crates with the crates that it has.) `without = [shapes]` says that the dependency is meant to stay out, because it is loaded as a
/// library of its own, say.
///
/// Two libraries may have a crate in common, in one version, and are loaded in any order: its types are the same types, and its
/// global functions are those of the library that came first. What `build.rs` made for a dependency is there as global functions,
/// too, but only the library's own crate exports its kernels by name.
///
/// Options:
/// - `with = [...]`: crates that belong to this library, as code spells them. Each must call `library!()` in its root.
/// - `without = [...]`: dependencies that do not.
/// - `crate = path`: where the `kernpack` crate is, when it is renamed or re-exported.
///
/// In a `staticlib` other linkers have the last word; give them the archive between `-Wl,--whole-archive` and
/// `-Wl,--no-whole-archive`.
#[proc_macro]
pub fn library(input: TokenStream) -> TokenStream {
    let source = Span::call_site().local_file();
    expand_library(input.into(), &Environment::read_for_library(source)).into()
}
