//! Logs, errors and statistics reach the process's mailbox, under the client's name.

mod support;

use pelton_core::events::EventKind;
use pelton_core::poller::Poller;
use pelton_core::producer::Producer;
use pelton_core::wait::{Outcome, Parker};
use std::time::Instant;
use support::*;

#[test]
fn client_reports_logs_errors_and_statistics() {
    let options = [
        ("bootstrap.servers", "127.0.0.1:1"),
        ("statistics.interval.ms", "50"),
        ("debug", "broker"),
        ("sasl.password", "hunter2"),
    ];
    let producer = Producer::new("talker", options, Poller::global().expect("a pipe")).expect("a producer");
    let (mut log, mut error, mut statistics) = (false, false, false);
    let deadline = Some(Instant::now() + SECONDS);
    while !(log && error && statistics) {
        let Some(event) = Poller::global().expect("a pipe").events().pop() else {
            assert_eq!(
                Outcome::Ready,
                Poller::global().expect("a pipe").events().wait(&Parker::new(), deadline),
                "{log} {error} {statistics}"
            );
            continue;
        };
        assert_eq!("talker", event.client);
        assert!(!format!("{event:?}").contains("hunter2"));
        match event.kind {
            EventKind::Log { level, message, .. } => log |= level == 7 && !message.is_empty(),
            EventKind::Error { code, reason, fatal } => {
                assert!(code < 0 && !reason.is_empty() && !fatal);
                error = true;
            }
            EventKind::Statistics(json) => {
                statistics = json.starts_with('{') && json.contains("\"type\": \"producer\"")
            }
            _ => {}
        }
    }
    close_producer(&producer);
}
