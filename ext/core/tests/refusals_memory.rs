//! What librdkafka says of a refused call is freed.
#![cfg(all(target_os = "linux", target_env = "gnu"))] // malloc's books

mod support;

use support::*;

/// Bytes that the C library's malloc has given, and not got back.
fn held() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::mallinfo2() }.uordblks
}

#[test]
fn refused_transactional_calls_keep_no_memory() {
    const CALLS: usize = 20_000;
    let producer = producer("127.0.0.1:1", &[("transactional.id", "t"), ("log_level", "0")]);
    let refuse = |count| {
        for _ in 0..count {
            let refused = producer.with_client(|client| client.begin_transaction()).expect("open");
            assert!(refused.is_err(), "it has no producer's id");
        }
    };
    refuse(100);
    let before = held();
    refuse(CALLS);
    let grown = held().saturating_sub(before);
    assert!(grown < CALLS * 10, "{grown} bytes");
    producer.close(std::time::Duration::ZERO).expect("ours");
}
