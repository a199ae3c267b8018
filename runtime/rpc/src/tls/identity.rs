//! A server's certificate and its key.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kernpack::{Result, ensure, error};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Fingerprint;

/// A certificate, followed by the chain up to an authority, and its private key.
pub struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// The names of the files that [`Identity::generate`] writes.
    pub(crate) const FILES: [&str; 3] = ["key.pem", "cert.pem", "token"];

    /// Reads both from files in PEM.
    ///
    /// # Errors
    /// ValueError with the file and the problem.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self> {
        let wrong = |file: &Path, problem: &str| error!(ValueError, "{}: {problem}", file.display());
        let chain =
            CertificateDer::pem_file_iter(certificate).map_err(|problem| wrong(certificate, &problem.to_string()))?;
        let chain: Result<Vec<_>, _> = chain.collect();
        let chain = chain.map_err(|problem| wrong(certificate, &problem.to_string()))?;
        ensure!(!chain.is_empty(), ValueError, "{}: no certificate in it; PEM is expected", certificate.display());
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|problem| wrong(key, &format!("no private key: {problem}; PEM is expected")))?;
        Ok(Self { chain, key })
    }

    /// The fingerprint of the certificate, which clients need to verify it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Creates a key and a self-signed certificate for these host names, and writes `cert.pem`,
    /// `key.pem` and `token` to a folder; only the folder's owner can read the last two. The token
    /// is 32 random bytes in hexadecimal digits.
    ///
    /// # Errors
    /// ValueError for a name that a certificate cannot have; RuntimeError when a file exists
    /// already, or cannot be written.
    pub fn generate(folder: &Path, names: &[String]) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(names.to_vec())
            .map_err(|problem| error!(ValueError, "no certificate for {}: {problem}", names.join(", ")))?;
        fs::create_dir_all(folder).map_err(|problem| error!(RuntimeError, "{}: {problem}", folder.display()))?;
        let mut bytes = [0; 32];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut bytes).map_err(|_| error!(RuntimeError, "no random numbers"))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let write = |name: &str, text: &str, mode: u32, written: &mut Vec<PathBuf>| {
            let path = folder.join(name);
            // Existing files are not overwritten: a key that is in use would be lost.
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            let file = file.inspect(|_| written.push(path.clone()));
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|problem| error!(RuntimeError, "cannot write {}: {problem}", path.display()))
        };
        let texts = [(made.signing_key.serialize_pem(), 0o600), (made.cert.pem(), 0o644), (token + "\n", 0o600)];
        let mut written = Vec::new();
        let all =
            Self::FILES.iter().zip(&texts).try_for_each(|(name, (text, mode))| write(name, text, *mode, &mut written));
        let loaded = all.and_then(|()| Self::load(&folder.join("cert.pem"), &folder.join("key.pem")));
        if loaded.is_err() {
            // An incomplete set of files is useless, and would block the next attempt.
            for path in written {
                let _ = fs::remove_file(path);
            }
        }
        loaded
    }
}
