//! The extents of a model's arguments: fixed, or dependent on dynamic dimensions.

use super::ranges::Formula;
use crate::error::{Result, fail, require};
use crate::graph::{Graph, Ranges};
use crate::names::argument_names;

/// An extent of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// For each of [`Graph::variants`]: the extent, or the share for one index of the dimension
    /// that the model is split along.
    pub by_size: Vec<i64>,
    /// True if the extent is that share times the extent of the dimension that the model is split
    /// along.
    pub is_cut: bool,
    /// The extent of a model whose dimensions have ranges. `by_size` then has its largest number.
    pub formula: Option<Formula>,
}

/// A dynamic dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDim {
    /// Its name in the model.
    pub name: String,
    /// The allowed extents.
    pub extents: Extents,
    /// The index of the input that has it, and the axis.
    pub at: (usize, usize),
}

/// The allowed extents of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extents {
    /// From 1 to this.
    UpTo(i64),
    /// One of these, the largest first.
    OneOf(Vec<i64>),
    /// Multiples of the third one from the first one to the second one, together with any extents
    /// of other dimensions.
    Range(i64, i64, i64),
}

impl Extents {
    /// Returns true if a call may have this extent.
    pub fn contains(&self, extent: i64) -> bool {
        match self {
            Self::UpTo(most) => (1..=*most).contains(&extent),
            Self::OneOf(sizes) => sizes.contains(&extent),
            Self::Range(least, most, step) => (*least..=*most).contains(&extent) && extent % step == 0,
        }
    }
}

/// Formats the extents: `1 to 64`, `32, 64 or 128`, or `a multiple of 32 from 32 to 2048`.
impl core::fmt::Display for Extents {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UpTo(most) => write!(f, "1 to {most}"),
            Self::Range(least, most, 1) => write!(f, "{least} to {most}"),
            Self::Range(least, most, step) => write!(f, "a multiple of {step} from {least} to {most}"),
            Self::OneOf(sizes) => {
                let texts: Vec<String> = sizes.iter().rev().map(i64::to_string).collect();
                match texts.split_last() {
                    Some((last, others)) if !others.is_empty() => write!(f, "{} or {last}", others.join(", ")),
                    _ => f.write_str(&texts.concat()),
                }
            }
        }
    }
}

impl Extent {
    /// Returns the extent, if it is the same for all calls.
    pub fn fixed(&self) -> Option<i64> {
        if let Some(formula) = &self.formula {
            return formula.fixed();
        }
        let first = *self.by_size.first()?;
        (!self.is_cut && self.by_size.iter().all(|size| *size == first)).then_some(first)
    }

    /// Formats the extent for people: `4`, `batch`, `4 * batch`, `sequence`, `8 | 16`, with the
    /// extents in the order of [`Extents`].
    fn text(&self, cut: &str, chosen: Option<(&str, &[i64])>) -> String {
        let first = self.by_size.first().copied().unwrap_or(0);
        let size = if self.by_size.iter().all(|size| *size == first) {
            first.to_string()
        } else if let Some((dim, sizes)) = chosen
            && self.by_size == sizes
        {
            dim.to_owned()
        } else {
            self.by_size.iter().rev().map(i64::to_string).collect::<Vec<_>>().join(" | ")
        };
        match (self.is_cut, size.as_str()) {
            (false, _) => size,
            (true, "1") => cut.to_owned(),
            (true, several) if several.contains('|') => format!("({several}) * {cut}"),
            (true, _) => format!("{size} * {cut}"),
        }
    }
}

impl Graph {
    /// Returns the graphs for all extents of a dimension with several extents, the largest first,
    /// or only this graph with the extent 0.
    pub fn variants(&self) -> Vec<(i64, &Graph)> {
        let size = self.sizes.as_ref().map_or(0, |sizes| sizes.size);
        let others = self.sizes.iter().flat_map(|sizes| sizes.others.iter().map(|(size, graph)| (*size, graph)));
        core::iter::once((size, self)).chain(others).collect()
    }

    /// Returns the extents of each argument, inputs first.
    pub fn argument_extents(&self) -> Vec<Vec<Extent>> {
        if let Some(ranges) = &self.ranges {
            return self.ranged_extents(ranges);
        }
        let variants = self.variants();
        let ids = |graph: &Graph| -> Vec<usize> {
            graph.inputs.iter().copied().chain(graph.outputs.iter().map(|(_, id)| *id)).collect()
        };
        let all: Vec<Vec<usize>> = variants.iter().map(|(_, graph)| ids(graph)).collect();
        (0..all[0].len())
            .map(|number| {
                let shape = |variant: usize| &variants[variant].1.values[all[variant][number]].shape;
                (0..shape(0).len())
                    .map(|axis| {
                        let share = |graph: &Graph| match &graph.parts {
                            Some(parts) if axis == 0 => Some(parts.shares[number]).filter(|share| *share > 0),
                            _ => None,
                        };
                        let by_size = variants
                            .iter()
                            .enumerate()
                            .map(|(variant, (_, graph))| share(graph).unwrap_or(shape(variant)[axis]));
                        Extent { by_size: by_size.collect(), is_cut: share(self).is_some(), formula: None }
                    })
                    .collect()
            })
            .collect()
    }

