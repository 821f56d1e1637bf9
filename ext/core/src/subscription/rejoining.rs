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
