use super::*;

fn marked(marks: &Marks, partition: i32, offset: i64) {
    let stored = Stored { topic: "t", partition, offset, leader_epoch: -1, metadata: Some(b"m") };
    assert_eq!(Ok::<_, Error>(true), marks.note(&stored, || Ok(true)));
}

fn row(partition: i32, offset: i64, error: i32) -> Entry {
    let metadata = if offset < 0 { Vec::new() } else { b"m".to_vec() };
    Entry { topic: "t".into(), partition, offset, leader_epoch: -1, metadata, error }
}

fn answer(code: i32, rows: &[(i32, i64)]) -> Commit {
    Commit { code, rows: rows.iter().map(|&(partition, offset)| row(partition, offset, 0)).collect() }
}

fn left(marks: &Marks) -> Vec<(i32, i64, i32)> {
    marks.unconfirmed().into_iter().map(|row| (row.partition, row.offset, row.code)).collect()
}

fn offsets(list: Option<PartitionList>) -> Vec<(i32, i64)> {
    list.iter().flat_map(PartitionList::entries).map(|row| (row.partition, row.offset)).collect()
}

const NOTHING: i64 = -1001;

#[test]
fn an_answer_says_nothing_of_marks_that_came_while_it_was_on_its_way() {
    for (code, rows, repeated, reported) in [
        (codes::NO_OFFSET, &[][..], vec![], vec![(0, 5, 0), (1, 7, 0), (2, 9, 0)]),
        (codes::NO_OFFSET, &[(0, NOTHING), (1, NOTHING)], vec![(0, 5)], vec![(0, 5, 0), (1, 7, 0), (2, 9, 0)]),
        (0, &[(0, 5), (1, NOTHING), (2, NOTHING)], vec![], vec![(1, 7, 0), (2, 9, 0)]),
        (0, &[(0, 5), (1, 3), (2, 9)], vec![], vec![(1, 7, 0)]),
        (codes::ASSIGNMENT_LOST, &[], vec![], vec![(0, 5, codes::ASSIGNMENT_LOST), (1, 7, 0), (2, 9, 0)]),
    ] {
        let marks = Marks::default();
        marked(&marks, 0, 5);
        marked(&marks, 1, 3);
        let asked = marks.newest();
        marked(&marks, 1, 7);
        marked(&marks, 2, 9);
        assert_eq!(repeated, offsets(marks.heard(&answer(code, rows), Some(asked))), "{code} {rows:?}");
        assert_eq!(reported, left(&marks), "{code} {rows:?}");
    }
}

#[test]
fn a_commit_confirms_the_offsets_that_it_sent_and_no_others() {
    let marks = Marks::default();
    marked(&marks, 0, 5);
    marked(&marks, 1, 7);
    assert!(marks.heard(&answer(codes::NO_OFFSET, &[(0, NOTHING), (1, NOTHING)]), None).is_none());
    marks.heard(&answer(0, &[(0, 5), (1, 3)]), None);
    assert_eq!(vec![(1, 7, 0)], left(&marks));
    let all = PartitionList::plain([("t", 0), ("t", 1), ("t", 2)]).expect("a list");
    let first = PartitionList::plain([("t", 0)]).expect("a list");
    for (which, lost, expected) in [
        (Some(&all), false, vec![0]),
        (None, false, vec![0]),
        (Some(&all), true, vec![0, 1, 2]),
        (Some(&first), true, vec![0]),
        (None, true, vec![0, 1]),
    ] {
        let mut done = Vec::new();
        marks.done(which, lost, |rows| done = rows.iter().map(|row| row.1).collect());
        assert_eq!(expected, done);
    }
    marks.heard(&answer(0, &[(0, 4)]), None);
    assert_eq!(vec![(0, 5, 0), (1, 7, 0)], left(&marks), "Kafka has an earlier one now");
}

#[test]
fn a_mark_that_is_repeated_needs_no_commit_unless_its_metadata_changes() {
    let marks = Marks::default();
    marked(&marks, 0, 5);
    marks.heard(&answer(0, &[(0, 5)]), None);
    marked(&marks, 0, 5);
    assert!(marks.all_confirmed());
    let renamed = Stored { topic: "t", partition: 0, offset: 5, leader_epoch: -1, metadata: None };
    assert_eq!(Ok::<_, Error>(true), marks.note(&renamed, || Ok(true)));
    assert_eq!(vec![(0, 5, 0)], left(&marks));
    marks.heard(&answer(0, &[(0, 5)]), None);
    assert_eq!(vec![(0, 5, 0)], left(&marks), "that was the mark before");
    assert_eq!(vec![(0, 5)], offsets(marks.overdue(Duration::ZERO)));
}

