//! `cargo kernpack rpc keygen`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use kernpack::{Result, error};

use super::output::print;
use super::words::each;
use crate::tls::{Fingerprint, Identity};

/// The options.
pub const KEYGEN_OPTIONS: &str = "\
Options:
  --folder FOLDER        where key.pem, cert.pem and token are written (kernpack-rpc)
  --name NAME            a host name or address that the certificate is for, for clients that know an authority; may be said again (localhost)
";

/// The keys to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keygen {
    folder: PathBuf,
    names: Vec<String>,
}

impl Keygen {
    /// Parses the options after the command's name; `None` asks for help.
    ///
    /// # Errors
    /// A description of the problem, in one line without the name of the command.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut keygen = Self { folder: "kernpack-rpc".into(), names: Vec::new() };
        let asks_for_help = each(words, KEYGEN_OPTIONS, &[], |name, value| {
            match name {
                "--folder" => keygen.folder = value.into(),
                _ => keygen.names.push(value),
            }
            Ok(())
        })?;
        if keygen.names.is_empty() {
            keygen.names.push("localhost".to_owned());
        }
        Ok((!asks_for_help).then_some(keygen))
    }

    /// Creates the files, and prints instructions for their use. If the fingerprint cannot be
    /// printed, the files are removed again.
    ///
    /// # Errors
    /// As for [`Identity::generate`], and an output that is closed or full.
    pub fn run(&self) -> Result<Fingerprint> {
        let was_there = self.folder.exists();
        let fingerprint = Identity::generate(&self.folder, &self.names)?.fingerprint();
        let folder = self.folder.display();
        let text = format!(
            "{folder}: key.pem and token are secret, cert.pem is not\n\
             fingerprint: {fingerprint}\n\
             \n\
             on the machine of the server, with all three files there:\n  \
             cargo kernpack rpc serve --host 0.0.0.0 --tls-cert {folder}/cert.pem --tls-key {folder}/key.pem --token-file {folder}/token\n\
             in a client, with the token:\n  \
             kernpack_rpc::connect(\"HOST:9090\").tls(Trust::Fingerprint(\"{fingerprint}\".parse()?)).token(token).open()?\n"
        );
        if let Err(problem) = print(&text) {
            for file in Identity::FILES {
                // They were created just now.
                let _ = fs::remove_file(self.folder.join(file));
            }
            if !was_there {
                let _ = fs::remove_dir(&self.folder);
            }
            return Err(error!(RuntimeError, "cannot print the fingerprint, so no keys were made: {problem}"));
        }
        Ok(fingerprint)
    }
}
