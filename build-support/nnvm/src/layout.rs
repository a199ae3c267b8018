//! Layouts: `NCHW`, `NHWC`, `NCHW16c`. A capital letter is an axis, and a number with a small
//! letter a part that is split off an axis.

use kernpack_compiler::ir::Expr;
use kernpack_graph::{Result, fail, require};

/// One axis of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Its letter, as a capital.
    pub name: char,
    /// The extent of a part that is split off. `None` for an axis itself.
    pub part: Option<i64>,
}

/// The order of axes in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    axes: Vec<Axis>,
}

impl Layout {
    /// Parses a layout.
    ///
    /// # Errors
    /// Returns an error for an invalid text: a repeated axis, a part without its axis, a part of
    /// size 0.
    pub fn parse(text: &str) -> Result<Self> {
        let mut axes: Vec<Axis> = Vec::new();
        let mut factor: Option<i64> = None;
        for letter in text.chars() {
            match letter {
                '0'..='9' => {
                    let digit = i64::from(letter as u8 - b'0');
                    let value = factor.unwrap_or(0).checked_mul(10).and_then(|value| value.checked_add(digit));
                    let Some(value) = value.filter(|value| *value <= 1 << 20) else {
                        fail!("layout `{text}` has a part that is too large")
                    };
                    factor = Some(value);
                }
                'A'..='Z' => {
                    require!(factor.is_none(), "layout `{text}`: a number stands before a small letter");
                    axes.push(Axis { name: letter, part: None });
                }
                'a'..='z' => {
                    let Some(part) = factor.take().filter(|part| *part > 0) else {
                        fail!("layout `{text}`: `{letter}` needs its size before it, as in `16c`")
                    };
                    axes.push(Axis { name: letter.to_ascii_uppercase(), part: Some(part) });
                }
                other => fail!("layout `{text}`: `{other}` is not an axis"),
            }
        }
        require!(factor.is_none() && !axes.is_empty(), "`{text}` is not a layout");
        for (place, axis) in axes.iter().enumerate() {
            require!(
                !axes[..place].contains(axis)
                    && axes
                        .iter()
                        .filter(|other| other.name == axis.name && other.part.is_some() == axis.part.is_some())
                        .count()
                        == 1,
                "layout `{text}` has axis `{}` twice",
                axis.name
            );
            let has_axis = axes.iter().any(|other| other.name == axis.name && other.part.is_none());
            require!(has_axis, "layout `{text}` has a part of axis `{}`, and not the axis", axis.name);
        }
        Ok(Self { axes })
    }

    /// The axes in the order of memory.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the extent of the part that is split off an axis, or 1.
    pub fn part(&self, name: char) -> i64 {
        self.axes.iter().filter(|axis| axis.name == name).find_map(|axis| axis.part).unwrap_or(1)
    }

    /// Returns the axes without parts, in the order of memory.
    pub fn plain(&self) -> Vec<char> {
        self.axes.iter().filter(|axis| axis.part.is_none()).map(|axis| axis.name).collect()
    }

    /// The layout of one axis: that axis and its part.
    ///
    /// # Errors
    /// Returns an error if the layout does not have the axis.
    pub fn only(&self, name: char) -> Result<Self> {
        let axes: Vec<Axis> = self.axes.iter().copied().filter(|axis| axis.name == name).collect();
        require!(!axes.is_empty(), "layout {self} has no axis `{name}`");
        Ok(Self { axes })
    }

