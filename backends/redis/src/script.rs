//! The scripts, one per verb. Each opens with what it takes and gives.

use std::sync::LazyLock;

use redis::Script as Hashed;

/// A script and the digest a server knows it by.
pub(crate) struct Script {
    pub(crate) source: &'static str,
    pub(crate) digest: String,
}

/// A verb's script behind the parts that all of them share, and those behind the common case of the verb, if that has a
/// file of its own: defining the parts takes longer than the common case.
macro_rules! verb {
    ($file:literal $(after $common:literal)?) => {
        concat!(
            $(include_str!(concat!("../scripts/", $common)),)?
            include_str!("../scripts/codec.lua"),
            include_str!("../scripts/bucket.lua"),
            include_str!("../scripts/rule.lua"),
            include_str!(concat!("../scripts/", $file))
        )
    };
}

macro_rules! scripts {
    ($($name:ident = $source:expr;)*) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new($source));
    )*};
}

scripts! {
    ACQUIRE = verb!("acquire.lua" after "acquire_free.lua");
    RENEW = verb!("renew.lua");
    RELEASE = verb!("release.lua" after "release_mine.lua");
    CONFIRM = verb!("confirm.lua");
    WITHDRAW = verb!("withdraw.lua");
    SET_CAPACITY = verb!("set_capacity.lua");
    GET = verb!("get.lua");
    LIST = verb!("list.lua");
    SWEEP = verb!("sweep.lua");
    FOUND = include_str!("../scripts/found.lua");
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self {
            source,
            digest: Hashed::new(source).get_hash().to_owned(),
        }
    }
}
