//! Operators of `ai.onnx.ml` on numbers: ensembles of trees, columns, thresholds.

use kernpack_compiler::ir::{Expr, F32, F64, I64, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op};

use super::call::{extents, tensor};
use super::statements::{Variable, as_long_as, count_of, each, element, put, when};
use super::{Call, Operator, Pattern};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "ArrayFeatureExtractor", pattern: Pattern::Injective, make: columns },
    Operator { name: "Binarizer", pattern: Pattern::Elementwise, make: binarize },
    Operator { name: "TreeEnsemble", pattern: Pattern::Opaque, make: trees },
];

fn columns(call: &Call) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let Some((&extent, outer)) = x.shape.split_last() else { fail!("the input is a scalar") };
    let count = count_of(&indices.shape);
    require!(extent > 0 && count > 0, "columns {:?} of {:?}", indices.shape, x.shape);
    let outer = if outer.is_empty() { vec![1] } else { outer.to_vec() };
    let mut shape = outer.clone();
    shape.push(count);
    Ok(vec![tensor(&shape, |position| {
        let last = super::call::unflatten(&position[outer.len()], &indices.shape);
        let index = indices.at(&last).cast(I64).max(0).min(extent - 1);
        let mut at = position[..x.rank() - 1].to_vec();
        at.push(index);
        x.at(&at)
    })])
}

fn binarize(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let threshold = call.attrs.float("threshold", 0.0)?;
    Ok(vec![tensor(&x.shape, |position| {
        let is_above = x.at(position).greater(te::constant(threshold, x.dtype));
        Expr::select(is_above, te::constant(1.0, x.dtype), te::constant(0.0, x.dtype))
    })])
}

/// The comparison of a node with several values.
const MEMBER: i64 = 6;

/// The attributes of an ensemble as tables.
struct Tables {
    features: Vec<i64>,
    modes: Vec<i64>,
    splits: Constant,
    /// Nodes and leaves for each outcome; leaves come behind the nodes.
    yes: Vec<i64>,
    no: Vec<i64>,
    missing: Vec<i64>,
    /// Where the values of a node of [`MEMBER`] begin and end.
    begins: Vec<i64>,
    ends: Vec<i64>,
    members: Constant,
    targets: Vec<i64>,
    weights: Constant,
    roots: Vec<i64>,
}

impl Tables {
    fn of(attrs: &Attrs) -> Result<Self> {
        let ints = |name: &str| match attrs.ints(name)? {
            Some(values) => Ok(values),
            None => fail!("attribute `{name}` is missing"),
        };
        let tensor = |name: &str| match attrs.get(name) {
            Some(Attr::Tensor(constant)) => Ok(constant.clone()),
            _ => fail!("attribute `{name}` is missing"),
        };
        let (features, splits, modes) =
            (ints("nodes_featureids")?, tensor("nodes_splits")?, tensor("nodes_modes")?.to_ints()?);
        let (targets, weights, roots) = (ints("leaf_targetids")?, tensor("leaf_weights")?, ints("tree_roots")?);
        let nodes = features.len();
        let leaves = targets.len();
        let missing = attrs.ints("nodes_missing_value_tracks_true")?.unwrap_or_else(|| vec![0; nodes]);
        let way = |ids: &str, are_leaves: &str| -> Result<Vec<i64>> {
            let (ids, are_leaves) = (ints(ids)?, ints(are_leaves)?);
            require!(ids.len() == nodes && are_leaves.len() == nodes, "attributes of {nodes} nodes have other lengths");
            let places = ids.iter().zip(&are_leaves).map(|(id, is_leaf)| {
                let most = if *is_leaf == 0 { nodes } else { leaves };
                let fits = usize::try_from(*id).is_ok_and(|id| id < most);
                require!(fits, "a node has a branch to {id} of {most}");
                Ok(if *is_leaf == 0 { *id } else { *id + i64::try_from(nodes).unwrap_or(0) })
            });
            places.collect()
        };
        let (yes, no) = (way("nodes_truenodeids", "nodes_trueleafs")?, way("nodes_falsenodeids", "nodes_falseleafs")?);
        let same = modes.len() == nodes && splits.len() == nodes && missing.len() == nodes && weights.len() == leaves;
        require!(same && nodes > 0, "attributes of {nodes} nodes and {leaves} leaves have other lengths");
        let fits = roots.iter().all(|root| usize::try_from(*root).is_ok_and(|root| root < nodes));
        require!(fits && !roots.is_empty(), "the roots {roots:?} of {nodes} nodes");
        require!(modes.iter().all(|mode| (0..=MEMBER).contains(mode)), "a node compares in an unknown way");
        let members = match attrs.get("membership_values") {
            Some(Attr::Tensor(constant)) => constant.clone(),
            _ => Constant::new(splits.dtype(), &[0], Vec::new())?,
        };
        require!(members.dtype() == splits.dtype(), "members of {} and splits of {}", members.dtype(), splits.dtype());
        // The values of each node end with a NaN.
        let values = members.to_floats()?;
        let (mut begins, mut ends, mut next) = (vec![0; nodes], vec![0; nodes], 0);
        for node in (0..nodes).filter(|node| modes[*node] == MEMBER) {
            let Some(length) = values[next..].iter().position(|value| value.is_nan()) else {
                fail!("attribute `membership_values` has no values for node {node}")
            };
            begins[node] = i64::try_from(next).unwrap_or(0);
            ends[node] = i64::try_from(next + length).unwrap_or(0);
            next += length + 1;
        }
        Ok(Self { features, modes, splits, yes, no, missing, begins, ends, members, targets, weights, roots })
    }
}

