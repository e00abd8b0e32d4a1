//! Names: anything goes, and nothing meets that should not.

use leasehold_core::backend::List;
use leasehold_core::{MAX_KEY_BYTES, Name};

use crate::case::{Case, case};
use crate::scene::{Party, Scene};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(any_text_is_a_key, ["W0-14", "S14"]),
        case!(any_text_is_listed_as_it_was_given, ["W0-14", "S14"], List),
        case!(
            pairs_that_look_alike_when_joined_are_independent,
            ["W0-13", "W4-12", "S14"]
        ),
        case!(
            the_same_key_in_two_namespaces_is_independent,
            ["S0-02", "T0-20", "S14"]
        ),
        case!(names_that_differ_in_little_are_different, ["S14"]),
        case!(the_longest_names_work, ["W0-14", "S14"]),
    ]
}

const KEYS: &[&str] = &[
    "*",
    "?",
    "[a-z]",
    "%",
    "_",
    "a%b_c",
    "'",
    "''; drop table leases; --",
    "\"",
    "\\",
    "\\\\",
    "../../etc/passwd",
    "/",
    "//",
    "a/b",
    ".",
    "..",
    " ",
    "  leading",
    "trailing  ",
    "{tag}",
    "a{b}c",
    "$1",
    ":name",
    "a:b",
    "::",
    "\n",
    "\r\n",
    "\t",
    "\u{7f}",
    "\u{202e}rtl",
    "\u{1f600}",
    "\u{e9}",
    "e\u{301}",
    "\u{df}",
    "null",
    "NULL",
    "0",
    "-1",
    "1e9",
    "true",
    "#",
    "&",
    "=",
    "a=b&c",
    "+",
    "@",
    "<script>",
    "%00",
    "%2F",
    "\u{feff}bom",
    "\u{10ffff}",
];

async fn any_text_is_a_key(s: Scene) {
    let a = Party::new("a");
    for key in KEYS {
        let name = s.name(key);
        let lease = s.take(&a, &name).await;
        assert_eq!(s.record(&name).await.name, name, "{key:?}");
        s.refused(&Party::new("b"), &name).await;
        s.give_up(&a, &lease).await;
        assert!(!s.is_held(&name).await, "{key:?}");
    }
}

async fn any_text_is_listed_as_it_was_given(s: Scene) {
    for key in KEYS {
        s.take(&Party::new("a"), &s.name(key)).await;
    }
    let mut wanted: Vec<Name> = KEYS.iter().map(|key| s.name(key)).collect();
    wanted.sort_unstable();
    let mut request = List::namespace(s.namespace());
    request.limit = 7;
    let found: Vec<_> = s.list(request).await.into_iter().map(|r| r.name).collect();
    assert_eq!(found, wanted);
    for prefix in ["%", "_", "*", "\\", "'", "a"] {
        let mut request = List::namespace(s.namespace());
        request.key_prefix = (*prefix).to_owned();
        let count = KEYS.iter().filter(|key| key.starts_with(prefix)).count();
        assert_eq!(s.list(request).await.len(), count, "prefix {prefix:?}");
    }
}

async fn pairs_that_look_alike_when_joined_are_independent(s: Scene) {
    let base = s.namespace().to_owned();
    let pairs = [
        ("::b", "c"),
        ("", "b::c"),
        (":", "b"),
        ("", ":b"),
        ("/", "b"),
        ("", "/b"),
        ("-b", "c"),
        ("", "b-c"),
        ("%2F", "b"),
        ("%", "2Fb"),
    ];
    let mut taken = Vec::new();
    for (suffix, key) in pairs {
        let name = Name::new(&format!("{base}{suffix}"), key).unwrap();
        let party = Party::new("a");
        let lease = s.take(&party, &name).await;
        taken.push((party, lease));
    }
    for (party, lease) in &taken {
        let record = s.record(&lease.name).await;
        assert_eq!(record.grants[0].token, lease.token, "{:?}", lease.name);
        s.give_up(party, lease).await;
    }
}

async fn the_same_key_in_two_namespaces_is_independent(s: Scene) {
    let other = Name::new(&format!("{}-other", s.namespace()), "k").unwrap();
    let (a, name) = (Party::new("a"), s.name("k"));
    let lease = s.take(&a, &name).await;
    s.take(&Party::new("b"), &other).await;
    s.give_up(&a, &lease).await;
    assert!(s.is_held(&other).await);
    assert!(!s.is_held(&name).await);
}

async fn names_that_differ_in_little_are_different(s: Scene) {
    for key in [
        "k",
        "K",
        "k ",
        " k",
        "\u{e9}",
        "e\u{301}",
        "k\u{200b}",
        "k.",
        "k/",
    ] {
        s.take(&Party::new("a"), &s.name(key)).await;
    }
}

async fn the_longest_names_work(s: Scene) {
    let width = s.harness().longest_namespace();
    let namespace = format!("{:/<width$}", s.namespace());
    let a = Party::new("a");
    let long = "k".repeat(MAX_KEY_BYTES - 1);
    let (x, y) = (
        Name::new(&namespace, &format!("{long}x")).unwrap(),
        Name::new(&namespace, &format!("{long}y")).unwrap(),
    );
    let lease = s.take(&a, &x).await;
    s.take(&Party::new("b"), &y).await;
    assert_eq!(s.record(&x).await.name, x);
    s.give_up(&a, &lease).await;
    assert!(s.is_held(&y).await);
}
