//! A subscription: one librdkafka client whose partitions are read one by one on the event thread, into batches in native
//! memory. What happens comes to the owner through one mailbox.

mod leaving;
mod positions;
mod pulse;
mod rejoining;

use crate::closing::{CALLS_WAIT, Closing};
use crate::error::{Error, KafkaError, check};
use crate::filter::Filter;
use crate::format::Format;
use crate::mailbox::Mailbox;
use crate::partition::{Batch, Limits, Partition, Taken};
pub use crate::places::TopicPartition;
use crate::places::{bad_topic, names, offsets};
use crate::poller::{Poller, Polling, Source};
use crate::rd::{Client, ClientKind, Commit, Conf, Event, Fetched, PartitionList, Queue, Token, codes, generation};
use crate::wait::Waiters;
use crate::{config, events, lock};
pub use leaving::Unconfirmed;
use leaving::{Marks, Membership};
pub use positions::{Committed, End};
use pulse::Pulse;
use rdkafka_sys as sys;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MAIN_QUEUE: u32 = 0;
const GROUP_QUEUE: u32 = 1;
const FIRST_PARTITION: u32 = 2;

/// What a subscription tells its owner.
pub enum SubscriptionEvent {
    Batch(Batch),
    Assigned(Vec<TopicPartition>),
    /// To be answered with `revoked(token)` when the owner has let go; until then the partitions stay assigned, unread.
    Revoked {
        token: u64,
        partitions: Vec<TopicPartition>,
        lost: bool,
    },
    /// The offset is the one that the next message will have.
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
    /// Revocations not yet answered: token → what to give back.
    revoking: HashMap<u64, PartitionList>,
}

pub struct Subscription {
    name: String,
    poller: Arc<Poller>,
    id: u32,
    options: Options,
    member: Membership,
    /// `None`: librdkafka looks after its heartbeats.
    pulse: Option<Pulse>,
    /// What is marked and not confirmed.
    marks: Marks,
    mailbox: Mailbox<SubscriptionEvent>,
    /// Emptied when closed. Never held while librdkafka is called for long.
    live: Mutex<Option<LiveSubscription>>,
    last_token: AtomicU64,
    /// Woken when something of a closing has moved on.
    progress: Waiters,
    closing: Arc<Closing>,
    /// librdkafka was told to leave the group: it takes every assignment for an unassignment.
    leaving: AtomicBool,
    /// It unsubscribes before it leaves: revocations are answered at once.
    stepping_down: AtomicBool,
    /// The owner wants to be of the group: the end of an assignment is the beginning of a join.
    subscribed: AtomicBool,
    /// The group is being joined: between a subscription or the end of an assignment and the next.
    joining: AtomicBool,
    made_in: u64,
}

