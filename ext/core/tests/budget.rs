//! Budgets of the process: trees that are decoded ahead, and messages that only objects keep. They are the process's,
//! so nothing else may use them in this one.

use pelton_core::budget::{self, Copied, Reservation};

#[test]
fn reservations_stay_within_the_limit_and_give_back_what_they_took() {
    budget::configure(100);
    let mut first = Reservation::take(60).expect("room");
    assert!(Reservation::take(41).is_none() && Reservation::take(usize::MAX).is_none());
    let second = Reservation::take(40).expect("room");
    assert_eq!(100, budget::taken());
    assert!(!first.resize(61));
    assert!(first.resize(60));
    assert_eq!(100, budget::taken());
    assert!(first.resize(10));
    assert_eq!(50, budget::taken());
    assert!(!first.resize(61));
    assert!(first.resize(60));
    assert_eq!(100, budget::taken());
    drop(second);
    assert_eq!(60, budget::taken());
    drop(first);
    assert_eq!(0, budget::taken());
}

/// Young objects first, and all of them if that was not enough.
#[test]
fn objects_are_to_be_collected_when_messages_that_only_they_keep_are_above_the_limit() {
    budget::limit_retained(100);
    let mut kept = vec![Copied::of(100)];
    assert_eq!((100, 100, None), (budget::copied(), budget::retained(), budget::crowded()));
    kept.push(Copied::of(1));
    assert_eq!(Some(false), budget::crowded());
    budget::collected();
    kept.push(Copied::of(100));
    assert_eq!(None, budget::crowded(), "as much again as the limit is below 201");
    kept.push(Copied::of(1));
    assert_eq!(Some(true), budget::crowded());
    budget::collected();
    kept.push(Copied::of(101));
    assert_eq!(None, budget::crowded(), "half of what was left is more than the limit");
    kept.push(Copied::of(1));
    assert_eq!((304, Some(true)), (budget::retained(), budget::crowded()));
    kept.clear();
    assert_eq!((0, None), (budget::copied(), budget::crowded()));
    kept.push(Copied::of(101));
    assert_eq!(Some(false), budget::crowded(), "the limit counts again");
}
