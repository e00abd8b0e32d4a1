//! Test services: the servers that tests of some backends need, started and stopped without containers.
//!
//! [`SERVICES`] lists them, one file each says how it is installed and run, and [`process`] keeps track of what runs.

mod apt;
mod process;
mod redis;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::metadata::Metadata;
use process::Running;

/// A server that the tests of the backend of the same name need.
pub(crate) struct Service {
    /// The one word for the backend.
    name: &'static str,
    /// Makes sure that the server's program is on this machine.
    install: fn() -> Result,
    /// The command that runs the server in the foreground.
    start: fn(&Place) -> Command,
    /// Whether the server answers by now.
    ready: fn(&Place) -> bool,
    /// What the tests need in their environment to find it.
    env: fn(&Place) -> Vec<(String, String)>,
}

/// Where a service runs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Place {
    /// A port of the loopback interface that was free.
    port: u16,
    /// A folder for its files, empty at the start.
    data: PathBuf,
}

/// Every service, one entry per backend that needs a server.
const SERVICES: &[Service] = &[redis::REDIS];

/// The backends that run inside the process of their user and need no service.
const EMBEDDED: &[&str] = &["memory", "file"];

/// Whether it is known what the tests of this backend need.
pub(crate) fn is_listed(backend: &str) -> bool {
    EMBEDDED.contains(&backend) || SERVICES.iter().any(|service| service.name == backend)
}

/// The services that the tests of these backends need.
pub(crate) fn needed(backends: &[String]) -> impl Iterator<Item = &'static str> {
    SERVICES
        .iter()
        .map(|service| service.name)
        .filter(|name| backends.iter().any(|backend| backend == name))
}

/// `cargo xtask services up`.
pub(crate) fn up(names: &[String]) -> Result {
    let shelf = Shelf::new(&Metadata::load()?, SERVICES);
    for service in shelf.choose(names)? {
        let running = match shelf.running(service)? {
            Some(running) => running,
            None => shelf.start(service)?,
        };
        eprintln!("xtask: {} is up, pid {}", service.name, running.pid);
        for (key, value) in (service.env)(&running.place) {
            println!("export {key}={value}");
        }
    }
    Ok(())
}

/// `cargo xtask services down`.
pub(crate) fn down(names: &[String]) -> Result {
    let shelf = Shelf::new(&Metadata::load()?, SERVICES);
    for service in shelf.choose(names)? {
        let was_up = shelf.stop(service)?;
        let what = if was_up { "stopped" } else { "was not up" };
        eprintln!("xtask: {} {what}", service.name);
    }
    Ok(())
}

/// Services that are up for the length of a test run. Those this value started are stopped when it is dropped.
pub(crate) struct Session {
    shelf: Shelf,
    started: Vec<&'static str>,
    env: Vec<(String, String)>,
}

impl Session {
    /// Nothing started yet.
    pub(crate) fn new(metadata: &Metadata) -> Self {
        Self {
            shelf: Shelf::new(metadata, SERVICES),
            started: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Starts a service, or uses the one that is up already.
    pub(crate) fn start(&mut self, name: &str) -> Result {
        let service = self.shelf.find(name)?;
        let running = match self.shelf.running(service)? {
            Some(running) => running,
            None => {
                let running = self.shelf.start(service)?;
                self.started.push(service.name);
                running
            }
        };
        self.env.extend((service.env)(&running.place));
        Ok(())
    }

    /// What leads the tests to the services.
    pub(crate) fn env(&self) -> &[(String, String)] {
        &self.env
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for name in self.started.drain(..) {
            let stopped = self.shelf.find(name).and_then(|it| self.shelf.stop(it));
            match stopped {
                Ok(_) => eprintln!("xtask: {name} stopped"),
                Err(why) => eprintln!("xtask: {name} is still up: {why}"),
            }
        }
    }
}

/// A table of services and the folder that remembers which of them run.
struct Shelf {
    table: &'static [Service],
    folder: PathBuf,
}

impl Shelf {
    fn new(metadata: &Metadata, table: &'static [Service]) -> Self {
        Self {
            table,
            folder: metadata.target_directory.join("services"),
        }
    }

    fn choose(&self, names: &[String]) -> Result<Vec<&'static Service>> {
        if names.is_empty() && self.table.is_empty() {
            eprintln!("xtask: no backend needs a service");
        }
        if names.is_empty() {
            return Ok(self.table.iter().collect());
        }
        names.iter().map(|name| self.find(name)).collect()
    }

    fn find(&self, name: &str) -> Result<&'static Service> {
        let found = self.table.iter().find(|service| service.name == name);
        found.ok_or_else(|| {
            let known: Vec<_> = self.table.iter().map(|service| service.name).collect();
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            let embedded = EMBEDDED.join(", ");
            format!(
                "there is no service {name:?}; there are: {known}. No service needed: {embedded}"
            )
        })
    }

