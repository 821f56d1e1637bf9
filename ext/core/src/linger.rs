//! Waiting for a delivery skips the linger, which makes batches of messages that no thread waits for. librdkafka sends
//! its queue at once while a thread is in `rd_kafka_flush`. So one native thread of the process calls it when a wait
//! starts, and after each report while a thread waits. A turn takes one millisecond, because it delays the turns of
//! other producers. If a turn was too short (a thread of librdkafka was not awake, too many requests were in flight,
//! there was no connection), another turn follows, later and longer by a factor of two each time. The thread starts
//! with the first such wait, and ends after a second without one.

use crate::lock;
use crate::rd::{Client, PerProcess};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Milliseconds of the first turn, and of the longest one while no other producer waits for a turn.
const FIRST: u64 = 1;
const LONGEST: u64 = 50;
/// Turns that are further apart are the safety round's (`again`).
const LAST_PAUSE: u64 = 512;
const IDLE: Duration = Duration::from_secs(1);

/// A producer's, if it lingers at all.
pub struct Linger {
    /// Another one after a disconnect.
    client: Mutex<Weak<Client>>,
    /// It waits for its turn.
    asked: AtomicBool,
    /// Milliseconds of its next turn, and of the pause after it.
    millis: AtomicU64,
    /// The number of waiting callers.
    waits: AtomicUsize,
}

/// The caller waits as long as this lives.
pub struct Wait(Arc<Linger>);

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.waits.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct LingerTurns {
    waiting: VecDeque<Arc<Linger>>,
    /// Which producers have another turn, and when.
    later: Vec<(Instant, Arc<Linger>)>,
    running: bool,
}

#[derive(Default)]
struct LingerFlusher {
    turns: Mutex<LingerTurns>,
    changed: Condvar,
}

static FLUSHER: PerProcess<LingerFlusher> = PerProcess::new();

impl Linger {
    pub(crate) fn new(client: &Arc<Client>) -> Arc<Self> {
        Arc::new(Self {
            client: Mutex::new(Arc::downgrade(client)),
            asked: AtomicBool::new(false),
            millis: AtomicU64::new(FIRST),
            waits: AtomicUsize::new(0),
        })
    }

    pub(crate) fn follow(&self, client: &Arc<Client>) {
        *lock(&self.client) = Arc::downgrade(client);
    }

    /// A wait starts.
    pub(crate) fn wait(self: &Arc<Self>) -> Wait {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.cut();
        Wait(Arc::clone(self))
    }

    /// To be called after reports, and now and then: what could not be sent before may be sendable now.
    pub(crate) fn again(self: &Arc<Self>) {
        if self.is_waited_for() {
            self.cut();
        }
    }

    fn is_waited_for(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    /// Has the queue sent soon. Does not block.
    fn cut(self: &Arc<Self>) {
        self.millis.store(FIRST, Ordering::Relaxed);
        if self.asked.swap(true, Ordering::SeqCst) {
            return;
        }
        let flusher = FLUSHER.get_or_init(LingerFlusher::default);
        let mut turns = lock(&flusher.turns);
        turns.waiting.push_back(Arc::clone(self));
        if turns.running {
            drop(turns);
            flusher.changed.notify_one();
        } else if std::thread::Builder::new().name("pelton.linger".into()).spawn(|| flusher.run()).is_ok() {
            turns.running = true;
        } else {
            turns.give_up();
        }
    }

    /// One turn. Returns the pause before the next one. `alone`: no other producer waits for the end of this turn.
    fn flush(&self, alone: bool) -> Option<Duration> {
        // Messages that are produced from here on may ask again.
        self.asked.store(false, Ordering::SeqCst);
        let client = lock(&self.client).upgrade()?;
        let millis = self.millis.load(Ordering::Relaxed);
        let all_sent = client.flush(turn(millis, alone));
        if all_sent || !self.is_waited_for() || millis > LAST_PAUSE {
            return None;
        }
        // Unless a caller asked meanwhile, which starts again at the first turn.
        let _ = self.millis.compare_exchange(millis, millis * 2, Ordering::Relaxed, Ordering::Relaxed);
        Some(Duration::from_millis(millis))
    }
}

/// Milliseconds of a turn: short while other producers wait for theirs.
fn turn(millis: u64, alone: bool) -> i32 {
    (if alone { millis.min(LONGEST) } else { FIRST }) as i32
}

impl LingerTurns {
    /// Without a thread the linger runs out by itself. The next wait asks again.
    fn give_up(&mut self) {
        self.later.clear();
        for linger in self.waiting.drain(..) {
            linger.asked.store(false, Ordering::SeqCst);
        }
    }