    /// Returns true if both have the same axes, so that one can be converted to the other.
    pub fn converts_to(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.plain(), other.plain());
        a.sort_unstable();
        b.sort_unstable();
        a == b
    }

    /// Returns the extents of the whole axes, in the order of `order`, of a shape in this layout.
    /// Unknown extents stay 0.
    ///
    /// # Errors
    /// Returns an error for a shape of another rank, and for a part of another extent.
    pub fn extents(&self, shape: &[i64], order: &str) -> Result<Vec<i64>> {
        require!(shape.len() == self.axes.len(), "{shape:?} is not in layout {self}");
        order
            .chars()
            .map(|name| {
                let mut whole = 1_i64;
                let mut found = false;
                for (axis, extent) in self.axes.iter().zip(shape).filter(|(axis, _)| axis.name == name) {
                    found = true;
                    if let Some(part) = axis.part {
                        require!(*extent == part || *extent == 0, "{shape:?} is not in layout {self}");
                        whole = whole.saturating_mul(part);
                    } else {
                        whole = whole.saturating_mul(*extent);
                    }
                }
                require!(found, "layout {self} has no axis `{name}`");
                Ok(whole)
            })
            .collect()
    }

    /// Returns the shape in this layout of whole axes in the order of `order`.
    ///
    /// # Errors
    /// Returns an error for an axis that is not divisible by its part.
    pub fn shape(&self, extents: &[i64], order: &str) -> Result<Vec<i64>> {
        self.axes
            .iter()
            .map(|axis| {
                if let Some(part) = axis.part {
                    return Ok(part);
                }
                let whole = order.chars().position(|name| name == axis.name).and_then(|place| extents.get(place));
                let Some(whole) = whole else { fail!("layout {self} has axis `{}`, and {order} has not", axis.name) };
                let part = self.part(axis.name);
                require!(
                    whole % part == 0,
                    "axis `{}` of extent {whole} is not divided by {part}, as layout {self} needs",
                    axis.name
                );
                Ok(whole / part)
            })
            .collect()
    }

    /// Returns the positions on whole axes, in the order of `order`, of a position in this layout.
    pub fn whole(&self, position: &[Expr], order: &[char]) -> Vec<Expr> {
        order
            .iter()
            .map(|name| {
                let mut whole: Option<Expr> = None;
                let mut inner = Expr::int(0);
                for (axis, index) in self.axes.iter().zip(position).filter(|(axis, _)| axis.name == *name) {
                    match axis.part {
                        None => whole = Some(index.clone()),
                        Some(_) => inner = index.clone(),
                    }
                }
                let whole = whole.unwrap_or_else(|| Expr::int(0));
                match self.part(*name) {
                    1 => whole,
                    part => whole * part + inner,
                }
            })
            .collect()
    }

    /// Returns the position in this layout of positions on whole axes in the order of `order`.
    pub fn position(&self, whole: &[Expr], order: &[char]) -> Vec<Expr> {
        self.axes
            .iter()
            .map(|axis| {
                let place = order.iter().position(|name| *name == axis.name);
                let index = place.and_then(|place| whole.get(place)).cloned().unwrap_or_else(|| Expr::int(0));
                match (axis.part, self.part(axis.name)) {
                    (Some(part), _) => index.floor_mod(part),
                    (None, 1) => index,
                    (None, part) => index.floor_div(part),
                }
            })
            .collect()
    }
}

impl core::fmt::Display for Axis {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.part {
            None => write!(f, "{}", self.name),
            Some(part) => write!(f, "{part}{}", self.name.to_ascii_lowercase()),
        }
    }
}

impl core::fmt::Display for Layout {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.axes.iter().try_for_each(|axis| write!(f, "{axis}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_shapes() {
        let packed = Layout::parse("NCHW16c").unwrap();
        assert_eq!(packed.to_string(), "NCHW16c");
        assert_eq!(packed.shape(&[1, 32, 7, 8], "NCHW").unwrap(), [1, 2, 7, 8, 16]);
        assert_eq!(packed.extents(&[1, 2, 7, 8, 16], "NHWC").unwrap(), [1, 7, 8, 32]);
        assert!(packed.shape(&[1, 33, 7, 8], "NCHW").unwrap_err().to_string().contains("is not divided by 16"));
        assert!(packed.converts_to(&Layout::parse("NHWC").unwrap()));
        for wrong in ["", "NCHWc", "16c", "NN", "N0n", "NC16", "N?", "NC4c8c", "N99999999999n"] {
            assert!(Layout::parse(wrong).is_err(), "{wrong}");
        }
    }
}
