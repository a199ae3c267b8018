//! Operators of the domain `ai.onnx.ml`, from nodes of ONNX and the kernels of `op/ml`.
//!
//! Scores, labels and their transforms are ordinary nodes, so that products are the fast ones, and
//! that the rest is fused.

mod features;
mod label;
mod linear;
pub(super) mod names;
mod scores;
mod site;
mod svm;
mod trees;

use self::site::Classes;
use super::site::Site;
use super::{Importer, Item};
use crate::attrs::Attrs;
use crate::error::{Result, fail};
use crate::graph::ValueId;
use crate::onnx;

/// The domain.
pub(super) const DOMAIN: &str = "ai.onnx.ml";

/// The number of an element type in ONNX.
const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// The advice for operators whose results are maps.
const WITHOUT_MAPS: &str = "export the model with tensors instead, in skl2onnx with `options={\"zipmap\": False}`";

impl<'a> Importer<'_, 'a> {
    /// Imports a node of the domain. `None` for one that is an operator of its own.
    pub(super) fn learned(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> Result<Option<Vec<Option<Item>>>> {
        let name = super::label(node);
        if node.op_type == "ZipMap" {
            return Ok(Some(vec![Some(self.zip_map(name, inputs, attrs)?)]));
        }
        let mut site = Site::new(&mut self.graph, name, attrs, inputs, &[]);
        let tensor = |id: ValueId| Some(vec![Some(Item::Tensor(id))]);
        let classified = |(classes, [label, scores]): (Classes, [ValueId; 2])| {
            Some(vec![Some(names::label(label, &classes)), Some(Item::Tensor(scores))])
        };
        let made = match node.op_type.as_str() {
            "FeatureVectorizer" => tensor(features::vectorizer(&mut site)?),
            "Imputer" => tensor(features::imputer(&mut site)?),
            "LabelEncoder" => tensor(label::encoder(&mut site)?),
            "LinearClassifier" => classified(linear::classifier(&mut site)?),
            "LinearRegressor" => tensor(linear::regressor(&mut site)?),
            "Normalizer" => tensor(features::normalizer(&mut site)?),
            "OneHotEncoder" => tensor(features::one_hot(&mut site)?),
            "SVMClassifier" => classified(svm::classifier(&mut site)?),
            "SVMRegressor" => tensor(svm::regressor(&mut site)?),
            "Scaler" => tensor(features::scaler(&mut site)?),
            "TreeEnsemble" => tensor(trees::ensemble(&mut site)?),
            "TreeEnsembleClassifier" => classified(trees::classifier(&mut site)?),
            "TreeEnsembleRegressor" => tensor(trees::regressor(&mut site)?),
            "CastMap" | "DictVectorizer" => fail!("its input is a map, which is not supported: {WITHOUT_MAPS}"),
            "CategoryMapper" => {
                fail!(
                    "it maps texts to integers, or back, which is not supported: export the model with integer categories"
                )
            }
            _ => None,
        };
        if made.is_some() {
            site.check_inputs()?;
        }
        Ok(made)
    }
}
