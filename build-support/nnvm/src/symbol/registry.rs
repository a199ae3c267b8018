//! Operators by name, with extensible columns of attributes: every crate, and every language, can
//! add operators and cells.
//!
//! A cell has a priority (NNVM's `plevel`): one with a higher priority replaces it, and one with
//! the same priority is an error that names both.
//!
//! ```
//! use kernpack_nnvm::symbol::{Native, registry};
//!
//! // In a crate: a function in the distributed slice, which is called once.
//! #[linkme::distributed_slice(registry::OPERATORS)]
//! static OWN: fn(&mut registry::Registrar) = |operators| {
//!     operators
//!         .add("docs_twice")
//!         .describe("twice its input")
//!         .arguments(&["data"])
//!         .set("FInplaceOption", Native::Pairs(|_| Ok(vec![(0, 0)])));
//! };
//! assert_eq!(registry::find("docs_twice")?.doc(), "twice its input");
//! assert!(registry::find("docs_thrice").unwrap_err().to_string().contains("operator `docs_thrice` is not registered"));
//! # Ok::<(), kernpack_graph::GraphError>(())
//! ```

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};

use kernpack::{Any, Array, DataType, Function, Map, ObjRef, Object, Shape, Str, object_methods};
use kernpack_graph::{GraphError, Result, fail, require};
use linkme::distributed_slice;

use super::attr::{self, Param};
use super::native::Native;
use super::node::Node;

/// Functions that add operators. Each is called once, before the first operator is looked up.
#[distributed_slice]
pub static OPERATORS: [fn(&mut Registrar)];

/// The default priority of a cell.
pub const PRIORITY: i64 = 10;

/// The maximum number of inputs or outputs of a node.
const MOST: usize = 1 << 16;

/// A counted reference to an operator.
pub type OpRef = ObjRef<Op>;

/// A number of inputs or outputs.
#[derive(Clone)]
pub enum Arity {
    /// Always the same.
    Fixed(usize),
    /// It depends on the attributes.
    Native(fn(&Use) -> Result<usize>),
    /// Any number.
    Any,
    /// A function of another language, of the attributes.
    Foreign(Function),
}

/// The contents of a cell.
#[derive(Clone)]
pub enum Cell {
    /// A native function.
    Native(Native),
    /// A value or a function of any language.
    Value(Any),
}

struct Column {
    cell: Cell,
    priority: i64,
    /// The origin of the value, for messages.
    by: String,
}

struct Definition {
    doc: String,
    arguments: Vec<String>,
    params: Option<Vec<Param>>,
    inputs: Arity,
    outputs: Arity,
    level: i64,
    columns: BTreeMap<String, Column>,
}

/// An operator.
#[derive(Object)]
#[object(key = "kernpack.graph.Op", create = false, structural = "singleton")]
#[repr(C)]
pub struct Op {
    /// Its name.
    pub name: Str,
    #[field(skip)]
    definition: RwLock<Definition>,
}

/// Its name.
impl core::fmt::Debug for Op {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.name)
    }
}

/// An operator with the attributes of one of its calls.
#[derive(Clone)]
pub struct Use<'a> {
    /// The operator.
    pub op: OpRef,
    /// The attributes of the node.
    pub attrs: &'a Map<Str, Str>,
    /// The number of inputs of the node.
    pub num_inputs: usize,
}

/// Adds operators.
#[derive(Default)]
pub struct Registrar {
    operators: BTreeMap<String, OpRef>,
    problems: Vec<String>,
}

/// An operator that is being described.
pub struct Builder<'a> {
    op: OpRef,
    problems: &'a mut Vec<String>,
}

fn registry() -> &'static RwLock<Registrar> {
    static REGISTRY: OnceLock<RwLock<Registrar>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registrar = Registrar::default();
        for add in OPERATORS {
            add(&mut registrar);
        }
        RwLock::new(registrar)
    })
}

