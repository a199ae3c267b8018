//! Nodes as objects: compared, printed, copied, stored, of any depth.

use kernpack::reflect::{from_json, to_json};
use kernpack::structural;
use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, I32, Stmt, Var, substitute, visit};
use kernpack_compiler::take_reported;

fn loop_over(name: &str) -> Stmt {
    let (i, buffer) = (Var::index(name), Buffer::new("a", F32, [Expr::int(8)], "global"));
    let store = Stmt::store(buffer.clone(), &i, Expr::load(&buffer, &i + 1) * 2.0);
    Stmt::seq([Stmt::alloc(buffer), Stmt::for_loop(i, 0, 8, ForKind::Serial, store)])
}

#[test]
fn programs_compare_and_hash_by_structure_with_variables_mapped() {
    let (a, b) = (loop_over("i"), loop_over("j"));
    assert!(structural::equal(&a, &b).unwrap());
    assert_eq!(structural::hash(&a).unwrap(), structural::hash(&b).unwrap());
    let other = Stmt::for_loop(Var::index("i"), 0, 8, ForKind::Serial, Stmt::nothing());
    assert!(!structural::equal(&a, &other).unwrap());
}

#[test]
fn programs_survive_json() {
    let program = loop_over("i");
    let copy: Stmt = from_json(&to_json(&program).unwrap()).unwrap().to().unwrap();
    assert!(structural::equal(&program, &copy).unwrap());
}

#[test]
fn depth_is_limited_by_memory_only() {
    let x = Var::index("x");
    let mut sum = x.expr().clone();
    for _ in 0..200_000 {
        sum = sum + &x;
    }
    let mut count = 0;
    visit::for_each_expr(&sum, |_| count += 1);
    assert_eq!(count, 400_001);
    let y = Var::index("y");
    let replaced = substitute(&sum, &[(x.clone(), y.expr().clone())].into_iter().collect());
    assert!(!visit::uses_var(&replaced, |var| *var == x));
    drop((sum, replaced));
}

#[test]
fn constants_take_the_other_type_and_mistakes_name_the_line() {
    let (a, b) = (Var::new("a", F32), Var::new("b", I32));
    assert_eq!((&a * 2).dtype(), F32);
    assert_eq!((1 + (&b + 0)).dtype(), I32);
    take_reported().unwrap();
    let line = line!() + 1;
    let _ = &a + &b;
    let error = take_reported().unwrap_err().to_string();
    let here = format!("{}:{line}:", file!());
    assert!(error.starts_with("TypeError: `+` of f32 and i32\n  --> "), "{error}");
    assert!(error.contains(&here), "{error}");
    assert!(error.contains("write `.cast(F32)`"), "{error}");
}
