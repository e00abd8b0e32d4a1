//! How a server is run.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use super::{Place, Server};
use crate::Result;

/// How often to look whether a server is ready.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// How long a server may take to be ready if nothing else was said.
const DEADLINE: Duration = Duration::from_secs(30);

type Run = dyn Fn(&Place) -> Command + Send + Sync;
type Ready = dyn Fn(&Place) -> bool + Send + Sync;

/// How to run a server, and how to tell that it is ready.
pub struct Launch {
    run: Box<Run>,
    ready: Box<Ready>,
    deadline: Duration,
}

impl Launch {
    /// Runs this command, in the foreground, each time anew. Without [`ready`](Self::ready) it counts as ready at once.
    pub fn new(run: impl Fn(&Place) -> Command + Send + Sync + 'static) -> Self {
        Self {
            run: Box::new(run),
            ready: Box::new(|_| true),
            deadline: DEADLINE,
        }
    }

    /// It is ready when this says so. It is asked again and again, and must not wait long.
    #[must_use]
    pub fn ready(mut self, ready: impl Fn(&Place) -> bool + Send + Sync + 'static) -> Self {
        self.ready = Box::new(ready);
        self
    }

    /// It has this long to be ready; half a minute otherwise.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts a server on a port and in a folder of its own. It is ready when this returns.
    ///
    /// # Errors
    ///
    /// If it does not come up: with the end of its log.
    pub fn start(self) -> Result<Server> {
        self.start_at(Place::new()?)
    }

    /// The same at a place that was prepared.
    ///
    /// # Errors
    ///
    /// If it does not come up: with the end of its log.
    pub fn start_at(self, place: Place) -> Result<Server> {
        let mut server = Server {
            launch: self,
            place,
            running: None,
        };
        server.start()?;
        server.wait_until_ready()?;
        Ok(server)
    }

    pub(super) fn command(&self, place: &Place) -> Command {
        (self.run)(place)
    }

    pub(super) fn is_ready(&self, place: &Place) -> bool {
        (self.ready)(place)
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn name(&self, place: &Place) -> String {
        let command = self.command(place);
        command.get_program().to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