/// Returns the operator with a name.
///
/// # Errors
/// Returns an error for an unknown name.
pub fn find(name: &str) -> Result<OpRef> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    match registry.operators.get(name) {
        Some(op) => Ok(op.clone()),
        None => fail!(
            "operator `{name}` is not registered: `kernpack.graph.op_register` adds one, and `kernpack.graph.op_names` lists them"
        ),
    }
}

/// Returns the names of all operators, sorted.
pub fn names() -> Vec<String> {
    registry().read().unwrap_or_else(PoisonError::into_inner).operators.keys().cloned().collect()
}

/// Returns the errors of registrations: two cells with the same priority.
pub fn problems() -> Vec<String> {
    registry().read().unwrap_or_else(PoisonError::into_inner).problems.clone()
}

/// Registers an operator at run time. An existing one is an error.
///
/// # Errors
/// Returns an error if the name is taken or empty.
pub fn register(name: &str, doc: &str, arguments: Vec<String>, inputs: Arity, outputs: Arity) -> Result<OpRef> {
    require!(!name.is_empty() && name != "null", "an operator cannot be called `{name}`");
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    require!(
        !registry.operators.contains_key(name),
        "operator `{name}` is registered already: `kernpack.graph.op_set_attr` changes what it does"
    );
    let op = Op::new(name);
    {
        let mut definition = op.definition.write().unwrap_or_else(PoisonError::into_inner);
        doc.clone_into(&mut definition.doc);
        (definition.arguments, definition.inputs, definition.outputs) = (arguments, inputs, outputs);
    }
    registry.operators.insert(name.to_owned(), op.clone());
    Ok(op)
}

impl Registrar {
    /// Adds an operator, or returns the existing one.
    pub fn add(&mut self, name: &str) -> Builder<'_> {
        let op = self.operators.entry(name.to_owned()).or_insert_with(|| Op::new(name)).clone();
        Builder { op, problems: &mut self.problems }
    }
}

impl Builder<'_> {
    fn change(self, change: impl FnOnce(&mut Definition)) -> Self {
        change(&mut self.op.definition.write().unwrap_or_else(PoisonError::into_inner));
        self
    }

    /// Sets the description, in one sentence.
    #[must_use]
    pub fn describe(self, doc: &str) -> Self {
        self.change(|definition| doc.clone_into(&mut definition.doc))
    }

    /// Sets the names of its inputs, and thereby the number of inputs.
    #[must_use]
    pub fn arguments(self, names: &[&str]) -> Self {
        self.change(|definition| {
            definition.arguments = names.iter().map(|name| (*name).to_owned()).collect();
            definition.inputs = Arity::Fixed(names.len());
        })
    }

    /// Sets the number of inputs.
    #[must_use]
    pub fn inputs(self, inputs: Arity) -> Self {
        self.change(|definition| definition.inputs = inputs)
    }

    /// Sets the number of outputs. The default is 1.
    #[must_use]
    pub fn outputs(self, outputs: Arity) -> Self {
        self.change(|definition| definition.outputs = outputs)
    }

    /// Sets its attributes. Without this, attributes are not checked.
    #[must_use]
    pub fn params(self, params: &[Param]) -> Self {
        self.change(|definition| definition.params = Some(params.to_vec()))
    }

    /// Sets NNVM's level of support: 1 to 5.
    #[must_use]
    pub fn level(self, level: i64) -> Self {
        self.change(|definition| definition.level = level)
    }

    /// Sets a native function in a column.
    #[must_use]
    #[track_caller]
    pub fn set(self, key: &str, native: Native) -> Self {
        self.cell(key, Cell::Native(native))
    }

    /// Sets a value in a column.
    #[must_use]
    #[track_caller]
    pub fn value(self, key: &str, value: impl Into<Any>) -> Self {
        self.cell(key, Cell::Value(value.into()))
    }

    #[track_caller]
    fn cell(self, key: &str, cell: Cell) -> Self {
        let by = core::panic::Location::caller().to_string();
        if let Err(error) = self.op.set_cell(key, cell, PRIORITY, &by) {
            self.problems.push(error.to_string());
        }
        self
    }
}

