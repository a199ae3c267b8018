//! Kernels at random sizes, compared with values that the CPU computes: integers and element-wise
//! floating point to the last bit.

use gpu_kernels::kernels;
use kernpack::{DataType, Function, Tensor};

use crate::numbers::{Numbers, close, equal, here, there};
use crate::{GPU, Result, library, measured};

/// The number of random sizes, in addition to those at the edges of a block.
const RANDOM_SIZES: usize = 8;
/// Threads of a block.
const BLOCK: i64 = 256;

pub(crate) fn run(seed: u64) -> Result {
    println!("seed {seed}");
    let mut numbers = Numbers::new(seed);
    let mut sizes = vec![1, BLOCK - 1, BLOCK, BLOCK + 1];
    sizes.extend((0..RANDOM_SIZES).map(|_| numbers.between(1, 200_000)));
    for count in &sizes {
        elements(&mut numbers, *count)?;
    }
    println!("element-wise kernels: {} sizes, {sizes:?}", sizes.len());
    let mut most = 0.0;
    for index in 0..RANDOM_SIZES {
        let mut extent = |most| if index == 0 { 1 } else { numbers.between(1, most) };
        let shape = (extent(300), extent(300), extent(300));
        most = f64::max(most, matrices(&mut numbers, shape)?);
    }
    measured("largest_difference_of_products", most, "abs");
    sobel(&mut numbers)
}

fn blocks(count: i64) -> u32 {
    (count as u32).div_ceil(BLOCK as u32)
}

/// Runs every element-wise kernel on arrays of one length. Results lie between elements that must
/// not change.
pub(crate) fn elements(numbers: &mut Numbers, count: i64) -> Result {
    let what = |kernel: &str| format!("{kernel}, {count} elements");
    let block = BLOCK as u32;

    let (x, before) = (numbers.reals(count), numbers.reals(count + 2));
    let alpha = numbers.real() as f32;
    let (y, x_there) = (there(&before, &[count + 2])?, there(&x, &[count])?);
    let inner = y.slice(1..count + 1)?;
    kernels::saxpy_values.launch(blocks(count), block, (&inner, &x_there, alpha, count))?;
    let mut expected = before.clone();
    expected[1..].iter_mut().zip(&x).for_each(|(y, x)| *y = alpha.mul_add(*x, *y));
    expected[count as usize + 1] = before[count as usize + 1];
    equal(&what("saxpy_values"), &here::<f32>(&y)?, &expected)?;

    let x: Vec<f64> = (0..count).map(|_| numbers.real()).collect();
    let before: Vec<f64> = (0..count).map(|_| numbers.real()).collect();
    let (y, x_there, alpha) = (there(&before, &[count])?, there(&x, &[count])?, numbers.real());
    kernels::daxpy_values.launch(blocks(count), block, (&y, &x_there, alpha, count))?;
    let expected: Vec<f64> = x.iter().zip(&before).map(|(x, y)| alpha.mul_add(*x, *y)).collect();
    equal(&what("daxpy_values"), &here::<f64>(&y)?, &expected)?;

    let words = |numbers: &mut Numbers| -> Vec<u32> { (0..count).map(|_| numbers.word() as u32).collect() };
    let (a, b, by) = (words(numbers), words(numbers), numbers.word() as u32);
    let out = there(&vec![0u32; count as usize], &[count])?;
    // Fewer threads than elements.
    let grid = blocks(count).div_ceil(3);
    kernels::mix_words.launch(grid, block, (&out, &there(&a, &[count])?, &there(&b, &[count])?, by, count))?;
    let expected: Vec<u32> = (0..count as usize).map(|i| a[i].wrapping_mul(by).wrapping_add(b[i] ^ i as u32)).collect();
    equal(&what("mix_words"), &here::<u32>(&out)?, &expected)?;

    let a: Vec<u64> = (0..count).map(|_| numbers.word()).collect();
    let (by, shift) = (numbers.word(), numbers.between(0, 63) as i32);
    let out = there(&vec![0u64; count as usize], &[count])?;
    kernels::mix_longs.launch(blocks(count), block, (&out, &there(&a, &[count])?, by, shift, count))?;
    let expected: Vec<u64> = a.iter().map(|a| a.wrapping_mul(by) ^ (a >> shift)).collect();
    equal(&what("mix_longs"), &here::<u64>(&out)?, &expected)?;

    let a: Vec<i8> = (0..count).map(|_| numbers.word() as i8).collect();
    let by = numbers.word() as i8;
    let out = there(&vec![0i8; count as usize], &[count])?;
    kernels::add_bytes.launch(blocks(count), block, (&out, &there(&a, &[count])?, i32::from(by), count))?;
    let expected: Vec<i8> = a.iter().map(|a| a.wrapping_add(by)).collect();
    equal(&what("add_bytes"), &here::<i8>(&out)?, &expected)?;

    let (values, limit) = (numbers.reals(count), numbers.real() as f32);
    let total = there(&[0u64], &[1])?;
    kernels::count_above.launch(blocks(count), block, (&total, &there(&values, &[count])?, limit, count))?;
    let expected = values.iter().filter(|value| **value > limit).count() as u64;
    equal(&what("count_above"), &here::<u64>(&total)?, &[expected])
}

