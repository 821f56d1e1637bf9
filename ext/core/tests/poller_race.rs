//! When a poller's last client leaves at the moment another one arrives, the newcomer is served, and the client that
//! left is not. Elsewhere a new producer was sometimes never polled. Repeated 10,000 times.

use pelton_core::mailbox::Mailbox;
use pelton_core::poller::{Poller, Source};
use pelton_core::wait::{Outcome, Parker};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const ROUNDS: usize = 10_000;
const LONG: Duration = Duration::from_secs(30);

/// Number of clients that were served after they had left.
static LATE: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Client {
    served: Mailbox<()>,
    gone: AtomicBool,
}

impl Source for Client {
    fn serve(&self, queues: &mut Vec<u32>, _: Instant) {
        if self.gone.load(Ordering::SeqCst) {
            LATE.fetch_add(1, Ordering::SeqCst);
        }
        self.served.push(());
        queues.clear();
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        queues.push(0);
    }
}

fn come(poller: &Arc<Poller>) -> (u32, Arc<Client>) {
    let mut id = 0;
    let client = poller.register("test", Duration::from_millis(100), |given| {
        id = given;
        Arc::new(Client::default())
    });
    (id, client.expect("a thread"))
}

fn is_served(client: &Client) {
    assert_eq!(Outcome::Ready, client.served.wait(&Parker::new(), Some(Instant::now() + LONG)), "stranded");
}

fn leave(poller: &Arc<Poller>, id: u32, client: &Client) {
    poller.unregister(id);
    client.gone.store(true, Ordering::SeqCst);
}

#[test]
fn a_client_that_comes_while_the_last_one_leaves_is_served() {
    let poller = Poller::new("test.race").expect("a pipe");
    let meet = Barrier::new(2);
    // Each thread is the one that leaves in every other round; its next client comes when the other's leaves.
    let rounds = |first: bool| {
        let mut mine = None;
        for round in 0..ROUNDS {
            meet.wait();
            if first == (round % 2 == 0) {
                let (id, client) = come(&poller);
                is_served(&client);
                mine = Some((id, client));
            } else if let Some((id, client)) = mine.take() {
                leave(&poller, id, &client);
            }
        }
        if let Some((id, client)) = mine {
            leave(&poller, id, &client);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| rounds(true));
        scope.spawn(|| rounds(false));
    });
    let deadline = Instant::now() + LONG;
    while poller.is_running() || Poller::threads() > 0 {
        assert!(Instant::now() < deadline, "the thread outlives its last client");
        std::thread::yield_now();
    }
    assert_eq!((0, 0), (poller.clients(), LATE.load(Ordering::SeqCst)));
}
