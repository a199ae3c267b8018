use crate::branches;

/// The bytes of the server after decompression at most: a size that is wrong must not take all memory.
const LONGEST: usize = 64 << 20;

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/server.deflate"));

/// The server that the launcher carries; `None` for one that was built without.
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
