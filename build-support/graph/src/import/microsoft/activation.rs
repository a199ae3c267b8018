//! Activations, with a bias before them, and those that other operators name in an attribute.

use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] = &[
    of_domain("BiasGelu", |site| {
        let (x, bias) = (site.input(0)?, site.input(1)?);
        gelu(site, x, Some(bias), "none")
    }),
    of_domain("FastGelu", |site| {
        let (x, bias) = (site.input(0)?, site.optional(1));
        gelu(site, x, bias, "tanh")
    }),
    of_domain("Gelu", |site| {
        let x = site.input(0)?;
        gelu(site, x, None, "none")
    }),
    of_domain("QuickGelu", |site| {
        let (x, alpha) = (site.input(0)?, site.attrs.float32("alpha", 1.702)?);
        site.node("Swish", &[("alpha", Attr::Float(alpha))], &[x]).map(|y| vec![Some(y)])
    }),
];

fn gelu(site: &mut Site<'_>, x: ValueId, bias: Option<ValueId>, how: &str) -> Result<Vec<Option<ValueId>>> {
    if bias.is_some() {
        site.check_row(1, "the bias", x)?;
    }
    let sum = site.plus(x, bias)?;
    site.node("Gelu", &[("approximate", Attr::Text(how.into()))], &[sum]).map(|y| vec![Some(y)])
}

/// An activation with its parameters: the names of attributes of the operator of ONNX.
type Named = (&'static str, &'static [&'static str]);

/// The activations of `FusedConv`, whose parameters are a list.
const OF_CONVOLUTIONS: &[Named] = &[
    ("Clip", &["min", "max"]),
    ("HardSigmoid", &["alpha", "beta"]),
    ("HardSwish", &[]),
    ("LeakyRelu", &["alpha"]),
    ("Relu", &[]),
    ("Sigmoid", &[]),
    ("Tanh", &[]),
];

/// The activations of `FusedGemm`, whose parameters are attributes.
const OF_PRODUCTS: &[Named] = &[
    ("Celu", &["alpha"]),
    ("Elu", &["alpha"]),
    ("HardSigmoid", &["alpha", "beta"]),
    ("LeakyRelu", &["alpha"]),
    ("Relu", &[]),
    ("Selu", &["alpha", "gamma"]),
    ("Sigmoid", &[]),
    ("Softplus", &[]),
    ("Softsign", &[]),
    ("Tanh", &[]),
    ("ThresholdedRelu", &["alpha"]),
];

fn find(site: &Site<'_>, known: &[Named]) -> Result<Option<Named>> {
    let name = site.attrs.text("activation", "")?;
    if name.is_empty() {
        return Ok(None);
    }
    let Some(found) = known.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        fail!("attribute `activation` is `{name}`, which is not supported: expected one of {}", names.join(", "))
    };
    Ok(Some(*found))
}

/// Applies the activation of attribute `activation`, with the numbers of `activation_params`.
pub(super) fn with_list(site: &mut Site<'_>, x: ValueId) -> Result<ValueId> {
    let Some((name, parameters)) = find(site, OF_CONVOLUTIONS)? else { return Ok(x) };
    let values = site.attrs.floats("activation_params")?;
    require!(
        values.len() == parameters.len(),
        "attribute `activation_params` has {} numbers, and {name} takes {}",
        values.len(),
        parameters.len()
    );
    if let ("Clip", [low, high]) = (name, &values[..]) {
        let (low, high) = (site.number(*low, x)?, site.number(*high, x)?);
        return site.node("Clip", &[], &[x, low, high]);
    }
    let attrs: Vec<(&str, Attr)> = parameters.iter().copied().zip(values.into_iter().map(Attr::Float)).collect();
    site.node(name, &attrs, &[x])
}

/// Applies the activation of attribute `activation`, with the numbers of `activation_alpha`,
/// `activation_beta` and `activation_gamma`. Missing ones have the default of the operator.
pub(super) fn with_numbers(site: &mut Site<'_>, x: ValueId) -> Result<ValueId> {
    let Some((name, parameters)) = find(site, OF_PRODUCTS)? else { return Ok(x) };
    let mut attrs = Vec::new();
    for parameter in parameters {
        let given = match *parameter {
            "alpha" => site.attrs.get("activation_alpha"),
            "beta" => site.attrs.get("activation_beta"),
            _ => site.attrs.get("activation_gamma"),
        };
        attrs.extend(given.map(|value| (*parameter, value.clone())));
    }
    site.node(name, &attrs, &[x])
}
