use crate::branches;

/// The largest size of the decompressed server: a wrong size must not use up all memory.
const LONGEST: usize = 64 << 20;

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/server.deflate"));

/// The server that the launcher contains; `None` if it was built without one.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn server() -> Result<Option<Vec<u8>>, String> {
    if COMPRESSED.is_empty() {
        return Ok(None);
    }
    let server = miniz_oxide::inflate::decompress_to_vec_with_limit(COMPRESSED, LONGEST);
    let mut server = server.map_err(|problem| format!("this file is damaged, copy it again ({problem})"))?;
    branches::shift(&mut server, std::env::consts::ARCH, -1);
    Ok(Some(server))
}