/// A tensor on the GPU whose elements are all NaN, so that a missing write is detected.
fn unwritten(shape: &[i64]) -> Result<Tensor> {
    there(&vec![f32::NAN; shape.iter().product::<i64>() as usize], shape)
}

/// Products, a transpose and softmax of matrices with two-dimensional grids. Returns the largest
/// difference of the products.
pub(crate) fn matrices(numbers: &mut Numbers, (m, n, k): (i64, i64, i64)) -> Result<f64> {
    let what = |kernel: &str| format!("{kernel}, {m} x {k} by {k} x {n}");
    let (a, b) = (numbers.reals(m * k), numbers.reals(k * n));
    let (a_here, b_here) = (Tensor::from_slice(&a, &[m, k])?, Tensor::from_slice(&b, &[k, n])?);
    let expected = here::<f32>(&gpu_kernels::matmul_on_cpu(a_here.view()?, b_here.view()?)?)?;
    let (a_there, b_there) = (a_here.to(GPU)?, b_here.to(GPU)?);
    let c = unwritten(&[m, n])?;
    gpu_kernels::matmul(a_there.clone(), b_there.clone(), c.clone())?;
    // Sums of k products of numbers below 1, with an error of half a unit in each.
    let tolerance = 1e-6 * (k as f64).sqrt().max(1.0) * 4.0;
    let mut most = close(&what("matmul_tiled"), &here::<f32>(&c)?, &expected, tolerance)?;
    for depth in [32, 256] {
        let c = unwritten(&[m, n])?;
        gpu_kernels::matmul_dynamic(a_there.clone(), b_there.clone(), c.clone(), depth)?;
        let name = what(&format!("matmul_dynamic_tiles of depth {depth}"));
        most = f64::max(most, close(&name, &here::<f32>(&c)?, &expected, tolerance)?);
    }

    let turned = unwritten(&[k, m])?;
    gpu_kernels::transpose(a_there.clone(), turned.clone())?;
    let expected: Vec<f32> = (0..k * m).map(|i| a[(i % m * k + i / m) as usize]).collect();
    equal(&what("transpose_tiles"), &here::<f32>(&turned)?, &expected)?;

    let y = unwritten(&[m, k])?;
    gpu_kernels::softmax(a_there, y.clone())?;
    let expected = here::<f32>(&gpu_kernels::softmax_on_cpu(a_here.view()?)?)?;
    close(&what("softmax_rows"), &here::<f32>(&y)?, &expected, 1e-6)?;
    Ok(most)
}

/// Compares imagekit's kernel, from its own library, with its function for the CPU.
fn sobel(numbers: &mut Numbers) -> Result {
    let imagekit = library("libimagekit.so")?;
    let function = |name: &str| -> Result<Function> { Ok(imagekit.function(name)?) };
    for (height, width) in [(1, 1), (7, 33), (numbers.between(1, 700), numbers.between(1, 700))] {
        let image = Tensor::from_vec(numbers.reals(height * width), &[height, width])?;
        let expected = Tensor::zeros::<f32>(&[height, width])?;
        function("sobel")?.call((&image, &expected))?;
        let (source, target) = (image.to(GPU)?, Tensor::empty(DataType::FLOAT32, &[height, width], GPU)?);
        function("sobel_on_cuda")?.call((&source, &target))?;
        let name = format!("sobel_cuda, {height} x {width}");
        close(&name, &here::<f32>(&target)?, &here::<f32>(&expected)?, 1e-4)?;
    }
    Ok(())
}
