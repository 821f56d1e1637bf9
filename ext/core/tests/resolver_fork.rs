//! Clients of a forked child connect, although clients of its parent were resolving addresses at the moment of the
//! fork.
//!
//! The children start no thread of Rust's: see decode_fork.rs for why.

mod support;

use pelton_core::metadata;
use pelton_core::poller::Poller;
use pelton_core::producer::Producer;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use support::*;

const THREADS: usize = 3;
const FORKS: usize = 100;

fn resolves(name: &CStr) -> bool {
    // SAFETY: plain zeroes are valid hints.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_flags = libc::AI_ADDRCONFIG; // as librdkafka asks
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut found = null_mut();
    // SAFETY: live arguments; the list is freed once.
    unsafe {
        let code = libc::getaddrinfo(name.as_ptr(), null(), &hints, &mut found);
        if code == 0 {
            libc::freeaddrinfo(found);
        }
        code == 0
    }
}

#[test]
fn a_child_resolves_whatever_its_parents_clients_do() {
    let cluster = cluster("t", 1);
    let bootstrap = cluster.bootstrap_servers().replace("127.0.0.1", "localhost");
    // No process listens there, so these resolve the name again and again.
    let options = [
        ("bootstrap.servers", "localhost:1,localhost:2,localhost:3,localhost:4"),
        ("broker.address.ttl", "0"),
        ("reconnect.backoff.ms", "0"),
        ("reconnect.backoff.max.ms", "1"),
        ("enable.sparse.connections", "false"),
        ("log_level", "0"),
    ];
    let restless: Vec<_> = (0..8)
        .map(|_| Producer::new("restless", options, Poller::global().expect("a pipe")).expect("a producer"))
        .collect();
    for producer in &restless {
        producer.produce(message("t", 0, b"x")).expect("room");
    }
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..FORKS {
                    let status = in_child(|| {
                        let ask = [("bootstrap.servers", &*bootstrap)];
                        resolves(c"localhost") && (number % 10 != 0 || metadata::fetch(ask, Some("t"), 60_000).is_ok())
                    });
                    assert_eq!(0, status, "child {number} (14: it hung)");
                }
            });
        }
    });
    // The parent's clients still work, too.
    assert!(metadata::fetch([("bootstrap.servers", &*bootstrap)], Some("t"), 60_000).is_ok());
    for producer in &restless {
        producer.purge().expect("ours");
        close_producer(producer);
    }
}
