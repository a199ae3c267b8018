"""Single operators of the domain ai.onnx.ml with random attributes. `ALL` has a function for each.

Labels depend on comparisons: scores are sums of multiples of 1/8, so that they are exact until a transform rounds them.
"""

import numpy as np
import onnx
from case import Case
from onnx import helper

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

ALL = {}


def operator(function):
    """Registers an operator."""
    ALL[function.__name__] = function
    return function


def make(what, kind, inputs, outputs, *, version=3, **attributes):
    """A case of one node; `outputs` has the element types of its results."""
    of_type = helper.np_dtype_to_tensor_dtype
    node = helper.make_node(kind, list(inputs), [f"y{place}" for place in range(len(outputs))], domain=DOMAIN, **attributes)
    infos = [helper.make_tensor_value_info(name, of_type(value.dtype), list(value.shape)) for name, value in inputs.items()]
    results = [helper.make_tensor_value_info(f"y{place}", of_type(np.dtype(dtype)), None) for place, dtype in enumerate(outputs)]
    graph = helper.make_graph([node], "graph", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid(DOMAIN, version)], ir_version=10)
    return Case(f"{kind} {what}", model, inputs, relative=1e-4, of_largest=1e-5, absolute=1e-6)


def eighths(draw, *shape):
    """Multiples of 1/8 as a list."""
    return [float(value) for value in draw.exact("float32", shape).ravel()]


def rows(draw, dtype="float32", least=1, nan=0.0):
    """Rows of features that are multiples of 1/8, some of them NaN."""
    shape = [draw.one(1, 2, draw.number(3, 9), 17, 70), draw.number(least, 6)]
    x = draw.exact(dtype, shape)
    return np.where(draw.numpy.random(shape) < nan, np.nan, x).astype(dtype) if nan else x


class Trees:
    """Random trees, as lists of nodes: branches are before their children."""

    def __init__(self, draw, features, modes, nan):
        self.draw, self.features, self.modes, self.nan = draw, features, modes, nan
        self.nodes, self.leaves = [], []
        self.count = draw.one(1, 2, draw.number(3, 12), 20)
        for tree in range(self.count):
            self.begin = len(self.nodes)
            self.grow(tree, draw.one(0, 1, draw.number(2, 6)))

    def grow(self, tree, levels):
        """Adds a node with everything below it; returns its number in the tree."""
        draw, place = self.draw, len(self.nodes)
        number = place - self.begin
        if levels == 0 or draw.chance(0.15):
            self.nodes.append((tree, number, 0, "LEAF", 0.0, 0, 0, 0))
            self.leaves.append((tree, number))
            return number
        self.nodes.append(None)
        if_true, if_false = self.grow(tree, levels - 1), self.grow(tree, levels - 1)
        split = float(draw.exact("float32", [1])[0])
        self.nodes[place] = (tree, number, draw.number(0, self.features - 1), draw.one(*self.modes), split, if_true, if_false, int(self.nan and draw.chance()))
        return number

    def attributes(self):
        """The attributes of nodes."""
        names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")
        return {f"nodes_{name}": list(column) for name, column in zip(names, zip(*self.nodes))}

    def votes(self, prefix, targets, weights):
        """The attributes of votes: for one target, all, or some of them."""
        draw = self.draw
        kind = draw.one("all", "one", "some")
        chosen = []
        for tree, node in self.leaves:
            ids = range(targets) if kind == "all" else [tree % targets] if kind == "one" else sorted(draw.random.sample(range(targets), draw.number(1, targets)))
            chosen += [(tree, node, target, float(weights())) for target in ids]
        names = ("treeids", "nodeids", "ids", "weights")
        return {f"{prefix}_{name}": list(column) for name, column in zip(names, zip(*chosen))}


def forest(draw, *dtypes):
    """Rows and trees."""
    nan = draw.one(0.0, 0.0, 0.2)
    x = rows(draw, draw.one(*dtypes), nan=0.0)
    if nan and x.dtype == "float32":
        x = np.where(draw.numpy.random(x.shape) < nan, np.float32(np.nan), x)
    modes = draw.one(MODES[:1], MODES[:1], MODES[1:2], MODES[2:3], MODES[3:4], MODES)
    return x, Trees(draw, x.shape[1], modes, nan > 0)


@operator
def TreeEnsembleRegressor(draw):  # noqa: N802
    x, trees = forest(draw, "float32")
    targets = draw.one(1, 1, draw.number(2, 5))
    votes = trees.votes("target", targets, lambda: draw.exact("float32", [1])[0])
    more = {"base_values": eighths(draw, targets)} if draw.chance(0.3) else {}
    transform = draw.one(*TRANSFORMS) if targets > 1 else "NONE"
    aggregate = draw.one("SUM", "SUM", "AVERAGE", "MIN", "MAX")
    return make(f"{aggregate} {transform}", "TreeEnsembleRegressor", {"x": x}, ["float32"], **trees.attributes(), **votes, n_targets=targets, aggregate_function=aggregate, post_transform=transform, **more)


