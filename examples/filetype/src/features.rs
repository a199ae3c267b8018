//! The input of the network: the beginning and the end of a file, stripped of white space.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The number of tokens for the network: the beginning at the left, the end at the right.
pub const TOKENS: usize = 2 * PART;

/// The token for positions without a byte. Bytes are tokens 0 to 255.
pub const PADDING: i32 = 256;

/// The number of tokens of the beginning, and of the end.
const PART: usize = 1024;

/// The number of bytes that are read at the beginning, and at the end.
pub const BLOCK: usize = 4096;

/// The network is not run on a file with fewer bytes than this, without the white space at the
/// beginning.
pub const LEAST: usize = 8;

/// The two blocks of a file that features come from. They overlap in short files.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    /// The first 4096 bytes, or all.
    pub begin: &'a [u8],
    /// The last 4096 bytes, or all.
    pub end: &'a [u8],
}

impl<'a> Blocks<'a> {
    /// Returns the blocks of a file in memory.
    pub fn of(content: &'a [u8]) -> Self {
        let length = content.len().min(BLOCK);
        Self { begin: &content[..length], end: &content[content.len() - length..] }
    }
}

/// Reads the blocks of a file into a buffer. The rest of the file is not read.
///
/// # Errors
/// Returns errors of the system.
pub fn read<'a>(path: &Path, buffer: &'a mut Vec<u8>) -> io::Result<Blocks<'a>> {
    buffer.clear();
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size <= 2 * BLOCK as u64 {
        file.read_to_end(buffer)?;
        return Ok(Blocks::of(buffer));
    }
    buffer.resize(2 * BLOCK, 0);
    file.read_exact(&mut buffer[..BLOCK])?;
    file.seek(SeekFrom::Start(size - BLOCK as u64))?;
    file.read_exact(&mut buffer[BLOCK..])?;
    Ok(Blocks { begin: &buffer[..BLOCK], end: &buffer[BLOCK..] })
}

/// Returns true for ASCII white space according to Python's `bytes.strip`, which includes the
/// vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Writes the tokens of a file. Returns false if the file is too short for the network.
pub fn extract(blocks: &Blocks<'_>, tokens: &mut [i32; TOKENS]) -> bool {
    let Blocks { begin, end } = blocks;
    let first = begin.iter().position(|byte| !is_space(*byte)).unwrap_or(begin.len());
    let begin = &begin[first..];
    if begin.len() < LEAST {
        return false;
    }
    let last = end.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    let end = &end[..last];
    let begin = &begin[..begin.len().min(PART)];
    let end = &end[end.len().saturating_sub(PART)..];
    tokens.fill(PADDING);
    tokens.iter_mut().zip(begin).for_each(|(token, byte)| *token = i32::from(*byte));
    tokens[TOKENS - end.len()..].iter_mut().zip(end).for_each(|(token, byte)| *token = i32::from(*byte));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tokens of the beginning and of the end, without padding.
    fn tokens(content: &[u8]) -> Option<(Vec<i32>, Vec<i32>)> {
        let mut tokens = [0; TOKENS];
        extract(&Blocks::of(content), &mut tokens).then(|| {
            let (begin, end) = tokens.split_at(PART);
            let bytes = |part: &[i32]| part.iter().copied().filter(|token| *token != PADDING).collect();
            (bytes(begin), bytes(end))
        })
    }

    #[test]
    fn white_space_around_a_file_is_left_out() {
        let seen: Vec<i32> = b"12345 789".iter().map(|byte| i32::from(*byte)).collect();
        let longer: Vec<i32> = b"12345 789\x0b\r\n".iter().map(|byte| i32::from(*byte)).collect();
        // At each end of a file only the white space of that end is removed.
        let mut spaced = vec![i32::from(b'\t'), i32::from(b' ')];
        spaced.extend(&seen);
        assert_eq!(tokens(b"\t 12345 789\x0b\r\n"), Some((longer, spaced)));
        assert_eq!(tokens(b"12345 789"), Some((seen.clone(), seen)));
    }

    #[test]
    fn too_little_is_not_asked_about() {
        for content in [&b""[..], b"1234567", b"      1234567", &[b' '; 5000]] {
            assert_eq!(tokens(content), None, "{content:?}");
        }
        assert!(tokens(b"12345678").is_some());
        assert!(tokens(b" 1234567 ").is_some());
    }

    #[test]
    fn a_long_file_has_two_ends() {
        let content: Vec<u8> = (0..9000_u32).map(|place| 33 + u8::try_from(place % 200).unwrap()).collect();
        let (begin, end) = tokens(&content).unwrap();
        let expected = |part: &[u8]| part.iter().map(|byte| i32::from(*byte)).collect::<Vec<_>>();
        assert_eq!(begin, expected(&content[..PART]));
        assert_eq!(end, expected(&content[9000 - PART..]));
        let path = std::env::temp_dir().join(format!("filetype-blocks-{}", std::process::id()));
        for length in [0, 5, 4096, 8192, 8193, 9000] {
            std::fs::write(&path, &content[..length]).unwrap();
            let mut buffer = Vec::new();
            let blocks = read(&path, &mut buffer).unwrap();
            let all = Blocks::of(&content[..length]);
            assert_eq!((blocks.begin, blocks.end), (all.begin, all.end), "{length} bytes");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