#[test]
fn a_mark_that_the_timer_may_leave_out_is_overdue_after_a_while() {
    let hour = Duration::from_secs(3600);
    let marks = Marks::default();
    marked(&marks, 0, 5);
    assert_eq!(None, marks.overdue(hour).map(drop));
    let list = marks.overdue(Duration::ZERO).expect("the first of its assignment");
    assert_eq!(vec![row(0, 5, 0)], list.entries());
    marks.heard(&answer(0, &[(0, 5)]), None);
    marked(&marks, 0, 7);
    assert_eq!(None, marks.overdue(Duration::ZERO).map(drop), "librdkafka commits it by itself");
    marked(&marks, 0, 4);
    assert_eq!(vec![(0, 4)], offsets(marks.overdue(Duration::ZERO)), "one before it");
    marks.heard(&answer(0, &[(0, 4)]), None);
    assert!(marks.overdue(Duration::ZERO).is_none());
}

#[test]
fn a_mark_whose_commit_is_refused_stays_unconfirmed() {
    let marks = Marks::default();
    marked(&marks, 0, 5);
    marked(&marks, 1, 6);
    let rows = vec![row(0, 5, codes::ILLEGAL_GENERATION), row(1, NOTHING, 0)];
    let repeated = marks.heard(&Commit { code: codes::ILLEGAL_GENERATION, rows }, Some(marks.newest()));
    assert_eq!(vec![(1, 6)], offsets(repeated));
    assert_eq!(vec![(0, 5, codes::ILLEGAL_GENERATION), (1, 6, 0)], left(&marks));
}

#[test]
fn an_unmarked_one_is_neither_unconfirmed_nor_committed_again() {
    let marks = Marks::default();
    marked(&marks, 0, 5);
    assert_eq!(Err("no"), marks.unmark("t", 0, || Err("no")));
    assert_eq!(vec![(0, 5, 0)], left(&marks));
    assert_eq!(Ok::<_, Error>(()), marks.unmark("t", 0, || Ok(())));
    assert!(marks.all_confirmed() && marks.overdue(Duration::ZERO).is_none());
}

#[test]
fn marks_of_a_partition_that_is_given_up_are_forgotten() {
    let marks = Marks::default();
    (0..3).for_each(|partition| marked(&marks, partition, 5));
    marks.forget(&PartitionList::plain([("t", 0), ("u", 1), ("t", 7)]).expect("a list"));
    assert_eq!(vec![(1, 5, 0), (2, 5, 0)], left(&marks));
    marks.clear();
    assert!(marks.all_confirmed() && left(&marks).is_empty());
}

/// Makes the mark of partition 0 an hour older.
fn age(marks: &Marks) {
    let mut table = lock(&marks.0);
    let mark = table.topics.get_mut("t").and_then(|of_topic| of_topic.get_mut(&0)).expect("a mark");
    mark.since -= HOUR;
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_mark_is_overdue_an_hour_after_the_first_one_that_was_left_out_or_the_last_try() {
    let marks = Marks::default();
    marked(&marks, 0, 5);
    age(&marks);
    marked(&marks, 0, 6);
    assert_eq!(vec![(0, 6)], offsets(marks.overdue(HOUR)), "it waits since the one before");
    assert!(marks.overdue(HOUR).is_none(), "it was tried");
    age(&marks);
    let rows = vec![row(0, 6, codes::REBALANCE_IN_PROGRESS)];
    marks.heard(&Commit { code: codes::REBALANCE_IN_PROGRESS, rows }, None);
    assert!(marks.overdue(HOUR).is_none(), "there was an answer");
    age(&marks);
    assert_eq!(vec![(0, 6)], offsets(marks.overdue(HOUR)));
    marks.heard(&answer(0, &[(0, 6)]), None);
    age(&marks);
    marked(&marks, 0, 4);
    assert!(marks.overdue(HOUR).is_none(), "nothing was left out before");
}

#[test]
fn a_mark_that_librdkafka_refuses_to_store_is_none() {
    let marks = Marks::default();
    let stored = Stored { topic: "t", partition: 0, offset: 5, leader_epoch: -1, metadata: None };
    assert_eq!(Ok::<_, Error>(false), marks.note(&stored, || Ok(false)));
    assert_eq!(Err("no"), marks.note(&stored, || Err("no")));
    assert_eq!((0, true), (marks.newest(), marks.all_confirmed()));
}

#[test]
fn a_mark_moves_behind_the_ends_of_transactions_with_its_metadata_and_if_it_is_stored() {
    let marks = Marks::default();
    let nothing = |_: &PartitionList| unreachable!("nothing to store");
    marks.move_on("t", 0, |_| unreachable!("no mark"), nothing);
    marked(&marks, 0, 5);
    marks.heard(&answer(0, &[(0, 5)]), None);
    marks.move_on("t", 0, |offset| (offset != 5).then_some((9, 1)), nothing);
    marks.move_on("t", 0, |_| Some((7, 3)), |_| false);
    assert!(marks.all_confirmed(), "it is where it was");
    let stored = |list: &PartitionList| {
        let rows: Vec<_> = list.entries().into_iter().map(|row| (row.offset, row.leader_epoch, row.metadata)).collect();
        rows == [(7, 3, b"m".to_vec())]
    };
    marks.move_on("t", 0, |_| Some((7, 3)), stored);
    assert_eq!(vec![(0, 7, 0)], left(&marks));
    marks.move_on("t", 0, |offset| (offset != 7).then_some((9, 1)), nothing);
}
