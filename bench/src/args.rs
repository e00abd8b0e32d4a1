//! The command line: `NAME [--check] [--list]`.

use crate::bench::Bench;

/// What to do.
#[derive(Debug)]
pub(crate) struct Args {
    /// The benches chosen, in order.
    pub(crate) benches: Vec<Bench>,
    /// Fail if a target is missed.
    pub(crate) check: bool,
    /// Only say what there is.
    pub(crate) list: bool,
}

/// Reads the command line. A name stands for itself and for everything below it: `core` for `core/lock` and so on.
pub(crate) fn parse(args: &[String], all: &[Bench]) -> Result<Args, String> {
    let (mut check, mut list, mut chosen) = (false, false, Vec::new());
    for arg in args {
        match arg.as_str() {
            "--check" => check = true,
            "--list" => list = true,
            name => {
                let found = all.iter().filter(|bench| bench.is_in(name)).copied();
                let before = chosen.len();
                chosen.extend(found);
                if chosen.len() == before {
                    return Err(format!("there is no bench {name:?}; {}", names(all)));
                }
            }
        }
    }
    if chosen.is_empty() && !list {
        return Err(format!("say which bench to run; {}", names(all)));
    }
    let benches = if chosen.is_empty() {
        all.to_vec()
    } else {
        chosen
    };
    Ok(Args {
        benches,
        check,
        list,
    })
}

/// A sentence with the names of all benches and of their groups.
fn names(all: &[Bench]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for bench in all {
        if !names.contains(&bench.group()) {
            names.push(bench.group());
        }
        names.push(bench.name);
    }
    format!("the names are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Args, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        parse(&args, &crate::all())
    }

    #[test]
    fn a_group_stands_for_all_its_benches() {
        let all = read(&["core", "--check"]).unwrap();
        assert!(all.check && all.benches.len() > 1);
        assert_eq!(read(&["core/lock"]).unwrap().benches.len(), 1);
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        let why = read(&["cor"]).unwrap_err();
        assert!(
            why.contains("\"cor\"") && why.contains("core/lock"),
            "{why}"
        );
        assert!(read(&[]).unwrap_err().contains("core"));
    }
}
