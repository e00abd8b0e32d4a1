//! One call of a fenced script, and what its answer means.

use std::sync::LazyLock;

use leasehold_core::fenced::{Applied, Stale};
use leasehold_core::{Error, ErrorKind, Name, Result, Token};
use redis::{Cmd, Script as Hashed, Value, cmd};

use crate::answer::{Answer, unexpected_word};
use crate::link::Link;
use crate::script::Script;

/// Scripts, each behind the check.
macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {$(
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            hashed(concat!(
                include_str!("../../scripts/fenced_check.lua"),
                include_str!(concat!("../../scripts/", $file))
            ))
        });
    )*};
}

scripts! {
    SET = "fenced_set.lua";
    GET = "fenced_get.lua";
    DELETE = "fenced_delete.lua";
}

fn hashed(source: &'static str) -> Script {
    Script {
        source,
        digest: Hashed::new(source).get_hash().to_owned(),
    }
}

/// What is to be done to a key, and under whose token.
pub(super) struct Call<'a> {
    pub(super) script: &'a Script,
    pub(super) name: &'a Name,
    pub(super) token: Token,
    /// How long to remember the token, in milliseconds; zero for ever.
    pub(super) memory: u64,
    pub(super) fence: &'a [u8],
    pub(super) key: &'a [u8],
    /// What is special to the script.
    pub(super) arguments: &'a [Vec<u8>],
}

impl Call<'_> {
    /// Makes the call, and reads what is left of the answer if it was done.
    pub(super) async fn make<T>(
        &self,
        link: &Link,
        read: fn(Answer) -> Result<T>,
    ) -> Result<Applied<T>> {
        check_exact(self.token)?;
        let mut answer = Answer::of(self.send(link).await?);
        match answer.text()?.as_str() {
            "done" => read(answer).map(Applied::Done),
            "stale" => self.stale(&answer.text()?).map(Applied::Stale),
            "corrupt" => Err(no_token()),
            word => Err(unexpected_word(word)),
        }
    }

    /// Runs the script by its digest, or by its text if the server does not know it yet.
    async fn send(&self, link: &Link) -> Result<Value> {
        let known = self.command("EVALSHA", &self.script.digest);
        if let Some(answer) = link.call(&known, true).await? {
            return Ok(answer);
        }
        let unknown = self.command("EVAL", self.script.source);
        let answer = link.call(&unknown, true).await?;
        answer.ok_or_else(|| Error::new(ErrorKind::Internal, "the server takes no script"))
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = cmd(verb);
        command.arg(script).arg(2).arg(self.fence).arg(self.key);
        command.arg(self.token.get()).arg(self.memory);
        command.arg(self.arguments);
        command
    }

    fn stale(&self, highest: &str) -> Result<Stale> {
        Ok(Stale {
            name: self.name.clone(),
            token: self.token,
            highest: highest.parse().map(Token::new).map_err(|_| no_token())?,
        })
    }
}

/// Scripts compare floating-point numbers, which tell two tokens apart only up to here.
fn check_exact(token: Token) -> Result<()> {
    if token > Token::MAX {
        let max = Token::MAX;
        return Err(Error::invalid(format!(
            "token {token} cannot be one that a store gave; the largest is {max}"
        )));
    }
    Ok(())
}

fn no_token() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the fence holds something that is not a token",
    )
}
