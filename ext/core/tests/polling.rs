//! The event thread: which client it serves, how long and in which order, and when the thread runs.

use pelton_core::events::EventKind;
use pelton_core::mailbox::Mailbox;
use pelton_core::poller::{DEFAULT_MAX_TIME, GIVE_BACK_MEMORY, Poller, Source};
use pelton_core::rd::Wakeup;
use pelton_core::wait::{Outcome, Parker};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECONDS: Duration = Duration::from_secs(60);
const MILLIS: Duration = Duration::from_millis(1);

/// A client with pieces of work, each of which takes some microseconds.
struct Worker {
    left: AtomicUsize,
    piece: Duration,
    turns: AtomicUsize,
    pieces: AtomicUsize,
    panics: bool,
    done: Arc<Mailbox<()>>,
    /// Where it notes each turn, and with which word.
    notes: Option<(Arc<Mutex<Vec<&'static str>>>, &'static str)>,
}

impl Worker {
    fn new(left: usize, piece: Duration) -> Self {
        let (turns, pieces) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { left: AtomicUsize::new(left), piece, turns, pieces, panics: false, done: Arc::default(), notes: None }
    }

    fn await_done(&self) {
        assert_eq!(Outcome::Ready, self.done.wait(&Parker::new(), Some(Instant::now() + SECONDS)), "not served");
    }
}

impl Source for Worker {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        self.turns.fetch_add(1, Ordering::SeqCst);
        if let Some((notes, name)) = &self.notes {
            notes.lock().expect("no panic").push(name);
        }
        assert!(!self.panics, "as asked for");
        loop {
            if self.left.load(Ordering::SeqCst) == 0 {
                queues.clear();
                return self.done.push(());
            }
            let end = Instant::now() + self.piece;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            self.left.fetch_sub(1, Ordering::SeqCst);
            self.pieces.fetch_add(1, Ordering::SeqCst);
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        queues.push(0);
    }
}

fn poller() -> Arc<Poller> {
    Poller::new("test.poll").expect("a pipe")
}

/// Registers the client; returns it and its id.
fn register(poller: &Arc<Poller>, worker: Worker, max_time: Duration) -> (Arc<Worker>, u32) {
    let id = AtomicU32::new(0);
    let registered = poller.register("worker", max_time, |given| {
        id.store(given, Ordering::SeqCst);
        Arc::new(worker)
    });
    (registered.expect("a thread"), id.into_inner())
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SECONDS;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::yield_now();
    }
}

/// A flooded client with a short turn must not delay the other clients of its poller, and must itself be polled
/// again.
#[test]
fn client_with_a_used_up_turn_is_polled_again_and_starves_no_other() {
    let poller = poller();
    let (flood, _) = register(&poller, Worker::new(20_000, Duration::ZERO), Duration::ZERO);
    let (other, _) = register(&poller, Worker::new(1, Duration::ZERO), Duration::ZERO);
    other.await_done();
    flood.await_done();
    assert!(flood.turns.load(Ordering::SeqCst) >= 20_000, "a turn for each piece");
}

#[test]
fn a_flood_with_little_time_and_one_with_much_take_turns() {
    let poller = poller();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let flood =
        |name| Worker { notes: Some((Arc::clone(&notes), name)), ..Worker::new(usize::MAX, Duration::from_micros(20)) };
    let (small, first) = register(&poller, flood("small"), MILLIS);
    let (large, second) = register(&poller, flood("large"), 100 * MILLIS);
    eventually("twenty turns each", || {
        small.turns.load(Ordering::SeqCst) >= 20 && large.turns.load(Ordering::SeqCst) >= 20
    });
    // The first one was alone until the other came.
    let turns: Vec<_> = notes.lock().expect("no panic").iter().copied().skip_while(|name| *name == "small").collect();
    assert!(turns.windows(2).all(|two| two[0] != two[1]), "{turns:?}: they alternate");
    // 1 to 100, were the machine not busy with other things.
    let of_a_turn = |worker: &Worker| worker.pieces.load(Ordering::SeqCst) / worker.turns.load(Ordering::SeqCst);
    let pieces = [&small, &large].map(|worker| of_a_turn(worker));
    assert!(pieces[1] > 3 * pieces[0], "{pieces:?} in a turn: a client with more time does more");
    // And one that comes while both flood is served between their turns.
    let (third, _) = register(&poller, Worker::new(1, Duration::ZERO), MILLIS);
    third.await_done();
    [first, second].into_iter().for_each(|id| poller.unregister(id));
}

#[test]
fn a_client_that_never_signals_is_looked_at_each_second_while_others_flood() {
    let poller = poller();
    let (_flood, id) = register(&poller, Worker::new(usize::MAX, Duration::ZERO), MILLIS);
    let started = Instant::now();
    let (idle, _) = register(&poller, Worker::new(0, Duration::ZERO), DEFAULT_MAX_TIME);
    // The first look is the registration's.
    (0..3).for_each(|_| idle.await_done_once());
    assert!(started.elapsed() < SECONDS / 2, "{:?}", started.elapsed());
    assert!(started.elapsed() > Duration::from_millis(900), "{:?}: not in a loop", started.elapsed());
    poller.unregister(id);
}

impl Worker {
    fn await_done_once(&self) {
        self.await_done();
        self.done.pop();
    }
}

#[test]
fn the_thread_ends_with_its_last_client_and_comes_back_for_the_next() {
    let poller = poller();
    assert_eq!((0, false), (poller.clients(), poller.is_running()));
    for _ in 0..500 {
        let (worker, id) = register(&poller, Worker::new(1, Duration::ZERO), DEFAULT_MAX_TIME);
        assert_eq!((1, true), (poller.clients(), poller.is_running()));
        worker.await_done();
        poller.unregister(id);
        assert_eq!(0, poller.clients());
    }
    eventually("the thread ends", || !poller.is_running());
}