impl Op {
    fn new(name: &str) -> OpRef {
        ObjRef::new(Self {
            name: name.into(),
            definition: RwLock::new(Definition {
                doc: String::new(),
                arguments: Vec::new(),
                params: None,
                inputs: Arity::Fixed(0),
                outputs: Arity::Fixed(1),
                level: 10,
                columns: BTreeMap::new(),
            }),
        })
    }

    fn definition(&self) -> RwLockReadGuard<'_, Definition> {
        self.definition.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a cell.
    ///
    /// # Errors
    /// Returns an error if there is one with the same priority.
    pub fn set_cell(&self, key: &str, cell: Cell, priority: i64, by: &str) -> Result<()> {
        let mut definition = self.definition.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = definition.columns.get(key) {
            require!(
                column.priority != priority,
                "attribute `{key}` of operator `{}` is set twice with priority {priority}, by {} and by {by}: give one a higher priority",
                self.name,
                column.by
            );
            if column.priority > priority {
                return Ok(());
            }
        }
        definition.columns.insert(key.to_owned(), Column { cell, priority, by: by.to_owned() });
        Ok(())
    }

    /// Returns a cell.
    pub fn cell(&self, key: &str) -> Option<Cell> {
        self.definition().columns.get(key).map(|column| column.cell.clone())
    }

    /// Returns the description.
    pub fn doc(&self) -> String {
        self.definition().doc.clone()
    }

    /// Returns true if it accepts any number of inputs.
    pub fn is_variadic(&self) -> bool {
        matches!(self.definition().inputs, Arity::Any)
    }

    /// Returns attributes with the defaults of missing ones.
    ///
    /// # Errors
    /// Returns an error for a missing required attribute, an unknown one, and one with an invalid
    /// value.
    pub fn all_attrs(&self, attrs: &Map<Str, Str>) -> Result<Map<Str, Str>> {
        self.check_attrs(attrs)?;
        let definition = self.definition();
        let missing = definition.params.iter().flatten().filter(|param| attrs.get(param.name).is_none());
        let defaults = missing.filter_map(|param| Some((Str::from(param.name), Str::from(param.default?))));
        Ok(attrs.iter().chain(defaults).collect())
    }

    /// Returns the values of all parameters, equal values with equal texts. `None` if the operator
    /// has no parameters, or if a value is missing or invalid.
    pub(super) fn param_values(&self, attrs: &Map<Str, Str>) -> Option<Vec<(String, String)>> {
        let definition = self.definition();
        let params = definition.params.as_ref().filter(|params| !params.is_empty())?;
        let value = |param: &Param| match (attrs.get(param.name), param.default) {
            (Some(text), _) => param.normalized(&text).ok(),
            (None, default) => param.normalized(default?).ok(),
        };
        params.iter().map(|param| Some((param.name.to_owned(), value(param)?))).collect()
    }

    /// Checks attributes.
    ///
    /// # Errors
    /// As for [`Op::all_attrs`].
    pub fn check_attrs(&self, attrs: &Map<Str, Str>) -> Result<()> {
        let definition = self.definition();
        let Some(params) = &definition.params else { return Ok(()) };
        let mut errors = Vec::new();
        for (key, value) in attrs.iter() {
            match params.iter().find(|param| param.name == key.as_str()) {
                Some(param) => errors.extend(param.check(&value).err()),
                None if key.starts_with("__") && key.ends_with("__") => {}
                None if params.is_empty() => {}
                None => {
                    let known = params.iter().map(|param| param.name).collect::<Vec<&str>>().join(", ");
                    errors.push(GraphError::new(format!("attribute `{key}` is unknown; known: {known}")));
                }
            }
        }
        for param in params.iter().filter(|param| param.default.is_none() && attrs.get(param.name).is_none()) {
            errors.push(GraphError::new(format!("attribute `{}` is missing", param.name)));
        }
        GraphError::all(errors).map_or(Ok(()), Err)
    }
}

/// The operator in other languages.
#[object_methods]
impl Op {
    /// The description.
    #[getter(name = "description")]
    fn description(&self) -> String {
        self.doc()
    }

