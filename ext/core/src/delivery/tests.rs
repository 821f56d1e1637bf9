use super::*;
use crate::events::{EventKind, Feed};
use crate::rd::{Origin, Report, report_unsent};
use std::sync::atomic::AtomicBool;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn flag() -> Arc<Flag> {
    Arc::new(Flag(AtomicBool::new(false)))
}

fn report(delivery: &Delivery, index: usize, error: i32) {
    report_unsent(
        delivery.slab(),
        delivery.position(index),
        Report { partition: 1, offset: 7, error, micros: 0 },
        true,
    );
}

fn publisher() -> (Arc<Feed>, Arc<ReportPublisher>) {
    let feed = Arc::default();
    let publisher = ReportPublisher::new(&feed, "p");
    (feed, publisher)
}

/// (delivery, position) of the failures published since the last call.
fn failures(feed: &Feed) -> Vec<(u64, u32)> {
    let handle = |kind| match kind {
        EventKind::DeliveryFailed { delivery, position, code: -192, .. } => (delivery, position),
        other => panic!("{other:?}"),
    };
    feed.take_all().into_iter().map(|event| handle(event.kind)).collect()
}

#[test]
fn message_without_a_report_has_no_place_in_kafka() {
    let delivery = Slabs::new("t".into(), None, publisher().1).next();
    assert_eq!(Outcomes { topic: "t".into(), partition: -1, offset: -1001, error: None }, delivery.outcome(0));
    report(&delivery, 0, 0);
    assert_eq!(Outcomes { topic: "t".into(), partition: 1, offset: 7, error: None }, delivery.outcome(0));
}

#[test]
fn reports_are_published_where_they_are_wanted() {
    let (feed, publisher) = publisher();
    let slabs = Slabs::new("t".into(), None, Arc::clone(&publisher));
    report(&slabs.next(), 0, 0);
    assert_eq!(0, feed.take_all().len());
    publisher.publish_reports(true, true);
    let (delivered, purged) = (slabs.next(), slabs.next());
    report(&delivered, 0, 0);
    report(&purged, 0, crate::rd::codes::PURGE_QUEUE);
    let kinds: Vec<_> = feed.take_all().into_iter().map(|event| event.kind).collect();
    let [EventKind::Acknowledged { partition: 1, offset: 7, delivery, .. }, EventKind::Purged { code, .. }, ..] =
        &kinds[..]
    else {
        panic!("{kinds:?}")
    };
    assert_eq!((delivered.id(), crate::rd::codes::PURGE_QUEUE), (*delivery, *code));
}

#[test]
fn handles_of_a_slab_are_each_for_themselves() {
    let (feed, publisher) = publisher();
    let slabs = Slabs::new("t".into(), None, publisher);
    let handles: Vec<Delivery> = (0..ROOM as usize * 2 + 1).map(|_| slabs.next()).collect();
    assert!(Arc::ptr_eq(handles[0].slab(), handles[63].slab()));
    assert!(!Arc::ptr_eq(handles[0].slab(), handles[64].slab()));
    let (first, second) = (flag(), flag());
    handles[0].add_waiter(first.clone());
    handles[1].add_waiter(second.clone());
    let _watch = handles[1].watch();
    report(&handles[1], 0, -192);
    report(&handles[2], 0, -192);
    assert_eq!(vec![(handles[2].id(), 0)], failures(&feed));
    assert!(second.0.load(Ordering::SeqCst) && !first.0.load(Ordering::SeqCst));
    assert_eq!([false, true], [handles[0].is_done(), handles[1].is_done()]);
    assert_eq!(Some(-192), handles[1].first_failure().and_then(|failed| failed.error).map(|error| error.code));
    report(&handles[0], 0, 0);
    assert_eq!([true, false], [handles[0].is_delivered(), handles[1].is_delivered()]);
    assert_eq!(None, handles[0].first_failure());
}

/// A batch has the last id of its slab; slabs of single messages have the first ones.
#[test]
fn ids_of_later_slabs_are_above_all_earlier_ones() {
    let (_feed, publisher) = publisher();
    let before = Slabs::new("t".into(), None, Arc::clone(&publisher)).next();
    let batch = Delivery::batch(vec!["t".into(); 3], None, Arc::clone(&publisher));
    let slabs = Slabs::new("t".into(), None, publisher);
    let after: Vec<_> = (0..ROOM * 2).map(|_| slabs.next().id()).collect();
    assert!(before.id() < batch.id());
    assert!(after.iter().all(|id| *id > batch.id()));
    assert!(after.windows(2).all(|two| two[0] < two[1]));
}

#[test]
fn a_slab_goes_with_its_last_handle_and_report() {
    let slabs = Slabs::new("t".into(), None, publisher().1);
    let handle = slabs.next();
    let slab = Arc::downgrade(handle.slab());
    let parts = handle.clone().into_parts();
    drop(slabs);
    report(&handle, 0, 0);
    drop(handle);
    assert!(Delivery::from_parts(parts.0, parts.1).is_delivered());
    assert!(slab.upgrade().is_none());
}

