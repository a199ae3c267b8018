//! Enums without data: ABI types whose instances are a fixed set of objects, each represented by a
//! variant of a Rust enum.
//!
//! ```
//! use kernpack::{Any, EnumType, Function, IntoAny, Object};
//!
//! #[derive(Object, Clone, Copy, PartialEq, Eq, Debug)]
//! #[object(key = "docs.Color", enum = "int")]
//! pub enum Color {
//!     Red = 1,
//!     Green,
//! }
//!
//! let next = Function::from_fn(|color: Color| match color {
//!     Color::Red => Color::Green,
//!     Color::Green => Color::Red,
//! });
//! assert_eq!(next.call_as::<Color>((Color::Red,)).unwrap(), Color::Green);
//! // The integer stands for the variant, too.
//! assert_eq!(next.call_as::<Color>((2,)).unwrap(), Color::Red);
//! assert_eq!(Color::Green.name(), "Green");
//! let error = next.call((5,)).unwrap_err();
//! assert_eq!(
//!     error.message(),
//!     "closure(0: docs.Color): argument 0: 5 is not a value of docs.Color; its variants are Red = 1, Green = 2",
//! );
//! ```

use core::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::refusal;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::function::did_you_mean;
use crate::value::{Any, AnyView, Arg, IntoAny, Mismatch, TypeSchema};
use crate::{Error, Result, embedded, provider};

/// The description of an enum without data by `#[derive(Object)]`.
pub struct EnumDef {
    /// Type key.
    pub key: &'static str,
    /// Documentation.
    pub doc: &'static str,
    /// Representation of a variant's value in other languages.
    pub kind: EnumKind,
    /// The variants.
    pub variants: &'static [VariantDef],
    /// Registers the type and its instances with the provider.
    pub register: fn(&'static EnumDef) -> RegisteredEnum,
    /// The instances, once registered.
    pub instances: EnumInstances,
    /// Crate that defines the enum.
    pub crate_name: &'static str,
    /// Source file of the enum.
    pub file: &'static str,
    /// Line of the enum in `file`.
    pub line: u32,
}

/// A variant of an enum without data.
pub struct VariantDef {
    /// The name of the variant in other languages, which is also its value in an enum of strings.
    pub name: &'static str,
    /// The value of the variant in an enum of integers; else its index.
    pub value: i64,
    /// Documentation.
    pub doc: &'static str,
}

/// Representation of an enum variant's value in other languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnumKind {
    /// The discriminant: a type derived from `ffi.IntEnum`.
    Int,
    /// The name: a type derived from `ffi.StrEnum`.
    Str,
}

/// The result of registering an enum.
pub struct RegisteredEnum {
    /// Index of the type; negative if it could not be registered.
    type_index: i32,
    /// The object of each variant. Empty if the provider rejected the type.
    objects: Vec<Instance>,
    /// The problem, if there was one.
    problem: Option<Error>,
}

impl RegisteredEnum {
    /// Creates the result from a type and the object of each variant.
    ///
    /// # Safety
    /// The objects are of this type, and one reference to each is transferred to the result, which
    /// keeps it forever.
    pub unsafe fn new(type_index: i32, objects: &[*mut TVMFFIObject], problem: Option<Error>) -> Self {
        Self { type_index, objects: objects.iter().map(|object| Instance(*object)).collect(), problem }
    }
}

/// The only object of a variant. It lives forever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Instance(*mut TVMFFIObject);

// SAFETY: the pointer is to an object with an atomic count, of which this holds one reference
// forever.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

