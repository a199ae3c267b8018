//! Reads trees from the attributes of the operators of trees.

use std::collections::HashMap;

use kernpack_compiler::ir::{F16, F32, F64};

use super::forest::{Branch, Child, Forest, MODES, MOST, Mode};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{GraphError, Result, fail, require};

fn needed(attrs: &Attrs, name: &str) -> Result<Vec<i64>> {
    attrs.ints(name)?.ok_or_else(|| GraphError::new(format!("attribute `{name}` is missing")))
}

fn needed_tensor(attrs: &Attrs, name: &str) -> Result<Constant> {
    match attrs.get(name) {
        Some(Attr::Tensor(value)) => Ok(value.clone()),
        _ => fail!("attribute `{name}` has to be a tensor"),
    }
}

/// Returns floats, or doubles of the attribute that models of doubles have instead; none if both
/// are missing.
fn numbers(attrs: &Attrs, name: &str) -> Result<(Vec<f64>, bool)> {
    let other = format!("{name}_as_tensor");
    let tensor = match attrs.get(&other) {
        None => None,
        Some(Attr::Tensor(value)) => Some(value.to_floats()?),
        Some(_) => fail!("attribute `{other}` has to be a tensor"),
    };
    let floats: Vec<f64> = attrs.floats(name)?.into_iter().map(f64::from).collect();
    match tensor.filter(|tensor| !tensor.is_empty()) {
        Some(_) if !floats.is_empty() => {
            fail!("attributes `{name}` and `{other}` give the same: expected one of them, got both")
        }
        Some(tensor) => Ok((tensor, true)),
        None => Ok((floats, false)),
    }
}

/// Returns the number of an aggregate function: that of `TreeEnsemble`.
fn aggregate_of(attrs: &Attrs) -> Result<i64> {
    Ok(match attrs.text("aggregate_function", "SUM")? {
        "AVERAGE" => 0,
        "SUM" => 1,
        "MIN" => 2,
        "MAX" => 3,
        other => fail!("attribute `aggregate_function` is `{other}`, not SUM, AVERAGE, MIN or MAX"),
    })
}

