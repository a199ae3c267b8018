//! The local maxima of a signal.

use std::cmp::Ordering;

use kernpack::{Object, Result, object_methods, packed_func};

use crate::signal::Signal;

/// A sample that is higher than its neighbours.
#[derive(Object, Clone)]
#[object(key = "dspkit.Peak")]
#[repr(C)]
pub struct Peak {
    /// The index of the sample.
    pub index: i64,
    /// Its value.
    pub value: f64,
}

#[object_methods]
impl Peak {
    /// Compares peaks by their values, then by their indices.
    #[operator(compare)]
    fn order(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(self.index.cmp(&other.index))
    }

    #[operator(hash)]
    fn hash(&self) -> u64 {
        self.value.to_bits() ^ self.index as u64
    }
}

/// Returns the peaks above a threshold in their order, or only the highest ones.
#[packed_func]
pub fn peaks(signal: &Signal, #[default(0.0)] threshold: f64, limit: Option<usize>) -> Result<Vec<Peak>> {
    let samples = signal.view()?.to_vec();
    let mut found = Vec::new();
    for (index, three) in samples.windows(3).enumerate() {
        let value = f64::from(three[1]);
        if three[0] < three[1] && three[1] >= three[2] && value > threshold {
            found.push(Peak { index: index as i64 + 1, value });
        }
    }
    if let Some(limit) = limit {
        found.sort_by(|a, b| b.order(a));
        found.truncate(limit);
    }
    Ok(found)
}
