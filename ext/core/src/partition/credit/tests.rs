use super::super::tests::Reads;
use super::*;

fn credit(prefetch: usize, prefetch_bytes: usize) -> Credit {
    let limits = Limits { prefetch, prefetch_bytes, ..Limits::default() };
    let token = Token { client: 0, queue: 0 };
    Credit::new(limits, Poller::new("test").expect("a pipe"), token, None)
}

fn take(credit: &Credit, bytes: usize) {
    credit.take(QueueRead { bytes, messages: 1, rest: 0 });
}

/// Whether the partition is left alone until more comes back.
fn rests(credit: &Credit) -> bool {
    lock(&credit.out).spent
}

#[test]
fn spent_credit_is_there_again_with_half_of_the_batches() {
    let credit = credit(4, 1_000);
    (0..4).for_each(|_| take(&credit, 10));
    assert!(credit.is_spent());
    credit.give_back(10);
    assert!(rests(&credit));
    credit.give_back(10);
    assert!(!rests(&credit));
}

#[test]
fn spent_credit_is_not_there_again_while_the_bytes_are_out() {
    let credit = credit(4, 100);
    [10, 10, 10, 150].into_iter().for_each(|bytes| take(&credit, bytes));
    assert!(credit.is_spent());
    (0..3).for_each(|_| credit.give_back(10));
    assert!(rests(&credit), "one batch of 150 bytes is out");
    credit.give_back(150);
    assert!(!rests(&credit));
    assert!(!credit.is_spent());
    [10, 100].into_iter().for_each(|bytes| take(&credit, bytes));
    assert!(credit.is_spent());
    credit.give_back(10);
    assert!(rests(&credit), "one batch of all the bytes is out");
}

#[test]
fn credit_is_half_spent_with_half_of_the_batches_or_of_the_bytes() {
    let credit = credit(4, 100);
    take(&credit, 10);
    assert!(!credit.is_half_spent());
    take(&credit, 10);
    assert!(credit.is_half_spent());
    credit.give_back(10);
    assert!(!credit.is_half_spent());
    take(&credit, 40);
    credit.give_back(10);
    assert!(!credit.is_half_spent(), "one batch of 40 bytes is out");
    credit.give_back(40);
    take(&credit, 50);
    assert!(credit.is_half_spent(), "one batch of 50 bytes is out");
}

#[test]
fn a_single_large_batch_spends_the_credit() {
    let credit = credit(4, 100);
    take(&credit, 99);
    assert!(!credit.is_spent());
    take(&credit, 1);
    assert!(credit.is_spent());
}

#[test]
fn credit_is_half_spent_by_batches_or_by_bytes() {
    for (credit, bytes) in [(credit(5, 1_000), 1), (credit(1_000, 50), 10)] {
        let half = [1, 2, 3].map(|_| {
            take(&credit, bytes);
            credit.is_half_spent()
        });
        assert_eq!([false, false, true], half);
    }
}

#[test]
fn partition_is_read_again_when_its_credit_is_back() {
    let (reads, limits) = (Reads::new(), Limits { prefetch: 2, ..Limits::default() });
    let credit = Credit::new(limits, Arc::clone(&reads.poller), reads.token, None);
    for round in 0..3 {
        (0..2).for_each(|_| take(&credit, 10));
        assert!(credit.is_spent());
        assert_eq!(round, reads.count());
        credit.give_back(10);
        reads.wait_beyond(round);
        credit.give_back(10);
    }
}
