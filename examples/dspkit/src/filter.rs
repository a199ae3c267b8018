//! Filters as objects that are called with a signal.

use std::f64::consts::TAU;

use kernpack::{Array, ObjRef, Object, Result, ensure, object_methods};

use crate::signal::Signal;

/// The frequencies that a filter passes.
#[derive(Object, Clone, Copy, PartialEq, Debug)]
#[object(key = "dspkit.Pass", enum = "int")]
pub enum Pass {
    /// Frequencies below the frequency of the filter.
    Low = 0,
    /// Frequencies above the frequency of the filter.
    High = 1,
    /// Frequencies near the frequency of the filter.
    Band = 2,
}

/// A second-order filter, in the usual form with a0 = 1.
#[derive(Object, Clone)]
#[object(key = "dspkit.Biquad")]
#[repr(C)]
pub struct Biquad {
    /// Weight of the sample.
    pub b0: f64,
    /// Weight of the previous sample.
    pub b1: f64,
    /// Weight of the sample before the previous one.
    pub b2: f64,
    /// Weight of the previous result, which is subtracted.
    pub a1: f64,
    /// Weight of the result before the previous one, which is subtracted.
    pub a2: f64,
}

#[object_methods]
impl Biquad {
    /// Designs a filter for a frequency at a rate, according to Bristow-Johnson's cookbook.
    pub fn design(
        pass: Pass,
        frequency: f64,
        #[default(48000.0)] rate: f64,
        #[default(std::f64::consts::FRAC_1_SQRT_2)] q: f64,
    ) -> Result<Self> {
        ensure!(
            frequency > 0.0 && frequency < rate / 2.0,
            ValueError,
            "expected a frequency between 0 and half the rate {rate}, got {frequency}"
        );
        ensure!(q > 0.0, ValueError, "expected a quality above 0, got {q}");
        let (sin, cos) = (TAU * frequency / rate).sin_cos();
        let alpha = sin / (2.0 * q);
        let a0 = 1.0 + alpha;
        let [b0, b1, b2] = match pass {
            Pass::Low => [(1.0 - cos) / 2.0, 1.0 - cos, (1.0 - cos) / 2.0],
            Pass::High => [(1.0 + cos) / 2.0, -(1.0 + cos), (1.0 + cos) / 2.0],
            Pass::Band => [alpha, 0.0, -alpha],
        };
        Ok(Self { b0: b0 / a0, b1: b1 / a0, b2: b2 / a0, a1: -2.0 * cos / a0, a2: (1.0 - alpha) / a0 })
    }

    /// Filters the signal.
    #[method(name = "__call__")]
    pub fn run(&self, signal: &Signal) -> Result<Signal> {
        let (mut s1, mut s2) = (0.0, 0.0);
        signal.map(|sample| {
            let x = f64::from(sample);
            let y = self.b0 * x + s1;
            s1 = self.b1 * x - self.a1 * y + s2;
            s2 = self.b2 * x - self.a2 * y;
            y as f32
        })
    }

    /// Chains this filter and another one.
    #[method(name = "__or__")]
    fn then(this: &ObjRef<Self>, next: &ObjRef<Self>) -> Chain {
        Chain { stages: Array::from(vec![this.clone(), next.clone()]) }
    }

    #[operator(eq)]
    fn equal(&self, other: &Self) -> bool {
        self.numbers() == other.numbers()
    }

    #[operator(hash)]
    fn hash(&self) -> u64 {
        self.numbers().iter().fold(0, |hash: u64, number| hash.rotate_left(7) ^ number.to_bits())
    }

    #[skip]
    fn numbers(&self) -> [f64; 5] {
        [self.b0, self.b1, self.b2, self.a1, self.a2]
    }
}

/// Filters that run one after the other.
#[derive(Object, Clone)]
#[object(key = "dspkit.Chain")]
#[repr(C)]
pub struct Chain {
    /// The filters.
    pub stages: Array<ObjRef<Biquad>>,
}

#[object_methods]
impl Chain {
    /// Filters the signal with all filters.
    #[method(name = "__call__")]
    pub fn run(&self, signal: &Signal) -> Result<Signal> {
        let mut filtered = signal.clone();
        for stage in &self.stages {
            filtered = stage.run(&filtered)?;
        }
        Ok(filtered)
    }

    /// Appends a filter to the chain.
    #[method(name = "__or__")]
    fn then(&self, next: &ObjRef<Biquad>) -> Chain {
        Chain { stages: self.stages.iter().chain([next.clone()]).collect() }
    }

    #[method(name = "__len__")]
    fn len(&self) -> usize {
        self.stages.len()
    }

    #[method(name = "__iter__")]
    fn iter(&self) -> Array<ObjRef<Biquad>> {
        self.stages.clone()
    }

    #[method(name = "__contains__")]
    fn contains(&self, stage: &Biquad) -> bool {
        self.stages.iter().any(|own| own.equal(stage))
    }
}
