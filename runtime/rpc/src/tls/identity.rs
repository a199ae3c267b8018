//! A server's certificate and its key.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use kernpack::{Result, ensure, error};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Fingerprint;

/// A certificate, with those up to an authority behind it, and its private key.
pub struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads both from files in PEM.
    ///
    /// # Errors
    /// ValueError that names the file, and what is wrong with it.
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

    /// What a client has to know of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Makes a key and a certificate for these host names, signed by itself, and writes `cert.pem`, `key.pem` and `token` to a folder; the last two are for the
    /// folder's owner alone. The token is 32 random bytes in hexadecimal digits.
    ///
    /// # Errors
    /// ValueError for a name that no certificate can have; RuntimeError when a file is there already, or cannot be written.
    pub fn generate(folder: &Path, names: &[String]) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(names.to_vec())
            .map_err(|problem| error!(ValueError, "no certificate for {}: {problem}", names.join(", ")))?;
        fs::create_dir_all(folder).map_err(|problem| error!(RuntimeError, "{}: {problem}", folder.display()))?;
        let mut bytes = [0; 32];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut bytes).map_err(|_| error!(RuntimeError, "no random numbers"))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let write = |name: &str, text: &str, mode: u32| {
            let path = folder.join(name);
            // Not over what is there: a key that is in use would be lost.
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|problem| error!(RuntimeError, "cannot write {}: {problem}", path.display()))
        };
        write("key.pem", &made.signing_key.serialize_pem(), 0o600)?;
        write("cert.pem", &made.cert.pem(), 0o644)?;
        write("token", &(token + "\n"), 0o600)?;
        Self::load(&folder.join("cert.pem"), &folder.join("key.pem"))
    }
}
