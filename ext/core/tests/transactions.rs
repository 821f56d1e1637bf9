//! What a producer remembers of its transactions.

mod support;

use pelton_core::error::Error;
use pelton_core::wait;
use std::time::Duration;
use support::*;

/// The next transaction would fail because of it, so it gets another client.
#[test]
fn an_abort_that_does_not_wait_for_its_messages_may_leave_a_gap() {
    let cluster = cluster("t", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[("transactional.id", "gap")]);
    let transactions = producer.transactions();
    let deadline = || wait::deadline(Some(SECONDS));
    for (patience, gap) in [(SECONDS, false), (Duration::ZERO, true)] {
        producer.begin_transaction(transactions.ticket(), deadline()).expect("begun");
        drop(producer.produce(message("t", 0, b"x")).expect("room"));
        assert_eq!(Ok(true), producer.abort_transaction(transactions.ticket(), deadline(), patience), "it was aborted");
        assert_eq!((false, gap), (transactions.is_open(), transactions.has_gap()), "{patience:?}");
    }
    close_producer(&producer);
}

#[test]
fn a_committed_transaction_is_not_aborted_any_more() {
    let cluster = cluster("t", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[("transactional.id", "done")]);
    let transactions = producer.transactions();
    let deadline = || wait::deadline(Some(SECONDS));
    producer.begin_transaction(transactions.ticket(), deadline()).expect("begun");
    assert!(transactions.is_open());
    let delivery = producer.produce(message("t", 0, b"x")).expect("room");
    producer.commit_transaction(transactions.ticket(), deadline()).expect("committed");
    assert!(delivery.is_delivered() && !transactions.is_open());
    assert_eq!(Ok(false), producer.abort_transaction(transactions.ticket(), deadline(), SECONDS));
    assert!(!transactions.has_gap());
    close_producer(&producer);
}

/// Its caller went away. Otherwise the coordinator would wait for the transaction's time, and readers with it.
#[test]
fn an_open_transaction_is_aborted_by_the_next_one_and_by_a_close() {
    let cluster = cluster("t", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[("transactional.id", "left")]);
    let transactions = producer.transactions();
    let deadline = || wait::deadline(Some(SECONDS));
    for _ in 0..2 {
        producer.begin_transaction(transactions.ticket(), deadline()).expect("begun");
        wait_for(&producer.produce(message("t", 0, b"x")).expect("room"));
        assert!(transactions.is_open());
    }
    close_producer(&producer);
    assert!(!transactions.is_open());
}

/// Its producer is as good as before after an abort. Nothing else helps.
#[test]
fn an_error_says_whether_its_transaction_must_be_aborted() {
    const ADD_PARTITIONS_TO_TXN: i16 = 24;
    const TOPIC_AUTHORIZATION_FAILED: i32 = 29;
    let cluster = cluster("t", 1);
    let producer = producer(&cluster.bootstrap_servers(), &[("transactional.id", "refused")]);
    let transactions = producer.transactions();
    let deadline = || wait::deadline(Some(SECONDS));
    let begin = || producer.begin_transaction(transactions.ticket(), deadline()).expect("begun");
    let abort = || producer.abort_transaction(transactions.ticket(), deadline(), SECONDS);
    let refusal = || match producer.commit_transaction(transactions.ticket(), deadline()) {
        Err(Error::Kafka(error)) => (error.abortable, error.fatal),
        other => panic!("{other:?}"),
    };
    begin();
    assert_eq!(Ok(true), abort());
    assert_eq!((false, false), refusal(), "there is none");
    cluster.push_errors(ADD_PARTITIONS_TO_TXN, &[TOPIC_AUTHORIZATION_FAILED]);
    begin();
    drop(producer.produce(message("t", 0, b"x")).expect("room"));
    assert_eq!((true, false), refusal(), "its partition is refused");
    assert_eq!(Ok(true), abort());
    close_producer(&producer);
}
