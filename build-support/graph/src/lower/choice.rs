//! Lowers a conditional to a function: the kernels of the selected branch run in place of the node.

use kernpack::Map;
use kernpack_compiler::ir::{Expr, FuncKind, Stmt, StmtNode, U8};

use super::entry::{Layout, function, plain};
use super::inside::{Inside, Made, known_of, numbered, outputs_with_elements, seen};
use super::{Step, Weights};
use crate::graph::{Choice, Graph, Node};
use crate::op::statements::element;

/// A branch with known kernels.
pub(super) struct BranchSteps {
    pub(super) steps: Vec<Step>,
    pub(super) layout: Layout,
    pub(super) weights: Weights,
}

/// Builds the function of a conditional whose branches have these steps. Both use the same memory.
pub(super) fn choice_function(
    name: &str,
    graph: &Graph,
    node: &Node,
    choice: &Choice,
    branches: &[BranchSteps],
) -> Made {
    let inputs = numbered("x", node.inputs.len());
    let outputs = outputs_with_elements(graph, node);
    let output_vars = numbered("y", outputs.len());
    let memory = numbered("scratch", 1);
    let known: Vec<_> = branches.iter().map(|branch| known_of(&branch.weights)).collect();
    let known_vars = numbered("known", known.iter().map(Vec::len).sum());
    let (first_vars, second_vars) = known_vars.split_at(known.first().map_or(0, Vec::len));
    let mut bodies = Vec::new();
    let all = choice.branches.iter().zip(branches).zip(&known).zip([first_vars, second_vars]);
    for (((branch, steps), known), known_vars) in all {
        let taken = branch.given.iter().map(|input| inputs[*input].expr().clone());
        let given = (0..node.outputs.len()).map(|number| {
            // An output without elements is never written.
            let place = outputs.iter().position(|(own, _)| *own == number);
            place.map_or(&memory[0], |place| &output_vars[place]).expr().clone()
        });
        let arguments: Vec<Expr> = taken.chain(given).collect();
        let BranchSteps { steps, layout, .. } = steps;
        let (body, arena) = (&branch.body, &memory[0]);
        let inside = Inside { body, steps, layout, arguments: &arguments, arena, known, known_vars };
        bodies.push(Stmt::seq(inside.calls()));
    }
    let condition = seen("condition", U8);
    let data = inputs[0].expr().clone();
    let alias = Stmt::from_node(StmtNode::Alias { buffer: condition.clone(), data });
    let holds = element(&condition, 0).differs(Expr::constant(U8, 0));
    let other = bodies.pop();
    let taken = bodies.pop().unwrap_or_else(|| Stmt::seq([]));
    let body = Stmt::seq([alias, Stmt::if_then(holds, taken, other)]);
    let params = inputs.into_iter().chain(output_vars).chain(memory).chain(known_vars.iter().cloned()).map(plain);
    let arena = branches.iter().map(|branch| branch.layout.arena).max().unwrap_or(0);
    Made {
        function: function(name, FuncKind::Internal, params.collect(), body, Map::default()),
        round: None,
        outputs: outputs.into_iter().map(|(_, id)| id).collect(),
        scratch: vec![arena.max(1)],
        known: known.into_iter().flatten().map(|(_, tensor)| tensor).collect(),
    }
}
