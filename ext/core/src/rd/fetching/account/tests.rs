use super::*;

/// Of fetched messages. The whole budget is four times that.
const LIMIT: usize = 1_000_000;
const SECOND: i64 = 1_000_000;

/// Partitions of one process: librdkafka's queue number 3 is of its partition number 3.
#[derive(Default)]
struct World {
    account: Account,
    ids: Vec<Watched>,
    /// Messages in each queue.
    queued: Vec<usize>,
    now: i64,
    limit: usize,
}

impl World {
    fn of(count: usize) -> Self {
        let mut world = Self { queued: vec![0; count], now: SECOND, limit: LIMIT, ..Self::default() };
        world.ids = (0..count).map(|number| world.account.watch(number, number, world.now)).collect();
        world
    }

    /// A batch of messages of 1,000 bytes.
    fn read(&mut self, number: usize, messages: usize, rest: usize) {
        self.account.read(self.ids[number], QueueRead { bytes: messages * 1_000, messages, rest }, self.now);
    }

    fn give_back(&mut self, number: usize, messages: usize) {
        self.account.give_back(self.ids[number], messages * 1_000, self.now);
    }

    fn pass(&mut self, time: i64) {
        self.now += time;
    }

    /// The partitions that may be fetched a moment later.
    fn open(&mut self) -> Vec<usize> {
        self.pass(VALID * self.queued.len() as i64);
        let (queued, now, limit) = (self.queued.clone(), self.now, self.limit);
        (0..queued.len()).filter(|number| self.account.is_open(*number, limit, now, |queue| queued[queue])).collect()
    }

    fn waiting(&self) -> usize {
        self.account.waiting(|queue| self.queued[queue])
    }
}

/// A broker brings a small fetch in a tenth of a millisecond.
#[test]
fn a_few_partitions_are_counted_each_time_and_many_once_a_while() {
    let mut world = World::of(1);
    assert_eq!(vec![0], world.open());
    world.read(0, 1_000, 0);
    assert_eq!(Vec::<usize>::new(), world.open(), "a microsecond later");

    let mut world = World::of(1_000);
    assert_eq!(1_000, world.open().len());
    world.read(0, 1_000, 0);
    world.now -= 1;
    assert_eq!(1_000, world.open().len(), "999 microseconds later");
    world.now -= 999;
    assert_eq!(0, world.open().len(), "a millisecond after the count");
}

#[test]
fn all_are_fetched_until_the_limit_is_reached() {
    let mut world = World::of(3);
    world.read(0, 999, 0);
    assert_eq!(vec![0, 1, 2], world.open());
    world.read(1, 1, 0);
    assert_eq!(Vec::<usize>::new(), world.open());
    world.give_back(0, 1);
    assert_eq!(vec![0, 1, 2], world.open());
}

#[test]
fn messages_that_wait_count_with_their_place_in_the_queue() {
    let mut world = World::of(2);
    world.read(0, 1, 0);
    world.give_back(0, 1);
    world.queued[0] = 714;
    assert_eq!(714 * (1_000 + ENTRY), world.waiting());
    assert_eq!(vec![0, 1], world.open());
    world.queued[0] = 715;
    assert_eq!(Vec::<usize>::new(), world.open());
}

#[test]
fn messages_of_a_partition_that_was_not_read_have_the_size_of_the_last_ones() {
    let mut world = World::of(2);
    world.queued[1] = 3;
    assert_eq!(3 * ENTRY, world.waiting(), "nothing is known yet");
    world.read(0, 10, 0);
    assert_eq!(3 * (1_000 + ENTRY), world.waiting());
}

/// They were held for as long as their partition's credit was spent, and nothing counted them.
#[test]
fn messages_that_had_no_room_in_the_last_batch_count_until_they_are_dropped() {
    let mut world = World::of(2);
    world.read(0, 10, 720);
    assert_eq!(720 * (1_000 + ENTRY), world.waiting());
    assert_eq!(Vec::<usize>::new(), world.open());
    world.pass(2 * SECOND);
    world.give_back(0, 10);
    world.pass(2 * SECOND);
    assert_eq!(vec![1], world.open(), "partition 0 is not empty");
    world.account.drop_rest(world.ids[0]);
    assert_eq!((0, vec![0, 1]), (world.waiting(), world.open()));
}

