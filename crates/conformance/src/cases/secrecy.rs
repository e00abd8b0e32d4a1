//! The holder's secret is shown by nothing.

use std::fmt::Write as _;

use leasehold_core::backend::List;

use crate::Mailbox;
use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(no_answer_shows_the_secret, ["S4-03", "W4-20", "S14"]),
        case!(no_list_shows_the_secret, ["S4-03", "S14"], List),
        case!(no_event_shows_the_secret, ["S4-03", "octostore"], Queue),
        case!(the_digest_does_not_open_the_lock, ["S4-03", "W4-04", "S14"]),
    ]
}

/// Whether a text holds the secret, in hexadecimal or as a list of bytes.
fn shows(text: &str, party: &Party) -> bool {
    let secret = party.holder.secret();
    let hex = secret.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let bytes = format!("{secret:?}");
    let json = serde_json::to_string(secret).unwrap_or_default();
    let text = text.to_lowercase();
    [hex, bytes, json].iter().any(|form| text.contains(form))
}

fn keeps_quiet(what: &impl std::fmt::Debug, party: &Party) {
    let text = format!("{what:?} {what:#?}");
    assert!(!shows(&text, party), "{text}");
}

async fn no_answer_shows_the_secret(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let request = s.ask(&a, &name);
    keeps_quiet(&request, &a);
    let lease = s.grant(&request).await;
    keeps_quiet(&lease, &a);
    let record = s.record(&name).await;
    keeps_quiet(&record, &a);
    assert!(!shows(&serde_json::to_string(&record).unwrap(), &a));
    keeps_quiet(&s.refused(&Party::new("b"), &name).await, &a);
    keeps_quiet(&s.release(&Party::new("b"), &lease).await, &a);
    keeps_quiet(s.backend(), &a);
}

async fn no_list_shows_the_secret(s: Scene) {
    let a = Party::new("a");
    s.take(&a, &s.name("k")).await;
    let records = s.list(List::namespace(s.namespace())).await;
    keeps_quiet(&records, &a);
    assert!(!shows(&serde_json::to_string(&records).unwrap(), &a));
}

async fn no_event_shows_the_secret(s: Scene) {
    let (name, a, b, mail) = (
        s.name("k"),
        Party::new("a"),
        Party::new("b"),
        Mailbox::new(),
    );
    let _watch = mail.arm(&s, None).await;
    let lease = s.take(&a, &name).await;
    s.enqueue(s.ask(&b, &name), mail.id()).await;
    keeps_quiet(&s.record(&name).await, &b);
    s.give_up(&a, &lease).await;
    mail.granted(&s, &b.holder).await;
    keeps_quiet(&mail.events(), &a);
    keeps_quiet(&mail.events(), &b);
}

/// Whoever can read the store knows the digest; it must not serve as the secret.
async fn the_digest_does_not_open_the_lock(s: Scene) {
    let (name, a) = (s.name("k"), Party::new("a"));
    let lease = s.take(&a, &name).await;
    let digest = s.record(&name).await.grants[0].holder.to_bytes();
    let thief = Party {
        holder: leasehold_core::Holder::from_secret(digest),
        owner: a.owner.clone(),
    };
    super::release::why_not(s.release(&thief, &lease).await);
    s.refused(&thief, &name).await;
}
