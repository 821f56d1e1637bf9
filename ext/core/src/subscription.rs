//! A subscription: one librdkafka client whose partitions are read one by one on the event thread, into batches in
//! native memory. The owner gets all events through one mailbox.

mod heartbeats;
mod leaving;
mod marks;
mod positions;
mod rejoining;
mod seeks;
mod serving;
mod without_group;

use crate::closing::{CALLS_WAIT, Closing};
use crate::error::{Error, KafkaError, check};
use crate::filter::Filter;
use crate::format::Format;
use crate::mailbox::Mailbox;
use crate::partition::{Batch, Limits, Partition};
use crate::poller::{Poller, Polling};
use crate::rd::{Client, ClientKind, Conf, Origin, PartitionList, Queue, Token, codes, event_types};
pub use crate::topic_partitions::TopicPartition;
use crate::topic_partitions::{bad_topic, offsets};
use crate::wait::Waiters;
use crate::{config, events, lock};
use heartbeats::HeartbeatMonitor;
use leaving::Membership;
use marks::Marks;
pub use marks::Unconfirmed;
pub use positions::{Committed, End};
use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MAIN_QUEUE: u32 = 0;
const GROUP_QUEUE: u32 = 1;
const FIRST_PARTITION: u32 = 2;
/// librdkafka's `RD_KAFKA_OFFSET_STORED`.
const AS_COMMITTED: i64 = -1001;

/// What a subscription reports to its owner.
pub enum SubscriptionEvent {
    Batch(Batch),
    Assigned(Vec<TopicPartition>),
    /// To be answered with `revoked(token)` when the owner has let go; until then the partitions stay assigned, unread.
    Revoked {
        token: u64,
        partitions: Vec<TopicPartition>,
        lost: bool,
    },
    /// The offset that the next message will have.
    EndOfPartition {
        topic: Arc<str>,
        partition: i32,
        offset: i64,
    },
    Error {
        error: KafkaError,
        partition: Option<TopicPartition>,
    },
    Closed,
}

#[derive(Default)]
pub struct Options {
    pub limits: Limits,
    /// How payloads are decoded ahead, by topic; `*` is any other one.
    pub formats: HashMap<String, Arc<Format>>,
    /// Which messages the owner gets (`None`: all of them), in the same way.
    pub filters: HashMap<String, Option<Arc<Filter>>>,
    /// After how long a member of the protocol `consumer` counts as lost whose connected coordinator answers nothing.
    pub silence: Option<Duration>,
}

struct LiveSubscription {
    client: Arc<Client>,
    main: Arc<Queue>,
    group: Option<Arc<Queue>>,
    partitions: HashMap<u32, Arc<Partition>>,
    last_index: u32,
    /// Revocations not yet answered, by token.
    revoking: HashMap<u64, Revocation>,
    /// Not read until the revocations are answered: `hold_what_stays`.
    held: Vec<Arc<Partition>>,
}

/// Partitions to give back.
struct Revocation {
    list: PartitionList,
    /// They are not fetched for as long as they live.
    _closed: Vec<Arc<Partition>>,
}

pub struct Subscription {
    name: String,
    poller: Arc<Poller>,
    id: u32,
    options: Options,
    member: Membership,
    /// `None`: librdkafka looks after its heartbeats.
    heartbeats: Option<HeartbeatMonitor>,
    marks: Marks,
    mailbox: Mailbox<SubscriptionEvent>,
    /// Emptied when closed. Never held while librdkafka is called for long.
    live: Mutex<Option<LiveSubscription>>,
    last_token: AtomicU64,
    /// Woken when something of a closing has moved on.
    progress: Waiters,
    closing: Arc<Closing>,
    /// librdkafka was asked to leave the group: it treats every assignment as an unassignment.
    leaving: AtomicBool,
    /// It unsubscribes before it leaves: revocations are answered at once.
    unsubscribing: AtomicBool,
    /// The owner wants to be of the group: the end of an assignment is the beginning of a join.
    subscribed: AtomicBool,
    /// The group is being joined: between a subscription or the end of an assignment and the next.
    joining: AtomicBool,
    /// Calls of `committed` that wait for their answer.
    asking: AtomicUsize,
    origin: Origin,
}