/// What [`trees`] reads besides its input: numbers of nodes as rows of one table, splits, members, weights, the targets of leaves, and the roots.
pub(super) fn tables(attrs: &Attrs) -> Result<Vec<Option<Constant>>> {
    let tables = Tables::of(attrs)?;
    let rows =
        [&tables.features, &tables.modes, &tables.yes, &tables.no, &tables.missing, &tables.begins, &tables.ends];
    let numbers: Vec<i64> = rows.into_iter().flatten().copied().collect();
    // Without members, one that is never read: a tensor has elements.
    let members = if tables.members.is_empty() { tables.splits.clone() } else { tables.members };
    let (targets, roots) = (Constant::of_ints(&tables.targets), Constant::of_ints(&tables.roots));
    let all = [Constant::of_ints(&numbers), tables.splits, members, tables.weights, targets, roots];
    Ok(all.into_iter().map(Some).collect())
}

fn trees(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let tables = Tables::of(call.attrs)?;
    let [rows, width] = x.shape[..] else { fail!("expected rows of features, got {:?}", x.shape) };
    let targets = match call.attrs.find_int("n_targets")? {
        Some(targets) => targets,
        None => tables.targets.iter().max().map_or(0, |last| last + 1),
    };
    require!(x.dtype == F32 || x.dtype == F64, "features of {} are not supported", x.dtype);
    require!(
        tables.splits.dtype() == x.dtype && tables.weights.dtype() == x.dtype,
        "splits and weights of other types than the features, {}",
        x.dtype
    );
    require!(tables.features.iter().all(|feature| (0..width).contains(feature)), "a node reads a feature of {width}");
    require!(tables.targets.iter().all(|target| (0..targets).contains(target)), "a leaf has a target of {targets}");
    let aggregate = call.attrs.int("aggregate_function", 1)?;
    let (start, join): (Expr, fn(Expr, Expr) -> Expr) = match aggregate {
        0 | 1 => (te::constant(0.0, x.dtype), |a, b| a + b),
        2 => (te::max_value(x.dtype), |a, b| a.min(b)),
        3 => (te::min_value(x.dtype), |a, b| a.max(b)),
        other => fail!("attribute `aggregate_function` is {other}, not 0 to 3"),
    };
    let sigmoid = match call.attrs.int("post_transform", 0)? {
        0 => false,
        2 => true,
        other => fail!("attribute `post_transform` {other} is not supported; 0 (none) and 2 (logistic) are"),
    };
    let shape = [rows, targets];
    if shape.contains(&0) {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype))]);
    }
    let mut tensors = Vec::new();
    for index in 0..7 {
        tensors.push(call.input(index)?.tensor.clone());
    }
    let nodes = i64::try_from(tables.features.len()).unwrap_or(i64::MAX);
    let ensemble = i64::try_from(tables.roots.len()).unwrap_or(i64::MAX);
    let op = extern_op("trees", &tensors).output(extents(&shape), x.dtype);
    let scores = op.body(|inputs, outputs| {
        let [x, numbers, splits, members, weights, ids, roots] = inputs else { return Stmt::nothing() };
        let place = Variable::index("place");
        let holds = Variable::index("holds");
        let value = Variable::new("value", x.dtype);
        let left = Variable::index("left");
        let number = |row: i64| element(numbers, place.get() + row * nodes);
        let set = |condition: Expr| holds.set(Expr::select(condition, Expr::int(1), Expr::int(0)));
        let compared = |split: &Expr| {
            let v = value.get();
            let ways = [v.less_equal(split), v.less(split), v.greater_equal(split), v.greater(split), v.equals(split)];
            let ways = ways.into_iter().zip(0i64..);
            ways.fold(v.differs(split), |other, (way, mode)| Expr::select(number(1).equals(mode), way, other))
        };
        let row = each("row", rows, |row| {
            let member = each("member", number(6) - number(5), |index| {
                when(value.get().equals(element(members, number(5) + index)), holds.set(1))
            });
            let step = Stmt::seq([
                value.set(element(x, row * width + number(0))),
                holds.set(0),
                Stmt::if_then(number(1).equals(MEMBER), member, Some(set(compared(&element(splits, place.get()))))),
                when(te::isnan(value.get()).and(number(4).differs(0)), holds.set(1)),
                place.set(Expr::select(holds.get().equals(1), number(2), number(3))),
                left.add(-1),
            ]);
            let at = |target: Expr| row * targets + target;
            let leaf = || place.get() - nodes;
            let slot = at(element(ids, leaf()));
            let joined = join(element(&outputs[0], slot.clone()), element(weights, leaf()));
            let tree = each("tree", ensemble, |tree| {
                Stmt::seq([
                    place.set(element(roots, tree.clone())),
                    // A way through nodes that are no tree ends after as many steps as there are nodes.
                    left.set(nodes),
                    as_long_as(place.get().less(nodes).and(left.get().greater(0)), step),
                    when(place.get().greater_equal(nodes), put(&outputs[0], slot, joined)),
                ])
            });
            let begin = each("target", targets, |target| put(&outputs[0], at(target.clone()), start));
            Stmt::seq([begin, tree])
        });
        Stmt::seq([place.begin(0), holds.begin(0), left.begin(0), value.begin(te::constant(0.0, x.dtype)), row])
    });
    let [scores] = &scores[..] else { fail!("an ensemble has one result") };
    if aggregate != 0 && !sigmoid {
        return Ok(vec![scores.clone()]);
    }
    Ok(vec![tensor(&shape, |position| {
        let score = scores.at(position);
        #[expect(clippy::cast_precision_loss, reason = "a number of trees")]
        let score = if aggregate == 0 { score / te::constant(ensemble as f64, x.dtype) } else { score };
        if sigmoid { te::sigmoid(score) } else { score }
    })])
}
