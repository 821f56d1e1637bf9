//! Committed offsets that could not be fetched. librdkafka asks again after most errors. It does not if the coordinator
//! moved since the join, or a timeout used its attempts up. Then it keeps the partitions and never reads them (the end
//! of `rd_kafka_assignment_apply_offsets`). So the member joins the group again.

use super::Subscription;
use crate::error::{Error, check};
use crate::rd::{Client, Event, codes};
use std::sync::atomic::Ordering;

/// How librdkafka's error message starts.
const TOLD: &str = "Failed to fetch committed offset";
/// Errors after which asking again helps.
pub(super) const PASSING: [i32; 6] = [
    codes::REQUEST_TIMED_OUT,
    codes::COORDINATOR_LOAD_IN_PROGRESS,
    codes::COORDINATOR_NOT_AVAILABLE,
    codes::NOT_COORDINATOR,
    codes::TIMED_OUT,
    codes::TRANSPORT,
];

pub(super) fn is_due(error: &Event) -> bool {
    PASSING.contains(&error.error()) && error.error_text().starts_with(TOLD)
}

impl Subscription {
    /// Gives the partitions back, and subscribes again when that is done. One failure may cause several errors. A group
    /// that ends may never answer these calls, and the event thread would wait forever: so none is made during a close.
    pub(super) fn rejoin(&self, client: &Client) -> Result<(), Error> {
        if self.closing.started() {
            return Ok(());
        }
        let Some(topics) = client.subscription() else { return Ok(()) };
        if topics.entries().is_empty() || self.joining.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let joins = check(client.unsubscribe()).and_then(|()| check(client.subscribe(&topics)));
        joins.inspect_err(|_| self.joining.store(false, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use crate::poller::Poller;
    use std::time::Duration;

    /// A close would wait for a join that never comes.
    #[test]
    fn no_join_follows_another_attempt_that_is_refused() {
        let fixed = ("group.instance.id", "me"); // librdkafka knows fatal errors of static members
        let settings = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0"), ("group.id", "g"), fixed];
        let poller = Poller::global().expect("a pipe");
        let member = Subscription::new("test", settings, Options::default(), poller).expect("a subscription");
        member.subscribe(["t"]).expect("subscribed");
        member.joining.store(false, Ordering::SeqCst); // as an assignment does
        let client = member.client().expect("open");
        assert_eq!(0, client.fail_for_good(codes::FAIL, "as asked for"));
        let refusal = member.rejoin(&client).expect_err("librdkafka subscribes to nothing after a fatal error");
        assert!(matches!(&refusal, Error::Kafka(error) if error.code == codes::FATAL), "{refusal:?}");
        assert!(!member.joining.load(Ordering::SeqCst));
        drop(client);
        member.close(Duration::ZERO).expect("ours");
    }
}
