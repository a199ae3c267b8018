//! Lowers a loop to a function: it calls another function once per iteration, which runs the
//! kernels of the body.
//!
//! ```text
//! copy the states to the first halves of their memory
//! while round < limit and the condition holds:
//!     the round: kernels of the body read one half of each state, write the other, and write row `round`
//! copy the states from the half that was written last, tell extents, fill what has no rows
//! ```
//!
//! The function of an iteration is never inlined: kernels declare that the memory that they read
//! does not overlap the memory that they write. That holds within an iteration, but not across
//! iterations, where the halves are swapped. Code of several iterations in one function would be
//! reordered.

use std::collections::HashMap;

use kernpack::{DataType, Map};
use kernpack_compiler::ir::builtin::ADDRESS_OF;
use kernpack_compiler::ir::dtype::NOTHING;
use kernpack_compiler::ir::{Buffer, CallKind, Expr, FuncKind, I64, POINTER, Stmt, StmtNode, U8, Var};

use super::entry::{Layout, behind, bytes_of, function, int, plain};
use super::inside::{Inside, Made, known_of, numbered, outputs_with_elements, seen};
use super::{Step, Weights};
use crate::error::Result;
use crate::graph::{Given, Gives, Graph, NativeLoop, Node};
use crate::op::statements::{as_long_as, each, element, put};
use crate::plan::aligned;

