//! The numbers of one case, one per round.

/// Nanoseconds per call, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds the next round's number.
    pub(crate) fn push(&mut self, nanoseconds: f64) {
        self.0.push(nanoseconds);
    }

    /// The middle number.
    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// The quantile of the rounds at this share.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let index = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    /// The median of the ratios of our number to theirs in each round: a slow moment of the machine
    /// affects both.
    pub(crate) fn ratio(&self, other: &Samples) -> f64 {
        Samples(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect()).median()
    }
}

/// The samples of both sides of one case.
#[derive(Clone, Default)]
pub(crate) struct Pair {
    pub(crate) ours: Samples,
    pub(crate) peer: Samples,
}

impl Pair {
    /// The ratio of our number to theirs.
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.ratio(&self.peer)
    }

    /// Samples of one round.
    #[cfg(test)]
    pub(crate) fn of(ours: f64, peer: f64) -> Self {
        Self { ours: Samples(vec![ours]), peer: Samples(vec![peer]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let ours = Samples(vec![1.0, 30.0, 2.0]);
        let theirs = Samples(vec![2.0, 60.0, 8.0]);
        assert_eq!(ours.median(), 2.0);
        assert_eq!(ours.at(0.0), 1.0);
        assert_eq!(ours.at(1.0), 30.0);
        assert_eq!(ours.ratio(&theirs), 0.5);
        assert!(Samples::default().median().is_nan());
    }
}
