//! Seeks: moving the position of an assigned partition. librdkafka refuses or outdates them while the partition starts.

use super::positions::{checked, told_of};
use super::{Subscription, SubscriptionEvent};
use crate::error::Error;
use crate::partition::Partition;
use crate::rd::{Client, PartitionList, codes};
use crate::topic_partitions::offsets;
use crate::wait::{self, Parker};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);
/// No call takes longer.
const LONG: Duration = Duration::from_secs(3600);
/// After an outdated answer librdkafka asks again in this time.
const ASKED_AGAIN: Duration = Duration::from_millis(500);
/// A further seek must end this long before that.
const MARGIN: Duration = Duration::from_millis(100);
/// The number of answers to wait for if each takes longer than `ASKED_AGAIN`.
const ANSWERS: u32 = 3;

/// A seek that was announced.
pub struct Seek {
    target: Arc<Partition>,
    number: u64,
}

impl Subscription {
    /// Announces a seek in an assigned partition. The last announced seek counts, whichever reaches `seek` first or
    /// still waits.
    pub fn announce_seek(&self, topic: &str, partition: i32) -> Result<Seek, Error> {
        self.check_origin()?;
        let target = self.assigned(topic, partition)?;
        Ok(Seek { number: target.announce_seek(), target })
    }

    /// Moves the position of a partition, after the seek in progress there. Blocks up to `timeout`, and for that seek.
    /// Messages that were read before and not taken are dropped, and batches that are out become stale.
    pub fn seek(&self, seek: &Seek, offset: i64, timeout: Duration) -> Result<(), Error> {
        let Seek { target, number } = seek;
        let _turn = target.turn_to_seek();
        if target.last_seek() != *number {
            return Err(Error::from((codes::OUTDATED, "another seek came after this one".to_owned())));
        }
        target.hold();
        let result = self.seek_started(target, offset, timeout);
        // One that is late comes still. From the call on, not only from the answer, librdkafka hands out nothing that
        // was fetched before (`rd_kafka_toppar_version_new_barrier`), so what comes is of the new place.
        if takes_place(&result) {
            target.begin(offset);
            self.mailbox.retain(|event| match event {
                SubscriptionEvent::Batch(batch) => !batch.is_stale(),
                SubscriptionEvent::EndOfPartition { topic, partition, .. } => !target.is(topic, *partition),
                _ => true,
            });
        }
        target.release();
        result
    }

    /// While a partition starts, librdkafka may be asking for its first or last offset. If that answer comes after the
    /// seek, it is outdated: half a second later librdkafka asks again, and goes to the position in the answer. Another
    /// seek after the first answer prevents this. The first answer has arrived when the leader has answered a later
    /// request.
    fn seek_started(&self, target: &Partition, offset: i64, timeout: Duration) -> Result<(), Error> {
        let client = self.client()?;
        let list = offsets([(&*target.topic, target.number, offset, -1)])?;
        let deadline = Instant::now() + timeout.min(LONG);
        let mut in_time = false; // did the last answer come before librdkafka could ask again?
        for answers in 0.. {
            let began = Instant::now();
            self.seek_fetched(&client, target, &list, deadline)?;
            let sure = target.has_read() || in_time && began.elapsed() < MARGIN;
            if sure || answers == ANSWERS || !target.is_open() {
                break;
            }
            self.wait_for_leader(&client, target, deadline)?;
            in_time = began.elapsed() < ASKED_AGAIN - MARGIN;
        }
        Ok(())
    }

    /// librdkafka refuses to seek in a partition that is not fetched yet (it asks for the committed offset first), and
    /// does not report when fetching starts. Also, its own pause or resume meanwhile outdates a seek.
    fn seek_fetched(
        &self,
        client: &Client,
        target: &Partition,
        list: &PartitionList,
        deadline: Instant,
    ) -> Result<(), Error> {
        let passing = [codes::STATE, codes::PREV_IN_PROGRESS, codes::OUTDATED];
        loop {
            let left = left(deadline);
            let result =
                client.seek(list, wait::millis(left.max(PAUSE))).map_err(Error::from).and_then(|()| checked(list));
            if !has_code(&result, &passing) || left.is_zero() || !target.is_open() {
                return result.map(drop);
            }
            self.pause_while_open(target);
        }
    }

