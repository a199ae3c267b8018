"""Estimators, transformers and pipelines of scikit-learn with random data, as skl2onnx writes them. `ALL` has a function for each.

Rows are those that the estimator was trained with, and others. A `ZipMap` is left out, because its result is not an array.
"""

import warnings

import numpy as np
from case import Case, NotMade
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn import cluster, decomposition, discriminant_analysis, ensemble, feature_selection, impute, linear_model, multiclass, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree

#: The newest versions of operators that skl2onnx writes for all of these.
TARGETS = {"": 21, "ai.onnx.ml": 3}


def rows(draw, classes):
    """Features with two decimals, and classes that depend on them."""
    count, width = draw.number(40, 120), draw.number(2, 8)
    x = (draw.numpy.standard_normal((count, width)) * draw.one(1, 3)).round(2).astype("float32")
    scores = x @ draw.numpy.standard_normal((width, classes))
    return x, scores.argmax(1), scores[:, 0]


def holes(draw, x):
    """Some of the numbers are missing."""
    return np.where(draw.numpy.random(x.shape) < 0.1, np.float32(np.nan), x)


def case(draw, model, x, y, **options):
    """A case of a model that is trained."""
    seed = draw.number(0, 2**31)
    np.random.seed(seed % 2**32)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed % 2**31)
    count = draw.one(1, draw.number(2, 9), len(x))
    kind = Int64TensorType if x.dtype.kind == "i" else FloatTensorType
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x) if y is None else model.fit(x, y)
            made = to_onnx(model, initial_types=[("x", kind([count, x.shape[1]]))], target_opset=TARGETS, options=options or None)
    except Exception as error:
        raise NotMade(f"{type(error).__name__}: {error}") from error
    return Case(repr(model).replace("\n", " ")[:300], made, {"x": x[:count]}, relative=1e-3, of_largest=1e-4, absolute=1e-5)


def classifier(make, missing=False, maps=True):
    """Cases of a classifier with two classes or more. `maps` is false for one without probabilities, which skl2onnx writes without a `ZipMap`."""

    def made(draw):
        model = make(draw)
        x, y, _ = rows(draw, draw.one(2, 3, 5))
        labels = draw.one(np.arange(9), np.array([7, 3, 9, 1, 2]))
        x = holes(draw, x) if missing else x
        return case(draw, model, x, labels[y], **({"zipmap": False} if maps else {}))

    return made


def regressor(make, missing=False, several=True):
    """Cases of a regressor with a target, or several."""

    def made(draw):
        model = make(draw)
        x, _, y = rows(draw, 3)
        y = np.stack([y, -2 * y + x[:, 0]], 1) if several and draw.chance(0.3) else y
        return case(draw, model, holes(draw, x) if missing else x, y)

    return made


def transformer(make, kind="float32"):
    """Cases of a transformer."""

    def made(draw):
        model = make(draw)
        x, y, _ = rows(draw, 3)
        return case(draw, model, x.round().astype(kind) if kind == "int64" else x, y)

    return made


def kernel(draw):
    """Parameters of support vector machines."""
    return {"kernel": draw.one("linear", "poly", "rbf", "sigmoid"), "C": draw.one(0.5, 1.0, 10.0)}


def prepared(draw):
    """A pipeline of an imputer, a scaler, perhaps a projection, and a classifier."""
    last = draw.one(linear_model.LogisticRegression(), ensemble.RandomForestClassifier(5, max_depth=4), svm.SVC())
    middle = [decomposition.PCA(2)] if draw.chance() else []
    return pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler(), *middle, last)


ALL = {
    "decision_tree": classifier(lambda draw: tree.DecisionTreeClassifier(max_depth=draw.one(1, 4, None))),
    "random_forest": classifier(lambda draw: ensemble.RandomForestClassifier(draw.one(1, 9, 40), max_depth=draw.one(2, 6, None))),
    "extra_trees": classifier(lambda draw: ensemble.ExtraTreesClassifier(draw.one(3, 12), max_depth=6)),
    "gradient_boosting": classifier(lambda draw: ensemble.GradientBoostingClassifier(n_estimators=draw.one(2, 20))),
    "bagging": classifier(lambda draw: ensemble.BaggingClassifier(n_estimators=4)),
    "ada_boost": classifier(lambda draw: ensemble.AdaBoostClassifier(n_estimators=4)),
    "decision_tree_regressor": regressor(lambda draw: tree.DecisionTreeRegressor(max_depth=draw.one(1, 5, None))),
    "random_forest_regressor": regressor(lambda draw: ensemble.RandomForestRegressor(draw.one(1, 9, 40), max_depth=draw.one(3, None))),
    "gradient_boosting_regressor": regressor(lambda draw: ensemble.GradientBoostingRegressor(n_estimators=draw.one(2, 20)), several=False),
    "logistic_regression": classifier(lambda draw: linear_model.LogisticRegression(C=draw.one(0.1, 1.0))),
    "ridge_classifier": classifier(lambda draw: linear_model.RidgeClassifier()),
    "sgd_classifier": classifier(lambda draw: linear_model.SGDClassifier(loss=draw.one("hinge", "log_loss", "modified_huber"))),
    "linear_svc": classifier(lambda draw: svm.LinearSVC(), maps=False),
    "linear_regression": regressor(lambda draw: draw.one(linear_model.LinearRegression(), linear_model.Ridge(), linear_model.Lasso(0.01))),
    "svc": classifier(lambda draw: svm.SVC(**kernel(draw))),
    "svc_with_probabilities": classifier(lambda draw: svm.SVC(**kernel(draw), probability=True)),
    "svr": regressor(lambda draw: svm.SVR(**kernel(draw)), several=False),
    "k_means": transformer(lambda draw: cluster.KMeans(draw.number(2, 6), n_init=1)),
    "k_neighbors": classifier(lambda draw: neighbors.KNeighborsClassifier(3)),
    "gaussian_naive_bayes": classifier(lambda draw: naive_bayes.GaussianNB()),
    "multi_layer_perceptron": classifier(lambda draw: neural_network.MLPClassifier((8,), max_iter=20)),
    "discriminant_analysis": classifier(lambda draw: discriminant_analysis.LinearDiscriminantAnalysis()),
    "one_versus_rest": classifier(lambda draw: multiclass.OneVsRestClassifier(linear_model.LogisticRegression())),
    "scalers": transformer(lambda draw: draw.one(preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.MaxAbsScaler(), preprocessing.RobustScaler(), preprocessing.Normalizer(draw.one("l1", "l2")), preprocessing.Binarizer(threshold=0.5))),
    "features": transformer(lambda draw: draw.one(decomposition.PCA(2), preprocessing.PolynomialFeatures(2), preprocessing.KBinsDiscretizer(3, encode="onehot-dense"), feature_selection.SelectKBest(k=1))),
    "categories": transformer(lambda draw: draw.one(preprocessing.OneHotEncoder(sparse_output=False, handle_unknown=draw.one("ignore", "error")), preprocessing.OrdinalEncoder()), "int64"),
    "pipeline": classifier(prepared, missing=True),
}