    /// The names of its inputs, if they are always the same.
    #[getter]
    pub fn arguments(&self) -> Vec<String> {
        self.definition().arguments.clone()
    }

    /// NNVM's level of support: 1 to 5.
    #[getter]
    pub fn support_level(&self) -> i64 {
        self.definition().level
    }

    /// The names of its attributes with their defaults; "required" for those without.
    #[getter]
    pub fn params(&self) -> Map<Str, Str> {
        let definition = self.definition();
        let pairs = definition.params.iter().flatten();
        pairs.map(|param| (Str::from(param.name), Str::from(param.default.unwrap_or("required")))).collect()
    }
}

impl<'a> Use<'a> {
    /// Creates the view of an operator with the attributes of a node.
    pub fn new(op: &OpRef, node: &'a Node) -> Self {
        Self { op: op.clone(), attrs: &node.attrs, num_inputs: node.inputs.len() }
    }

    fn text_of(&self, name: &str) -> Result<Str> {
        if let Some(text) = self.attrs.get(name) {
            return Ok(text);
        }
        let definition = self.op.definition();
        let param = definition.params.iter().flatten().find(|param| param.name == name);
        match param.and_then(|param| param.default) {
            Some(default) => Ok(default.into()),
            None => fail!("attribute `{name}` is missing"),
        }
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        read(&self.text_of(name)?).map_err(|error| error.within(&format!("attribute `{name}`")))
    }

    /// Returns an attribute, or its default, as text.
    ///
    /// # Errors
    /// Returns an error if it is missing.
    pub fn text(&self, name: &str) -> Result<String> {
        self.read(name, |text| Ok(text.to_owned()))
    }

    /// Returns an integer.
    ///
    /// # Errors
    /// Returns an error if it is missing or invalid.
    pub fn int(&self, name: &str) -> Result<i64> {
        self.read(name, attr::int)
    }

    /// Returns an integer, or `None`.
    ///
    /// # Errors
    /// Returns an error if it is missing or invalid.
    pub fn optional_int(&self, name: &str) -> Result<Option<i64>> {
        self.read(name, attr::optional_int)
    }

    /// Returns a float.
    ///
    /// # Errors
    /// Returns an error if it is missing or invalid.
    pub fn float(&self, name: &str) -> Result<f64> {
        self.read(name, attr::float)
    }

    /// Returns a boolean.
    ///
    /// # Errors
    /// Returns an error if it is missing or invalid.
    pub fn flag(&self, name: &str) -> Result<bool> {
        self.read(name, attr::boolean)
    }

