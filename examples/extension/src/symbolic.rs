//! Functions on objects of other libraries: of `expr`, whose Rust types this crate knows, and of
//! Apache TVM, whose types are only known at run time.

use std::collections::HashMap;

use expr::{Add, Expr, Var};
use kernpack::reflect::{AttrVisitor, TypeInfo, visit_object};
use kernpack::{Any, Function, IntoAny, ObjRef, ObjectRoot, Result, Str, bail, packed_func};

/// The key of Apache TVM's base type of expressions.
const TVM_EXPR: &str = "ir.Expr";

/// The key of Apache TVM's variables.
const TVM_VAR: &str = "ir.Var";

/// The global function for `a + b` in Apache TVM. Its third argument is the position in a source
/// text.
const TVM_ADD: &str = "prim._OpAdd";

/// Adds two expressions of the same library. The result is an `expr.Add`, or an expression of
/// Apache TVM.
#[packed_func]
pub fn sym_add(a: Any, b: Any) -> Result<Any> {
    if let (Ok(a), Ok(b)) = (a.to::<ObjRef<Expr>>(), b.to()) {
        let sum: ObjRef<Add> = expr::add(a, b)?;
        return Ok(sum.into_any());
    }
    if is_a(&a, TVM_EXPR) && is_a(&b, TVM_EXPR) {
        return Function::global(TVM_ADD)?.call((&a, &b, ()));
    }
    bail!(
        TypeError,
        "expected two expressions of one library ({} or {TVM_EXPR}), got {} and {}",
        "expr.Expr",
        a.type_name(),
        b.type_name()
    );
}

/// Returns the names of the variables in an expression of either library, without duplicates, from
/// left to right.
///
/// Visits the registered fields of every object, and the elements of arrays, so it needs neither
/// Rust types nor header files of the other library.
#[packed_func]
pub fn variables(expr: ObjRef<ObjectRoot>) -> Result<Vec<Str>> {
    let mut names = Vec::new();
    // Objects by address. They are kept alive, so that no other object gets the address.
    let mut seen = HashMap::new();
    let mut left = Left(vec![expr]);
    while let Some(object) = left.0.pop() {
        if seen.insert(core::ptr::from_ref(&*object).addr(), object.clone()).is_some() {
            continue;
        }
        let value = object.clone().into_any();
        if object.is::<Var>() || is_a(&value, TVM_VAR) {
            names.push(value.field("name")?.to()?);
            continue;
        }
        let first = left.0.len();
        match value.to::<Vec<Any>>() {
            Ok(elements) => elements.iter().try_for_each(|element| element.visit("", &mut left))?,
            Err(_) => visit_object(&object, &mut left)?,
        }
        left.0[first..].reverse();
    }
    Ok(names)
}

/// The stack of objects to visit, the next one last: an expression may be deeper than the call
/// stack.
struct Left(Vec<ObjRef<ObjectRoot>>);

impl AttrVisitor for Left {
    fn visit_object(&mut self, _name: &str, object: &ObjRef<ObjectRoot>) -> Result<()> {
        self.0.push(object.clone());
        Ok(())
    }
}

/// Returns true if a value is an object of the type with this key, or of a derived type.
fn is_a(value: &Any, key: &str) -> bool {
    TypeInfo::find(value.type_index()).is_some_and(|info| info.lineage().any(|ancestor| ancestor.key() == key))
}