/// The instances of an enum, set when it is registered.
pub struct EnumInstances {
    instances: OnceLock<Instances>,
    /// The function that registers the enum. A field, so that only artifacts with enums link that
    /// code.
    register: fn(&'static EnumDef) -> Result<()>,
}

struct Instances {
    type_index: i32,
    by_position: Vec<Instance>,
    /// The variants' indices, sorted by the objects' addresses.
    by_address: Vec<(Instance, u32)>,
}

impl EnumInstances {
    /// Creates the instances of an enum that is not registered yet.
    #[expect(clippy::new_without_default, reason = "only generated code makes one, in a static")]
    pub const fn new() -> Self {
        Self { instances: OnceLock::new(), register: EnumDef::register_once }
    }
}

/// A Rust enum without data that is a type of the ABI. Implement it with `#[derive(Object)]` and
/// `#[object(key = "...", enum = "int")]` (or `"str"`).
///
/// Such an enum is a value itself: it can be a parameter, a result, an element and a field. In
/// other languages each variant is one object, and callers may pass the variant's integer or name
/// in its place.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an enum of the ABI",
    label = "not an enum of the ABI",
    note = "add `#[derive(kernpack::Object)]` and `#[object(key = \"...\", enum = \"int\")]` to an enum without data"
)]
pub trait EnumType: Sized + Send + Sync + 'static {
    /// Unique name, for example `imagekit.Color`.
    const TYPE_KEY: &'static str;

    /// The definition.
    #[doc(hidden)]
    fn enum_def() -> &'static EnumDef;

    /// The variant at an index of the definition.
    #[doc(hidden)]
    fn at_position(position: usize) -> Option<Self>;

    /// Index of the variant in the definition.
    #[doc(hidden)]
    fn position(&self) -> usize;

    /// Run-time type index; registers the type if necessary.
    fn type_index() -> i32 {
        Self::enum_def().instances().type_index
    }

    /// The name of the variant in other languages.
    fn name(&self) -> &'static str {
        Self::enum_def().variants.get(self.position()).map_or("", |variant| variant.name)
    }

    /// All variants, in the order of the definition.
    fn variants() -> impl Iterator<Item = Self> {
        (0..Self::enum_def().variants.len()).filter_map(Self::at_position)
    }
}

/// Returns the variant for an enum's object, or for an integer or name that denotes it.
///
/// # Errors
/// Returns an error that lists the variants.
#[inline]
pub fn enum_from_any<T: EnumType>(value: &AnyView<'_>) -> core::result::Result<T, Mismatch> {
    T::at_position(T::enum_def().position_of(value)?).ok_or(Mismatch::TYPE)
}

/// Returns the object of an enum's variant as an owned value.
#[inline]
pub fn enum_into_any<T: EnumType>(variant: &T) -> Any {
    let def = T::enum_def();
    match def.instance(variant.position()) {
        Some(view) => Any::from_view(&view).unwrap_or_default(),
        None => def.payload(variant.position()),
    }
}

/// Returns the object of an enum's variant as an argument.
#[inline]
pub fn enum_to_arg<T: EnumType>(variant: &T) -> Arg<'static> {
    let def = T::enum_def();
    match def.instance(variant.position()) {
        Some(view) => Arg::borrowed(view),
        None => Arg::owned(def.payload(variant.position())),
    }
}

