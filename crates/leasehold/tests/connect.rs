//! From a URL to a store, as users of the facade see it.

use std::sync::Arc;

use leasehold::{Backend, ErrorKind, Locks, connect, registry};

/// The message of a URL that is refused.
async fn refusal(url: &str) -> String {
    match connect(url).await {
        Ok(store) => panic!("{url} connected to {store:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            format!("{error} {error:?}")
        }
    }
}

/// S0-01: a store by its URL, ready for locks.
#[tokio::test]
async fn memory_connects_and_grants_locks() {
    for url in ["memory:", "memory://"] {
        let store = connect(url).await.unwrap();
        assert_eq!(store.describe().scheme, "memory");
        let locks = Locks::new(store).namespace("orders").build().unwrap();
        let guard = locks.lock("1").try_acquire().await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// Every call opens a store of its own; sharing one is up to the program.
#[tokio::test]
async fn two_memory_stores_know_nothing_of_each_other() {
    let build = |store: Arc<dyn Backend>| Locks::new(store).namespace("orders").build().unwrap();
    let one = build(connect("memory:").await.unwrap());
    let two = build(connect("memory:").await.unwrap());
    let _guard = one.lock("1").acquire().await.unwrap();
    assert!(!two.is_locked("1").await.unwrap());
    let same = build(one.store().clone());
    assert!(same.is_locked("1").await.unwrap());
}

#[tokio::test]
async fn an_unknown_scheme_lists_those_that_are_known() {
    let text = refusal("zookeeper://h:2181").await;
    assert!(text.contains("\"zookeeper\" is not known"), "{text}");
    for scheme in registry().schemes() {
        assert!(text.contains(scheme), "{scheme} is missing: {text}");
    }
}

/// A store that this build leaves out says which feature brings it, and the URL's secrets stay secret.
#[tokio::test]
async fn a_store_that_is_not_compiled_in_names_its_feature_and_keeps_the_secret() {
    for (scheme, feature) in [
        ("redis", "redis"),
        ("rediss", "redis"),
        ("postgres", "postgres"),
        ("postgresql", "postgres"),
        ("oracle", "oracle"),
        ("etcd", "etcd"),
        ("file", "file"),
        ("firestore", "firestore"),
        ("hazelcast", "hazelcast"),
        ("https", "client"),
    ] {
        if registry().schemes().contains(&scheme) {
            continue;
        }
        let text = refusal(&format!("{scheme}://user:secret@h/0?password=secret")).await;
        assert!(text.contains("not compiled in"), "{text}");
        assert!(text.contains(&format!("feature \"{feature}\"")), "{text}");
        assert!(!text.contains("secret") && !text.contains("user"), "{text}");
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_without_being_shown() {
    for url in [
        "",
        " ",
        "secret",
        ":secret",
        "//secret",
        "user:secret@h",
        "Memory:",
        "memory: ",
        "memory:\u{0}secret",
        "mem ory:secret",
        "\u{1F512}://secret",
    ] {
        let text = refusal(url).await;
        assert!(!text.contains("secret"), "{url:?}: {text}");
    }
    assert!(refusal("").await.contains("is empty"));
    assert!(refusal("nothing").await.contains("redis://localhost"));
}

#[tokio::test]
async fn memory_takes_neither_a_place_nor_options() {
    for url in [
        "memory:x",
        "memory:///",
        "memory://h",
        "memory:?a=secret",
        "memory://u:secret@h",
    ] {
        let text = refusal(url).await;
        assert!(text.contains("neither a place nor options"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}
