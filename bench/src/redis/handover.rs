//! One name that workers in many processes want: how long it takes from one to the next, and what else that costs.

use std::time::Duration;

use super::contest::{Contest, Contests, Crew, Kind, Layout, interleave};
use super::server::Server;
use crate::bench::Outcome;
use crate::report::{Figure, Row, Target};

const BENCH: &str = "redis/handover";
const EIGHT: Layout = Layout {
    processes: 8,
    workers: 1,
    lasts: Duration::from_secs(2),
};
/// Long enough that a turn more or less does not matter to the fairness.
const SIXTY_FOUR: Layout = Layout {
    processes: 4,
    workers: 16,
    lasts: Duration::from_secs(4),
};

/// Measures two layouts against the same with scripts made by hand, and the smaller one beside a peer.
pub(super) fn measure() -> Outcome {
    let mut rows = eight()?;
    rows.extend(sixty_four()?);
    Ok(rows)
}

fn eight() -> Outcome {
    let server = Server::start()?;
    let crew = |kind| Crew::start(&server, kind, EIGHT);
    let crews = [crew(Kind::Raw)?, crew(Kind::Ours)?, crew(Kind::Rslock)?];
    let [floor, ours, peer] = interleave(&server, crews)?;
    let layout = "8 in 8 processes";
    let mut rows = rows(layout, &ours, &floor);
    rows.extend(beside(layout, &ours, &peer));
    Ok(rows)
}

fn sixty_four() -> Outcome {
    let server = Server::start()?;
    let crew = |kind| Crew::start(&server, kind, SIXTY_FOUR);
    let [floor, ours] = interleave(&server, [crew(Kind::Raw)?, crew(Kind::Ours)?])?;
    Ok(rows("64 in 4 processes", &ours, &floor))
}

/// Us and the floor.
fn rows(layout: &str, ours: &Contests, floor: &Contests) -> Vec<Row> {
    let times = |what: &str, figure: fn(&Contest) -> f64| {
        let what = format!("{what} ÷ raw, {layout}");
        Row::times(BENCH, what, &ours.each(figure), &floor.each(figure))
    };
    let number = |what: &str, figure: f64| {
        Row::new(BENCH, format!("{what}, {layout}"), Figure::Number(figure))
    };
    let uneven = ours.each(Contest::wait_p99_over_mean).median();
    vec![
        times("hand-over p50", Contest::handover_p50).target(Target::AtMost {
            must: 1.6,
            goal: 1.2,
        }),
        times("hand-over p99", Contest::handover_p99),
        number("requests per section", ours.requests()).target(Target::AtMost {
            must: 3.0,
            goal: 2.1,
        }),
        number("served, min ÷ max", ours.fairness()).target(Target::AtLeast {
            must: 0.8,
            goal: 0.95,
        }),
        number("wait p99 ÷ mean", uneven).target(Target::AtMost {
            must: 3.0,
            goal: 1.5,
        }),
        times("wait p50", Contest::wait_p50),
        times("wait p99", Contest::wait_p99),
        sections("raw", layout, ours, floor),
    ]
}

/// Us and the peer, and what the peer is like.
fn beside(layout: &str, ours: &Contests, peer: &Contests) -> [Row; 5] {
    let row = |what: &str, figure| {
        let what = format!("peer: rslock, {what}, {layout}");
        Row::new(BENCH, what, figure)
    };
    let time = |figure: fn(&Contest) -> f64| Figure::Time(peer.each(figure).median());
    [
        sections("rslock", layout, ours, peer),
        row("hand-over p50", time(Contest::handover_p50)),
        row("wait p99", time(Contest::wait_p99)),
        row("requests per section", Figure::Number(peer.requests())),
        row("served, min ÷ max", Figure::Number(peer.fairness())),
    ]
}

fn sections(than: &str, layout: &str, ours: &Contests, other: &Contests) -> Row {
    let what = format!("sections ÷ {than}, {layout}");
    let rate = Contest::nanos_per_section;
    Row::rates(BENCH, what, &ours.each(rate), &other.each(rate))
}