#[test]
fn what_a_stuck_partition_holds_does_not_count_for_one_that_has_nothing() {
    let mut world = World::of(4);
    world.read(0, 1_000, 0);
    world.queued[1] = 1;
    world.pass(STUCK);
    assert_eq!(vec![2, 3], world.open());
    world.read(2, 999, 0);
    assert_eq!(vec![3], world.open());
    world.read(2, 1, 0);
    assert_eq!(Vec::<usize>::new(), world.open(), "those that move are at the limit");
}

#[test]
fn stuck_partitions_hold_up_all_when_they_fill_the_whole_budget() {
    let mut world = World::of(3);
    world.read(0, 3_999, 0);
    world.pass(2 * STUCK);
    assert_eq!(vec![1, 2], world.open());
    world.read(1, 1, 0);
    world.pass(2 * STUCK);
    assert_eq!(Vec::<usize>::new(), world.open());
    world.give_back(1, 1);
    assert_eq!(vec![1, 2], world.open());
}

/// All quiet partitions that got messages at once were fetched until the whole budget was full.
#[test]
fn quiet_partition_that_gets_messages_is_not_stuck() {
    let mut world = World::of(3);
    world.pass(60 * SECOND);
    assert_eq!(vec![0, 1, 2], world.open());
    world.queued[0] = 2_500;
    assert_eq!(Vec::<usize>::new(), world.open());
    world.pass(STUCK);
    assert_eq!(vec![1, 2], world.open());
}

#[test]
fn what_a_forgotten_partition_held_does_not_count() {
    let mut world = World::of(2);
    world.read(0, 600, 0);
    world.read(1, 600, 7);
    world.account.forget(world.ids[1]);
    world.give_back(1, 600);
    assert_eq!((600_000, 0), (world.account.batches(), world.waiting()));
    assert_eq!(vec![0, 1], world.open());
    world.give_back(0, 600);
    assert_eq!(0, world.account.batches());
}

/// A partition is assigned again before the queue of its last assignment is forgotten.
#[test]
fn partition_is_its_newest_queue() {
    let mut world = World::of(2);
    world.read(0, 1_000, 0);
    world.pass(2 * STUCK);
    let first = std::mem::replace(&mut world.ids[0], world.account.watch(0, 0, world.now));
    assert_eq!(vec![0, 1], world.open());
    world.account.forget(first);
    world.read(0, 1_000, 0);
    world.pass(2 * STUCK);
    assert_eq!(vec![1], world.open());
}

/// librdkafka would fill the queue of a revoked partition while its last job runs.
#[test]
fn closed_partition_is_not_fetched_until_it_is_watched_again() {
    let mut world = World::of(2);
    world.account.close(world.ids[0]);
    assert_eq!(vec![1], world.open());
    assert!(!world.account.is_open(0, usize::MAX, world.now, |_| 0), "also without a limit");
    let first = std::mem::replace(&mut world.ids[0], world.account.watch(0, 0, world.now));
    assert_eq!(vec![0, 1], world.open());
    world.account.close(first);
    assert_eq!(vec![0, 1], world.open(), "that was the queue before");
}

/// All partitions but the first have nothing.
#[test]
fn a_partition_whose_consumer_finishes_little_waits_with_one_fetch() {
    let mut world = World { limit: usize::MAX - 1, ..World::of(2) };
    world.read(0, 1, 0);
    world.queued[0] = ENOUGH / (1_000 + ENTRY);
    assert_eq!(vec![0, 1], world.open());
    world.queued[0] += 1;
    assert_eq!(vec![1], world.open());
}

/// A broker that waits for the quiet partition would let the busy one run dry.
#[test]
fn a_partition_beside_a_quiet_one_may_have_what_its_consumer_finished_of_late() {
    let mut world = World { limit: usize::MAX - 1, ..World::of(2) };
    world.read(0, 14_000, 0);
    world.give_back(0, 14_000);
    world.queued[0] = 14_000;
    assert_eq!(vec![0, 1], world.open());
    world.queued[0] += 1;
    assert_eq!(vec![1], world.open());
}

#[test]
fn busy_partitions_may_have_a_quarter_of_what_their_consumers_finished_of_late() {
    let mut world = World { limit: usize::MAX - 1, ..World::of(2) };
    world.read(0, 14_000, 0);
    world.give_back(0, 14_000);
    world.queued = vec![3_500, 1];
    assert_eq!(vec![0, 1], world.open());
    world.queued[0] += 1;
    assert_eq!(vec![1], world.open());
    world.read(1, 1, 0);
    world.queued[1] = 0;
    assert_eq!(vec![1], world.open(), "it is not quiet: its batch is out");
}
