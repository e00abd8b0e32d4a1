//! Calling a script: its keys, what is known of its buckets, and what to do if their state was lost.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Name, Result, Ttl};
use redis::Cmd;
use smallvec::SmallVec;

use crate::answer::Answer;
use crate::bucket::{Bucket, Buckets, Epoch};
use crate::link::Link;
use crate::pack::Pack;
use crate::script::{FOUND, Script};

/// Room for what most calls say.
const USUAL_ARGUMENTS: usize = 16;
const USUAL_BYTES: usize = 512;
/// A bucket whose state is lost so often in one call is lost all the time.
const TRIES: usize = 4;

/// The server was found to have lost what it had acknowledged, for some of the names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The key under which those names are kept.
    pub key: String,
    /// For how long nothing new is granted there, unless somebody else had noticed before.
    pub quarantine: Duration,
}

/// Called with every loss that is noticed.
#[derive(Clone)]
pub(crate) struct OnLoss(pub(crate) Arc<dyn Fn(&Loss) + Send + Sync>);

impl fmt::Debug for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLoss(..)")
    }
}

/// What calls need.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) link: Arc<Link>,
    pub(crate) buckets: Arc<Buckets>,
    quarantine: Duration,
    /// The longest ttl this process has asked for, in milliseconds.
    longest_ttl: AtomicU64,
    /// How often some bucket was found to have lost its state.
    losses: AtomicU64,
    on_loss: Option<OnLoss>,
}

/// The buckets of some names, each once, and where each name's stands among them.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) numbers: SmallVec<[usize; 1]>,
    places: SmallVec<[usize; 1]>,
}

impl Spread {
    pub(crate) fn of<'n>(buckets: &Buckets, names: impl IntoIterator<Item = &'n Name>) -> Self {
        let (mut numbers, mut places) = (SmallVec::new(), SmallVec::new());
        for name in names {
            let number = buckets.of(name);
            let known = numbers.iter().position(|it| *it == number);
            places.push(known.unwrap_or(numbers.len()));
            if known.is_none() {
                numbers.push(number);
            }
        }
        Self { numbers, places }
    }

    /// Some buckets, without names.
    pub(crate) fn over(numbers: impl IntoIterator<Item = usize>) -> Self {
        Self {
            numbers: numbers.into_iter().collect(),
            places: SmallVec::new(),
        }
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The number by which the script knows the bucket of the name at this position.
    pub(crate) fn place(&self, at: usize) -> usize {
        self.places[at] + 1
    }
}

impl Caller {
    pub(crate) fn new(
        link: Arc<Link>,
        buckets: Arc<Buckets>,
        quarantine: Duration,
        on_loss: Option<OnLoss>,
    ) -> Self {
        Self {
            link,
            buckets,
            quarantine,
            longest_ttl: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            on_loss,
        }
    }

    /// How often some bucket was found to have lost its state.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Takes note of a ttl that is asked for.
    pub(crate) fn asks_for(&self, ttl: Ttl) {
        self.longest_ttl
            .fetch_max(ttl.as_millis(), Ordering::Relaxed);
    }

    /// Runs a script that may write.
    pub(crate) async fn write(
        &self,
        script: &Script,
        spread: &Spread,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Answer> {
        self.run(script, spread, true, arguments).await
    }

    /// Runs a script that only reads.
    pub(crate) async fn read(
        &self,
        script: &Script,
        spread: &Spread,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Answer> {
        self.run(script, spread, false, arguments).await
    }

    async fn run(
        &self,
        script: &Script,
        spread: &Spread,
        writes: bool,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Answer> {
        if self.link.is_cluster() && spread.numbers.len() > 1 {
            return Err(Error::unsupported(
                "these names are in different slots of the cluster, which cannot be changed in one step",
            ));
        }
        for _ in 0..TRIES {
            let keys = spread
                .numbers
                .iter()
                .map(|number| self.buckets.get(*number));
            let command = |verb: &str, what: &str| {
                let mut command = Cmd::with_capacity(USUAL_ARGUMENTS, USUAL_BYTES);
                command.arg(verb).arg(what).arg(spread.numbers.len() * 3);
                keys.clone().for_each(|bucket| {
                    command.arg(bucket.keys());
                });
                command.arg(&self.buckets.prefix);
                keys.clone().for_each(|bucket| known(&mut command, bucket));
                arguments(&mut command);
                command
            };
            let answer = self.send(script, writes, command).await?;
            let Some(lost) = answer.lost() else {
                return Ok(answer);
            };
            self.found(spread.numbers[lost]).await?;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the server loses what it is told again and again",
        ))
    }

    async fn send(
        &self,
        script: &Script,
        writes: bool,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Answer> {
        let by_digest = command("EVALSHA", &script.digest);
        let answer = match self.link.call(&by_digest, writes).await? {
            Some(answer) => answer,
            None => {
                let by_source = command("EVAL", script.source);
                let answer = self.link.call(&by_source, writes).await?;
                answer
                    .ok_or_else(|| Error::new(ErrorKind::Internal, "the server takes no script"))?
            }
        };
        Ok(Answer::of(answer))
    }

    /// Makes a bucket, or goes on with it as it is after its state was lost.
    pub(crate) async fn found(&self, number: usize) -> Result<()> {
        let bucket = self.buckets.get(number);
        let fresh: Epoch = rand::random();
        let longest = Duration::from_millis(self.longest_ttl.load(Ordering::Relaxed));
        let quarantine = self.quarantine.max(longest);
        let command = |verb: &str, what: &str| {
            let mut command = redis::cmd(verb);
            command.arg(what).arg(3).arg(bucket.keys());
            known(&mut command, bucket);
            command.arg(&fresh[..]).arg(quarantine.as_millis() as u64);
            command.arg(self.buckets.count());
            command
        };
        let mut answer = self.send(&FOUND, true, command).await?;
        let (now_in, top) = (answer.bytes()?, answer.token()?);
        let (count, was_lost) = (answer.count()?, answer.number()? == 1);
        if count != self.buckets.count() {
            return Err(self.other_number(count));
        }
        let damaged = || Error::new(ErrorKind::Corrupt, "the epoch of a bucket is damaged");
        bucket.enter(now_in.try_into().map_err(|_| damaged())?);
        if was_lost {
            bucket.saw(top);
            self.tell(bucket, quarantine);
        }
        Ok(())
    }

    fn tell(&self, bucket: &Bucket, quarantine: Duration) {
        self.losses.fetch_add(1, Ordering::Relaxed);
        if let Some(OnLoss(tell)) = &self.on_loss {
            tell(&Loss {
                key: bucket.keys()[0].clone(),
                quarantine,
            });
        }
    }

    fn other_number(&self, count: usize) -> Error {
        Error::new(
            ErrorKind::Config,
            format!(
                "the store with the prefix {:?} has {count} buckets, but {} were asked for; say buckets={count}, or use \
                 another prefix",
                self.buckets.prefix,
                self.buckets.count()
            ),
        )
    }
}

/// What is known of a bucket: its epoch, or zeros if it was never seen, and its largest token.
fn known(command: &mut Cmd, bucket: &Bucket) {
    let epoch = bucket.epoch().unwrap_or_default();
    Pack::new().bytes(&epoch).u64(bucket.seen()).to(command);
}