@operator
def TreeEnsembleClassifier(draw):  # noqa: N802
    x, trees = forest(draw, "float32", "float32", "int64")
    classes = draw.one(2, draw.number(3, 6))
    positive = draw.chance()
    weights = (lambda: abs(draw.exact("float32", [1])[0])) if positive else (lambda: draw.exact("float32", [1])[0])
    votes = trees.votes("class", 1 if classes == 2 else classes, weights)
    count = 1 if classes == 2 else classes
    more = {"base_values": eighths(draw, count)} if draw.chance(0.3) else {}
    labels = draw.one(list(range(classes)), [5 * label - 3 for label in range(classes)])
    transform = draw.one(*TRANSFORMS)
    return make(f"{classes} {transform}", "TreeEnsembleClassifier", {"x": x}, ["int64", "float32"], **trees.attributes(), **votes, classlabels_int64s=labels, post_transform=transform, **more)


@operator
def TreeEnsemble(draw):  # noqa: N802
    dtype = draw.one("float32", "float32", "float64")
    x = rows(draw, dtype, nan=draw.one(0.0, 0.2))
    draw_trees = Trees(draw, x.shape[1], MODES, True)
    targets = draw.one(1, draw.number(2, 4))
    branches = [node for node in draw_trees.nodes if node[3] != "LEAF"]
    if not branches or any(draw_trees.nodes[place][3] == "LEAF" for place in first_of(draw_trees)):
        return TreeEnsemble(draw)
    places = {(node[0], node[1]): place for place, node in enumerate(branches)}
    leaves = {leaf: place for place, leaf in enumerate(draw_trees.leaves)}
    child = {number: [(node[0], node[number]) for node in branches] for number in (5, 6)}
    modes = [MODES.index(node[3]) for node in branches]
    members = []
    for place in range(len(modes)):
        if draw.chance(0.2):
            modes[place] = 6
            members += eighths(draw, draw.number(1, 3)) + [float("nan")]
    tensor = helper.make_tensor
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    attributes = {
        "nodes_featureids": [node[2] for node in branches],
        "nodes_modes": tensor("modes", onnx.TensorProto.UINT8, [len(modes)], modes),
        "nodes_splits": tensor("splits", element, [len(modes)], [node[4] for node in branches]),
        "nodes_truenodeids": [places.get(key, leaves.get(key)) for key in child[5]],
        "nodes_falsenodeids": [places.get(key, leaves.get(key)) for key in child[6]],
        "nodes_trueleafs": [int(key in leaves) for key in child[5]],
        "nodes_falseleafs": [int(key in leaves) for key in child[6]],
        "nodes_missing_value_tracks_true": [node[7] for node in branches],
        "leaf_targetids": [draw.number(0, targets - 1) for _ in leaves],
        "leaf_weights": tensor("weights", element, [len(leaves)], eighths(draw, len(leaves))),
        "tree_roots": [places[tree, 0] for tree in range(draw_trees.count)],
    }
    if members:
        attributes["membership_values"] = tensor("members", element, [len(members)], members)
    return make(f"{dtype} {targets}", "TreeEnsemble", {"x": x}, [dtype], version=5, **attributes, n_targets=targets, aggregate_function=draw.one(0, 1, 1))


def first_of(trees):
    """The places of roots."""
    return [place for place, node in enumerate(trees.nodes) if node[1] == 0]


@operator
def LinearClassifier(draw):  # noqa: N802
    x = rows(draw, draw.one("float32", "float32", "float64", "int64", "int32"))
    classes = draw.one(2, draw.number(3, 6))
    scores = draw.one(1, 2) if classes == 2 else classes
    transform = draw.one(*TRANSFORMS)
    labels = draw.one(list(range(classes)), [5 * label - 3 for label in range(classes)])
    return make(f"{classes} {transform}", "LinearClassifier", {"x": x}, ["int64", "float32"], version=1, coefficients=eighths(draw, scores * x.shape[1]), intercepts=eighths(draw, scores), classlabels_ints=labels, post_transform=transform)


@operator
def LinearRegressor(draw):  # noqa: N802
    x = rows(draw)
    targets = draw.one(1, draw.number(2, 5))
    more = {"intercepts": eighths(draw, targets)} if draw.chance() else {}
    transform = draw.one(*TRANSFORMS) if targets > 1 else "NONE"
    return make(transform, "LinearRegressor", {"x": x}, ["float32"], version=1, coefficients=eighths(draw, targets * x.shape[1]), targets=targets, post_transform=transform, **more)


@operator
def Scaler(draw):  # noqa: N802
    x = rows(draw, draw.one("float32", "float64", "int64", "int32"))
    count = draw.one(1, x.shape[1])
    return make(str(x.dtype), "Scaler", {"x": x}, ["float32"], version=1, offset=eighths(draw, count), scale=eighths(draw, count))


