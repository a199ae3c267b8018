//! Dictionaries, bytes and text as results.

use kernpack::{Any, Bytes, Map, Result, Tensor, TensorView, ensure, packed_func};

use crate::image;

/// Returns the height, width and dtype of an image, and whether it is contiguous, without reading
/// its pixels.
#[packed_func]
pub fn describe(image: Tensor) -> Result<Map<String, Any>> {
    let &[height, width, ..] = image.shape() else {
        kernpack::bail!(ValueError, "expected an image of shape (height, width, ...), got shape {:?}", image.shape());
    };
    Ok(Map::from_iter([
        ("height".to_owned(), Any::from(height)),
        ("width".to_owned(), Any::from(width)),
        ("dtype".to_owned(), Any::from(image.dtype().to_string())),
        ("contiguous".to_owned(), Any::from(image.is_contiguous())),
    ]))
}

/// Returns the image as a file in PGM format: `P5`, width and height, then a byte per pixel.
#[packed_func]
pub fn to_pgm(gray: TensorView<f32>) -> Result<Bytes> {
    let (height, width) = image::size(gray.shape())?;
    let mut file = format!("P5\n{width} {height}\n255\n").into_bytes();
    // `as` saturates at 0 and 255.
    file.extend(gray.to_vec().iter().map(|value| (value + 0.5) as u8));
    Ok(Bytes::new(&file))
}

/// Returns the image as text, `columns` characters wide: from space for white to `@` for black.
#[packed_func]
pub fn ascii_art(gray: TensorView<f32>, columns: i64) -> Result<String> {
    const INK: [char; 10] = ['@', '%', '#', '*', '+', '=', '-', ':', '.', ' '];
    let (height, width) = image::size(gray.shape())?;
    ensure!((1..=width).contains(&columns), ValueError, "expected 1 to {width} columns, got {columns}");
    let (height, width, columns) = (height as usize, width as usize, columns as usize);
    // A character is about twice as high as wide.
    let rows = (height * columns / (2 * width)).max(1).min(height);
    let mut text = String::new();
    let gray = &gray;
    for row in 0..rows {
        let ys = row * height / rows..(row + 1) * height / rows;
        for column in 0..columns {
            let xs = column * width / columns..(column + 1) * width / columns;
            let count = (ys.len() * xs.len()) as f32;
            let sum: f32 = ys.clone().flat_map(|y| xs.clone().filter_map(move |x| gray.get(&[y, x]))).sum();
            let shade = (sum / count / 256.0 * INK.len() as f32) as usize;
            text.push(INK[shade.min(INK.len() - 1)]);
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    Ok(text)
}
