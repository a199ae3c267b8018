//! The most likely classes of a photograph.

use kernpack::{Error, ObjRef, Object, Result, Str, Tensor, packed_func};

use crate::photo::Photo;
use crate::{crop, network};

/// Labels by the numbers of classes. Missing labels are shown as `class 17`.
const LABELS: &[&str] = include!(concat!(env!("OUT_DIR"), "/labels.rs"));

/// The number of classes in a result.
const BEST: usize = 5;

/// A class of objects in a photograph.
#[derive(Object)]
#[object(key = "imagenet.Prediction")]
#[repr(C)]
pub struct Prediction {
    /// The number of the class.
    pub number: i64,
    /// The name of the class.
    pub label: Str,
    /// The probability, from 0 to 1. The probabilities of all classes add up to 1.
    pub score: f64,
}

/// Returns the best classes of logarithmic scores: their numbers and probabilities, the best first.
/// Equal scores are in the order of the numbers.
fn best(scores: &[f32]) -> Vec<(usize, f64)> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let share = |score: f32| f64::from(score - most).exp();
    let sum: f64 = scores.iter().map(|score| share(*score)).sum();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order.into_iter().take(BEST).map(|class| (class, share(scores[class]) / sum)).collect()
}

fn predictions(photo: &Photo) -> Result<Vec<ObjRef<Prediction>>> {
    let found = network::with_scores(|out| crop::write(photo, out), best)?;
    let prediction = |(class, score): (usize, f64)| {
        let label = LABELS.get(class).map_or_else(|| format!("class {class}"), |label| (*label).to_owned());
        // The network has 1000 classes.
        ObjRef::new(Prediction { number: class as i64, label: label.into(), score })
    };
    Ok(found.into_iter().map(prediction).collect())
}

/// Returns the five most likely classes of a photograph in memory, a JPEG or PNG file, the best
/// first.
///
/// # Errors
/// ValueError if the bytes are not a photograph, RuntimeError if the library was built without a
/// model.
#[packed_func]
pub fn classify_bytes(content: &[u8]) -> Result<Vec<ObjRef<Prediction>>> {
    predictions(&Photo::decode(content)?)
}

/// Returns the five most likely classes of a photograph in a file, the best first.
///
/// # Errors
/// RuntimeError if the file cannot be read or the library was built without a model, ValueError if
/// the file is not a photograph.
#[packed_func]
pub fn classify_path(path: &str) -> Result<Vec<ObjRef<Prediction>>> {
    let content = std::fs::read(path).map_err(|error| Error::runtime_error(format!("{path}: {error}")))?;
    let photo = Photo::decode(&content).map_err(|error| Error::value_error(format!("{path}: {}", error.message())))?;
    predictions(&photo)
}

/// Returns the input of the network for a photograph in memory: a tensor of 1 x 3 x 224 x 224
/// numbers from the middle of the photograph.
///
/// # Errors
/// ValueError if the bytes are not a photograph.
#[packed_func]
pub fn prepare(content: &[u8]) -> Result<Tensor> {
    let photo = Photo::decode(content)?;
    network::input(|out| crop::write(&photo, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_scores() {
        let mut scores = vec![0.0_f32; 10];
        (scores[3], scores[7], scores[8]) = (2.0, 4.0, 2.0);
        let found = best(&scores);
        assert_eq!(found.iter().map(|(class, _)| *class).collect::<Vec<_>>(), [7, 3, 8, 0, 1]);
        let sum = 4.0_f64.exp() + 2.0 * 2.0_f64.exp() + 7.0;
        for ((class, share), logarithm) in found.into_iter().zip([4.0_f64, 2.0, 2.0, 0.0, 0.0]) {
            assert!((share - logarithm.exp() / sum).abs() < 1e-6, "class {class}");
        }
    }

    #[test]
    fn large_scores_stay_finite() {
        assert_eq!(best(&[1000.0, 0.0]), [(0, 1.0), (1, 0.0)]);
        assert!(best(&[]).is_empty());
    }
}