    fn running(&self, service: &Service) -> Result<Option<Running>> {
        process::find(&self.state_file(service))
    }

    fn start(&self, service: &Service) -> Result<Running> {
        (service.install)()?;
        let place = Place {
            port: free_port()?,
            data: self.folder.join(service.name),
        };
        empty_folder(&place.data)?;
        let log = self.folder.join(format!("{}.log", service.name));
        let running = process::start((service.start)(&place), place, &log)?;
        process::remember(&running, &self.state_file(service))?;
        if process::wait_until_ready(&running, service.ready) {
            return Ok(running);
        }
        self.stop(service)?;
        let log = log.display();
        Err(format!("{} did not come up; see {log}", service.name))
    }

    /// Stops a service; `false` if it was not up.
    fn stop(&self, service: &Service) -> Result<bool> {
        let file = self.state_file(service);
        let running = process::find(&file)?;
        if let Some(running) = &running {
            process::stop(running)?;
        }
        process::forget(&file)?;
        Ok(running.is_some())
    }

    fn state_file(&self, service: &Service) -> PathBuf {
        self.folder.join(format!("{}.json", service.name))
    }
}

fn free_port() -> Result<u16> {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("cannot find a free port: {error}"))
}

fn empty_folder(folder: &Path) -> Result {
    let cannot = |error| format!("cannot make {}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(cannot)?;
    }
    std::fs::create_dir_all(folder).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    static FAKE: [Service; 2] = [
        Service {
            name: "fake",
            install: || Ok(()),
            start: |_| {
                let mut sleep = Command::new("sleep");
                sleep.arg("60");
                sleep
            },
            ready: |place| place.data.is_dir(),
            env: |place| vec![("FAKE_PORT".to_owned(), place.port.to_string())],
        },
        Service {
            name: "broken",
            install: || Ok(()),
            start: |_| Command::new("false"),
            ready: |_| false,
            env: |_| Vec::new(),
        },
    ];

    fn shelf(name: &str) -> Shelf {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        Shelf {
            table: &FAKE,
            folder,
        }
    }

    #[test]
    fn a_service_is_started_found_and_stopped() {
        let shelf = shelf("life");
        let service = shelf.find("fake").unwrap();
        assert!(shelf.running(service).unwrap().is_none());
        let started = shelf.start(service).unwrap();
        assert_eq!(shelf.running(service).unwrap(), Some(started));
        assert!(shelf.stop(service).unwrap());
        assert!(shelf.running(service).unwrap().is_none());
        assert!(!shelf.stop(service).unwrap());
        std::fs::remove_dir_all(&shelf.folder).unwrap();
    }

    #[test]
    fn a_session_stops_what_it_started_and_nothing_else() {
        let mut session = Session {
            shelf: shelf("session"),
            started: Vec::new(),
            env: Vec::new(),
        };
        session.start("fake").unwrap();
        assert_eq!(session.env()[0].0, "FAKE_PORT");
        let again = Shelf {
            table: &FAKE,
            folder: session.shelf.folder.clone(),
        };
        let mut second = Session {
            shelf: shelf("session"),
            started: Vec::new(),
            env: Vec::new(),
        };
        second.start("fake").unwrap();
        drop(second);
        assert!(again.running(&FAKE[0]).unwrap().is_some());
        drop(session);
        assert!(again.running(&FAKE[0]).unwrap().is_none());
        std::fs::remove_dir_all(&again.folder).unwrap();
    }

    #[test]
    fn a_service_that_does_not_come_up_is_an_error_that_names_its_log() {
        let shelf = shelf("broken");
        let why = shelf.start(&FAKE[1]).unwrap_err();
        assert!(why.contains("broken.log"), "{why}");
        assert!(shelf.running(&FAKE[1]).unwrap().is_none());
        std::fs::remove_dir_all(&shelf.folder).unwrap();
    }

    #[test]
    fn an_unknown_service_is_refused_with_the_known_ones() {
        let Err(why) = shelf("unknown").find("memory") else {
            panic!("memory has no service");
        };
        assert!(why.contains("fake, broken"), "{why}");
        assert!(why.contains("No service needed: memory"), "{why}");
    }
}
