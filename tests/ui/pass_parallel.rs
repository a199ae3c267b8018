//! Functions that `#[packed_func(parallel)]` accepts.
#![deny(warnings, non_ascii_idents)]
#![forbid(unsafe_code)]
#![allow(clippy::needless_lifetimes, clippy::ptr_arg)]

use kernpack::{Array, Error, Function, Result, Tensor, TensorView, packed_func};

kernpack::library!();

/// In place.
#[packed_func(parallel)]
fn negate(x: &mut f32) {
    *x = -*x;
}

#[packed_func(name = "pass.scale", parallel, grain = 4096, global = false)]
pub fn scale(x: &f64, factor: f64) -> f64 {
    x * factor
}

type Pixel = u8;

#[packed_func(parallel)]
fn swap<'a>(a: &'a mut [Pixel], b: &mut [Pixel], mut offset: usize) -> Result<(), String> {
    offset %= a.len().max(1);
    if a.len() != b.len() {
        return Err(format!("{} and {} pixels", a.len(), b.len()));
    }
    a[offset..].swap_with_slice(&mut b[offset..]);
    Ok(())
}

#[packed_func(parallel)]
fn whole_arguments(
    x: &mut i64,
    table: &TensorView<i64>,
    weights: &Vec<f64>,
    names: &Array<String>,
    tensor: &Tensor,
    mode: &str,
    callback: &Function,
) -> std::result::Result<(), Error> {
    *x += callback.call_as::<i64>((*x,))? + table.len() as i64 + weights.len() as i64 + names.len() as i64;
    *x += tensor.ndim() as i64 + mode.len() as i64;
    Ok(())
}

#[packed_func(parallel)]
fn r#in(r#type: &u8) -> u16 {
    u16::from(*r#type)
}

/// Functions that a macro makes for several types.
macro_rules! twice {
    ($($name:ident $t:ty: $result:ty;)*) => {$(
        #[packed_func(parallel)]
        fn $name(x: &$t, row: &[$t], y: &mut $t, by: $t) -> $result {
            *y = *x * by;
            let _ = row;
        }
    )*};
}
twice! {
    twice_f32 f32: ();
    twice_i64 i64: ();
}

fn main() {
    let y = Tensor::zeros::<i64>(&[2]).unwrap();
    let row = Tensor::zeros::<i64>(&[2, 1]).unwrap();
    let twice = Function::global(concat!(env!("CARGO_CRATE_NAME"), ".twice_i64")).unwrap();
    twice.call((&Tensor::from_vec(vec![3i64, 4], &[2]).unwrap(), &row, &y, 2)).unwrap();
    assert_eq!(y.view::<i64>().unwrap().to_vec(), [6, 8]);
    let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2]).unwrap();
    Function::global(concat!(env!("CARGO_CRATE_NAME"), ".negate")).unwrap().call((&x,)).unwrap();
    assert_eq!(x.view::<f32>().unwrap().to_vec(), [-1.0, -2.0]);
    let x = Tensor::from_vec(vec![1i64; 100], &[100]).unwrap();
    let whole_arguments = Function::global(concat!(env!("CARGO_CRATE_NAME"), ".whole_arguments")).unwrap();
    let double = Function::from_fn(|x: i64| 2 * x);
    let names = Array::from(vec!["a".to_owned()]);
    let table = Tensor::from_vec(vec![0i64; 7], &[7]).unwrap();
    whole_arguments.call((&x, &table, vec![0.5, 0.5], &names, &table, "mode", &double)).unwrap();
    assert_eq!(x.view::<i64>().unwrap().get(&[99]), Some(1 + 2 + 7 + 2 + 1 + 1 + 4));
    let mut value = 2.0;
    negate(&mut value);
    assert_eq!((value, scale(&2.0, 2.0), r#in(&3)), (-2.0, 4.0, 3));
    swap(&mut [1], &mut [2], 0).unwrap();
}