#[test]
fn a_batch_is_done_with_its_last_message() {
    let batch = Delivery::batch(vec!["a".into(), "b".into()], None, publisher().1);
    let waiter = flag();
    batch.add_waiter(waiter.clone());
    report(&batch, 1, 0);
    assert!(!batch.is_done() && !waiter.0.load(Ordering::SeqCst));
    report(&batch, 0, 3);
    assert!(batch.is_done() && !batch.is_delivered() && waiter.0.load(Ordering::SeqCst));
    let failed = batch.first_failure().expect("a failure");
    assert_eq!(("a", 1, 7), (&*failed.topic, failed.partition, failed.offset));
}

#[test]
fn a_batch_of_no_messages_is_done_and_leaves_nothing_behind() {
    let batch = Delivery::batch(vec![], None, publisher().1);
    assert_eq!((true, true, true, true), (batch.is_empty(), batch.is_done(), batch.is_settled(), batch.is_delivered()));
    let slab = Arc::downgrade(batch.slab());
    drop(batch);
    assert!(slab.upgrade().is_none());
}

#[test]
fn numbers_of_handles_do_not_come_again() {
    let (_, publisher) = publisher();
    let slabs = Slabs::new("t".into(), None, Arc::clone(&publisher));
    let mut ids: Vec<u64> = (0..500)
        .flat_map(|_| {
            let (one, batch) = (slabs.next(), Delivery::batch(vec!["t".into()], None, Arc::clone(&publisher)));
            report(&one, 0, 0);
            report(&batch, 0, 0);
            [one.id(), batch.id()]
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(1000, ids.len());
}

#[test]
fn failures_during_a_wait_that_times_out_are_reported_when_it_ends() {
    let (feed, publisher) = publisher();
    let batch = Delivery::batch((0..3).map(|_| "t".into()).collect(), None, publisher);
    let watch = batch.watch();
    report(&batch, 1, -192);
    assert!(failures(&feed).is_empty());
    drop(watch);
    assert_eq!(vec![(batch.id(), 1)], failures(&feed));
    drop(batch.watch());
    assert!(failures(&feed).is_empty(), "once");
    report(&batch, 0, -192);
    assert_eq!(vec![(batch.id(), 0)], failures(&feed));
    let watch = batch.watch();
    report(&batch, 2, -192);
    assert!(batch.is_done() && !batch.is_settled(), "a waiter may still give up");
    let other = batch.watch();
    watch.seen();
    assert!(!batch.is_settled());
    drop(other);
    assert!(failures(&feed).is_empty(), "the outcome reported it");
    assert!(batch.is_settled());
}

#[test]
fn one_of_two_waiting_threads_may_give_up() {
    let (feed, publisher) = publisher();
    let slabs = Slabs::new("t".into(), None, publisher);
    let (first, second) = (slabs.next(), slabs.next());
    for (one, events) in [(&first, 0), (&second, 1)] {
        let (stays, leaves) = (one.watch(), one.watch());
        drop(leaves);
        report(one, 0, -192);
        assert!(failures(&feed).is_empty());
        if events == 0 {
            stays.seen()
        } else {
            drop(stays)
        }
        assert_eq!(vec![(one.id(), 0); events], failures(&feed));
    }
}

#[test]
fn failure_before_the_wait_that_a_caller_expects_is_no_event() {
    let (feed, publisher) = publisher();
    let slabs = Slabs::new("t".into(), None, Arc::clone(&publisher));
    let handles = || [slabs.next(), Delivery::batch(vec!["t".into()], None, Arc::clone(&publisher))];
    for (index, delivery) in handles().into_iter().chain(handles()).enumerate() {
        delivery.expect_wait();
        report(&delivery, 0, -192);
        assert!(failures(&feed).is_empty() && delivery.is_done() && !delivery.is_settled());
        if index < 2 {
            delivery.watch().seen();
        } else {
            assert_eq!(Outcome::Ready, delivery.wait(&Parker::new(), None));
        }
        delivery.expect_no_wait();
        assert!(failures(&feed).is_empty() && delivery.is_settled(), "the outcome reported it");
    }
    for (index, delivery) in handles().into_iter().chain(handles()).enumerate() {
        delivery.expect_wait();
        report(&delivery, 0, -192);
        if index < 2 {
            delivery.expect_no_wait()
        } else {
            drop(delivery.watch())
        }
        assert_eq!(vec![(delivery.id(), 0)], failures(&feed), "the wait did not come, or had no outcome");
        delivery.expect_no_wait();
        assert!(failures(&feed).is_empty() && delivery.is_settled(), "once");
    }
    for delivery in handles() {
        let watch = delivery.watch();
        delivery.expect_wait();
        report(&delivery, 0, -192);
        drop(watch);
        assert!(failures(&feed).is_empty(), "another wait comes");
        let watch = delivery.watch();
        delivery.expect_wait();
        delivery.expect_no_wait();
        assert!(failures(&feed).is_empty(), "the other wait goes on");
        drop(watch);
        assert_eq!(vec![(delivery.id(), 0)], failures(&feed));
    }
}

#[test]
fn failure_of_any_message_before_the_wait_for_its_batch_is_no_event() {
    let (feed, publisher) = publisher();
    let batch = Delivery::batch(vec!["t".into(), "t".into()], None, publisher);
    batch.expect_wait();
    report(&batch, 1, -192);
    assert!(failures(&feed).is_empty());
    batch.expect_no_wait();
    assert_eq!(vec![(batch.id(), 1)], failures(&feed));
}

/// The feed's lock may have been held at the fork.
#[test]
fn a_forked_child_publishes_no_failure_of_its_parent() {
    let (feed, publisher) = publisher();
    let mut batch = Delivery::batch(vec!["t".into()], None, publisher);
    batch.expect_wait();
    report(&batch, 0, -192);
    Arc::get_mut(&mut batch.slab).expect("its only owner").origin = Origin::of_another_process();
    batch.expect_no_wait();
    assert!(failures(&feed).is_empty());
}

#[test]
fn unsent_messages_without_a_report_are_not_reported() {
    let (feed, publisher) = publisher();
    let batch = Delivery::batch(vec!["t".into(), "t".into()], None, publisher);
    let watch = batch.watch();
    report_unsent(batch.slab(), 0, Report { partition: -1, offset: -1001, error: -152, micros: 0 }, false);
    drop(watch);
    report_unsent(batch.slab(), 1, Report { partition: -1, offset: -1001, error: -152, micros: 0 }, false);
    assert!(failures(&feed).is_empty());
}

#[test]
fn failure_beside_starting_and_ending_waits_is_reported_once() {
    for round in 0..2_000 {
        let (feed, publisher) = publisher();
        let count = if round % 2 == 0 { 1 } else { 3 };
        let batch = Delivery::batch((0..count).map(|_| "t".into()).collect(), None, Arc::clone(&publisher));
        let single = Slabs::new("t".into(), None, publisher).next();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..5).for_each(|_| drop((batch.watch(), single.watch()))));
                scope.spawn(|| {
                    (0..5).for_each(|_| {
                        [&batch, &single].into_iter().for_each(|one| {
                            one.expect_wait();
                            one.expect_no_wait();
                        })
                    })
                });
            }
            scope.spawn(|| {
                (0..count).for_each(|index| report(&batch, index, -192));
                report(&single, 0, -192);
            });
        });
        let mut events = failures(&feed);
        events.sort_unstable();
        let mut expected: Vec<_> = (0..count as u32).map(|index| (batch.id(), index)).collect();
        expected.push((single.id(), 0));
        expected.sort_unstable();
        assert_eq!(expected, events, "round {round}");
    }
}

