//! TLS 1.3 between client and server, with rustls.
//!
//! A board does not have a certificate that an authority has signed: instead, the client knows the
//! SHA-256 digest of the server's certificate, its [`Fingerprint`], which [`Identity::generate`]
//! and `cargo kernpack rpc keygen` print. If you run your own authority, the client needs the
//! authority's certificate ([`Trust::Authorities`]).
//!
//! Only the server's own process has the private key; sessions, which run code of clients, get the
//! decrypted bytes through a pair of sockets.

mod fingerprint;
mod identity;
mod relay;
#[cfg(test)]
mod relayed;
mod stream;

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kernpack::{Error, Result, error};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};

pub use fingerprint::Fingerprint;
pub use identity::Identity;
pub(crate) use relay::relay;
pub use stream::TlsStream;

/// The way a client verifies the identity of a server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// By the fingerprint of its certificate: names and dates in it are ignored.
    Fingerprint(Fingerprint),
    /// By an authority: a PEM file with the certificates of authorities that may have signed the
    /// server's, which must be valid for the server's host name.
    Authorities(std::path::PathBuf),
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// The server's side of TLS.
#[derive(Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
}

impl core::fmt::Debug for TlsAcceptor {
    /// Omits the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TlsAcceptor")
    }
}

impl TlsAcceptor {
    /// Creates an acceptor with a certificate and its key.
    ///
    /// # Errors
    /// ValueError for a key that does not belong to the certificate, or whose kind is not
    /// supported.
    pub fn new(identity: Identity) -> Result<Self> {
        let config = ServerConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(identity.chain, identity.key));
        let mut config =
            config.map_err(|problem| error!(ValueError, "certificate and key do not go together: {problem}"))?;
        // A session is opened only once: there is nothing to resume.
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config) })
    }

    /// Begins TLS on a connection.
    ///
    /// # Errors
    /// Fails for a client that does not speak TLS 1.3, or not in time.
    pub(crate) fn accept(&self, stream: TcpStream, within: Duration) -> std::io::Result<TlsStream> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map_err(std::io::Error::other)?;
        TlsStream::begin(connection, stream, within)
    }
}

/// The client's side of TLS.
#[derive(Clone, Debug)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// Creates a connector that verifies the server in this way.
    ///
    /// # Errors
    /// ValueError for a file without certificates.
    pub fn new(trust: &Trust) -> Result<Self> {
        let builder = ClientConfig::builder_with_provider(crypto()).with_protocol_versions(&[&rustls::version::TLS13]);
        let builder = builder.map_err(|problem| error!(RuntimeError, "no TLS: {problem}"))?;
        let mut config = match trust {
            Trust::Fingerprint(fingerprint) => {
                let verifier = Pinned { fingerprint: *fingerprint, provider: crypto() };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
            }
            Trust::Authorities(file) => builder.with_root_certificates(authorities(file)?).with_no_client_auth(),
        };
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Begins TLS on a connection to `host`.
    ///
    /// # Errors
    /// ConnectionError for a server that cannot be verified or does not speak TLS 1.3; TimeoutError
    /// if it takes too long.
    pub fn connect(&self, host: &str, stream: TcpStream, within: Duration) -> Result<TlsStream> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| error!(ValueError, "'{host}' is not a name that a certificate can be for"))?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|problem| error!(RuntimeError, "no TLS: {problem}"))?;
        TlsStream::begin(connection, stream, within).map_err(|problem| {
            if matches!(problem.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock) {
                let seconds = within.as_secs_f64();
                return Error::new(
                    "TimeoutError",
                    format!("{host} did not begin TLS within {seconds} s; does it use TLS?"),
                );
            }
            Error::new(
                "ConnectionError",
                format!("no TLS with {host}: {problem}; does the server use TLS, with this certificate?"),
            )
        })
    }
}

fn authorities(file: &Path) -> Result<RootCertStore> {
    let wrong = |problem: String| error!(ValueError, "{}: {problem}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|problem| wrong(problem.to_string()))? {
        let certificate = certificate.map_err(|problem| wrong(problem.to_string()))?;
        roots.add(certificate).map_err(|problem| wrong(problem.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("no certificate in it; PEM is expected".to_owned())) } else { Ok(roots) }
}

/// Accepts one certificate. The signature in the handshake proves that the server has its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let own = Fingerprint::of(certificate);
        if own == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!(
            "the server's certificate has the fingerprint {own}, not {}",
            self.fingerprint
        )))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