    /// Returns integers.
    ///
    /// # Errors
    /// Returns an error if they are missing or invalid.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>> {
        self.read(name, attr::ints)
    }

    /// Returns this number of integers. A single one is used for all.
    ///
    /// # Errors
    /// Returns an error if they are missing, invalid, or of another number.
    pub fn ints_of(&self, name: &str, count: usize) -> Result<Vec<i64>> {
        let values = self.ints(name)?;
        match values[..] {
            [one] => Ok(vec![one; count]),
            _ if values.len() == count => Ok(values),
            _ => fail!("attribute `{name}` has {} numbers, not {count}", values.len()),
        }
    }

    /// Returns floats.
    ///
    /// # Errors
    /// Returns an error if they are missing or invalid.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>> {
        self.read(name, attr::floats)
    }

    /// Returns lists of integers.
    ///
    /// # Errors
    /// Returns an error if they are missing or invalid.
    pub fn lists(&self, name: &str) -> Result<Vec<Vec<i64>>> {
        self.read(name, attr::lists)
    }

    /// Returns an element type.
    ///
    /// # Errors
    /// Returns an error if it is missing or invalid.
    pub fn data_type(&self, name: &str) -> Result<DataType> {
        self.read(name, attr::data_type)
    }

    fn count(&self, arity: &Arity) -> Result<usize> {
        let count = self.count_of(arity)?;
        require!(count <= MOST, "{count} inputs or outputs are too many: {MOST} are possible");
        Ok(count)
    }

    fn count_of(&self, arity: &Arity) -> Result<usize> {
        match arity {
            Arity::Fixed(count) => Ok(*count),
            Arity::Native(count) => count(self),
            Arity::Any => Ok(self.num_inputs),
            Arity::Foreign(count) => {
                let count: i64 = count.call_as((self.attrs,))?;
                usize::try_from(count)
                    .map_err(|_| GraphError::new(format!("{count} is not a number of inputs or outputs")))
            }
        }
    }

    /// Returns the number of inputs.
    ///
    /// # Errors
    /// Returns the error of the operator's function.
    pub fn num_inputs(&self) -> Result<usize> {
        let arity = self.op.definition().inputs.clone();
        self.count(&arity)
    }

    /// Returns the number of outputs.
    ///
    /// # Errors
    /// Returns the error of the operator's function.
    pub fn num_outputs(&self) -> Result<usize> {
        let arity = self.op.definition().outputs.clone();
        self.count(&arity)
    }

    /// Returns `FListInputNames`, or the arguments.
    ///
    /// # Errors
    /// Returns the error of the operator's function.
    pub fn input_names(&self) -> Result<Vec<String>> {
        if let Some(names) = self.names("FListInputNames")? {
            return Ok(names);
        }
        let arguments = self.op.arguments();
        let count = self.num_inputs()?;
        Ok((0..count).map(|index| arguments.get(index).cloned().unwrap_or_else(|| format!("arg{index}"))).collect())
    }

    /// Returns `FListOutputNames`, or `output` for an operator with one output.
    ///
    /// # Errors
    /// Returns the error of the operator's function.
    pub fn output_names(&self) -> Result<Vec<String>> {
        if let Some(names) = self.names("FListOutputNames")? {
            return Ok(names);
        }
        Ok(match self.num_outputs()? {
            1 => vec!["output".to_owned()],
            count => (0..count).map(|index| format!("output{index}")).collect(),
        })
    }

    fn names(&self, key: &str) -> Result<Option<Vec<String>>> {
        match self.op.cell(key) {
            None => Ok(None),
            Some(Cell::Native(Native::Names(names))) => names(self).map(Some),
            Some(Cell::Value(value)) => match value.to::<Function>() {
                Ok(function) => Ok(Some(function.call_as((self.attrs,))?)),
                Err(_) => Ok(Some(value.to::<Vec<String>>()?)),
            },
            Some(Cell::Native(_)) => fail!("attribute `{key}` of operator `{}` gives no names", self.op.name),
        }
    }

    /// Returns indices of inputs, of `FMutateInputs` or `FIgnoreInputs`. Empty without it.
    ///
    /// # Errors
    /// Returns the error of the operator's function.
    pub fn indices(&self, key: &str) -> Result<Vec<usize>> {
        match self.op.cell(key) {
            None => Ok(Vec::new()),
            Some(Cell::Native(Native::Indices(indices))) => indices(self),
            Some(Cell::Value(value)) => {
                let found: Vec<i64> = match value.to::<Function>() {
                    Ok(function) => function.call_as((self.attrs,))?,
                    Err(_) => value.to()?,
                };
                Ok(found.into_iter().filter_map(|index| usize::try_from(index).ok()).collect())
            }
            Some(Cell::Native(_)) => fail!("attribute `{key}` of operator `{}` gives no numbers", self.op.name),
        }
    }

    /// Returns pairs of an input and an output, of `FInplaceOption`. Empty without it.
    ///
    /// # Errors
    /// Returns the error of the operator's function.
    pub fn pairs(&self, key: &str) -> Result<Vec<(usize, usize)>> {
        match self.op.cell(key) {
            None => Ok(Vec::new()),
            Some(Cell::Native(Native::Pairs(pairs))) => pairs(self),
            Some(Cell::Value(value)) => {
                let found: Vec<(i64, i64)> = match value.to::<Function>() {
                    Ok(function) => function.call_as((self.attrs,))?,
                    Err(_) => value.to()?,
                };
                let pair = |(a, b): (i64, i64)| Some((usize::try_from(a).ok()?, usize::try_from(b).ok()?));
                Ok(found.into_iter().filter_map(pair).collect())
            }
            Some(Cell::Native(_)) => fail!("attribute `{key}` of operator `{}` gives no pairs", self.op.name),
        }
    }

    /// Returns `TOpPattern`, or opaque (8) without it.
    pub fn pattern(&self) -> i64 {
        match self.op.cell("TOpPattern") {
            Some(Cell::Value(value)) => value.to().unwrap_or(8),
            _ => 8,
        }
    }
}

