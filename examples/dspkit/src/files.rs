//! WAV files of 16-bit samples.

use std::fs;

use kernpack::{Result, WithPath, bail, ensure, packed_func};

use crate::signal::Signal;

/// Writes a signal as a WAV file of 16-bit samples. Samples beyond 1 are clipped.
#[packed_func]
pub fn write_wav(path: &str, signal: &Signal) -> Result<()> {
    let samples = signal.view()?;
    let Ok(size) = u32::try_from(2 * samples.len()) else { bail!(ValueError, "the signal is too long for a WAV file") };
    let rate = signal.rate as u32;
    let mut bytes = Vec::with_capacity(44 + size as usize);
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&(36 + size).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend_from_slice(&rate.to_le_bytes());
    bytes.extend_from_slice(&(2 * rate).to_le_bytes());
    bytes.extend_from_slice(b"\x02\0\x10\0data");
    bytes.extend_from_slice(&size.to_le_bytes());
    for sample in samples.iter() {
        bytes.extend_from_slice(&((sample.clamp(-1.0, 1.0) * 32767.0).round() as i16).to_le_bytes());
    }
    fs::write(path, bytes).with_path(path)
}

/// Reads the signal of a WAV file with one channel of 16-bit samples.
#[packed_func]
pub fn read_wav(path: &str) -> Result<Signal> {
    let bytes = fs::read(path).with_path(path)?;
    ensure!(
        bytes.len() >= 44 && &bytes[..4] == b"RIFF" && &bytes[8..16] == b"WAVEfmt " && &bytes[36..40] == b"data",
        ValueError,
        "{path} is no WAV file, or one with other parts than format and data"
    );
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    ensure!(
        (half(20), half(22), half(34)) == (1, 1, 16),
        ValueError,
        "{path} has format {}, {} channels and {} bits; one channel of 16 bits is read",
        half(20),
        half(22),
        half(34)
    );
    let rate = u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
    let samples = bytes[44..].as_chunks::<2>().0.iter().map(|sample| f32::from(i16::from_le_bytes(*sample)) / 32767.0);
    Signal::of(samples.collect(), f64::from(rate))
}
