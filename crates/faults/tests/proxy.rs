//! Each mode of the proxy, in front of a server that sends back what it is sent.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and this one runs in real time"
)]

mod echo;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use echo::{Echo, PATIENCE, ask, connect, end};
use leasehold_faults::process::Port;
use leasehold_faults::proxy::{Counts, Mode, Proxy};

const HOUR: Duration = Duration::from_secs(3600);
/// Long enough for something wrong to show, most of the time.
const SHORT: Duration = Duration::from_millis(100);

fn way_to(server: &Echo) -> Proxy {
    Proxy::start(server.addr, 7).unwrap()
}

/// Waits for the counts to be like this, and gives them.
fn when(proxy: &Proxy, like_this: impl Fn(&Counts) -> bool) -> Counts {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let waited =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, proxy.when(like_this)).await });
    assert!(waited.is_ok(), "{:?}", proxy.counts());
    proxy.counts()
}

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut client = connect(proxy.addr());
    assert_eq!(ask(&mut client, b"hello").unwrap(), b"hello");
    assert_eq!(ask(&mut client, b"you").unwrap(), b"you");
    let counts = when(&proxy, |counts| counts.replies.passed == 8);
    assert_eq!(counts.connections, 1);
    assert_eq!((counts.requests.chunks, counts.requests.bytes), (2, 8));
    assert_eq!((counts.requests.passed, counts.replies.bytes), (8, 8));
}

#[test]
fn the_end_of_the_requests_reaches_the_server_and_the_end_of_the_replies_the_client() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut client = connect(proxy.addr());
    client.write_all(b"last words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"last words");
}

#[test]
fn what_is_delayed_is_passed_on_only_when_its_time_has_come() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let delay = |fixed| Mode::Delay {
        fixed,
        jitter: Duration::ZERO,
    };
    proxy.set(delay(HOUR));
    let mut client = connect(proxy.addr());
    client.write_all(b"late").unwrap();
    when(&proxy, |counts| counts.requests.bytes == 4);
    assert_eq!(proxy.counts().requests.passed, 0);
    proxy.set(delay(Duration::from_millis(1)));
    assert_eq!(ask(&mut client, b"r").unwrap(), b"l");
    server.record_when(|record| *record == [b"later"]);
}

#[test]
fn random_delays_leave_the_order_alone() {
    let server = Echo::start();
    let proxy = way_to(&server);
    proxy.set(Mode::Delay {
        fixed: Duration::ZERO,
        jitter: Duration::from_millis(5),
    });
    let mut client = connect(proxy.addr());
    let numbers: Vec<u8> = (0..100).collect();
    for number in &numbers {
        client.write_all(&[*number]).unwrap();
    }
    let mut answer = [0; 100];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..], numbers);
}

#[test]
fn a_black_hole_takes_everything_and_gives_nothing() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut before = connect(proxy.addr());
    ask(&mut before, b"before").unwrap();
    proxy.set(Mode::BlackHole);
    let mut during = connect(proxy.addr());
    before.write_all(b"one").unwrap();
    during.write_all(b"two").unwrap();
    let counts = when(&proxy, |counts| counts.requests.bytes == 12);
    assert_eq!(counts.requests.passed, 6);
    assert_eq!(server.record().concat(), b"before");
}

#[test]
fn a_black_hole_does_not_tell_that_nobody_is_behind_it() {
    let port = Port::reserve().unwrap();
    let addr = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let proxy = Proxy::start(addr, 7).unwrap();
    let listener = TcpListener::bind(addr).unwrap();
    let mut left = connect(proxy.addr());
    let server = listener.accept().unwrap();
    proxy.set(Mode::BlackHole);
    drop((server, listener));
    let mut alone = connect(proxy.addr());
    when(&proxy, |counts| counts.connections == 2);
    for client in [&mut left, &mut alone] {
        client.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(end(client), Err(ErrorKind::WouldBlock));
    }
    proxy.set(Mode::Pass);
    for client in [&mut left, &mut alone] {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(end(client), Err(ErrorKind::ConnectionReset));
    }
}

#[test]
fn a_connection_that_lost_bytes_is_reset_afterwards_and_an_idle_one_goes_on() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let (mut busy, mut idle) = (connect(proxy.addr()), connect(proxy.addr()));
    ask(&mut busy, b"1").unwrap();
    ask(&mut idle, b"2").unwrap();
    proxy.set(Mode::BlackHole);
    busy.write_all(b"lost").unwrap();
    when(&proxy, |counts| counts.requests.bytes == 6);
    proxy.set(Mode::Pass);
    assert_eq!(end(&mut busy), Err(ErrorKind::ConnectionReset));
    assert_eq!(ask(&mut idle, b"3").unwrap(), b"3");
}

#[test]
fn a_refusal_is_for_new_connections_only() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut old = connect(proxy.addr());
    ask(&mut old, b"1").unwrap();
    proxy.set(Mode::Refuse);
    // Some systems tell it at once, some with the first use.
    if let Ok(mut new) = TcpStream::connect(proxy.addr()) {
        new.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(end(&mut new), Err(ErrorKind::ConnectionReset));
    }
    assert_eq!(ask(&mut old, b"2").unwrap(), b"2");
    assert_eq!(proxy.counts().refused, 1);
    assert_eq!(server.record().len(), 1);
}

