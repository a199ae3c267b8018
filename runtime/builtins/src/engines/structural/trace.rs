//! The path to the first difference between two values.

use crate::abi::TVMFFIAny;
use crate::embedded::{new_string, release, seq};
use crate::engines::access_path::{self, Kind};
use crate::value::Any;

/// The steps to the first difference, the last one first.
#[derive(Default)]
pub(super) struct Trace {
    left: Vec<Any>,
    right: Vec<Any>,
}

impl Trace {
    /// Records the step to an attribute.
    pub(super) fn attribute(&mut self, name: &[u8]) {
        self.step((Kind::Attr, new_string(name)), (Kind::Attr, new_string(name)));
    }

    /// Records the step to an element.
    pub(super) fn element(&mut self, index: usize) {
        let index = TVMFFIAny::int(index as i64);
        self.step((Kind::ArrayItem, index), (Kind::ArrayItem, index));
    }

    /// Records the step to the first element that only the longer of two sequences has.
    pub(super) fn missing_element(&mut self, left_size: usize, right_size: usize) {
        let (index, left, right) = if left_size > right_size {
            (right_size, Kind::ArrayItem, Kind::ArrayItemMissing)
        } else {
            (left_size, Kind::ArrayItemMissing, Kind::ArrayItem)
        };
        let index = TVMFFIAny::int(index as i64);
        self.step((left, index), (right, index));
    }

    /// Records the step to an entry of a map, or to the place where one is missing.
    ///
    /// # Safety
    /// The keys are alive.
    pub(super) unsafe fn entry(&mut self, left: (Kind, &TVMFFIAny), right: (Kind, &TVMFFIAny)) {
        // SAFETY: promised by the caller.
        let (left_key, right_key) = unsafe { (release::retain(left.1), release::retain(right.1)) };
        self.step((left.0, left_key), (right.0, right_key));
    }

    /// Records a step. Takes over the keys.
    fn step(&mut self, left: (Kind, TVMFFIAny), right: (Kind, TVMFFIAny)) {
        for (steps, (kind, key)) in [(&mut self.left, left), (&mut self.right, right)] {
            // SAFETY: a new step, whose reference is transferred to the value.
            steps.push(unsafe { Any::from_object(access_path::new_step(kind, key)) });
        }
    }

    /// Returns the paths on the left and on the right, in an array.
    pub(super) fn into_paths(self) -> Any {
        let paths = [self.left, self.right].map(|steps| {
            // SAFETY: the steps are objects, whose references are transferred to the path.
            let path =
                unsafe { access_path::of_steps(steps.into_iter().rev().map(|step| step.into_raw().payload.v_obj)) };
            TVMFFIAny::pointer(access_path::PATH.host_index(), path.cast())
        });
        // SAFETY: a new array, which owns both paths.
        unsafe { Any::from_object(seq::new_array(paths.to_vec())) }
    }
}
