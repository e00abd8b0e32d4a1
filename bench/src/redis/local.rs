//! One name that workers of one process want. Each holds it for a millisecond, so a thousand sections in a second are
//! all there can be.

use std::time::Duration;

use super::contest::{Contest, Contests, Crew, Kind, Layout, interleave};
use super::server::Server;
use crate::bench::Outcome;
use crate::report::{Figure, Row, Target};

const BENCH: &str = "redis/local";
const LAYOUT: Layout = Layout {
    processes: 1,
    workers: 8,
    lasts: Duration::from_secs(2),
};
/// As long as the name is held.
const CEILING_NANOS: f64 = 1e6;

/// Measures against what there can be, and beside scripts made by hand and a peer.
pub(super) fn measure() -> Outcome {
    let server = Server::start()?;
    let crew = |kind| Crew::start(&server, kind, LAYOUT);
    let crews = [crew(Kind::Raw)?, crew(Kind::Ours)?, crew(Kind::Rslock)?];
    let [raw, ours, peer] = interleave(&server, crews)?;
    let mut rows = rows(&ours, &raw, &peer);
    rows.extend(peer_rows(&peer));
    Ok(rows)
}

fn rows(ours: &Contests, raw: &Contests, peer: &Contests) -> Vec<Row> {
    let times = |what: &str, figure: fn(&Contest) -> f64| {
        Row::times(BENCH, what, &ours.each(figure), &raw.each(figure))
    };
    let rate = Contest::nanos_per_section;
    let beside = "sections, 8 workers ÷ rslock";
    vec![
        share("sections, 8 workers ÷ 1,000", ours).target(Target::AtLeast {
            must: 0.85,
            goal: 0.93,
        }),
        Row::rates(BENCH, beside, &ours.each(rate), &peer.each(rate)).target(Target::AtLeast {
            must: 2.5,
            goal: 3.0,
        }),
        times("hand-over p50 ÷ raw", Contest::handover_p50),
        times("hand-over p99 ÷ raw", Contest::handover_p99),
        times("wait p50 ÷ raw", Contest::wait_p50),
        times("wait p99 ÷ raw", Contest::wait_p99),
        number("requests per section", ours.requests()),
        number("served, min ÷ max", ours.fairness()),
        share("raw hand-over ÷ 1,000", raw),
    ]
}

fn peer_rows(peer: &Contests) -> [Row; 4] {
    let wait = Figure::Time(peer.each(Contest::wait_p99).median());
    [
        share("peer: rslock ÷ 1,000", peer),
        Row::new(BENCH, "peer: rslock, wait p99", wait),
        number("peer: rslock, requests per section", peer.requests()),
        number("peer: rslock, served, min ÷ max", peer.fairness()),
    ]
}

/// Sections of all there can be.
fn share(what: &str, of: &Contests) -> Row {
    let ceiling = of.each(|_| CEILING_NANOS);
    Row::rates(BENCH, what, &of.each(Contest::nanos_per_section), &ceiling)
}

fn number(what: &str, figure: f64) -> Row {
    Row::new(BENCH, what, Figure::Number(figure))
}