/// Converts a cell for other languages: a value unchanged, a native function as a packed function
/// of the attributes and, for shapes and types, the known facts.
pub(super) fn as_any(op: &OpRef, key: &str, cell: Cell) -> Any {
    let native = match cell {
        Cell::Value(value) => return value,
        Cell::Native(native) => native,
    };
    let op = op.clone();
    let place = format!("operator `{}`: {key}", op.name);
    let within = move |error: GraphError| kernpack::Error::from(error.within(&place));
    let function = match native {
        Native::Names(names) => Function::from_fn(move |attrs: Map<Str, Str>| -> kernpack::Result<Vec<String>> {
            names(&Use { op: op.clone(), attrs: &attrs, num_inputs: 0 }).map_err(&within)
        }),
        Native::Indices(indices) => Function::from_fn(move |attrs: Map<Str, Str>| -> kernpack::Result<Vec<i64>> {
            let found = indices(&Use { op: op.clone(), attrs: &attrs, num_inputs: 0 }).map_err(&within)?;
            Ok(found.into_iter().filter_map(|index| i64::try_from(index).ok()).collect())
        }),
        Native::Pairs(pairs) => Function::from_fn(move |attrs: Map<Str, Str>| -> kernpack::Result<Vec<(i64, i64)>> {
            let found = pairs(&Use { op: op.clone(), attrs: &attrs, num_inputs: 0 }).map_err(&within)?;
            let pair = |(a, b): (usize, usize)| Some((i64::try_from(a).ok()?, i64::try_from(b).ok()?));
            Ok(found.into_iter().filter_map(pair).collect())
        }),
        Native::InferShape(infer) => Function::from_fn(
            move |attrs: Map<Str, Str>,
                  ins: Vec<Shape>,
                  outs: Vec<Shape>|
                  -> kernpack::Result<(Vec<Shape>, Vec<Shape>)> {
                let plain = |shapes: Vec<Shape>| shapes.iter().map(|shape| shape.to_vec()).collect::<Vec<_>>();
                let (mut ins, mut outs) = (plain(ins), plain(outs));
                infer(&Use { op: op.clone(), attrs: &attrs, num_inputs: ins.len() }, &mut ins, &mut outs)
                    .map_err(&within)?;
                let shapes = |all: Vec<Vec<i64>>| all.iter().map(|shape| Shape::new(shape)).collect();
                Ok((shapes(ins), shapes(outs)))
            },
        ),
        Native::InferType(infer) => Function::from_fn(
            move |attrs: Map<Str, Str>, ins: Vec<i64>, outs: Vec<i64>| -> kernpack::Result<(Vec<i64>, Vec<i64>)> {
                let types = |codes: Vec<i64>| codes.into_iter().map(attr::type_of_code).collect::<Result<Vec<_>>>();
                let (mut ins, mut outs) = (types(ins)?, types(outs)?);
                infer(&Use { op: op.clone(), attrs: &attrs, num_inputs: ins.len() }, &mut ins, &mut outs)
                    .map_err(&within)?;
                let codes = |types: Vec<Option<DataType>>| types.into_iter().map(attr::type_code).collect();
                Ok((codes(ins), codes(outs)))
            },
        ),
        Native::Compute(_) | Native::Layout(_) | Native::Gradient(_) => {
            return Any::from(format!("a function of kernpack in {key}"));
        }
    };
    function.into()
}

/// Converts shapes to values of other languages.
pub(crate) fn shapes_any(shapes: &[Vec<i64>]) -> Array<Shape> {
    shapes.iter().map(|shape| Shape::new(shape)).collect()
}