    /// The producer whose turn it is, and whether no other turn is near. For some due turns, no caller waits any more.
    fn next(&mut self) -> Option<(Arc<Linger>, bool)> {
        let now = Instant::now();
        let due = self.later.iter().position(|(due, _)| *due <= now).map(|index| self.later.swap_remove(index).1);
        let linger = match due {
            Some(linger) if linger.is_waited_for() => linger,
            Some(_) => return self.next(),
            None => self.waiting.pop_front()?,
        };
        self.later.retain(|(_, other)| !Arc::ptr_eq(other, &linger));
        let alone = self.later.is_empty() && self.waiting.iter().all(|other| Arc::ptr_eq(other, &linger));
        Some((linger, alone))
    }

    /// False also if a wait came when the thread's pause was just over.
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.later.is_empty()
    }

    fn pause(&self) -> Duration {
        let due = self.later.iter().map(|(due, _)| *due).min();
        due.map_or(IDLE, |due| due.saturating_duration_since(Instant::now()))
    }
}

impl LingerFlusher {
    fn run(&self) {
        let mut turns = lock(&self.turns);
        loop {
            if let Some((linger, alone)) = turns.next() {
                drop(turns);
                let pause = linger.flush(alone);
                turns = lock(&self.turns);
                if let Some(pause) = pause {
                    turns.later.push((Instant::now() + pause, linger));
                }
                continue;
            }
            let pause = turns.pause();
            let (woken, timeout) = self.changed.wait_timeout(turns, pause).unwrap_or_else(PoisonError::into_inner);
            turns = woken;
            if timeout.timed_out() && turns.is_empty() {
                turns.running = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::Poller;
    use crate::producer::{Outgoing, Producer};

    const SECONDS: Duration = Duration::from_secs(60);

    /// With a message that no broker will ever accept.
    fn lonely() -> (Arc<Producer>, Arc<Client>) {
        let options = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0")];
        let producer = Producer::new("lonely", options, Poller::global().expect("a pipe")).expect("a producer");
        producer.produce(Outgoing { topic: "t", payload: Some(b"x"), ..Outgoing::default() }).expect("room");
        let client = producer.with_client(Arc::clone).expect("open");
        (producer, client)
    }

    /// A message that is produced during a turn comes too late for it, and must be able to ask again.
    #[test]
    fn client_that_asks_during_its_turn_gets_another_one() {
        let (producer, client) = lonely();
        let linger = Linger::new(&client);
        linger.asked.store(true, Ordering::SeqCst);
        let held = lock(&linger.client);
        let turn = std::thread::spawn({
            let linger = Arc::clone(&linger);
            move || linger.flush(true)
        });
        let deadline = Instant::now() + SECONDS;
        while linger.asked.load(Ordering::SeqCst) {
            assert!(Instant::now() < deadline, "a turn that has begun keeps others from asking");
            std::thread::yield_now();
        }
        drop(held);
        turn.join().expect("no panic");
        let _ = producer.close(Duration::ZERO);
    }

    #[test]
    fn turn_that_was_too_short_is_repeated_while_a_thread_waits() {
        let (producer, client) = lonely();
        let linger = Linger::new(&client);
        linger.waits.store(1, Ordering::Relaxed);
        let pauses: Vec<_> = (0..4).map(|_| linger.flush(false)).collect();
        assert_eq!([1, 2, 4, 8].map(|millis| Some(Duration::from_millis(millis))).to_vec(), pauses);
        linger.millis.store(LAST_PAUSE * 2, Ordering::Relaxed);
        assert_eq!(None, linger.flush(false), "the safety round's");
        linger.millis.store(FIRST, Ordering::Relaxed);
        linger.waits.store(0, Ordering::Relaxed);
        assert_eq!(None, linger.flush(false), "no thread waits");
        linger.waits.store(1, Ordering::Relaxed);
        producer.purge().expect("open");
        while producer.pending() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(None, linger.flush(false), "nothing is left");
        let _ = producer.close(Duration::ZERO);
    }

    /// Otherwise the rest of a message that did not fit into a turn waits for the whole linger.
    #[test]
    fn thread_repeats_a_turn_after_its_pause() {
        let (producer, client) = lonely();
        let linger = Linger::new(&client);
        let wait = linger.wait();
        let deadline = Instant::now() + SECONDS;
        while linger.millis.load(Ordering::Relaxed) < 4 * FIRST {
            assert!(Instant::now() < deadline, "one turn only");
            std::thread::yield_now();
        }
        drop(wait);
        let _ = producer.close(Duration::ZERO);
    }

    /// Otherwise no wait would skip the linger from then on.
    #[test]
    fn thread_that_ended_without_a_wait_starts_again_with_the_next() {
        let (producer, client) = lonely();
        let linger = Linger::new(&client);
        let deadline = Instant::now() + SECONDS;
        drop(linger.wait());
        // Other tests may have it run on.
        while lock(&FLUSHER.get().expect("it was asked for").turns).running {
            assert!(Instant::now() < deadline, "it runs on without a wait");
            std::thread::yield_now();
        }
        let wait = linger.wait();
        while linger.millis.load(Ordering::Relaxed) == FIRST {
            assert!(Instant::now() < deadline, "no turn");
            std::thread::yield_now();
        }
        drop(wait);
        let _ = producer.close(Duration::ZERO);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn waits_of_many_producers_share_one_thread() {
        let (producer, client) = lonely();
        let waits: Vec<_> = (0..20).map(|_| Linger::new(&client).wait()).collect();
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        let threads = names.filter(|name| name == "pelton.linger\n").count();
        assert!(threads <= 2, "{threads}: one, and maybe one that ends just now");
        drop(waits);
        let _ = producer.close(Duration::ZERO);
    }

    #[test]
    fn turn_lasts_longer_only_if_it_is_alone_and_never_longer_than_50_ms() {
        let turns = |alone| [1, 2, 32, 64, 512].map(|millis| turn(millis, alone));
        assert_eq!([1, 2, 32, 50, 50], turns(true));
        assert_eq!([1; 5], turns(false));
    }

    /// Otherwise that producer's messages would linger, until another one waits.
    #[test]
    fn thread_does_not_end_while_a_producer_has_a_turn_to_come() {
        let (producer, client) = lonely();
        let linger = Linger::new(&client);
        let mut turns = LingerTurns::default();
        assert_eq!((true, IDLE), (turns.is_empty(), turns.pause()));
        turns.waiting.push_back(Arc::clone(&linger));
        assert!(!turns.is_empty());
        turns.waiting.clear();
        turns.later.push((Instant::now(), Arc::clone(&linger)));
        assert_eq!((false, Duration::ZERO), (turns.is_empty(), turns.pause()));
        turns.later.push((Instant::now() + SECONDS, linger));
        assert_eq!(Duration::ZERO, turns.pause(), "the next one");
        let _ = producer.close(Duration::ZERO);
    }

    #[test]
    fn turn_is_alone_only_if_no_other_producer_waits_for_one() {
        let (producer, client) = lonely();
        let (one, other) = (Linger::new(&client), Linger::new(&client));
        let (now, far) = (Instant::now(), Instant::now() + SECONDS);
        let mut turns = LingerTurns::default();
        let mut next = |waiting: &[&Arc<Linger>], later: &[(Instant, &Arc<Linger>)]| {
            turns.waiting.extend(waiting.iter().copied().cloned());
            turns.later.extend(later.iter().map(|(due, linger)| (*due, Arc::clone(linger))));
            let order = std::iter::from_fn(|| turns.next());
            let order: Vec<_> = order.map(|(linger, alone)| (Arc::ptr_eq(&linger, &one), alone)).collect();
            (order, std::mem::take(&mut turns.later).len())
        };
        assert_eq!((vec![(true, true)], 0), next(&[&one], &[]));
        assert_eq!((vec![(true, false), (false, true)], 0), next(&[&one, &other], &[]));
        assert_eq!((vec![(true, false)], 1), next(&[&one], &[(far, &other)]));
        assert_eq!((vec![(true, true)], 0), next(&[&one], &[(far, &one)]), "its later turn comes now");
        assert_eq!((vec![], 0), next(&[], &[(now, &one)]), "no caller waits any more");
        let _wait = one.wait();
        assert_eq!((vec![(true, false), (false, true)], 0), next(&[&other], &[(now, &one)]), "what is due comes first");
        let _ = producer.close(Duration::ZERO);
    }
}