impl Subscription {
    /// Starts a subscription; `settings` are librdkafka's, which must not switch on its own storing of offsets: a message
    /// is marked by its owner, when it is done with.
    pub fn new<'a>(
        name: &str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
        options: Options,
        polling: impl Into<Polling>,
    ) -> Result<Arc<Self>, Error> {
        let Polling { poller, max_time } = polling.into();
        let mut options = options;
        let mut conf = prepare(settings)?;
        let member = Membership::of(&conf);
        options.limits.singly = member.reads_singly;
        let pulse = member.heartbeats.then(|| Pulse::of(&mut conf, options.silence));
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
            };
            Arc::new(Self {
                name: name.into(),
                poller: Arc::clone(&poller),
                id,
                options,
                member,
                pulse,
                marks: Marks::default(),
                mailbox: Mailbox::default(),
                live: Mutex::new(Some(live)),
                last_token: AtomicU64::new(0),
                progress: Waiters::default(),
                closing: Arc::default(),
                leaving: AtomicBool::new(false),
                stepping_down: AtomicBool::new(false),
                subscribed: AtomicBool::new(false),
                joining: AtomicBool::new(false),
                made_in: generation(),
            })
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a forked child's calls of its parent's subscription are answered with.
    pub fn check_origin(&self) -> Result<(), Error> {
        if self.is_foreign() { Err(Error::forked(self.made_in)) } else { Ok(()) }
    }

    /// Whether this is a forked child's view of its parent's subscription.
    pub fn is_foreign(&self) -> bool {
        self.made_in != generation()
    }

    pub(crate) fn client(&self) -> Result<Arc<Client>, Error> {
        if self.closing.started() && !self.is_foreign() {
            return Err(Error::Closed);
        }
        self.with_client(Arc::clone)
    }

    /// Calls librdkafka in passing, also while it is being closed.
    pub fn with_client<R>(&self, call: impl FnOnce(&Arc<Client>) -> R) -> Result<R, Error> {
        self.check_origin()?;
        lock(&self.live).as_ref().map(|live| call(&live.client)).ok_or(Error::Closed)
    }

    /// Joins the group for these topics (`^…` is a pattern), instead of those before.
    pub fn subscribe<'a>(&self, topics: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        let list = PartitionList::plain(topics.into_iter().map(|topic| (topic, -1))).map_err(bad_topic)?;
        let client = self.client()?;
        // Before it: the assignment may come at once.
        let before = self.subscribed.swap(true, Ordering::SeqCst);
        self.joining.store(true, Ordering::SeqCst);
        check(client.subscribe(&list)).inspect_err(|_| {
            self.subscribed.store(before, Ordering::SeqCst);
            self.joining.store(false, Ordering::SeqCst);
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
        let list = offsets(partitions.iter().map(|(topic, partition, offset)| (*topic, *partition, *offset, -1)))?;
        self.shut_partitions(None);
        let made = self.make_partitions(&client, &list);
        check(client.assign(Some(&list)))?;
        self.marks.clear();
        // Not before: what is there is of the assignment that just ended.
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
        let Some((list, client)) = taken else { return Ok(()) };
        self.release(&client, &list)
    }

    fn release(&self, client: &Client, list: &PartitionList) -> Result<(), Error> {
        if client.assignment_lost() {
            positions::unstore(client, list);
        }
        if self.leaving.load(Ordering::SeqCst) {
            return check(client.assign(None));
        }
        self.joining.store(self.subscribed.load(Ordering::SeqCst), Ordering::SeqCst);
        let result = match client.rebalance_protocol().as_ref() {
            "COOPERATIVE" => client.incremental_unassign(list).map_err(Error::from),
            _ => check(client.assign(None)),
        };
        self.marks.forget(list); // after it, for nothing of them can be marked any more
        result
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

    /// On the closing thread. Returns 1 when Kafka did not confirm in time that the last marks are committed and the group
    /// is left.
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
        self.mailbox.push(SubscriptionEvent::Closed);
        usize::from(!left || self.member.commits && !self.marks.is_empty())
    }

    // ---- on the event thread

    fn rebalance(&self, client: &Arc<Client>, event: &Event) {
        let list = event.partitions().unwrap_or_default();
        match event.error() {
            _ if self.leaving.load(Ordering::SeqCst) => self.report(check(client.assign(None)), None),
            codes::ASSIGN_PARTITIONS => {
                let made = self.make_partitions(client, &list);
                let result = if client.rebalance_protocol() == "COOPERATIVE" {
                    client.incremental_assign(&list).map_err(Error::from)
                } else {
                    check(client.assign(Some(&list)))
                };
                self.joining.store(false, Ordering::SeqCst);
                let place = |made: &Arc<Partition>| (Arc::clone(&made.topic), made.number);
                self.mailbox.push(SubscriptionEvent::Assigned(made.iter().map(place).collect()));
                if !self.closing.started() {
                    made.iter().for_each(|partition| partition.open());
                }
                self.report(result, None);
            }
            codes::REVOKE_PARTITIONS => {
                let partitions = names(&list);
                self.shut_partitions(Some(&partitions));
                let lost = client.assignment_lost();
                let token = self.last_token.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(live) = lock(&self.live).as_mut() {
                    live.revoking.insert(token, list);
                }
                if !self.closing.started() {
                    self.mailbox.push(SubscriptionEvent::Revoked { token, partitions, lost });
                }
                // A close does it, once its last commit is over; one that is over has not seen this token.
                if self.leaving.load(Ordering::SeqCst) || self.stepping_down.load(Ordering::SeqCst) {
                    self.report(self.revoked(token), None);
                }
            }
            // An error of the rebalance: answered as librdkafka asks for, by giving everything up.
            _ => self.report(check(client.assign(None)), None),
        }
    }

    fn report(&self, result: Result<(), Error>, partition: Option<TopicPartition>) {
        if let Err(Error::Kafka(error)) = result {
            self.mailbox.push(SubscriptionEvent::Error { error, partition });
        }
    }

    /// Cuts the queues of these partitions off, before they are assigned; they are to be opened after that.
    fn make_partitions(&self, client: &Arc<Client>, list: &PartitionList) -> Vec<Arc<Partition>> {
        let mut all = Vec::new();
        let mut guard = lock(&self.live);
        let Some(live) = guard.as_mut() else { return all };
        for entry in list.entries() {
            let topic: Arc<str> = entry.topic.as_str().into();
            let formats = &self.options.formats;
            let format = formats.get(&entry.topic).or_else(|| formats.get("*")).cloned();
            let format = format.unwrap_or_else(|| Format::LAZY.into());
            let filters = &self.options.filters;
            let filter = filters.get(&entry.topic).or_else(|| filters.get("*")).cloned().flatten();
            let index = live.last_index;
            live.last_index += 1;
            let (limits, token) = (self.options.limits, Token { client: self.id, queue: index });
            let (number, offset) = (entry.partition, entry.offset);
            let made = Partition::new(client, topic, number, offset, format, filter, limits, &self.poller, token);
            if let Some(partition) = made {
                live.partitions.insert(index, Arc::clone(&partition));
                all.push(partition);
            }
        }
        all
    }

    /// Stops reading these partitions (all: `None`) and drops what of them nobody took.
    fn shut_partitions(&self, which: Option<&[TopicPartition]>) {
        let concerned = |topic: &Arc<str>, number: i32| {
            which.is_none_or(|list| list.iter().any(|(name, partition)| name == topic && *partition == number))
        };
        if let Some(live) = lock(&self.live).as_mut() {
            live.partitions.retain(|_, partition| {
                let goes = concerned(&partition.topic, partition.number);
                if goes {
                    partition.close();
                }
                !goes
            });
        }
        self.mailbox.retain(|event| match event {
            SubscriptionEvent::Batch(batch) => !concerned(&batch.topic, batch.partition),
            SubscriptionEvent::EndOfPartition { topic, partition, .. } => !concerned(topic, *partition),
            _ => true,
        });
    }

    /// Serves the main or the group queue; true when it is empty.
    fn serve_events(&self, client: &Arc<Client>, queue: &Queue, deadline: Instant) -> bool {
        while let Some(event) = queue.poll() {
            match event.kind() {
                sys::RD_KAFKA_EVENT_REBALANCE => self.rebalance(client, &event),
                sys::RD_KAFKA_EVENT_ERROR => {
                    let partition = event.partition().map(|(topic, number)| (topic.into(), number));
                    self.mailbox.push(SubscriptionEvent::Error { error: KafkaError::of(&event), partition });
                    if rejoining::is_due(&event) {
                        self.report(self.join_anew(client), None);
                    }
                }
                sys::RD_KAFKA_EVENT_OFFSET_COMMIT => {
                    self.marks.heard(&Commit::of(&event), None);
                    if !matches!(event.error(), 0 | codes::NO_OFFSET) {
                        let error = KafkaError::with_reason(event.error(), event.error_text());
                        self.mailbox.push(SubscriptionEvent::Error { error, partition: None });
                    }
                }
                sys::RD_KAFKA_EVENT_STATS if self.feel(client, &event) => {}
                _ => events::emit_common(self.poller.events(), &self.name, &event),
            }
            self.progress.wake_all();
            if Instant::now() >= deadline {
                return false;
            }
        }
        self.progress.wake_all();
        true
    }

    /// Takes batches of a partition until it has no more or its credit is spent; true then.
    fn serve_partition(&self, partition: &Partition, fetched: &mut Fetched, deadline: Instant) -> bool {
        let place = || (Arc::clone(&partition.topic), partition.number);
        let hand_on = |taken| {
            self.mailbox.push(match taken {
                Taken::Batch(batch) => SubscriptionEvent::Batch(batch),
                Taken::Notice(codes::PARTITION_EOF, _, offset) => {
                    let (topic, partition) = place();
                    SubscriptionEvent::EndOfPartition { topic, partition, offset }
                }
                Taken::Notice(code, reason, _) => {
                    SubscriptionEvent::Error { error: KafkaError::with_reason(code, reason), partition: Some(place()) }
                }
            });
        };
        while partition.read(fetched, hand_on) {
            if Instant::now() >= deadline {
                return false;
            }
        }
        true
    }
}