impl EnumDef {
    #[inline]
    fn instances(&'static self) -> &'static Instances {
        match self.instances.instances.get() {
            Some(instances) => instances,
            None => self.register_late(),
        }
    }

    #[cold]
    fn register_late(&'static self) -> &'static Instances {
        // Binding registers every enum of this artifact, including this one, unless this call is
        // part of binding. The registration records its own problems.
        provider::api();
        let _ = self.register();
        self.instances.instances.get_or_init(|| Instances { type_index: -1, by_position: vec![], by_address: vec![] })
    }

    /// Registers the enum with the provider, unless it is registered.
    ///
    /// # Errors
    /// Returns an error if the key is taken by another type; this artifact's enum then gets its own
    /// key.
    pub(crate) fn register(&'static self) -> Result<()> {
        (self.instances.register)(self)
    }

    fn register_once(&'static self) -> Result<()> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if self.instances.instances.get().is_some() {
            return Ok(());
        }
        let RegisteredEnum { type_index, objects, problem } = (self.register)(self);
        let mut by_address: Vec<_> = objects.iter().copied().zip(0..).collect();
        by_address.sort_unstable();
        let _ = self.instances.instances.set(Instances { type_index, by_position: objects, by_address });
        problem.map_or(Ok(()), |problem| {
            refusal::refuse();
            Err(problem)
        })
    }

    /// Returns a variant's object.
    #[inline]
    fn instance(&'static self, position: usize) -> Option<AnyView<'static>> {
        let instances = self.instances();
        let Instance(object) = *instances.by_position.get(position)?;
        // SAFETY: the object lives forever.
        unsafe { Some(AnyView::from_raw(TVMFFIAny::pointer((*object).type_index, object.cast()))) }
    }

    /// Returns the object of the variant that a value denotes.
    ///
    /// # Errors
    /// Returns an error that lists the variants.
    #[doc(hidden)]
    pub fn convert(&'static self, value: &AnyView<'_>) -> Result<Any> {
        let position =
            self.position_of(value).map_err(|mismatch| mismatch.into_error("", &TypeSchema::new(self.key), value))?;
        Ok(self.instance(position).and_then(|view| Any::from_view(&view)).unwrap_or_default())
    }

    /// The value of a variant as other languages see it.
    #[cold]
    fn payload(&self, position: usize) -> Any {
        match (self.kind, self.variants.get(position)) {
            (EnumKind::Int, Some(variant)) => variant.value.into_any(),
            (EnumKind::Str, Some(variant)) => variant.name.into_any(),
            (_, None) => Any::NONE,
        }
    }

    /// Returns the index of the variant that a value denotes.
    ///
    /// # Errors
    /// Returns an error that lists the variants.
    pub(crate) fn position_of(&'static self, value: &AnyView<'_>) -> core::result::Result<usize, Mismatch> {
        let instances = self.instances();
        let value = &value.lent();
        if let Some(object) = value.object()
            && let Ok(at) = instances.by_address.binary_search_by_key(&Instance(object), |entry| entry.0)
        {
            return Ok(instances.by_address[at].1 as usize);
        }
        let found = match self.kind {
            EnumKind::Int if value.type_index() == type_index::INT => {
                let int = value.as_raw().bits().cast_signed();
                self.variants.iter().position(|variant| variant.value == int)
            }
            EnumKind::Str => {
                text(value).and_then(|text| self.variants.iter().position(|variant| variant.name.as_bytes() == text))
            }
            EnumKind::Int => None,
        };
        found.ok_or_else(|| self.mismatch(value))
    }

    #[cold]
    #[inline(never)]
    fn mismatch(&'static self, value: &AnyView<'_>) -> Mismatch {
        let variants = self.list();
        if value.type_index() == self.instances().type_index {
            return Mismatch::value(format!(
                "expected one of the variants of {} that this library defines ({variants}), got another object of that type",
                self.key
            ));
        }
        match (self.kind, text(value)) {
            (EnumKind::Int, _) if value.type_index() == type_index::INT => {
                let int = value.as_raw().bits().cast_signed();
                Mismatch::value(format!("{int} is not a value of {}; its variants are {variants}", self.key))
            }
            (EnumKind::Str, Some(text)) => {
                let text = String::from_utf8_lossy(text);
                let hint = did_you_mean(&text, &mut self.variants.iter().map(|variant| variant.name));
                Mismatch::value(format!("'{text}' is not a value of {}; its variants are {variants}{hint}", self.key))
            }
            (kind, _) => {
                let payload = if kind == EnumKind::Int { "int" } else { "str" };
                let got = value.type_name();
                Mismatch::type_note(format!("expected {} ({variants}) or its {payload}, got {got}", self.key))
            }
        }
    }

    /// Lists the variants for a message.
    fn list(&self) -> String {
        const MOST: usize = 16;
        let mut list = String::new();
        for (at, variant) in self.variants.iter().enumerate().take(MOST) {
            let comma = if at == 0 { "" } else { ", " };
            let name = variant.name;
            let _ = match self.kind {
                EnumKind::Int => write!(list, "{comma}{name} = {}", variant.value),
                EnumKind::Str => write!(list, "{comma}'{name}'"),
            };
        }
        if self.variants.len() > MOST {
            list.push_str(", ...");
        }
        list
    }
}

/// Returns the bytes of a string; `None` for other values.
fn text<'a>(value: &'a AnyView<'_>) -> Option<&'a [u8]> {
    match value.type_index() {
        // SAFETY: a view follows the ABI's rules for its type index.
        type_index::RAW_STR | type_index::SMALL_STR | type_index::STR => unsafe { embedded::text_of(value.as_raw()) },
        _ => None,
    }
}
