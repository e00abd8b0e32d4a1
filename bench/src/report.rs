//! The table people read, and the verdicts `--check` goes by.

use std::fmt::Write as _;

use crate::measure::Samples;

const MIB: f64 = 1024.0 * 1024.0;

/// A measured value, in the unit it is shown in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Figure {
    /// Nanoseconds per operation, shown as operations per second.
    Rate(f64),
    /// Nanoseconds.
    Time(f64),
    /// Bytes.
    Bytes(f64),
    /// A plain number.
    Number(f64),
}

impl Figure {
    fn raw(self) -> f64 {
        match self {
            Self::Rate(raw) | Self::Time(raw) | Self::Bytes(raw) | Self::Number(raw) => raw,
        }
    }

    fn show(self) -> String {
        match self {
            Self::Rate(nanos) if nanos < 1e4 => format!("{:.2} M/s", 1e3 / nanos),
            Self::Rate(nanos) if nanos < 1e5 => format!("{:.1} k/s", 1e6 / nanos),
            Self::Rate(nanos) => format!("{:.0} /s", 1e9 / nanos),
            Self::Time(nanos) if nanos < 1e3 => format!("{nanos:.0} ns"),
            Self::Time(nanos) if nanos < 1e6 => format!("{:.1} µs", nanos / 1e3),
            Self::Time(nanos) if nanos < 1e9 => format!("{:.1} ms", nanos / 1e6),
            Self::Time(nanos) => format!("{:.2} s", nanos / 1e9),
            Self::Bytes(bytes) if bytes < MIB => format!("{bytes:.0} B"),
            Self::Bytes(bytes) => format!("{:.1} MiB", bytes / MIB),
            Self::Number(number) => format!("{number:.2}"),
        }
    }
}

/// What a value must reach, and what we want it to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// The more, the better.
    AtLeast { must: f64, goal: f64 },
    /// The less, the better.
    AtMost { must: f64, goal: f64 },
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    bench: &'static str,
    what: String,
    floor: Option<Figure>,
    ours: Figure,
    ratio: Option<f64>,
    target: Option<Target>,
}

impl Row {
    /// A line with one figure.
    pub(crate) fn new(bench: &'static str, what: impl Into<String>, ours: Figure) -> Self {
        let what = what.into();
        Self {
            bench,
            what,
            floor: None,
            ours,
            ratio: None,
            target: None,
        }
    }

    /// A line that compares rates: operations per second ÷ those of the floor.
    pub(crate) fn rates(
        bench: &'static str,
        what: impl Into<String>,
        ours: &Samples,
        floor: &Samples,
    ) -> Self {
        Self {
            floor: Some(Figure::Rate(floor.median())),
            ratio: Some(floor.over(ours)),
            ..Self::new(bench, what, Figure::Rate(ours.median()))
        }
    }

    /// A line that compares times: time ÷ that of the floor.
    pub(crate) fn times(
        bench: &'static str,
        what: impl Into<String>,
        ours: &Samples,
        floor: &Samples,
    ) -> Self {
        Self {
            floor: Some(Figure::Time(floor.median())),
            ratio: Some(ours.over(floor)),
            ..Self::new(bench, what, Figure::Time(ours.median()))
        }
    }

    /// The same line with a target for its ratio, or for its figure if it has no ratio.
    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    fn value(&self) -> f64 {
        self.ratio.unwrap_or(self.ours.raw())
    }

    /// Whether it has a target and misses it. A value that is not a number misses every target.
    pub(crate) fn is_missed(&self) -> bool {
        self.target
            .is_some_and(|target| !target.must_is_met(self.value()))
    }

    /// Whether this measurement of the same thing came out better.
    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        match self.target {
            Some(Target::AtLeast { .. }) => self.value() > other.value(),
            Some(Target::AtMost { .. }) => self.value() < other.value(),
            None => false,
        }
    }

    fn cells(&self) -> [String; COLUMNS] {
        let (must, goal, verdict) = match self.target {
            Some(target) => target.cells(self.value()),
            None => Default::default(),
        };
        [
            self.bench.to_owned(),
            self.what.clone(),
            self.floor.map(Figure::show).unwrap_or_default(),
            self.ours.show(),
            self.ratio
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            must,
            goal,
            verdict,
        ]
    }
}

impl Target {
    fn must_is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast { must, .. } => value >= must,
            Self::AtMost { must, .. } => value <= must,
        }
    }

    fn goal_is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast { goal, .. } => value >= goal,
            Self::AtMost { goal, .. } => value <= goal,
        }
    }

    fn cells(self, value: f64) -> (String, String, String) {
        let (sign, must, goal) = match self {
            Self::AtLeast { must, goal } => ("≥", must, goal),
            Self::AtMost { must, goal } => ("≤", must, goal),
        };
        let verdict = match (self.goal_is_met(value), self.must_is_met(value)) {
            (true, _) => "goal",
            (_, true) => "met",
            _ => "MISSED",
        };
        (
            format!("{sign} {must}"),
            format!("{sign} {goal}"),
            verdict.to_owned(),
        )
    }
}

const COLUMNS: usize = 8;
const HEAD: [&str; COLUMNS] = [
    "bench",
    "measured as",
    "floor",
    "ours",
    "ratio",
    "must",
    "goal",
    "verdict",
];

/// All lines as one table. Ratios are medians of the ratios of each round, not quotients of the medians beside them.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let width = |line: &[String; COLUMNS]| line[column].chars().count();
        lines.iter().map(width).max().unwrap_or_default()
    });
    lines.insert(1, widths.map(|width| "-".repeat(width)));
    let mut table = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(table, "| {cell:<width$} ");
        }
        table.push_str("|\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, target: Target) -> Row {
        Row::new("b", "w", Figure::Number(value)).target(target)
    }

    #[test]
    fn verdicts_follow_must_and_goal_in_both_directions() {
        let least = Target::AtLeast {
            must: 1.0,
            goal: 2.0,
        };
        let most = Target::AtMost {
            must: 2.0,
            goal: 1.0,
        };
        let verdict = |value, target| row(value, target).cells()[COLUMNS - 1].clone();
        assert_eq!(
            [0.5, 1.5, 2.5].map(|value| verdict(value, least)),
            ["MISSED", "met", "goal"]
        );
        assert_eq!(
            [0.5, 1.5, 2.5].map(|value| verdict(value, most)),
            ["goal", "met", "MISSED"]
        );
        assert!(row(f64::NAN, most).is_missed() && row(f64::NAN, least).is_missed());
    }

    #[test]
    fn figures_are_shown_in_a_unit_that_keeps_them_short() {
        let shown = [
            Figure::Rate(200.0),
            Figure::Rate(25_000.0),
            Figure::Rate(1e6),
            Figure::Time(1500.0),
            Figure::Time(2.5e9),
            Figure::Bytes(372.0),
            Figure::Bytes(3.0 * MIB),
        ];
        assert_eq!(
            shown.map(Figure::show),
            [
                "5.00 M/s", "40.0 k/s", "1000 /s", "1.5 µs", "2.50 s", "372 B", "3.0 MiB"
            ]
        );
    }

    #[test]
    fn all_lines_of_the_table_are_equally_wide() {
        let table = table(&[Row::new("core/x", "µ", Figure::Time(1500.0))]);
        let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 3);
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
    }
}
