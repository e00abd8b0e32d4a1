//! A certificate for this machine and the authority that signed it, made by the program `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

/// A new key, and a certificate for it that signs itself.
const AUTHORITY: &str = "req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN=authority \
     -keyout ca.key -out ca.crt";

/// A new key, and a certificate for it that the authority signs.
const SERVER: &str = "req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN=localhost \
     -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
     -CA ca.crt -CAkey ca.key -keyout server.key -out server.crt";

/// Files that are gone with the last clone.
#[derive(Debug, Clone)]
pub struct Certificates {
    folder: Arc<TempDir>,
}

impl Certificates {
    /// Makes an authority, and a certificate for `localhost` and 127.0.0.1.
    pub fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        openssl(folder.path(), AUTHORITY);
        openssl(folder.path(), SERVER);
        Self {
            folder: Arc::new(folder),
        }
    }

    /// The certificate of the authority, for clients.
    pub fn authority(&self) -> PathBuf {
        self.file("ca.crt")
    }

    /// What makes a server listen on this port and show the certificate.
    pub(super) fn settings(&self, port: u16) -> String {
        let file = |name| self.file(name).display().to_string();
        let (authority, shown, key) = (file("ca.crt"), file("server.crt"), file("server.key"));
        format!(
            "tls-port {port}\n\
             tls-ca-cert-file {authority}\n\
             tls-cert-file {shown}\n\
             tls-key-file {key}\n\
             tls-auth-clients no\n"
        )
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn openssl(folder: &Path, args: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args(args.split_whitespace()).current_dir(folder);
    let output = openssl.output();
    let output = output.unwrap_or_else(|why| panic!("cannot run openssl: {why}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args}:\n{errors}");
}
