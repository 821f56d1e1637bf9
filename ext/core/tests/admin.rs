//! The clients of an administrator: which question goes to which, and what a question costs that gets no answer.

mod support;

use pelton_core::admin::{Admin, Call};
use pelton_core::error::{Error, KafkaError};
use pelton_core::poller::Poller;
use pelton_core::rd::{Answer, Request, codes};
use pelton_core::wait::{self, Outcome, Parker};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

fn admin(servers: &str) -> Arc<Admin> {
    let options = [("bootstrap.servers", servers), ("log_level", "0")];
    Admin::new("test", options, Poller::global().expect("a pipe")).expect("an administrator")
}

/// Names of its clients: librdkafka gives each another one.
fn clients(admin: &Admin) -> Vec<String> {
    let mut names = Vec::new();
    admin.with_clients(|client| names.push(client.name())).expect("open");
    names
}

fn ask(admin: &Admin, request: &Request) -> Arc<Call> {
    admin.ask(request, SECONDS).expect("asked")
}

fn answer(admin: &Admin, request: &Request) -> Result<Answer, KafkaError> {
    let call = ask(admin, request);
    assert_eq!(Outcome::Ready, call.wait(&Parker::new(), wait::deadline(Some(SECONDS))), "no answer in time");
    call.answer().expect("it is done")
}

fn close(admin: &Arc<Admin>) {
    admin.close().expect("ours");
    assert_eq!(Outcome::Ready, admin.closing().wait(&Parker::new(), wait::deadline(Some(SECONDS))));
}

fn offsets_of(group: &str) -> Request {
    Request::GroupOffsets(group.into())
}

const NOWHERE: &str = "127.0.0.1:1";

fn timed_out(admin: &Admin, call: &Call) {
    assert_eq!(Some(codes::TIMED_OUT), admin.give_up(call).err().map(|error| error.code));
}

/// Its client still connects, so the next question finds it further on.
#[test]
fn a_question_that_is_given_up_keeps_its_client_and_a_change_costs_it() {
    let admin = admin(NOWHERE);
    let first = clients(&admin);
    assert_eq!((1, true, false), {
        (first.len(), admin.is_prepared(&Request::ListGroups), admin.is_prepared(&offsets_of("g")))
    });
    timed_out(&admin, &ask(&admin, &Request::ListGroups));
    assert_eq!(first, clients(&admin));

    let (one, other) = (ask(&admin, &offsets_of("g")), ask(&admin, &offsets_of("h")));
    let both = clients(&admin);
    assert_eq!((2, true), (both.len(), admin.is_prepared(&offsets_of("g"))));
    timed_out(&admin, &one);
    assert_eq!(both, clients(&admin));
    timed_out(&admin, &ask(&admin, &Request::DeleteGroup("g".into())));
    assert_eq!((2, false), (clients(&admin).len(), admin.is_prepared(&offsets_of("g"))), "the other question is open");
    timed_out(&admin, &other);
    assert_eq!(first, clients(&admin));
    close(&admin);
}

/// Nobody gives these up: librdkafka does, after the time that it was given.
#[test]
fn a_question_for_the_cluster_ends_by_itself_when_its_time_is_over() {
    let admin = admin(NOWHERE);
    let end = Request::ListOffsets(vec![("t".into(), 0, -1)], false);
    let call = admin.ask(&end, Duration::from_millis(50)).expect("asked");
    assert_eq!(Outcome::Ready, call.wait(&Parker::new(), wait::deadline(Some(SECONDS))));
    assert_eq!(Some(codes::TIMED_OUT), call.answer().and_then(Result::err).map(|error| error.code));
    let Some(Error::Kafka(error)) = admin.topics(Duration::from_millis(50)).err() else { panic!("no error") };
    assert!([codes::TIMED_OUT, codes::TRANSPORT].contains(&error.code), "{error:?}");
    let longest = admin.ask(&end, Duration::MAX).expect("asked, though librdkafka's time is shorter");
    assert!(admin.give_up(&longest).is_err());
    close(&admin);
}

/// librdkafka would send all of them when a broker returns.
#[test]
fn a_client_keeps_64_questions_that_were_given_up() {
    let admin = admin(NOWHERE);
    let give_up = || timed_out(&admin, &ask(&admin, &offsets_of("g")));
    give_up();
    let first = clients(&admin);
    (1..64).for_each(|_| give_up());
    assert_eq!(first, clients(&admin));
    give_up();
    assert_eq!(1, clients(&admin).len());
    close(&admin);
}

/// librdkafka has an hour for a question, and an administrator waits up to 20 minutes for an answer. A client that
/// keeps a question for longer than the rest would end it while another one waits: the process aborts (librdkafka
/// issue 4605).
#[test]
fn a_client_with_a_question_that_was_given_up_goes_on_for_30_minutes() {
    const MINUTE: Duration = Duration::from_secs(60);
    let admin = admin(NOWHERE);
    let before = Instant::now();
    timed_out(&admin, &ask(&admin, &offsets_of("old")));
    let both = clients(&admin);
    timed_out(&admin, &ask(&admin, &Request::ListGroups));
    admin.retire_overdue(before + 30 * MINUTE);
    assert_eq!(both, clients(&admin), "not yet");
    let open = ask(&admin, &offsets_of("new"));
    let after = Instant::now() + 30 * MINUTE + Duration::from_millis(1);
    admin.retire_overdue(after);
    assert_eq!(
        (2, false),
        (clients(&admin).len(), admin.is_prepared(&offsets_of("new"))),
        "it answers the open question"
    );
    timed_out(&admin, &open);
    assert_eq!(both[..1], clients(&admin)[..]);
    timed_out(&admin, &ask(&admin, &offsets_of("old")));
    let next = clients(&admin);
    assert_eq!((2, false), (next.len(), next[1] == both[1]), "the next question has another client");
    admin.retire_overdue(Instant::now() + 20 * MINUTE);
    assert_eq!(next, clients(&admin));
    close(&admin);
}