    /// Waits until the leader has answered a question. A topic that is gone has none.
    fn wait_for_leader(&self, client: &Client, target: &Partition, deadline: Instant) -> Result<(), Error> {
        let gone = [codes::UNKNOWN_TOPIC, codes::UNKNOWN_PARTITION, codes::UNKNOWN_TOPIC_OR_PART];
        loop {
            match client.watermarks(&target.topic, target.number, wait::millis(left(deadline))) {
                Err(code) if gone.contains(&code) => return Ok(()),
                Err(_) if !target.is_open() => return Ok(()),
                Err(_) if left(deadline).is_zero() => {
                    return Err(told_of(&target.topic, target.number, codes::TIMED_OUT));
                }
                Err(_) => self.pause_while_open(target),
                Ok(_) => return Ok(()),
            }
        }
    }

    fn pause_while_open(&self, target: &Partition) {
        self.progress.wait(&Parker::new(), Some(Instant::now() + PAUSE), || !target.is_open());
    }
}

/// Whether a seek with this result moves the position, now or later.
fn takes_place(result: &Result<(), Error>) -> bool {
    result.is_ok() || has_code(result, &[codes::TIMED_OUT])
}

fn has_code<T>(result: &Result<T, Error>, wanted: &[i32]) -> bool {
    matches!(result, Err(Error::Kafka(error)) if wanted.contains(&error.code))
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use crate::poller::Poller;
    use std::sync::mpsc;

    /// A subscription with a partition whose committed offset is never known, so each seek there is refused.
    fn starting() -> Arc<Subscription> {
        let settings = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0"), ("group.id", "g")];
        let poller = Poller::global().expect("a pipe");
        let reader = Subscription::new("test", settings, Options::default(), poller).expect("a subscription");
        reader.assign(&[("t", 0, -1001)]).expect("assigned");
        reader
    }

    /// Whether a seek was refused. It must end within a minute.
    fn is_refused(reader: &Arc<Subscription>, seek: Seek, timeout: Duration) -> bool {
        let (done, result) = mpsc::channel();
        let reader = Arc::clone(reader);
        std::thread::spawn(move || done.send(reader.seek(&seek, 5, timeout)));
        let result = result.recv_timeout(Duration::from_secs(60)).expect("it ends");
        has_code(&result, &[codes::STATE, codes::TIMED_OUT])
    }

    #[test]
    fn a_seek_in_a_starting_partition_is_tried_until_its_time_is_over() {
        let reader = starting();
        let seek = |timeout| {
            let (seek, began) = (reader.announce_seek("t", 0).expect("assigned"), Instant::now());
            assert!(is_refused(&reader, seek, timeout));
            began.elapsed()
        };
        seek(Duration::ZERO);
        let took = seek(Duration::from_millis(300));
        assert!(took >= Duration::from_millis(200), "{took:?}");
        reader.close(Duration::ZERO).expect("ours");
    }

    #[test]
    fn a_seek_in_a_starting_partition_gives_up_when_the_partition_is_given_back() {
        let reader = starting();
        let seek = reader.announce_seek("t", 0).expect("assigned");
        reader.shut_partitions(None);
        assert!(is_refused(&reader, seek, LONG));
        reader.close(Duration::ZERO).expect("ours");
    }

    #[test]
    fn a_leader_that_does_not_answer_in_time_is_an_error_unless_the_partition_is_given_back() {
        let reader = starting();
        let (client, target) = (reader.client().expect("open"), reader.assigned("t", 0).expect("assigned"));
        let wait = || reader.wait_for_leader(&client, &target, Instant::now());
        assert!(has_code(&wait(), &[codes::TIMED_OUT]));
        reader.shut_partitions(None);
        assert_eq!(Ok(()), wait());
        drop(client);
        reader.close(Duration::ZERO).expect("ours");
    }

    /// Messages that were read before would come after it.
    #[test]
    fn a_seek_that_is_late_takes_place_all_the_same() {
        assert!(takes_place(&Ok(())));
        assert!(takes_place(&Err(Error::code(codes::TIMED_OUT))));
        for code in [codes::STATE, codes::OUTDATED, codes::UNKNOWN_PARTITION, codes::DESTROY] {
            assert!(!takes_place(&Err(Error::code(code))), "{code}");
        }
    }
}
