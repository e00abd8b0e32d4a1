//! Several names, all or nothing.

use leasehold_core::Name;
use leasehold_core::backend::{Acquired, BlockedBy, MAX_NAMES, Release, Released};

use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            several_names_are_granted_together_with_one_end,
            ["S2-09", "S13"],
            AtomicNames
        ),
        case!(
            if_one_name_is_busy_none_is_taken,
            ["S13", "W2-10"],
            AtomicNames
        ),
        case!(
            a_refusal_tells_of_every_name_in_the_way,
            ["S13"],
            AtomicNames
        ),
        case!(
            names_one_has_already_count_as_free,
            ["S13", "S9"],
            AtomicNames
        ),
        case!(
            overlapping_sets_never_both_succeed_nor_hang,
            ["S13", "S1"],
            AtomicNames
        ),
        case!(
            a_busy_name_is_not_queued_for_by_a_set,
            ["S13"],
            AtomicNames,
            Queue
        ),
        case!(
            withdrawing_a_set_gives_all_of_it_back,
            ["S13", "L5"],
            AtomicNames
        ),
        case!(the_largest_set_works, ["S13"], AtomicNames),
    ]
}

fn names(s: &Scene, keys: &[&str]) -> Vec<Name> {
    keys.iter().map(|key| s.name(key)).collect()
}

async fn several_names_are_granted_together_with_one_end(s: Scene) {
    let (a, set) = (Party::new("a"), names(&s, &["c", "a", "b"]));
    let request = s.ask_all(&a, &set);
    let Acquired::Granted(leases) = s.submit(&request).await else {
        panic!("all names were free");
    };
    let granted: Vec<_> = leases.iter().map(|l| l.name.clone()).collect();
    assert_eq!(granted, names(&s, &["a", "b", "c"]), "in order");
    assert!(leases.iter().all(|l| l.expires_at == leases[0].expires_at));
    let grants = leases.iter().map(|l| (l.name.clone(), l.token)).collect();
    let release = Release::Grants {
        holder: a.holder,
        grants,
    };
    let answers = s.backend().release(&release).await.unwrap();
    assert_eq!(*answers, [const { Released::Released }; 3]);
}

async fn if_one_name_is_busy_none_is_taken(s: Scene) {
    let set = names(&s, &["a", "b", "c"]);
    s.take(&Party::new("holder"), &set[1]).await;
    let blocked = match s.submit(&s.ask_all(&Party::new("a"), &set)).await {
        Acquired::Held(blocked) => blocked,
        other => panic!("b is busy, got {other:?}"),
    };
    assert_eq!(blocked.len(), 1);
    assert_eq!(
        (&blocked[0].name, blocked[0].by),
        (&set[1], BlockedBy::Holder)
    );
    assert!(!s.is_held(&set[0]).await && !s.is_held(&set[2]).await);
    s.take(&Party::new("b"), &set[0]).await;
}

async fn a_refusal_tells_of_every_name_in_the_way(s: Scene) {
    let set = names(&s, &["a", "b", "c", "d"]);
    s.take(&Party::new("x"), &set[3]).await;
    s.take(&Party::new("y"), &set[1]).await;
    let Acquired::Held(blocked) = s.submit(&s.ask_all(&Party::new("a"), &set)).await else {
        panic!("two names are busy");
    };
    let in_the_way: Vec<_> = blocked.into_iter().map(|b| b.name).collect();
    assert_eq!(in_the_way, [set[1].clone(), set[3].clone()]);
}

async fn names_one_has_already_count_as_free(s: Scene) {
    let (a, set) = (Party::new("a"), names(&s, &["a", "b"]));
    let first = s.take(&a, &set[0]).await;
    let Acquired::Granted(leases) = s.submit(&s.ask_all(&a, &set)).await else {
        panic!("one is free and the other is ours");
    };
    assert_eq!(leases[0].token, first.token);
    let again = s.submit(&s.ask_all(&a, &set)).await;
    let tokens =
        |leases: &[leasehold_core::Lease]| leases.iter().map(|l| l.token).collect::<Vec<_>>();
    assert!(matches!(again, Acquired::Granted(l) if tokens(&l) == tokens(&leases)));
}

async fn overlapping_sets_never_both_succeed_nor_hang(s: Scene) {
    let set = names(&s, &["a", "b", "c", "d"]);
    for round in 0..s.contention().rounds {
        let task = |party: Party, part: Vec<Name>| {
            let s = s.clone();
            tokio::spawn(async move {
                let answer = s.submit(&s.ask_all(&party, &part)).await;
                (party, part, matches!(answer, Acquired::Granted(_)))
            })
        };
        let tasks = [
            task(Party::new("left"), set[..3].to_vec()),
            task(Party::new("right"), set[1..].to_vec()),
        ];
        let mut ended = Vec::new();
        for task in tasks {
            ended.push(task.await.unwrap());
        }
        let won = ended.iter().filter(|(_, _, won)| *won).count();
        assert_eq!(won, 1, "round {round}");
        for (party, part, won) in ended {
            let given = s.withdraw(&party, &part).await.grants;
            assert_eq!(given, if won { 3 } else { 0 }, "round {round}");
        }
    }
}

async fn a_busy_name_is_not_queued_for_by_a_set(s: Scene) {
    let set = names(&s, &["a", "b"]);
    s.take(&Party::new("x"), &set[0]).await;
    let mail = crate::Mailbox::new();
    let request = s.ask_all(&Party::new("a"), &set).queue(mail.id());
    let answer = s.backend().acquire(&request).await;
    assert!(!matches!(answer, Ok(Acquired::Queued(_))), "{answer:?}");
    assert!(s.record(&set[0]).await.tickets.is_empty());
}

async fn withdrawing_a_set_gives_all_of_it_back(s: Scene) {
    let (a, set) = (Party::new("a"), names(&s, &["a", "b", "c"]));
    s.submit(&s.ask_all(&a, &set)).await;
    let withdrawn = s.withdraw(&a, &set).await;
    assert_eq!((withdrawn.tickets, withdrawn.grants), (0, 3));
    for name in &set {
        assert!(!s.is_held(name).await);
    }
}

async fn the_largest_set_works(s: Scene) {
    let set: Vec<_> = (0..MAX_NAMES)
        .map(|i| s.name(&format!("k{i:02}")))
        .collect();
    let a = Party::new("a");
    let Acquired::Granted(leases) = s.submit(&s.ask_all(&a, &set)).await else {
        panic!("all names were free");
    };
    assert_eq!(leases.len(), MAX_NAMES);
    assert_eq!(s.withdraw(&a, &set).await.grants, MAX_NAMES);
}