/// How often memory was to be given back: some of it, all of it.
static GIVEN_BACK: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

#[test]
fn the_thread_gives_some_memory_back_each_second_and_all_of_it_at_its_end() {
    let count = |all: bool| GIVEN_BACK[usize::from(all)].load(Ordering::SeqCst);
    GIVE_BACK_MEMORY.set(|all| _ = GIVEN_BACK[usize::from(all)].fetch_add(1, Ordering::SeqCst)).expect("no other test");
    let poller = poller();
    let (_worker, id) = register(&poller, Worker::new(0, Duration::ZERO), DEFAULT_MAX_TIME);
    eventually("some memory", || count(false) > 0);
    poller.unregister(id);
    eventually("all memory", || count(true) > 0);
}

/// A lost race would leave a client that no thread serves.
#[test]
fn a_registration_that_races_with_the_last_close_is_served() {
    let poller = poller();
    let threads: Vec<_> = (0..2u64)
        .map(|seed| {
            let poller = Arc::clone(&poller);
            std::thread::spawn(move || {
                let mut random = seed.wrapping_mul(7_919) + 1;
                for _ in 0..5_000 {
                    let (worker, id) = register(&poller, Worker::new(1, Duration::ZERO), DEFAULT_MAX_TIME);
                    worker.await_done();
                    poller.unregister(id);
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let until = Instant::now() + Duration::from_nanos((random >> 33) % 60_000);
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("each was served"));
    eventually("the thread ends", || !poller.is_running());
    assert_eq!(0, poller.clients());
}

#[test]
fn panic_costs_a_client_its_turn_and_is_reported() {
    let poller = poller();
    let bad = Worker { panics: true, ..Worker::new(1, Duration::ZERO) };
    register(&poller, bad, DEFAULT_MAX_TIME);
    let (good, _) = register(&poller, Worker::new(1, Duration::ZERO), DEFAULT_MAX_TIME);
    good.await_done();
    eventually("an event", || !poller.events().is_empty());
    let event = poller.events().pop().expect("an event");
    assert!(
        matches!(&event.kind, EventKind::Error { code: -196, reason, .. } if reason.contains("panic")),
        "{event:?}"
    );
}

/// A program closes descriptors that it does not know, the poller's pipe among them. The poller reports it and
/// survives.
#[test]
fn poller_with_a_broken_pipe_reports_it_and_goes_on_without_a_busy_loop() {
    let poller = poller();
    let (first, _) = register(&poller, Worker::new(1, Duration::ZERO), DEFAULT_MAX_TIME);
    first.await_done_once();
    let wakeup: &Wakeup = poller.wakeup();
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("a device");
    // SAFETY: replaces the only writing end of the pipe at once, so that no other file gets its number.
    assert!(unsafe { libc::dup2(nowhere.as_raw_fd(), wakeup.descriptor()) } >= 0);
    let started = Instant::now();
    let (second, id) = register(&poller, Worker::new(1, Duration::ZERO), DEFAULT_MAX_TIME);
    second.await_done_once();
    // 0.1 + 0.2 + 0.4 + 0.8 s of pauses at least, and never more than one second.
    (0..4).for_each(|_| second.await_done_once());
    assert!(started.elapsed() > Duration::from_millis(1_200), "{:?}: not in a loop", started.elapsed());
    let events: Vec<_> = poller.events().take_all().into_iter().collect();
    assert!((1..=2).contains(&events.len()), "{events:?}: once a client");
    assert!(matches!(&events[0].kind, EventKind::Error { reason, .. } if reason.contains("test.poll")), "{events:?}");
    poller.unregister(id);
    assert_eq!(1, poller.clients());
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_has_the_pollers_name() {
    let poller = Poller::new("payments.poll.with.a.long.name").expect("a pipe");
    let (_worker, id) = register(&poller, Worker::new(0, Duration::ZERO), DEFAULT_MAX_TIME);
    let named = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name == "payments.poll.w\n").count()
    };
    eventually("a thread of that name", || named() == 1);
    poller.unregister(id);
    eventually("none any more", || named() == 0);
}

/// Its `all_queues` ends when it is asked to, or after a while.
struct Asked {
    begun: Mailbox<()>,
    inside: AtomicBool,
    end: Mutex<Receiver<()>>,
}

impl Source for Asked {
    fn serve(&self, queues: &mut Vec<u32>, _: Instant) {
        queues.clear();
    }

    fn all_queues(&self, _: &mut Vec<u32>) {
        self.inside.store(true, Ordering::SeqCst);
        self.begun.push(());
        let _ = self.end.lock().expect("no panic").recv_timeout(300 * MILLIS);
        self.inside.store(false, Ordering::SeqCst);
    }
}

/// Otherwise its last reference could be dropped on the event thread, where its end would block all others.
#[test]
fn an_unregistered_client_is_not_even_asked_for_its_queues_any_more() {
    let poller = poller();
    let (returned, end) = channel();
    let (begun, id) = (Mailbox::default(), AtomicU32::new(0));
    let asked = Asked { begun, inside: AtomicBool::new(false), end: Mutex::new(end) };
    let made = |given| {
        id.store(given, Ordering::SeqCst);
        Arc::new(asked)
    };
    let client = poller.register("asked", DEFAULT_MAX_TIME, made).expect("a thread");
    assert_eq!(Outcome::Ready, client.begun.wait(&Parker::new(), Some(Instant::now() + SECONDS)), "not asked");
    poller.unregister(id.into_inner());
    assert!(!client.inside.load(Ordering::SeqCst));
    let _ = returned.send(());
    assert_eq!(1, Arc::strong_count(&client));
}
