//! A short run of every kernel, for compute-sanitizer, under which a launch takes a hundred times
//! longer.

use crate::Result;
use crate::arithmetic::{elements, matrices};
use crate::numbers::Numbers;

pub(crate) fn run() -> Result {
    let mut numbers = Numbers::new(4);
    for count in [1, 257, 1000] {
        elements(&mut numbers, count)?;
    }
    for shape in [(1, 1, 1), (33, 17, 65), (40, 50, 60)] {
        matrices(&mut numbers, shape)?;
    }
    println!("every kernel ran");
    Ok(())
}
