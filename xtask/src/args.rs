//! The command line.

use crate::Result;
use crate::test;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
cargo xtask COMMAND

  check [--keep-going]
      Formatting, clippy on all targets and features, rustdoc, the facade with each feature alone, tidy.
  tidy [--write]
      The rules no compiler knows: who may depend on whom, what every backend must bring, links, sizes, words,
      generated tables. With --write the generated tables are brought up to date first.
  test [BACKEND ...] [--long] [--keep-going]
      Without a backend: check, then all tests, doc tests and examples. With backends: only the tests of these.
      Starts the services the tests need and stops them again. --long runs the nightly amounts.
  services up|down [NAME ...]
      Starts or stops test services; without a name all of them. `up` prints the environment the tests need.
  bench NAME [--check]
      Measures against floors taken in the same run. With --check a missed target is a failure.
  help
      This text.

--keep-going runs the remaining steps after a failed one; the command still fails in the end.
";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Help,
    Check { keep_going: bool },
    Tidy { write: bool },
    Test(test::Options),
    ServicesUp { names: Vec<String> },
    ServicesDown { names: Vec<String> },
    Bench { args: Vec<String> },
}

/// Reads the arguments after `cargo xtask`.
pub(crate) fn parse(args: &[String]) -> Result<Job> {
    let Some((command, rest)) = args.split_first() else {
        return Ok(Job::Help);
    };
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        return Ok(Job::Help);
    }
    match command.as_str() {
        "help" => Ok(Job::Help),
        "check" => check(rest),
        "tidy" => tidy(rest),
        "test" => test(rest),
        "services" => services(rest),
        "bench" if rest.is_empty() => Err("bench needs a NAME, such as `core`".to_owned()),
        "bench" => Ok(Job::Bench {
            args: rest.to_vec(),
        }),
        other => Err(format!(
            "there is no command {other:?}; `cargo xtask --help` lists them"
        )),
    }
}

fn check(rest: &[String]) -> Result<Job> {
    let args = Args::new("check", rest, &["--keep-going"])?;
    args.no_words()?;
    Ok(Job::Check {
        keep_going: args.flag("--keep-going"),
    })
}

fn tidy(rest: &[String]) -> Result<Job> {
    let args = Args::new("tidy", rest, &["--write"])?;
    args.no_words()?;
    Ok(Job::Tidy {
        write: args.flag("--write"),
    })
}

fn test(rest: &[String]) -> Result<Job> {
    let args = Args::new("test", rest, &["--long", "--keep-going"])?;
    Ok(Job::Test(test::Options {
        long: args.flag("--long"),
        keep_going: args.flag("--keep-going"),
        backends: args.words,
    }))
}

fn services(rest: &[String]) -> Result<Job> {
    let mut words = Args::new("services", rest, &[])?.words.into_iter();
    match words.next().as_deref() {
        Some("up") => Ok(Job::ServicesUp {
            names: words.collect(),
        }),
        Some("down") => Ok(Job::ServicesDown {
            names: words.collect(),
        }),
        _ => Err("services needs `up` or `down`, then names if not all are meant".to_owned()),
    }
}

/// Arguments sorted into flags and plain words.
struct Args {
    command: &'static str,
    flags: Vec<String>,
    words: Vec<String>,
}

impl Args {
    fn new(command: &'static str, args: &[String], known: &[&str]) -> Result<Self> {
        let (flags, words): (Vec<_>, Vec<_>) =
            args.iter().cloned().partition(|arg| arg.starts_with('-'));
        match flags.iter().find(|flag| !known.contains(&flag.as_str())) {
            Some(flag) => Err(format!(
                "{command} does not know {flag}; `cargo xtask --help` lists what it knows"
            )),
            None => Ok(Self {
                command,
                flags,
                words,
            }),
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    fn no_words(&self) -> Result {
        match self.words.first() {
            Some(word) => Err(format!("{} takes no argument {word:?}", self.command)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Job> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&args)
    }

    #[test]
    fn every_command_is_understood() {
        assert_eq!(parsed(""), Ok(Job::Help));
        assert_eq!(parsed("test --help"), Ok(Job::Help));
        assert_eq!(parsed("check"), Ok(Job::Check { keep_going: false }));
        assert_eq!(parsed("tidy --write"), Ok(Job::Tidy { write: true }));
        let options = test::Options {
            backends: vec!["memory".to_owned()],
            long: true,
            keep_going: false,
        };
        assert_eq!(parsed("test memory --long"), Ok(Job::Test(options)));
        let names = vec!["a".to_owned()];
        assert_eq!(parsed("services up a"), Ok(Job::ServicesUp { names }));
        let args = vec!["core".to_owned(), "--check".to_owned()];
        assert_eq!(parsed("bench core --check"), Ok(Job::Bench { args }));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, word) in [
            ("tset", "tset"),
            ("test --lnog", "--lnog"),
            ("check memory", "memory"),
            ("services", "up"),
            ("bench", "NAME"),
        ] {
            let why = parsed(line).unwrap_err();
            assert!(why.contains(word), "{line}: {why}");
        }
    }
}