/// A waiter that is woken first and checks then would sleep again forever.
#[test]
fn a_delivery_is_done_before_its_waiters_are_woken() {
    struct Looks(Delivery, AtomicBool);
    impl Wake for Looks {
        fn wake(&self) {
            self.1.store(self.0.is_done() && self.0.is_reported(0), Ordering::SeqCst);
        }
    }
    let (_, publisher) = publisher();
    let batch = Delivery::batch(vec!["t".into(), "t".into()], None, Arc::clone(&publisher));
    for delivery in [Slabs::new("t".into(), None, publisher).next(), batch] {
        let waiter = Arc::new(Looks(delivery.clone(), AtomicBool::new(false)));
        delivery.add_waiter(waiter.clone());
        (0..delivery.len()).for_each(|index| report(&delivery, index, 0));
        assert!(waiter.1.load(Ordering::SeqCst), "of {}", delivery.len());
        let waker: Arc<dyn Wake> = waiter;
        delivery.remove_waiter(&waker);
    }
}

/// Middleware gets each report, whoever waits. Of a message without room in the queue, the caller knows.
#[test]
fn a_delivery_that_publishes_its_reports_makes_each_an_event() {
    let (feed, publisher) = publisher();
    let plain = Delivery::batch(vec!["t".into()], None, Arc::clone(&publisher));
    report(&plain, 0, 0);
    assert_eq!((0, false), (feed.take_all().len(), publisher.times_reports()));
    let batch = Delivery::batch(vec!["t".into(); 3], None, Arc::clone(&publisher));
    batch.publish_reports();
    assert!(publisher.times_reports());
    let _watch = batch.watch();
    report(&batch, 1, 0);
    report(&batch, 2, -192);
    report(&batch, 0, crate::rd::codes::QUEUE_FULL);
    let published = feed.take_all().into_iter().map(|event| match event.kind {
        EventKind::Reported { code, partition, offset, delivery, position, .. } => {
            (code, partition, offset, delivery, position)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(vec![(0, 1, 7, batch.id(), 1), (-192, 1, 7, batch.id(), 2)], published.collect::<Vec<_>>());
}

#[test]
fn messages_of_a_batch_keep_their_topics() {
    let [first, second]: [Arc<str>; 2] = ["a".into(), "b".into()];
    for topics in [[&first, &first, &second], [&second, &first, &first], [&first, &first, &first]] {
        let batch = Delivery::batch(topics.map(Arc::clone).to_vec(), None, publisher().1);
        (0..3).for_each(|index| report(&batch, index, 0));
        assert_eq!(topics.map(Arc::clone), [0, 1, 2].map(|index| batch.outcome(index).topic));
    }
}
