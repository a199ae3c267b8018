//! PNG files.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use crate::Failure;

/// Reads an RGB picture with 8 bits per channel: height, width and the pixels row by row.
pub(crate) fn read_rgb(path: &Path) -> Result<(usize, usize, Vec<u8>), Failure> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut reader = png::Decoder::new(BufReader::new(file)).read_info()?;
    let info = reader.info();
    if (info.color_type, info.bit_depth) != (png::ColorType::Rgb, png::BitDepth::Eight) {
        return Err(format!("{}: expected RGB with 8 bits per channel", path.display()).into());
    }
    let (height, width) = (info.height as usize, info.width as usize);
    let mut pixels = vec![0; height * width * 3];
    reader.next_frame(&mut pixels)?;
    Ok((height, width, pixels))
}

/// Writes a gray picture; `brightest` becomes white.
pub(crate) fn write_gray(path: &Path, width: usize, gray: &[f32], brightest: f32) -> Result<(), Failure> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), width as u32, (gray.len() / width) as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    // `as` saturates at 0 and 255.
    let pixels: Vec<u8> = gray.iter().map(|value| (value * (255.0 / brightest) + 0.5) as u8).collect();
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}