    /// Returns the extents of each argument of a graph with ranges.
    fn ranged_extents(&self, ranges: &Ranges) -> Vec<Vec<Extent>> {
        let ids = self.inputs.iter().copied().chain(self.outputs.iter().map(|(_, id)| *id));
        let of = |formula: Formula| {
            let bound = ranges.bound(&formula).unwrap_or(i64::MAX);
            Extent { by_size: vec![bound], is_cut: false, formula: Some(formula) }
        };
        // The importer has checked that each extent has a formula.
        let extents = |id: usize| self.formulas(ranges, id).unwrap_or_default().into_iter().map(of).collect();
        ids.map(extents).collect()
    }

    /// Returns the extents of each argument for people: `["batch", "sequence", "4"]`.
    pub fn argument_texts(&self) -> Vec<Vec<String>> {
        let sizes: Vec<i64> = self.variants().iter().map(|(size, _)| *size).collect();
        let chosen = self.sizes.as_ref().map(|chosen| (chosen.dim.as_str(), &sizes[..]));
        let cut = self.parts.as_ref().map_or("", |parts| parts.dim.as_str());
        let names = self.ranges.as_ref().map_or_else(Vec::new, |ranges| ranges.names());
        let of = |extents: Vec<Extent>| {
            let text = |extent: &Extent| match &extent.formula {
                Some(formula) => formula.text(&names),
                None => extent.text(cut, chosen),
            };
            extents.iter().map(text).collect()
        };
        self.argument_extents().into_iter().map(of).collect()
    }

    /// Returns the dynamic dimensions. The one that the model is split along is first.
    pub fn open_dims(&self) -> Vec<OpenDim> {
        let inputs = self.argument_extents();
        let at = |has: &dyn Fn(&Extent) -> bool| {
            let places = inputs[..self.inputs.len()].iter().enumerate();
            places
                .flat_map(|(input, all)| (0..all.len()).map(move |axis| (input, axis)))
                .find(|(input, axis)| has(&inputs[*input][*axis]))
        };
        let mut dims = Vec::new();
        for (number, dim) in self.ranges.iter().flat_map(|ranges| &ranges.dims).enumerate() {
            let is_it = |extent: &Extent| extent.formula.as_ref().and_then(Formula::dim) == Some(number);
            let extents = Extents::Range(dim.least, dim.most, dim.step);
            dims.push(OpenDim { name: dim.name.clone(), extents, at: at(&is_it).unwrap_or_default() });
        }
        if let Some(parts) = &self.parts {
            let at = at(&|extent| extent.is_cut).unwrap_or_default();
            dims.push(OpenDim { name: parts.dim.clone(), extents: Extents::UpTo(parts.most), at });
        }
        if let Some(chosen) = &self.sizes {
            let sizes: Vec<i64> = self.variants().iter().map(|(size, _)| *size).collect();
            let at = at(&|extent| !extent.is_cut && extent.by_size == sizes).unwrap_or_default();
            dims.push(OpenDim { name: chosen.dim.clone(), extents: Extents::OneOf(sizes), at });
        }
        dims
    }

    /// Returns the shapes of the outputs of a call with inputs of these shapes.
    ///
    /// # Errors
    /// Returns an error for another number of inputs or dimensions, and for an extent that a call
    /// may not have.
    pub fn output_shapes(&self, inputs: &[Vec<i64>]) -> Result<Vec<Vec<i64>>> {
        let names = argument_names(self);
        let (expected, given) = (self.inputs.len(), inputs.len());
        let taken = || names[..expected].join(", ");
        require!(expected == given, "the model takes {expected}: {}; {given} are given", taken());
        let all = self.argument_extents();
        for ((shape, extents), name) in inputs.iter().zip(&all).zip(&names) {
            let (expected, found) = (extents.len(), shape.len());
            require!(expected == found, "input '{name}' has {expected} dimensions, and {found} are given: {shape:?}");
        }
        let (mut cut, mut variant, mut ranged) = (1, 0, Vec::new());
        for OpenDim { name, extents, at: (input, axis) } in self.open_dims() {
            let extent = inputs[input][axis];
            require!(extents.contains(extent), "the dimension '{name}' is {extent}, and has to be {extents}");
            match extents {
                Extents::UpTo(_) => cut = extent,
                Extents::Range(..) => ranged.push(extent),
                Extents::OneOf(sizes) => variant = sizes.iter().position(|size| *size == extent).unwrap_or(0),
            }
        }
        let shape = |extents: &Vec<Extent>| -> Vec<i64> {
            let of = |extent: &Extent| match &extent.formula {
                // The largest number was computed when the model was read.
                Some(formula) => formula.at(&ranged).unwrap_or(i64::MAX),
                None => extent.by_size[variant] * if extent.is_cut { cut } else { 1 },
            };
            extents.iter().map(of).collect()
        };
        for ((given, extents), name) in inputs.iter().zip(&all).zip(&names) {
            let expected = shape(extents);
            if *given != expected {
                fail!("input '{name}' is {given:?}, and has to be {expected:?}");
            }
        }
        Ok(all[self.inputs.len()..].iter().map(shape).collect())
    }
}
