//! Kernels of the domain `ai.onnx.ml` that are written with statements: trees, tables, and the
//! probabilities of support vector machines.
//!
//! The importer makes the other parts of these operators from nodes of ONNX (`import/ml`). Long
//! attributes become tables: constant inputs after those of the node ([`tables`]).

mod facts;
mod forest;
mod lookup;
mod pairs;
mod read;
mod trees;

pub(crate) use lookup::LOOKUP;
pub(crate) use pairs::PAIR_PROBABILITIES;
pub(crate) use trees::{CLASSIFIER_TREES, REGRESSOR_TREES, TREES};

use super::{NodeOp, Operator};
use crate::attrs::Attrs;
use crate::constant::Constant;
use crate::error::Result;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[trees::TREE_ENSEMBLE];

/// The operators that models of the domain may have, and that the importer makes from other nodes.
pub(crate) const IMPORTED: &[&str] = &[
    "CastMap",
    "CategoryMapper",
    "DictVectorizer",
    "FeatureVectorizer",
    "Imputer",
    "LabelEncoder",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "OneHotEncoder",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "ZipMap",
];

/// Returns the additional tables of an operator, from its attributes.
///
/// # Errors
/// Returns an error for attributes that do not match each other.
pub(crate) fn tables(name: &str, attrs: &Attrs) -> Result<Vec<Constant>> {
    // A node of the importer has its tables as inputs, and no attributes.
    let has_tables = name == "TreeEnsemble" && attrs.iter().next().is_some();
    if has_tables { tree_tables(name, attrs, false) } else { Ok(Vec::new()) }
}

/// Returns the tables of an operator of trees. `is_single` is true for a classifier whose votes are
/// all for the same class: it has one result.
///
/// # Errors
/// As for [`tables`].
pub(crate) fn tree_tables(name: &str, attrs: &Attrs, is_single: bool) -> Result<Vec<Constant>> {
    match name {
        "TreeEnsemble" => read::of_leaves(attrs)?.tables(),
        "TreeEnsembleClassifier" => read::of_votes("class", attrs, is_single)?.tables(),
        _ => read::of_votes("target", attrs, is_single)?.tables(),
    }
}

/// Returns true for operators that are written with statements, and that compute each row of their
/// results from this row of their first input, and from constants.
pub(crate) fn is_by_row(operator: &NodeOp) -> bool {
    const BY_ROW: [&str; 5] =
        ["LabelEncoder", "SVMClassifier", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"];
    operator.listed().is_some_and(|listed| BY_ROW.contains(&listed.name))
}