/// Its connection may be lost, or its coordinator another one by now.
#[test]
fn a_client_that_answered_for_a_group_and_falls_silent_is_replaced() {
    let cluster = cluster("t", 1);
    let admin = admin(&cluster.bootstrap_servers());
    answer(&admin, &offsets_of("g")).expect("an answer");
    let both = clients(&admin);
    cluster.broker_down(1).expect("down");
    timed_out(&admin, &ask(&admin, &offsets_of("h")));
    assert_eq!(both, clients(&admin), "it is looking for the coordinator of h");
    timed_out(&admin, &ask(&admin, &offsets_of("g")));
    assert_eq!(both[..1], clients(&admin)[..]);
    close(&admin);
}

#[test]
fn a_change_waits_until_its_client_has_an_answer_for_its_group() {
    let cluster = cluster("t", 1);
    let admin = admin(&cluster.bootstrap_servers());
    let change = |group: &str| Request::AlterGroupOffsets(group.into(), vec![("t".into(), 0, 1)], vec![String::new()]);
    let before = |request| match admin.question_before(&request) {
        Some(Request::GroupOffsets(group)) => Some(group),
        Some(_) => panic!("another question"),
        None => None,
    };
    assert_eq!(Some("g".to_owned()), before(change("g")));
    assert_eq!(None, before(offsets_of("g")));
    answer(&admin, &offsets_of("g")).expect("an answer");
    assert_eq!((None, Some("h".to_owned())), (before(change("g")), before(change("h"))));
    admin.renew().expect("open");
    assert_eq!(Some("g".to_owned()), before(change("g")));
    close(&admin);
}

#[test]
fn a_renewed_administrator_asks_with_another_client() {
    let admin = admin(NOWHERE);
    let first = clients(&admin);
    let waiting = ask(&admin, &Request::ListGroups);
    admin.renew().expect("open");
    let both = clients(&admin);
    assert_eq!((2, true), (both.len(), both.contains(&first[0])), "the first one still has a question");
    assert!(admin.give_up(&waiting).is_err());
    admin.renew().expect("open");
    let last = clients(&admin);
    assert!(last.len() == 1 && !both.contains(&last[0]), "{last:?} after {both:?}");
    close(&admin);
}

#[test]
fn a_close_ends_questions_and_refuses_new_ones() {
    let admin = admin(NOWHERE);
    let waiting = [ask(&admin, &Request::ListGroups), ask(&admin, &offsets_of("g"))];
    close(&admin);
    for call in waiting {
        assert_eq!(Some(codes::DESTROY), call.answer().and_then(Result::err).map(|error| error.code));
        assert_eq!(Some(codes::DESTROY), admin.give_up(&call).err().map(|error| error.code), "it has its answer");
    }
    assert_eq!(Some(Error::Closed), admin.ask(&Request::ListGroups, SECONDS).err());
    assert_eq!(Some(Error::Closed), admin.renew().err());
    assert_eq!(Some(Error::Closed), admin.topics(SECONDS).err());
}

#[test]
fn answers_of_both_sides_are_kafkas() {
    let cluster = cluster("t", 2);
    cluster.create_topic("u", 1).expect("a topic");
    let admin = admin(&cluster.bootstrap_servers());
    let writer = producer(&cluster.bootstrap_servers(), &[]);
    produce_all(&writer, "t", 1, &vec![b"x".to_vec(); 3]);
    close_producer(&writer);
    let mut topics = admin.topics(SECONDS).expect("an answer");
    topics.sort();
    assert_eq!(["t", "u"], topics[..]);
    let ends = Request::ListOffsets(vec![("t".into(), 0, -1), ("t".into(), 1, -1)], false);
    let Ok(Answer::List(rows)) = answer(&admin, &ends) else { panic!("no list") };
    let mut found: Vec<_> = rows.iter().map(end).collect();
    found.sort_unstable();
    assert_eq!(vec![(0, 3), (1, 0)], found);
    assert_eq!(1, clients(&admin).len());
    let _ = answer(&admin, &offsets_of("g"));
    assert_eq!(2, clients(&admin).len(), "an answered question costs nothing");
    close(&admin);
}

/// Partition and offset of a row, which has no error.
fn end(row: &Answer) -> (i64, i64) {
    let Answer::List(columns) = row else { panic!("{row:?}") };
    let [Answer::Text(topic), Answer::Number(partition), Answer::Number(offset), _, Answer::None] = &columns[..] else {
        panic!("{columns:?}")
    };
    assert_eq!("t", topic);
    (*partition, *offset)
}