/// Returns the number of targets, or of classes.
fn targets_of(attrs: &Attrs, votes: &str) -> Result<i64> {
    if votes == "target" {
        return attrs.needed_int("n_targets");
    }
    let count = match (attrs.get("classlabels_strings"), attrs.ints("classlabels_int64s")?) {
        (Some(Attr::Texts(labels)), _) => labels.len(),
        (_, labels) => labels.unwrap_or_default().len(),
    };
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Finds nodes by their tree and their number.
struct Nodes {
    trees: Vec<i64>,
    ids: Vec<i64>,
    children: Vec<Child>,
    /// The place of the first node of each tree.
    begins: HashMap<i64, usize>,
    /// All places, if the nodes of a tree are not in the order of their numbers.
    places: HashMap<(i64, i64), usize>,
}

impl Nodes {
    fn new(trees: Vec<i64>, ids: Vec<i64>, modes: &[String]) -> Result<(Self, Vec<Child>)> {
        let (mut begins, mut roots) = (HashMap::new(), Vec::new());
        let mut children = Vec::with_capacity(modes.len());
        let (mut branches, mut leaves, mut last, mut begin) = (0, 0, None, 0);
        let mut is_in_order = true;
        for (place, mode) in modes.iter().enumerate() {
            let child = if mode == "LEAF" { Child::Leaf(leaves) } else { Child::Branch(branches) };
            *(if mode == "LEAF" { &mut leaves } else { &mut branches }) += 1;
            children.push(child);
            if last != Some(trees[place]) {
                last = Some(trees[place]);
                begin = place;
                // The first node of a tree is its root.
                if begins.insert(trees[place], place).is_none() {
                    roots.push(child);
                } else {
                    is_in_order = false;
                }
            }
            is_in_order &= usize::try_from(ids[place]) == Ok(place - begin);
        }
        let mut places = HashMap::new();
        for place in (0..modes.len()).filter(|_| !is_in_order) {
            let own = (trees[place], ids[place]);
            require!(places.insert(own, place).is_none(), "tree {} has two nodes {}", own.0, own.1);
        }
        Ok((Self { trees, ids, children, begins, places }, roots))
    }

    fn find(&self, tree: i64, id: i64) -> Option<Child> {
        let place = match (self.places.is_empty(), usize::try_from(id)) {
            (true, Ok(id)) => self.begins.get(&tree)?.checked_add(id)?,
            (true, Err(_)) => return None,
            (false, _) => *self.places.get(&(tree, id))?,
        };
        let is_own = self.trees.get(place) == Some(&tree) && self.ids[place] == id;
        is_own.then(|| self.children[place])
    }
}

/// Reads the trees of `TreeEnsembleClassifier` and `TreeEnsembleRegressor`, whose leaves are nodes
/// with any number of votes. `votes` is the prefix of the names of their attributes. `is_single` is
/// true for votes that all are for the same class, whose sum is the only result.
pub(super) fn of_votes(votes: &str, attrs: &Attrs, is_single: bool) -> Result<Forest> {
    let (trees, ids) = (needed(attrs, "nodes_treeids")?, needed(attrs, "nodes_nodeids")?);
    let features = needed(attrs, "nodes_featureids")?;
    let (trues, falses) = (needed(attrs, "nodes_truenodeids")?, needed(attrs, "nodes_falsenodeids")?);
    let missing = attrs.ints("nodes_missing_value_tracks_true")?.filter(|missing| !missing.is_empty());
    let Some(Attr::Texts(modes)) = attrs.get("nodes_modes") else { fail!("attribute `nodes_modes` is missing") };
    let (splits, are_wide) = numbers(attrs, "nodes_values")?;
    let count = trees.len();
    let lengths = [ids.len(), features.len(), trues.len(), falses.len(), modes.len(), splits.len()];
    let fits = lengths.iter().chain(missing.as_ref().map(Vec::len).iter()).all(|length| *length == count);
    require!(fits && count > 0, "the attributes of nodes have different lengths, or there are no nodes");
    require!(count <= MOST, "{count} nodes are more than {MOST}");
    let (nodes, roots) = Nodes::new(trees, ids, modes)?;
    let mut branches = Vec::with_capacity(count / 2);
    let mut known = MODES[0];
    for (number, name) in modes.iter().enumerate().filter(|(_, mode)| *mode != "LEAF") {
        if known.0 != name {
            let Some(found) = MODES.iter().find(|(mode, _)| mode == name) else {
                let all = MODES.map(|(mode, _)| mode).join(", ");
                fail!("attribute `nodes_modes` has `{name}`: expected LEAF or one of {all}")
            };
            known = *found;
        }
        let (tree, id) = (nodes.trees[number], nodes.ids[number]);
        let child = |to: i64| match nodes.find(tree, to) {
            Some(child) if to != id => Ok(child),
            _ => fail!("node {id} of tree {tree} leads to {to}, which is not another node of the tree"),
        };
        branches.push(Branch {
            feature: features[number],
            mode: known.1,
            split: splits[number],
            if_true: child(trues[number])?,
            if_false: child(falses[number])?,
            takes_nan: missing.as_ref().is_some_and(|missing| missing[number] != 0),
        });
    }
    let leaves = count - branches.len();
    let targets = targets_of(attrs, votes)?;
    let Votes { begins, mut votes, are_doubles } = cast_votes(attrs, votes, targets, &nodes, leaves)?;
    let (base, is_double) = numbers(attrs, "base_values")?;
    let dtype = if are_wide || are_doubles || is_double { F64 } else { F32 };
    if is_single {
        votes.iter_mut().for_each(|vote| vote.0 = 0);
    }
    let targets = if is_single { 1 } else { targets };
    Forest { branches, begins, votes, roots, base, targets, aggregate: aggregate_of(attrs)?, dtype }.checked()
}

/// The votes of all leaves.
struct Votes {
    begins: Vec<usize>,
    votes: Vec<(i64, f64)>,
    are_doubles: bool,
}

/// Returns the votes of all leaves. Votes at branches are never cast.
fn cast_votes(attrs: &Attrs, votes: &str, targets: i64, nodes: &Nodes, leaves: usize) -> Result<Votes> {
    let name = |rest: &str| format!("{votes}_{rest}");
    let (trees, places) = (needed(attrs, &name("treeids"))?, needed(attrs, &name("nodeids"))?);
    let (ids, (weights, are_doubles)) = (needed(attrs, &name("ids"))?, numbers(attrs, &name("weights"))?);
    let fits = [trees.len(), places.len(), weights.len()].iter().all(|length| *length == ids.len());
    require!(fits, "the attributes `{}` to `{}` have different lengths", name("ids"), name("weights"));
    require!(ids.len() <= MOST, "{} votes are more than {MOST}", ids.len());
    let mut cast = Vec::with_capacity(ids.len());
    let mut begins = vec![0; leaves + 1];
    for (number, id) in ids.iter().enumerate() {
        let (tree, node) = (trees[number], places[number]);
        require!((0..targets).contains(id), "attribute `{}` has {id}: expected 0 to {}", name("ids"), targets - 1);
        match nodes.find(tree, node) {
            Some(Child::Leaf(leaf)) => {
                begins[leaf + 1] += 1;
                cast.push((leaf, (*id, weights[number])));
            }
            Some(Child::Branch(_)) => {}
            None => fail!("a vote is at node {node} of tree {tree}, which does not exist"),
        }
    }
    if !cast.is_sorted_by_key(|(leaf, _)| *leaf) {
        cast.sort_by_key(|(leaf, _)| *leaf);
    }
    for leaf in 0..leaves {
        begins[leaf + 1] += begins[leaf];
    }
    Ok(Votes { begins, votes: cast.into_iter().map(|(_, vote)| vote).collect(), are_doubles })
}

/// Reads the trees of `TreeEnsemble`, whose leaves have one vote each and are apart from the nodes.
pub(super) fn of_leaves(attrs: &Attrs) -> Result<Forest> {
    let features = needed(attrs, "nodes_featureids")?;
    let count = features.len();
    let modes = needed_tensor(attrs, "nodes_modes")?.to_ints()?;
    let (splits, weights) = (needed_tensor(attrs, "nodes_splits")?, needed_tensor(attrs, "leaf_weights")?);
    let dtype = weights.dtype();
    require!([F16, F32, F64].contains(&dtype), "attribute `leaf_weights` has leaves of {dtype}: expected floats");
    let (splits, weights) = (splits.to_floats()?, weights.to_floats()?);
    let columns = ["nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"];
    let columns = columns.into_iter().map(|name| needed(attrs, name)).collect::<Result<Vec<_>>>()?;
    let missing = attrs.ints("nodes_missing_value_tracks_true")?.unwrap_or_else(|| vec![0; count]);
    let (ids, roots) = (needed(attrs, "leaf_targetids")?, needed(attrs, "tree_roots")?);
    let fits = [modes.len(), splits.len(), missing.len()].iter().all(|length| *length == count)
        && columns.iter().all(|column| column.len() == count)
        && ids.len() == weights.len()
        && count > 0;
    require!(fits, "the attributes of nodes, or those of leaves, have different lengths");
    require!(count.max(ids.len()) <= MOST, "{} nodes are more than {MOST}", count.max(ids.len()));
    let members = match attrs.get("membership_values") {
        Some(_) => needed_tensor(attrs, "membership_values")?.to_floats()?,
        None => Vec::new(),
    };
    let targets = attrs.needed_int("n_targets")?;
    let child = |id: i64, is_leaf: i64| match usize::try_from(id) {
        Ok(id) if is_leaf != 0 && id < ids.len() => Some(Child::Leaf(id)),
        Ok(id) if is_leaf == 0 && id < count => Some(Child::Branch(id)),
        _ => None,
    };
    let mut branches: Vec<Branch> = Vec::with_capacity(count);
    // Branches of members after the first one are behind those of the model.
    let mut behind = Vec::new();
    // Sets are stored one after the other, in the order of the nodes; NaN ends each.
    let mut next = 0;
    for node in 0..count {
        let [true_id, false_id, true_leaf, false_leaf] = [0, 1, 2, 3].map(|column: usize| columns[column][node]);
        let (Some(if_true), Some(if_false), 0..=6) =
            (child(true_id, true_leaf), child(false_id, false_leaf), modes[node])
        else {
            fail!("node {node} of the trees leads to {true_id} and {false_id}, with mode {}", modes[node])
        };
        let (feature, takes_nan) = (features[node], missing[node] != 0);
        let known = usize::try_from(modes[node]).ok().and_then(|mode| MODES.get(mode));
        let Some((_, mode)) = known else {
            let begin = next;
            while members.get(next).is_some_and(|value| !value.is_nan()) {
                next += 1;
            }
            let own = &members[begin.min(members.len())..next.min(members.len())];
            next += 1;
            let of = |split: f64, if_false: Child, takes_nan: bool| Branch {
                feature,
                mode: Mode::Eq,
                split,
                if_true,
                if_false,
                takes_nan,
            };
            // The last member is the first one that is made.
            let mut rest = if_false;
            for member in own.iter().skip(1).rev() {
                behind.push(of(*member, rest, false));
                rest = Child::Branch(count + behind.len() - 1);
            }
            // Nothing is equal to NaN, which stands for a set without members.
            branches.push(of(own.first().copied().unwrap_or(f64::NAN), rest, takes_nan));
            continue;
        };
        branches.push(Branch { feature, mode: *mode, split: splits[node], if_true, if_false, takes_nan });
    }
    branches.extend(behind);
    let roots: Option<Vec<Child>> = roots.iter().map(|root| child(*root, 0)).collect();
    let (Some(roots), true) = (roots, ids.iter().all(|target| (0..targets).contains(target))) else {
        fail!("a leaf has a target that is not one of the {targets}, or a tree has a root that is not a node")
    };
    let aggregate = attrs.int("aggregate_function", 1)?;
    require!((0..=3).contains(&aggregate), "attribute `aggregate_function` is {aggregate}, not 0 to 3");
    let begins = (0..=ids.len()).collect();
    let votes = ids.into_iter().zip(weights).collect();
    Forest { branches, begins, votes, roots, base: Vec::new(), targets, aggregate, dtype }.checked()
}
