//! Operators that ONNX does not have, defined by the user who compiles a model.
//!
//! ```
//! use kernpack_compiler::te;
//! use kernpack_graph::op::{CustomOperator, Pattern, element_tensor};
//!
//! // `Swish` of the domain `com.example`: x sigmoid(beta x).
//! let swish = CustomOperator::new("com.example", "Swish", |call| {
//!     let (x, beta) = (call.input(0)?, call.attrs.float("beta", 1.0)?);
//!     Ok(vec![element_tensor(&x.shape, |position| {
//!         let x = x.at(position);
//!         &x * te::sigmoid(&x * te::constant(beta, x.dtype()))
//!     })])
//! });
//! let options = kernpack_graph::ModelOptions {
//!     operators: vec![swish.pattern(Pattern::Elementwise)],
//!     ..Default::default()
//! };
//! # let _ = options;
//! ```

use core::fmt;
use std::sync::Arc;

use kernpack_compiler::ir::Tensor;

use super::{Call, Operator, Pattern};
use crate::error::{Result, full_name, require};

/// The function that computes the outputs of an operator.
type Make = dyn Fn(&Call) -> Result<Vec<Tensor>> + Send + Sync;

/// An operator of another domain, or one of ONNX that is not supported.
#[derive(Clone)]
pub struct CustomOperator {
    domain: Arc<str>,
    name: Arc<str>,
    /// The name with the domain.
    full_name: Arc<str>,
    pattern: Pattern,
    make: Arc<Make>,
}

impl CustomOperator {
    /// Defines the operator `name` of `domain`, which is "" for operators of ONNX itself. `make`
    /// returns the outputs of a node from its attributes and its inputs, whose shapes are known.
    /// Values that depend only on known inputs are computed at compile time. `make` is called
    /// several times for a node and must return the same each time.
    pub fn new(domain: &str, name: &str, make: impl Fn(&Call) -> Result<Vec<Tensor>> + Send + Sync + 'static) -> Self {
        let full_name = full_name(domain, name).into();
        Self { domain: domain.into(), name: name.into(), full_name, pattern: Pattern::Opaque, make: Arc::new(make) }
    }

    /// Returns the name with the domain.
    pub(crate) fn full_name(&self) -> &str {
        &self.full_name
    }

    /// Sets the pattern, which determines the nodes that may be fused with this operator. By
    /// default, the operator has its own kernel. [`Pattern::View`] guarantees that the output has
    /// the elements of the first input in their order.
    #[must_use]
    pub fn pattern(mut self, pattern: Pattern) -> Self {
        self.pattern = pattern;
        self
    }

    /// Rejects operators of the compiler itself: passes depend on their meaning.
    pub(crate) fn check(&self) -> Result<()> {
        let is_own = super::find(&self.name).is_some() && super::domain_of(&self.name) == &*self.domain;
        require!(!is_own, "operator {} is one of the compiler's, and is not replaced", self.full_name);
        Ok(())
    }

    /// Returns true if a node of a model uses this operator.
    pub(crate) fn is(&self, domain: &str, name: &str) -> bool {
        *self.domain == *domain && *self.name == *name
    }
}

/// Without the computation, which has no text.
impl fmt::Debug for CustomOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.full_name, self.pattern)
    }
}

/// The operator of a node.
#[derive(Clone)]
pub struct NodeOp(Kind);

#[derive(Clone)]
enum Kind {
    Listed(&'static Operator),
    Custom(CustomOperator),
}

impl NodeOp {
    /// Returns its name. A registered operator has its domain as a prefix, so that it differs from
    /// those of the compiler.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Listed(operator) => operator.name,
            Kind::Custom(custom) => &custom.full_name,
        }
    }

    /// Returns the operator of ONNX, or of the compiler itself, whose meaning passes know. `None`
    /// for a registered one.
    pub fn listed(&self) -> Option<&'static Operator> {
        match &self.0 {
            Kind::Listed(operator) => Some(operator),
            Kind::Custom(_) => None,
        }
    }

    /// Returns the fusion pattern.
    pub fn pattern(&self) -> Pattern {
        match &self.0 {
            Kind::Listed(operator) => operator.pattern,
            Kind::Custom(custom) => custom.pattern,
        }
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// Returns an error for inputs and attributes that do not match the operator.
    pub fn make(&self, call: &Call) -> Result<Vec<Tensor>> {
        match &self.0 {
            Kind::Listed(operator) => (operator.make)(call),
            Kind::Custom(custom) => (custom.make)(call),
        }
    }
}

impl From<&'static Operator> for NodeOp {
    fn from(operator: &'static Operator) -> Self {
        Self(Kind::Listed(operator))
    }
}

impl From<CustomOperator> for NodeOp {
    fn from(custom: CustomOperator) -> Self {
        Self(Kind::Custom(custom))
    }
}
