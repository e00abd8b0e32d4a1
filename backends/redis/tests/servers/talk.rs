//! Asking a server something, without any driver: what the driver does is under test.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that takes longer over an answer is not there.
const PATIENCE: Duration = Duration::from_secs(5);

/// A user and a password.
#[derive(Debug, Clone)]
pub struct Login {
    pub user: String,
    pub password: String,
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status or a text.
    Text(String),
    Number(i64),
    Nothing,
    Several(Vec<Reply>),
    /// With its message.
    Error(String),
}

impl Reply {
    /// The text or number of an answer that must be one.
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
            other => panic!("the server should have answered with a text: {other:?}"),
        }
    }

    /// The answers in one that must be several.
    pub fn several(self) -> Vec<Self> {
        match self {
            Self::Several(all) => all,
            other => panic!("the server should have answered with a list: {other:?}"),
        }
    }

    /// The value that follows a key in an answer of keys and values.
    pub fn field(&self, key: &str) -> Option<String> {
        let Self::Several(all) = self else {
            return None;
        };
        let mut pairs = all.chunks_exact(2);
        let pair = pairs.find(|pair| pair[0] == Self::Text(key.to_owned()))?;
        Some(pair[1].clone().text())
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Talk {
    stream: BufReader<TcpStream>,
}

impl Talk {
    /// Connects, and logs in if there is a login.
    pub fn open(addr: SocketAddr, login: Option<&Login>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut talk = Self {
            stream: BufReader::new(stream),
        };
        if let Some(Login { user, password }) = login {
            talk.ask(&["AUTH", user, password])?;
        }
        Ok(talk)
    }

    /// Sends a command and waits for the answer, which may be an error of the server's.
    pub fn ask(&mut self, command: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            write!(request, "${}\r\n{word}\r\n", word.len())?;
        }
        self.stream.get_mut().write_all(&request)?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(number(rest)?),
            "$" => self.bulk(number(rest)?)?,
            "*" => self.array(number(rest)?)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }

    fn bulk(&mut self, length: i64) -> io::Result<Reply> {
        let Ok(length) = usize::try_from(length) else {
            return Ok(Reply::Nothing);
        };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        Ok(Reply::Text(text.into_owned()))
    }

    fn array(&mut self, length: i64) -> io::Result<Reply> {
        if length < 0 {
            return Ok(Reply::Nothing);
        }
        let all: io::Result<Vec<Reply>> = (0..length).map(|_| self.reply()).collect();
        Ok(Reply::Several(all?))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Whether a server takes commands. One that wants a password first is there; one that still loads its data is not.
pub fn is_ready(addr: SocketAddr) -> bool {
    let answer = Talk::open(addr, None).and_then(|mut talk| talk.ask(&["PING"]));
    match answer {
        Ok(Reply::Text(text)) => text == "PONG",
        Ok(Reply::Error(error)) => error.starts_with("NOAUTH"),
        _ => false,
    }
}
