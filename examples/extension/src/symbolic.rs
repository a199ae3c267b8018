//! Functions on objects of other libraries: of `expr`, whose Rust types this crate knows, and of Apache TVM, whose types it
//! meets at run time.

use std::collections::HashMap;

use expr::{Add, Expr, Var};
use kernpack::reflect::{AttrVisitor, TypeInfo, visit_object};
use kernpack::{Any, Function, IntoAny, ObjRef, ObjectRoot, Result, Str, bail, packed_func};

/// The key of Apache TVM's base type of expressions.
const TVM_EXPR: &str = "ir.Expr";

/// The key of its variables.
const TVM_VAR: &str = "ir.Var";

/// The global function behind `a + b` in Apache TVM; its third argument is the place in a source text.
const TVM_ADD: &str = "prim._OpAdd";

/// The sum of two expressions of one library: an `expr.Add`, or what Apache TVM makes of its own.
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

/// The names of the variables in an expression of either library, each variable once, from left to right.
///
/// Visits the registered fields of whatever it meets, and the elements of arrays, so it needs no Rust types of the other
/// library, nor its header files.
#[packed_func]
pub fn variables(expr: ObjRef<ObjectRoot>) -> Result<Vec<Str>> {
    let mut names = Vec::new();
    // By address; kept, so that no other object gets the address.
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

/// The objects that are left to look at, the next one last: an expression may be deeper than the stack.
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
