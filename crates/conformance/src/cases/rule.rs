//! Random requests, compared with the rule.

use crate::case::{Case, case};
use crate::model::{Pace, Player, generate};
use crate::scene::Scene;

pub(super) fn cases() -> Vec<Case> {
    vec![case!(
        random_requests_are_answered_as_the_rule_says,
        ["S4-01", "S5", "S6", "S9", "S10", "S13"]
    )]
}

/// Time stands still here, so that a real store can be compared too; leases that run out have cases of their own.
async fn random_requests_are_answered_as_the_rule_says(s: Scene) {
    let seed = rand::random();
    let clock = s.harness().clock();
    let plays = generate(seed, s.contention().rounds * 2);
    for (number, play) in plays.into_iter().enumerate() {
        let names = (0..3).map(|n| s.name(&format!("{number}-{n}"))).collect();
        let mut player = Player::new(s.backend().clone(), names, Pace::Still, &*clock);
        if let Err(why) = player.play(&play).await {
            panic!("seed {seed}, play {number}: {why}\n{play:#?}");
        }
    }
}
