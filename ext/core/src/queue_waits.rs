//! Publishes how long producing threads waited for room in a full queue. At most one event a second, because a queue
//! that is always full has one wait per message.

use crate::events::{self, EventKind, Feed};
use crate::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct QueueWaits {
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    /// Not published yet.
    count: u64,
    time: Duration,
    published: Option<Instant>,
}

impl QueueWaits {
    /// A wait ended, with room or without.
    pub fn waited(&self, feed: &Feed, client: &str, time: Duration) {
        let mut waits = lock(&self.waits);
        waits.count += 1;
        waits.time += time;
        if waits.published.is_none_or(|published| published.elapsed() >= PAUSE) {
            publish(feed, client, &mut waits);
        }
    }

    /// Publishes the waits that are not published yet.
    pub fn publish(&self, feed: &Feed, client: &str) {
        let mut waits = lock(&self.waits);
        if waits.count > 0 {
            publish(feed, client, &mut waits);
        }
    }
}

fn publish(feed: &Feed, client: &str, waits: &mut Waits) {
    let (count, time) = (waits.count, waits.time);
    *waits = Waits { published: Some(Instant::now()), ..Waits::default() };
    events::emit(feed, client, EventKind::QueueFull { waits: count, time });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_published_at_most_once_a_second_and_none_is_left_out() {
        let (feed, waits) = (Feed::default(), QueueWaits::default());
        let seconds = Duration::from_secs;
        let published = || -> Vec<_> {
            let wait = |kind| match kind {
                EventKind::QueueFull { waits, time } => (waits, time),
                other => panic!("{other:?}"),
            };
            feed.take_all().into_iter().map(|event| wait(event.kind)).collect()
        };
        let publish_at = |time| lock(&waits.waits).published = Some(time);
        waits.waited(&feed, "p", seconds(1));
        assert_eq!(vec![(1, seconds(1))], published());
        publish_at(Instant::now() + seconds(1000)); // no machine is so slow
        waits.waited(&feed, "p", seconds(2));
        waits.waited(&feed, "p", seconds(3));
        assert!(published().is_empty());
        publish_at(Instant::now() - PAUSE);
        waits.waited(&feed, "p", seconds(4));
        assert_eq!(vec![(3, seconds(9))], published());
        waits.publish(&feed, "p");
        assert!(published().is_empty(), "each once");
        publish_at(Instant::now() + seconds(1000));
        waits.waited(&feed, "p", seconds(5));
        waits.publish(&feed, "p");
        assert_eq!(vec![(1, seconds(5))], published(), "the last ones");
    }
}