impl Source for Subscription {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        let mut fetched = Fetched::new();
        queues.retain(|index| {
            let (client, queue, partition) = {
                let guard = lock(&self.live);
                let Some(live) = guard.as_ref() else { return false };
                let queue = match *index {
                    MAIN_QUEUE => Some(Arc::clone(&live.main)),
                    GROUP_QUEUE => live.group.clone(),
                    _ => None,
                };
                (Arc::clone(&live.client), queue, live.partitions.get(index).cloned())
            };
            let empty = match (queue, partition) {
                (Some(queue), _) => self.serve_events(&client, &queue, deadline),
                (None, Some(partition)) => self.serve_partition(&partition, &mut fetched, deadline),
                (None, None) => true,
            };
            !empty
        });
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        queues.extend([MAIN_QUEUE, GROUP_QUEUE]);
        queues.extend(lock(&self.live).iter().flat_map(|live| live.partitions.keys().copied()));
    }
}

/// The user's options, and what the design needs of librdkafka whatever they say.
pub(crate) fn prepare<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Conf, Error> {
    let mut conf = config::build(settings)?;
    conf.set("enable.auto.offset.store", "false").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
    conf.set("log.queue", "true").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
    conf.set_events(sys::RD_KAFKA_EVENT_REBALANCE | sys::RD_KAFKA_EVENT_OFFSET_COMMIT | events::COMMON);
    Ok(conf)
}