/// Builds the function of a loop whose body has these steps.
///
/// # Errors
/// Returns an error for a value that is too large.
pub(super) fn loop_function(
    name: &str,
    graph: &Graph,
    node: &Node,
    native: &NativeLoop,
    steps: &[Step],
    layout: &Layout,
    weights: &Weights,
) -> Result<Made> {
    let body = &native.body;
    let inputs = numbered("x", node.inputs.len());
    let given = outputs_with_elements(graph, node);
    let output_vars = numbered("y", given.len());
    let outputs: HashMap<usize, Var> = given.iter().map(|(n, _)| *n).zip(output_vars.iter().cloned()).collect();
    // The arena of the body, then both halves of each state, then the condition.
    let mut halves = Vec::new();
    for input in &native.states {
        halves.push(match node.inputs[*input] {
            Some(id) => bytes_of(graph, id)?,
            None => 0,
        });
    }
    let mut scratch = vec![layout.arena.max(1)];
    scratch.extend(halves.iter().map(|bytes| 2 * aligned(*bytes)));
    scratch.push(1);
    let memory = numbered("scratch", scratch.len());
    let (arena, states, condition) = (&memory[0], &memory[1..=halves.len()], &memory[memory.len() - 1]);
    let known = known_of(weights);
    let known_vars = numbered("known", known.len());

    let counter = local("round");
    let place_of_counter = Var::new("counter", POINTER);
    let round = Var::index("number");
    let goes_on = local("goes_on");
    // The address of a half of a state: the first one is read in iterations 0, 2, ..
    let half = |state: usize, number: Expr| behind(&states[state], (number & 1) * int(aligned(halves[state])));
    let part = |pointer: &Var, bytes: usize, backwards: bool| {
        let number = round.expr().clone();
        let place = if backwards { Expr::int(native.most - 1) - number } else { number };
        behind(pointer, place * int(bytes))
    };
    let mut arguments = Vec::new();
    for (given, id) in native.given.iter().zip(&body.inputs) {
        arguments.push(match *given {
            Given::Round => place_of_counter.expr().clone(),
            Given::State(state) => half(state, round.expr().clone()),
            Given::Slice { input, backwards } => part(&inputs[input], bytes_of(body, *id)?, backwards),
            Given::Whole(input) => inputs[input].expr().clone(),
        });
    }
    for (gives, (_, id)) in native.gives.iter().zip(&body.outputs) {
        arguments.push(match *gives {
            Gives::Condition => condition.expr().clone(),
            Gives::State(state) => half(state, round.expr() + 1),
            Gives::Row { output, backwards } => match outputs.get(&output) {
                Some(pointer) => part(pointer, bytes_of(body, *id)?, backwards),
                // An output without elements is never written.
                None => arena.expr().clone(),
            },
        });
    }
    let calls =
        Inside { body, steps, layout, arguments: &arguments, arena, known: &known, known_vars: &known_vars }.calls();

    let mut stmts = vec![Stmt::alloc(counter.clone()), put(&counter, 0, 0), Stmt::alloc(goes_on.clone())];
    let at = |pointer: Expr, dtype: DataType| {
        let buffer = seen("seen", dtype);
        let alias = Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data: pointer });
        (buffer, alias)
    };
    let mut limit = Expr::int(native.most);
    let count = Var::new("count", I64);
    if let Some(input) = native.count {
        let (buffer, alias) = at(inputs[input].expr().clone(), I64);
        stmts.extend([alias, Stmt::bind(count.clone(), element(&buffer, 0).max(0))]);
        limit = count.expr().min(limit);
    }
    let holds = |value: Expr| Expr::select(value.equals(Expr::constant(U8, 0)), Expr::int(0), Expr::int(1));
    match native.condition {
        None => stmts.push(put(&goes_on, 0, 1)),
        Some(input) => {
            let (buffer, alias) = at(inputs[input].expr().clone(), U8);
            stmts.extend([alias, put(&goes_on, 0, holds(element(&buffer, 0)))]);
        }
    }
    for (state, input) in native.states.iter().enumerate() {
        stmts.push(copy(half(state, Expr::int(0)), inputs[*input].expr().clone(), halves[state]));
    }

    let pointers: Vec<Var> = inputs.iter().chain(&output_vars).chain(&memory).chain(&known_vars).cloned().collect();
    let params = [round.clone(), place_of_counter].into_iter().chain(pointers.iter().cloned()).map(plain).collect();
    let attrs = [("noinline".into(), 1_i64.into())].into_iter().collect();
    let turn = function(&format!("{name}.round"), FuncKind::Internal, params, Stmt::seq(calls), attrs);

    let number = Var::index("number");
    let own = [number.expr().clone(), Expr::builtin(ADDRESS_OF, POINTER, [element(&counter, 0)])];
    let all = own.into_iter().chain(pointers.iter().map(|pointer| pointer.expr().clone()));
    let mut turns = vec![
        Stmt::bind(number.clone(), element(&counter, 0)),
        Stmt::evaluate(Expr::call(CallKind::Function, &turn.name, NOTHING, all)),
    ];
    if native.gives.contains(&Gives::Condition) {
        let (buffer, alias) = at(condition.expr().clone(), U8);
        turns.extend([alias, put(&goes_on, 0, holds(element(&buffer, 0)))]);
    }
    turns.push(put(&counter, 0, number.expr() + 1));
    let mut is_next = element(&counter, 0).less(limit);
    if native.has_condition() {
        is_next = is_next.and(element(&goes_on, 0).equals(1));
    }
    stmts.push(as_long_as(is_next, Stmt::seq(turns)));

    let rounds = Var::index("rounds");
    stmts.push(Stmt::bind(rounds.clone(), element(&counter, 0)));
    if native.is_bounded {
        let mut fits = element(&goes_on, 0).equals(0);
        if native.count.is_some() {
            fits = fits.or(rounds.expr().greater_equal(count.expr()));
        }
        let text = format!(
            "{}: more than {} rounds, which is the bound that the model was compiled with",
            node.place(),
            native.most
        );
        stmts.push(Stmt::assert(fits, "ValueError", [text.as_str().into()]));
    }
    for (state, bytes) in halves.iter().enumerate() {
        if let Some(pointer) = outputs.get(&state) {
            stmts.push(copy(pointer.expr().clone(), half(state, rounds.expr().clone()), *bytes));
        }
    }
    for (rows, extents) in &native.extents {
        let (Some(Some(rows_id)), Some(pointer)) = (node.outputs.get(*rows), outputs.get(extents)) else { continue };
        let (buffer, alias) = at(pointer.expr().clone(), I64);
        stmts.extend([alias, put(&buffer, 0, rounds.expr().clone())]);
        let shape = &graph.values[*rows_id].shape;
        for (axis, extent) in (0_i64..).zip(shape).skip(1) {
            stmts.push(put(&buffer, axis, *extent));
        }
        if let Some(pointer) = outputs.get(rows) {
            let row = int(bytes_of(graph, *rows_id)? / usize::try_from(native.most.max(1)).unwrap_or(1));
            let (buffer, alias) = at(behind(pointer, rounds.expr() * row.clone()), U8);
            let count = (Expr::int(native.most) - rounds.expr()) * row;
            stmts.extend([alias, each("filled", count, |index| put(&buffer, index, Expr::constant(U8, 0)))]);
        }
    }
    let params = pointers.into_iter().map(plain).collect();
    Ok(Made {
        round: Some(turn),
        function: function(name, FuncKind::Internal, params, Stmt::seq(stmts), Map::default()),
        outputs: given.into_iter().map(|(_, id)| id).collect(),
        scratch,
        known: known.into_iter().map(|(_, tensor)| tensor).collect(),
    })
}

/// Declares an integer of the function.
fn local(name: &str) -> Buffer {
    Buffer::new(name, I64, [Expr::int(1)], "local")
}

/// Copies bytes.
fn copy(to: Expr, from: Expr, bytes: usize) -> Stmt {
    if bytes == 0 {
        return Stmt::nothing();
    }
    let (target, source) = (seen("to", U8), seen("from", U8));
    let alias = |buffer: &Buffer, data: Expr| Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data });
    let copied = each("copied", int(bytes), |index| put(&target, index.clone(), element(&source, index.clone())));
    Stmt::seq([alias(&target, to), alias(&source, from), copied])
}
