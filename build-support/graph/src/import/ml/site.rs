//! Nodes that are added for operators of the domain.
use kernpack::DataType;
use kernpack_compiler::ir::{F32, F64};

use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;
use crate::op::Operator;

/// The names of classes.
pub(super) enum Classes {
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Classes {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ints(labels) => labels.len(),
            Self::Texts(labels) => labels.len(),
        }
    }
}

impl Site<'_> {
    /// Returns the names of classes, which are in one of two attributes.
    pub(super) fn classes(&self, ints: &str) -> Result<Classes> {
        let texts = self.attrs.texts("classlabels_strings")?;
        let numbers = self.attrs.ints(ints)?.unwrap_or_default();
        match (numbers.is_empty(), texts.is_empty()) {
            (false, true) => Ok(Classes::Ints(numbers)),
            (true, false) => Ok(Classes::Texts(texts)),
            _ => fail!("expected one of the attributes `{ints}` and `classlabels_strings`"),
        }
    }

    /// Returns the first input as rows of features: `[rows, features]`. A vector is one row.
    pub(super) fn rows(&mut self) -> Result<ValueId> {
        let x = self.input(0)?;
        match self.shape(x)[..] {
            [_, _] => Ok(x),
            [features] => self.reshaped(x, &[1, features]),
            _ => fail!("expected rows of features, got {:?}", self.shape(x)),
        }
    }

    /// As [`Site::rows`], as floats in single precision.
    pub(super) fn float_rows(&mut self) -> Result<ValueId> {
        let x = self.rows()?;
        self.cast(x, F32)
    }

    /// Adds a node of an operator that is not listed.
    pub(super) fn own(&mut self, operator: &'static Operator, attrs: Attrs, inputs: &[ValueId]) -> Result<ValueId> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.emitter.add(operator.into(), attrs, &inputs, 1).map(|made| made[0])
    }

    /// Converts elements to `float32`, `float64` or `int64`.
    pub(super) fn cast(&mut self, x: ValueId, to: DataType) -> Result<ValueId> {
        if self.dtype(x) == to {
            return Ok(x);
        }
        let code = match to {
            to if to == F32 => super::FLOAT,
            to if to == F64 => 11,
            _ => super::INT64,
        };
        self.node("Cast", &[("to", Attr::Int(code))], &[x])
    }

    /// Adds floats of a type.
    pub(super) fn constant(&mut self, values: &[f64], shape: &[i64], dtype: DataType) -> Result<ValueId> {
        #[expect(clippy::cast_possible_truncation, reason = "they were float32")]
        let bytes: Vec<u8> = match dtype {
            dtype if dtype == F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
        };
        let constant = Constant::new(if dtype == F64 { F64 } else { F32 }, shape, bytes)?;
        Ok(self.emitter.graph.add_known(self.emitter.name, constant))
    }

    /// Adds floats of an attribute.
    pub(super) fn single(&mut self, values: &[f32], shape: &[i64]) -> Result<ValueId> {
        let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        self.constant(&wide, shape, F32)
    }

    /// Adds a float with the type of a value.
    pub(super) fn float(&mut self, value: f64, like: ValueId) -> Result<ValueId> {
        let dtype = self.dtype(like);
        self.constant(&[value], &[], dtype)
    }

    pub(super) fn binary(&mut self, op: &str, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.node(op, &[], &[a, b])
    }

    pub(super) fn unary(&mut self, op: &str, x: ValueId) -> Result<ValueId> {
        self.node(op, &[], &[x])
    }

    /// Combines each element with a number.
    pub(super) fn with(&mut self, op: &str, x: ValueId, number: f64) -> Result<ValueId> {
        let number = self.float(number, x)?;
        self.binary(op, x, number)
    }

    /// Subtracts each element from a number.
    pub(super) fn from(&mut self, number: f64, x: ValueId) -> Result<ValueId> {
        let number = self.float(number, x)?;
        self.binary("Sub", number, x)
    }

    /// Returns the product of rows and the rows of a matrix of an attribute, with an addend for
    /// each row of the matrix.
    pub(super) fn product(&mut self, rows: ValueId, matrix: &[f32], addends: &[f32]) -> Result<ValueId> {
        let width = self.shape(rows)[1];
        let (count, width) = (matrix.len(), usize::try_from(width).unwrap_or(0));
        require!(width > 0 && count % width == 0, "{count} numbers are not rows of {width} features");
        let (height, width) = (int(count / width), int(width));
        let matrix = self.single(matrix, &[height, width])?;
        let matrix = self.node("Transpose", &[("perm", Attr::Ints(vec![1, 0]))], &[matrix])?;
        let product = self.binary("MatMul", rows, matrix)?;
        if addends.iter().all(|addend| *addend == 0.0) {
            return Ok(product);
        }
        let addends = self.single(addends, &[int(addends.len())])?;
        self.binary("Add", product, addends)
    }

    /// Joins columns.
    pub(super) fn columns(&mut self, columns: &[ValueId]) -> Result<ValueId> {
        match columns {
            [column] => Ok(*column),
            _ => self.node("Concat", &[("axis", Attr::Int(1))], columns),
        }
    }
}

pub(super) fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
