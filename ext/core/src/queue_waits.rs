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
