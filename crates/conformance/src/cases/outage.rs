//! A store that cannot be reached.

use leasehold_core::ErrorKind;
use leasehold_core::backend::{List, Names, Release, Renew, RenewItem, Sweep, Withdraw};

use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            an_outage_is_an_error_and_never_an_answer,
            ["W4-01", "W0-07", "S8"],
            Sever
        ),
        case!(
            after_an_outage_the_store_works_again,
            ["L4", "W0-06"],
            Sever
        ),
    ]
}

async fn an_outage_is_an_error_and_never_an_answer(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let cut = s.harness().sever().await.expect("the harness can sever");
    let backend = s.backend();
    let item = RenewItem::lease(name.clone(), a.holder.clone(), lease.token, s.long());
    let release = Release::grant(name.clone(), a.holder.clone(), lease.token);
    let withdraw = Withdraw {
        names: Names::one(name.clone()),
        holder: a.holder.clone(),
    };
    let kinds = [
        backend.acquire(&s.ask(&a, &name)).await.map(drop),
        backend.renew(&Renew { items: vec![item] }).await.map(drop),
        backend.release(&release).await.map(drop),
        backend.withdraw(&withdraw).await.map(drop),
        backend.get(&name).await.map(drop),
        backend
            .list(&List::namespace(s.namespace()))
            .await
            .map(drop),
        backend.sweep(&Sweep::default()).await.map(drop),
    ]
    .map(|answer| answer.expect_err("the store was cut off").kind());
    drop(cut);
    for kind in kinds {
        let honest = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout);
        assert!(honest || kind == ErrorKind::Unsupported, "{kind:?}");
    }
}

async fn after_an_outage_the_store_works_again(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let cut = s.harness().sever().await.expect("the harness can sever");
    let lost = s.backend().acquire(&s.ask(&a, &name)).await;
    assert!(lost.is_err(), "{lost:?}");
    drop(cut);
    for _ in 0..50 {
        if s.backend().acquire(&s.ask(&a, &name)).await.is_ok() {
            s.refused(&Party::new("b"), &name).await;
            return;
        }
        s.harness()
            .pass_time(std::time::Duration::from_millis(200))
            .await;
    }
    panic!("not one answer after the outage");
}
