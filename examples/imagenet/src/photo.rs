//! Photographs in memory: decoded JPEG and PNG files.

use std::io::Cursor;

use kernpack::{Error, Result};
use png::{ColorType, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The maximum number of pixels of a photograph.
pub const MOST_PIXELS: usize = 1 << 28;

/// Pixels, row by row from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Photo {
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// Red, green and blue of each pixel.
    pub rgb: Vec<u8>,
}

impl Photo {
    /// Decodes a file according to its first bytes. Gray and palettes are converted to colors.
    /// Transparency and the orientation in EXIF data are ignored.
    ///
    /// # Errors
    /// ValueError if the file is neither JPEG nor PNG, is damaged, or is too large.
    pub fn decode(content: &[u8]) -> Result<Self> {
        let photo = if content.starts_with(&[0xff, 0xd8]) {
            decode_jpeg(content)
                .map_err(|error| Error::value_error(format!("not a JPEG file that can be read: {error}")))?
        } else if content.starts_with(b"\x89PNG") {
            decode_png(content)
                .map_err(|error| Error::value_error(format!("not a PNG file that can be read: {error}")))?
        } else {
            return Err(Error::value_error("neither a JPEG nor a PNG file"));
        };
        if photo.width == 0 || photo.height == 0 || photo.rgb.len() != 3 * photo.width * photo.height {
            return Err(Error::value_error("a file without a picture"));
        }
        Ok(photo)
    }
}

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn check_size(width: usize, height: usize) -> Outcome<()> {
    match width.checked_mul(height) {
        Some(pixels) if pixels <= MOST_PIXELS => Ok(()),
        _ => Err(format!("{width} x {height} pixels, and at most {MOST_PIXELS} are decoded").into()),
    }
}

fn decode_jpeg(content: &[u8]) -> Outcome<Photo> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(content), options);
    decoder.decode_headers().map_err(|error| format!("{error:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("it has no dimensions")?;
    check_size(width, height)?;
    let rgb = decoder.decode().map_err(|error| format!("{error:?}"))?;
    Ok(Photo { width, height, rgb })
}

fn decode_png(content: &[u8]) -> Outcome<Photo> {
    let mut decoder = png::Decoder::new(Cursor::new(content));
    // 8 bits for each channel, palettes and fewer bits expanded.
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    check_size(width, height)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("it does not fit into memory")?];
    let frame = reader.next_frame(&mut pixels)?;
    pixels.truncate(frame.buffer_size());
    let rgb = match frame.color_type {
        ColorType::Rgb => pixels,
        ColorType::Rgba => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        ColorType::Grayscale => pixels.iter().flat_map(|gray| [*gray; 3]).collect(),
        ColorType::GrayscaleAlpha => pixels.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        ColorType::Indexed => return Err("a palette that was not expanded".into()),
    };
    Ok(Photo { width, height, rgb })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png_of(color: ColorType, data: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_color(color);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        file
    }

    #[test]
    fn colors_of_png_files() {
        for (color, data, rgb) in [
            (ColorType::Rgb, &[1, 2, 3, 4, 5, 6][..], [1, 2, 3, 4, 5, 6]),
            (ColorType::Rgba, &[1, 2, 3, 0, 4, 5, 6, 255], [1, 2, 3, 4, 5, 6]),
            (ColorType::Grayscale, &[7, 8], [7, 7, 7, 8, 8, 8]),
            (ColorType::GrayscaleAlpha, &[7, 0, 8, 255], [7, 7, 7, 8, 8, 8]),
        ] {
            let photo = Photo::decode(&png_of(color, data)).unwrap();
            assert_eq!(photo, Photo { width: 2, height: 1, rgb: rgb.to_vec() }, "{color:?}");
        }
    }

    #[test]
    fn what_is_no_photograph() {
        let cut = &png_of(ColorType::Rgb, &[0; 6])[..40];
        for (content, expected) in [
            (&b""[..], "neither a JPEG nor a PNG file"),
            (b"GIF89a", "neither a JPEG nor a PNG file"),
            (cut, "not a PNG file that can be read: "),
            (b"\xff\xd8\xff\xe0", "not a JPEG file that can be read: "),
        ] {
            let error = Photo::decode(content).unwrap_err();
            assert!(error.message().starts_with(expected), "{}", error.message());
        }
    }
}
