//! Where a server runs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Port;
use crate::{Error, Result};

/// A port and a folder that nobody else has, for as long as this lives.
#[derive(Debug)]
pub struct Place {
    port: Port,
    folder: TempDir,
}

impl Place {
    /// Finds one. The folder is empty.
    ///
    /// # Errors
    ///
    /// If there is no free port, or no folder can be made.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("leasehold-server-")
            .tempdir();
        let folder = folder.map_err(Error::because("cannot make a folder for a server"))?;
        let port = Port::reserve()?;
        Ok(Self { port, folder })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The port with its address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The folder for the server's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The log, in that folder: what the server prints.
    pub fn log(&self) -> PathBuf {
        self.folder().join("server.log")
    }

    /// The folder outlives this, for whoever looks into a failure.
    #[allow(clippy::print_stderr, reason = "the one place to say it: a test fails")]
    pub(super) fn keep(&mut self) {
        self.folder.disable_cleanup(true);
        eprintln!(
            "the files of a server are kept in {}",
            self.folder().display()
        );
    }
}