#[test]
fn a_reset_ends_every_connection_and_none_that_comes_later() {
    let server = Echo::start();
    let proxy = way_to(&server);
    for _ in 0..50 {
        let mut used = connect(proxy.addr());
        ask(&mut used, b"1").unwrap();
        let mut fresh = connect(proxy.addr());
        proxy.reset();
        assert_eq!(end(&mut used), Err(ErrorKind::ConnectionReset));
        assert_eq!(end(&mut fresh), Err(ErrorKind::ConnectionReset));
        let mut later = connect(proxy.addr());
        assert_eq!(ask(&mut later, b"2").unwrap(), b"2");
    }
}

#[test]
fn a_reply_is_cut_off_behind_so_many_bytes() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut client = connect(proxy.addr());
    ask(&mut client, b"not counted").unwrap();
    proxy.set(Mode::CutAfter(5));
    client.write_all(b"to be cut").unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"to be");
    let mut another = connect(proxy.addr());
    assert_eq!(ask(&mut another, b"full").unwrap(), b"full");
    another.write_all(b"!!").unwrap();
    let mut answer = Vec::new();
    another.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"!");
}

#[test]
fn a_request_whose_reply_is_dropped_has_reached_the_server() {
    let server = Echo::start();
    let proxy = way_to(&server);
    proxy.set(Mode::DropReplies);
    let mut client = connect(proxy.addr());
    client.write_all(b"first").unwrap();
    server.record_when(|record| record.concat() == b"first");
    client.write_all(b"second").unwrap();
    server.record_when(|record| record.concat() == b"firstsecond");
    let counts = when(&proxy, |counts| counts.replies.bytes == 11);
    assert_eq!(counts.replies.passed, 0);
    proxy.set(Mode::Pass);
    assert_eq!(end(&mut client), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_duplicated_request_reaches_the_server_twice_and_is_answered_once() {
    let server = Echo::start();
    let proxy = way_to(&server);
    proxy.set(Mode::DuplicateRequests);
    let mut client = connect(proxy.addr());
    assert_eq!(ask(&mut client, b"once").unwrap(), b"once");
    assert_eq!(ask(&mut client, b"more").unwrap(), b"more");
    server.record_when(|record| *record == [b"oncemore", b"oncemore"]);
    let counts = when(&proxy, |counts| counts.duplicated == 2);
    assert_eq!(counts.replies.bytes, 8);
}

#[test]
fn a_request_that_was_held_arrives_although_its_client_has_given_up() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut client = connect(proxy.addr());
    ask(&mut client, b"early ").unwrap();
    proxy.set(Mode::Hold);
    client.write_all(b"late").unwrap();
    when(&proxy, |counts| counts.requests.bytes == 10);
    drop(client);
    assert_eq!(server.record(), [b"early "]);
    proxy.set(Mode::Pass);
    server.record_when(|record| *record == [b"early late"]);
}

#[test]
fn replies_pass_while_requests_are_held() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap(), 7).unwrap();
    let mut client = connect(proxy.addr());
    let (mut server, _) = listener.accept().unwrap();
    proxy.set(Mode::Hold);
    client.write_all(b"held").unwrap();
    when(&proxy, |counts| counts.requests.bytes == 4);
    server.write_all(b"news").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"news");
    assert_eq!(proxy.counts().requests.passed, 0);
}

#[test]
fn a_throttled_connection_passes_a_little_at_a_time() {
    let server = Echo::start();
    let proxy = way_to(&server);
    proxy.set(Mode::Throttle(20));
    let mut client = connect(proxy.addr());
    let long = vec![b'x'; 100_000];
    client.write_all(&long).unwrap();
    let counts = when(&proxy, |counts| counts.requests.passed >= 3);
    assert!(counts.requests.passed < 1000, "{counts:?}");
    proxy.set(Mode::Pass);
    let mut answer = vec![0; long.len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, long);
}

#[test]
fn the_reply_to_the_request_with_this_number_is_lost_and_its_connection_reset() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let mut client = connect(proxy.addr());
    let mut other = connect(proxy.addr());
    proxy.lose_reply(3);
    assert_eq!(ask(&mut client, b"1").unwrap(), b"1");
    assert_eq!(ask(&mut other, b"2").unwrap(), b"2");
    client.write_all(b"3").unwrap();
    assert_eq!(end(&mut client), Err(ErrorKind::ConnectionReset));
    assert_eq!(proxy.counts().lost_replies, 1);
    assert!(server.record().contains(&b"13".to_vec()), "it was done");
    assert_eq!(ask(&mut other, b"4").unwrap(), b"4");
    assert_eq!(ask(&mut connect(proxy.addr()), b"5").unwrap(), b"5");
    assert_eq!(proxy.counts().lost_replies, 1);
}

#[test]
fn without_a_server_clients_are_reset_until_it_is_there() {
    let port = Port::reserve().unwrap();
    let addr = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let proxy = Proxy::start(addr, 7).unwrap();
    assert_eq!(
        end(&mut connect(proxy.addr())),
        Err(ErrorKind::ConnectionReset)
    );
    let _server = Echo::on(TcpListener::bind(addr).unwrap());
    assert_eq!(ask(&mut connect(proxy.addr()), b"1").unwrap(), b"1");
}

#[test]
fn a_proxy_that_is_dropped_takes_its_connections_with_it() {
    let server = Echo::start();
    let proxy = way_to(&server);
    let addr = proxy.addr();
    let mut client = connect(addr);
    ask(&mut client, b"1").unwrap();
    drop(proxy);
    assert!(matches!(
        end(&mut client),
        Ok(()) | Err(ErrorKind::ConnectionReset)
    ));
    assert!(TcpStream::connect(addr).is_err());
}