impl Subscription {
    /// Starts a subscription. `settings` are librdkafka's; without a `group.id`, it only assigns. They must not switch
    /// on librdkafka's storing of offsets, because the owner marks a message when it is done with it.
    #[allow(clippy::too_many_lines, reason = "mostly one line for each field")]
    pub fn new<'a>(
        name: &str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
        options: Options,
        polling: impl Into<Polling>,
    ) -> Result<Arc<Self>, Error> {
        let Polling { poller, max_time } = polling.into();
        let mut options = options;
        let mut conf = prepare(settings)?;
        let has_group = without_group::prepare(&mut conf)?;
        let member = Membership::of(&conf, has_group);
        options.limits.singly = member.reads_singly;
        let heartbeats = member.heartbeats.then(|| HeartbeatMonitor::of(&mut conf, options.silence));
        let client = Client::new(ClientKind::Consumer, conf).map_err(config::refused)?;
        let main = Arc::new(Queue::main(&client));
        client.logs_to(&main);
        let group = Queue::consumer(&client).map(Arc::new);
        poller.register(name, max_time, |id| {
            main.signal(poller.wakeup(), Token { client: id, queue: MAIN_QUEUE });
            if let Some(group) = &group {
                group.signal(poller.wakeup(), Token { client: id, queue: GROUP_QUEUE });
            }
            let partitions = HashMap::new();
            let live = LiveSubscription {
                client,
                main,
                group,
                partitions,
                last_index: FIRST_PARTITION,
                revoking: HashMap::new(),
                held: Vec::new(),
            };
            Arc::new(Self {
                name: name.into(),
                poller: Arc::clone(&poller),
                id,
                options,
                member,
                heartbeats,
                marks: Marks::default(),
                mailbox: Mailbox::default(),
                live: Mutex::new(Some(live)),
                last_token: AtomicU64::new(0),
                progress: Waiters::default(),
                closing: Arc::default(),
                leaving: AtomicBool::new(false),
                unsubscribing: AtomicBool::new(false),
                subscribed: AtomicBool::new(false),
                joining: AtomicBool::new(false),
                asking: AtomicUsize::new(0),
                origin: Origin::here(),
            })
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The error for a forked child that uses its parent's subscription.
    pub fn check_origin(&self) -> Result<(), Error> {
        self.origin.check()
    }

    /// Whether this is a forked child's view of its parent's subscription.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_foreign()
    }

    pub(crate) fn client(&self) -> Result<Arc<Client>, Error> {
        if self.closing.started() && !self.is_foreign() {
            return Err(Error::Closed);
        }
        self.with_client(Arc::clone)
    }

    /// Calls librdkafka briefly, also during a close.
    pub fn with_client<R>(&self, call: impl FnOnce(&Arc<Client>) -> R) -> Result<R, Error> {
        self.check_origin()?;
        lock(&self.live).as_ref().map(|live| call(&live.client)).ok_or(Error::Closed)
    }

    /// Joins the group for these topics (`^…` is a pattern), instead of those before.
    pub fn subscribe<'a>(&self, topics: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        self.check_group()?;
        let list = PartitionList::plain(topics.into_iter().map(|topic| (topic, -1))).map_err(bad_topic)?;
        let client = self.client()?;
        // Before it: the assignment may come at once.
        let before = [&self.subscribed, &self.joining].map(|flag| flag.swap(true, Ordering::SeqCst));
        check(client.subscribe(&list)).inspect_err(|_| {
            self.subscribed.fetch_and(before[0], Ordering::SeqCst);
            self.joining.fetch_and(before[1], Ordering::SeqCst); // a join that ran goes on
        })
    }

    /// Leaves the group; its partitions come as a revocation. Does not wait.
    pub fn unsubscribe(&self) -> Result<(), Error> {
        let client = self.client()?;
        let before = self.subscribed.swap(false, Ordering::SeqCst);
        check(client.unsubscribe()).inspect_err(|_| self.subscribed.store(before, Ordering::SeqCst))
    }

    /// Reads these partitions without a group's assignment; offset −1001 is "as committed, else auto.offset.reset", −2
    /// the beginning, −1 the end.
    pub fn assign(&self, partitions: &[(&str, i32, i64)]) -> Result<(), Error> {
        let client = self.client()?;
        if partitions.iter().any(|(.., offset)| *offset == AS_COMMITTED) {
            self.check_group()?;
        }
        let list = offsets(partitions.iter().map(|(topic, partition, offset)| (*topic, *partition, *offset, -1)))?;
        self.shut_partitions(None);
        let made = self.make_partitions(&client, &list);
        self.unstore_done(&client, None);
        check(client.assign(Some(&list)))?;
        self.marks.clear();
        // Not before: the messages there belong to the assignment that just ended.
        made.iter().for_each(|partition| partition.open());
        Ok(())
    }

    /// For waits.
    pub fn mailbox(&self) -> &Mailbox<SubscriptionEvent> {
        &self.mailbox
    }

    /// The next thing that happened.
    pub fn pop(&self) -> Option<SubscriptionEvent> {
        let event = self.mailbox.pop();
        if let Some(SubscriptionEvent::Batch(batch)) = &event {
            batch.advance();
        }
        event
    }

    /// Carries a revocation out. Unknown tokens (carried out already) are ignored.
    pub fn revoked(&self, token: u64) -> Result<(), Error> {
        let taken =
            lock(&self.live).as_mut().and_then(|live| Some((live.revoking.remove(&token)?, Arc::clone(&live.client))));
        let Some((revocation, client)) = taken else { return Ok(()) };
        let result = self.release(&client, &revocation.list);
        let held =
            lock(&self.live).as_mut().filter(|live| live.revoking.is_empty()).map(|live| mem::take(&mut live.held));
        held.iter().flatten().for_each(|partition| partition.release());
        result
    }

    fn release(&self, client: &Client, list: &PartitionList) -> Result<(), Error> {
        if self.leaving.load(Ordering::SeqCst) {
            return self.release_all(client);
        }
        self.joining.store(self.subscribed.load(Ordering::SeqCst), Ordering::SeqCst);
        let result = match client.rebalance_protocol().as_ref() {
            "COOPERATIVE" => {
                self.unstore_done(client, Some(list));
                client.incremental_unassign(list).map_err(Error::from)
            }
            _ => self.release_all(client),
        };
        self.marks.forget(list); // after it, for nothing of them can be marked any more
        result
    }

    fn release_all(&self, client: &Client) -> Result<(), Error> {
        self.unstore_done(client, None);
        match client.assign(None) {
            codes::DESTROY => Ok(()), // the group is left already
            code => check(code),
        }
    }

    /// librdkafka commits what is stored when it gives partitions back: also what Kafka has, even to a new topic of
    /// that name.
    fn unstore_done(&self, client: &Client, which: Option<&PartitionList>) {
        self.marks.done(which, client.assignment_lost(), |rows| positions::unstore(client, rows));
    }

    pub fn closing(&self) -> &Arc<Closing> {
        &self.closing
    }

    /// Starts closing: nothing more is read, the marked offsets are committed, the group is left. Idempotent; wait
    /// with `closing()`.
    pub fn close(self: &Arc<Self>, timeout: Duration) -> Result<(), Error> {
        self.check_origin()?;
        let subscription = Arc::clone(self);
        self.closing.start(move || {
            subscription.closing.limit(timeout);
            subscription.end()
        });
        Ok(())
    }

    /// A close that runs has so much time left, and not more.
    pub fn shorten_deadline(&self, timeout: Duration) {
        if !self.is_foreign() {
            self.closing.limit(timeout);
            self.progress.wake_all();
        }
    }

    /// On the closing thread. Returns 1 when Kafka did not confirm in time that the last marks are committed and the
    /// group is left.
    fn end(&self) -> usize {
        let taken = lock(&self.live).as_ref().map(|live| (Arc::clone(&live.client), live.group.clone()));
        let Some((client, group)) = taken else { return 0 };
        for partition in lock(&self.live).iter().flat_map(|live| live.partitions.values()) {
            partition.close();
        }
        let left = group.is_none_or(|group| self.leave(&client, &group));
        self.poller.unregister(self.id);
        let live = lock(&self.live).take();
        if let Some(live) = &live {
            self.serve_events(&client, &live.main, Instant::now() + CALLS_WAIT); // what the last commit came to, too
            live.main.unsignal();
            if let Some(group) = &live.group {
                group.unsignal();
            }
        }
        drop(live);
        match left {
            true => Client::end(client, CALLS_WAIT),
            // The time is over, and librdkafka's own end would wait for the answer that did not come.
            false => Client::end_aside(client),
        }
        // Its owner may keep a closed subscription for long.
        self.mailbox.retain(|event| !matches!(event, SubscriptionEvent::Batch(_)));
        self.mailbox.push(SubscriptionEvent::Closed);
        usize::from(!left || self.member.commits && !self.marks.all_confirmed())
    }
}

/// The user's options, and those that Pelton always sets.
pub(crate) fn prepare<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Conf, Error> {
    let mut conf = config::build(settings)?;
    conf.set("enable.auto.offset.store", "false").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
    conf.set("log.queue", "true").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
    conf.set_events(event_types::REBALANCE | event_types::OFFSET_COMMIT | events::COMMON);
    Ok(conf)
}