@operator
def Normalizer(draw):  # noqa: N802
    x = rows(draw, draw.one("float32", "float64", "int64", "int32"))
    if draw.chance(0.3):
        x[0] = 0
    norm = draw.one("MAX", "L1", "L2")
    return make(norm, "Normalizer", {"x": x}, ["float32"], version=1, norm=norm)


@operator
def Imputer(draw):  # noqa: N802
    dtype = draw.one("float32", "int64")
    x = rows(draw, dtype, nan=0.3 if dtype == "float32" else 0.0)
    count = draw.one(1, x.shape[1])
    if dtype == "int64":
        return make(dtype, "Imputer", {"x": x}, [dtype], version=1, imputed_value_int64s=[draw.number(-9, 9) for _ in range(count)], replaced_value_int64=draw.number(-3, 3))
    return make(dtype, "Imputer", {"x": x}, [dtype], version=1, imputed_value_floats=eighths(draw, count), replaced_value_float=draw.one(float("nan"), 0.125))


@operator
def SVMRegressor(draw):  # noqa: N802
    x = rows(draw)
    count = draw.number(1, 7)
    kind = draw.one("LINEAR", "POLY", "RBF", "SIGMOID")
    return make(kind, "SVMRegressor", {"x": x}, ["float32"], version=1, coefficients=eighths(draw, count), support_vectors=eighths(draw, count * x.shape[1]), n_supports=count, rho=eighths(draw, 1), kernel_type=kind, kernel_params=[0.125, draw.one(0.0, 0.5), draw.one(2.0, 3.0)], one_class=int(draw.chance(0.3)))


@operator
def SVMClassifier(draw):  # noqa: N802
    x = rows(draw)
    classes = draw.one(2, draw.number(3, 5))
    counts = [draw.number(1, 4) for _ in range(classes)]
    total, pairs = sum(counts), classes * (classes - 1) // 2
    kind = draw.one("LINEAR", "POLY", "RBF", "SIGMOID")
    more = {"prob_a": [-abs(value) for value in eighths(draw, pairs)], "prob_b": eighths(draw, pairs)} if draw.chance() else {}
    # An odd multiple of 1/16 as the addend: scores of linear kernels are not zero.
    rho = [value + 1 / 1024 for value in eighths(draw, pairs)]
    labels = draw.one(list(range(classes)), [5 * label - 3 for label in range(classes)])
    return make(f"{kind} {classes} {sorted(more)}", "SVMClassifier", {"x": x}, ["int64", "float32"], version=1, coefficients=eighths(draw, (classes - 1) * total), support_vectors=eighths(draw, total * x.shape[1]), vectors_per_class=counts, rho=rho, kernel_type=kind, kernel_params=[0.125, draw.one(0.0, 0.5), draw.one(2.0, 3.0)], classlabels_ints=labels, **more)


@operator
def OneHotEncoder(draw):  # noqa: N802
    x = rows(draw, draw.one("int64", "float32"))
    categories = sorted(draw.random.sample(range(-9, 10), draw.number(1, 8)))
    draw.random.shuffle(categories)
    return make(str(categories), "OneHotEncoder", {"x": x}, ["float32"], version=1, cats_int64s=categories, zeros=1)


@operator
def LabelEncoder(draw):  # noqa: N802
    count = draw.one(1, draw.number(2, 9), draw.number(17, 40))
    keys = draw.random.sample(range(-40, 41), count)
    has_ints, gives_ints = draw.chance(), draw.chance()
    x = draw.array("int64", [draw.number(1, 70)]) if has_ints else draw.one(1, 8) * draw.exact("float32", [draw.number(1, 70)])
    more = {"keys_int64s": keys} if has_ints else {"keys_floats": [float(key) for key in keys]}
    more |= {"values_int64s": [draw.number(-99, 99) for _ in keys], "default_int64": draw.number(-9, 9)} if gives_ints else {"values_floats": eighths(draw, count), "default_float": 0.5}
    return make(f"{count}", "LabelEncoder", {"x": x}, ["int64" if gives_ints else "float32"], version=2, **more)


@operator
def FeatureVectorizer(draw):  # noqa: N802
    count, height = draw.number(1, 4), draw.number(1, 5)
    inputs = {f"x{place}": draw.exact("float32", [height, draw.number(1, 5)]) for place in range(count)}
    widths = [max(1, value.shape[1] + draw.one(0, 0, 1, -1)) for value in inputs.values()]
    return make(str(widths), "FeatureVectorizer", inputs, ["float32"], version=1, inputdimensions=widths)


@operator
def ArrayFeatureExtractor(draw):  # noqa: N802
    x = rows(draw, draw.one("float32", "int64", "float64"))
    places = np.array([draw.number(0, x.shape[1] - 1) for _ in range(draw.number(1, 5))], "int64")
    return make(str(places), "ArrayFeatureExtractor", {"x": x, "places": places}, [str(x.dtype)], version=1)


@operator
def Binarizer(draw):  # noqa: N802
    x = rows(draw)
    return make("", "Binarizer", {"x": x}, ["float32"], version=1, threshold=draw.one(0.0, 0.5))
