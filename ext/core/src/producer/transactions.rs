//! The transactions of one producer: one native call at a time, and a defined way on after a call whose caller went
//! away.
//!
//! librdkafka takes one transactional call at a time. After a retriable error of init, commit or abort it takes nothing
//! but the same call ("resumable"). So a caller that gave up (killed, timed out) leaves one of these: a running call, a
//! call to resume, an open transaction. `begin` and `abort` first bring it to its end.

use super::Producer;
use crate::error::{Error, KafkaError, check};
use crate::lock;
use crate::rd::{Client, GroupMetadata, PartitionList, TransactionError, codes};
use crate::subscription::Subscription;
use crate::wait::{self, Outcome, Parker, Waiters};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest that an abandoned call keeps others waiting (except `send_offsets`, which cannot be resumed).
const SLICE: Duration = Duration::from_secs(1);
/// Shorter native calls would give up before librdkafka's main thread had its turn, and the next call would be given
/// their answer.
const SHORTEST: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TransactionStep {
    Init,
    Commit,
    Abort,
}

#[derive(Default)]
struct TransactionState {
    /// The producer has its id and epoch.
    ready: bool,
    /// The call that librdkafka requires to be repeated before any other.
    unfinished: Option<TransactionStep>,
    /// The last transaction that was begun is committed, even if no caller waited for that.
    committed: bool,
}

#[derive(Default)]
pub struct Transactions {
    state: Mutex<TransactionState>,
    /// Begun, and neither committed nor aborted.
    open: AtomicBool,
    /// A native call runs.
    calling: AtomicBool,
    /// The ticket of the newest call. Older calls that still wait for their turn are abandoned.
    newest: AtomicU64,
    turns: Waiters,
    gap: AtomicBool,
}

/// A call's place in the order of calls: drawn by the caller, before the call moves to a thread of its own.
#[derive(Clone, Copy)]
pub struct Ticket(u64);

/// The right to call; given back when dropped.
struct Turn<'a>(&'a Transactions);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.calling.store(false, Ordering::SeqCst);
        self.0.turns.wake_all();
    }
}

impl Transactions {
    pub fn ticket(&self) -> Ticket {
        let ticket = Ticket(self.newest.fetch_add(1, Ordering::SeqCst) + 1);
        self.turns.wake_all();
        ticket
    }

    /// A message failed. Returns true if it was purged with its transaction, so that no event is needed.
    pub(super) fn failed(&self, code: i32) -> bool {
        if code > 0 {
            self.gap.store(true, Ordering::SeqCst);
        }
        self.is_open() && matches!(code, codes::PURGE_QUEUE | codes::PURGE_INFLIGHT)
    }

    /// A broker refused a message finally, or an abort purged messages that may have had numbers. The broker's sequence
    /// numbers then have a gap. librdkafka notices it in the next transaction, which fails because of it.
    pub fn has_gap(&self) -> bool {
        self.gap.load(Ordering::SeqCst)
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    fn is_old(&self, ticket: Ticket) -> bool {
        self.newest.load(Ordering::SeqCst) != ticket.0
    }

    fn turn(&self, ticket: Ticket, deadline: Option<Instant>) -> Result<Turn<'_>, Error> {
        loop {
            let free = || self.is_old(ticket) || !self.calling.load(Ordering::SeqCst);
            if self.turns.wait(&Parker::new(), deadline, free) != Outcome::Ready {
                return Err(Error::code(codes::TIMED_OUT));
            }
            if self.is_old(ticket) {
                return Err(Error::Interrupted);
            }
            if !self.calling.swap(true, Ordering::SeqCst) {
                return Ok(Turn(self));
            }
        }
    }

    /// Begins a transaction; the first time, gets the producer's id before. Blocks.
    pub fn begin(&self, client: &Client, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Error> {
        let _turn = self.turn(ticket, deadline)?;
        self.settle(client, ticket, deadline)?;
        if !lock(&self.state).ready {
            self.call(client, TransactionStep::Init, ticket, deadline)?;
        }
        if self.is_old(ticket) {
            return Err(Error::Interrupted);
        }
        client.begin_transaction()?;
        self.open.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes offsets of a subscription's group a part of the transaction. Blocks.
    pub fn send_offsets(
        &self,
        client: &Client,
        offsets: &PartitionList,
        group: &GroupMetadata,
        ticket: Ticket,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let _turn = self.turn(ticket, deadline)?;
        Ok(client.send_offsets(offsets, group, millis(deadline))?)
    }

    /// Delivers everything and commits. Blocks. After a retriable error it may be called again, and `abort` says
    /// whether it was committed.
    pub fn commit(&self, client: &Client, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Error> {
        let _turn = self.turn(ticket, deadline)?;
        self.call(client, TransactionStep::Commit, ticket, deadline)
    }

    /// Aborts an open transaction, if there is one. Blocks. Returns false if the last transaction is committed, now or
    /// before. `settled` is called first, while the transaction can still be aborted.
    pub fn abort(
        &self,
        client: &Client,
        ticket: Ticket,
        deadline: Option<Instant>,
        settled: impl FnOnce(),
    ) -> Result<bool, Error> {
        let _turn = self.turn(ticket, deadline)?;
        if lock(&self.state).unfinished.is_none() && self.is_open() {
            settled();
        }
        self.settle(client, ticket, deadline)?;
        Ok(!lock(&self.state).committed)
    }

    /// Ends what an earlier caller left. (`begin` resumes an init.)
    fn settle(&self, client: &Client, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Error> {
        let unfinished = lock(&self.state).unfinished;
        if unfinished == Some(TransactionStep::Commit) {
            match self.call(client, TransactionStep::Commit, ticket, deadline) {
                Err(Error::Kafka(error)) if error.abortable => {}
                other => other?,
            }
        }
        if self.is_open() {
            self.call(client, TransactionStep::Abort, ticket, deadline)?;
        }
        Ok(())
    }

    fn call(
        &self,
        client: &Client,
        step: TransactionStep,
        ticket: Ticket,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let resumable = |refusal: &TransactionError| refusal.retriable && !refusal.abortable && !refusal.fatal;
        let result = loop {
            let began = Instant::now();
            let slice = millis(deadline).min(SLICE.as_millis() as i32);
            let result = match step {
                TransactionStep::Init => client.init_transactions(slice),
                TransactionStep::Commit => client.commit_transaction(slice),
                TransactionStep::Abort => client.abort_transaction(slice),
            };
            // Whether a slice's time is over shows in the time, because the error gives the reason for the delay.
            let in_time = deadline.is_none_or(|deadline| Instant::now() < deadline);
            let again = result.as_ref().is_err_and(resumable) && began.elapsed() >= SLICE;
            if !again || !in_time || self.is_old(ticket) {
                break result;
            }
        };
        let mut state = lock(&self.state);
        state.unfinished = result.as_ref().is_err_and(resumable).then_some(step);
        if result.is_ok() {
            match step {
                TransactionStep::Init => state.ready = true,
                TransactionStep::Commit | TransactionStep::Abort => {
                    state.committed = step == TransactionStep::Commit;
                    self.open.store(false, Ordering::SeqCst);
                }
            }
        }
        Ok(result?)
    }
}

fn millis(deadline: Option<Instant>) -> i32 {
    wait::millis_left(deadline).max(SHORTEST.as_millis() as i32)
}

/// Each call blocks, so it is for a native thread, with a ticket that the caller drew before.
impl Producer {
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    pub fn begin_transaction(&self, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Error> {
        if self.closing.started() {
            return Err(Error::Closed);
        }
        self.transactions.begin(&*self.client()?, ticket, deadline)
    }

    pub fn send_offsets(
        &self,
        offsets: &PartitionList,
        group: &GroupMetadata,
        ticket: Ticket,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        self.transactions.send_offsets(&*self.client()?, offsets, group, ticket, deadline)
    }

    pub fn commit_transaction(&self, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Error> {
        self.transactions.commit(&*self.client()?, ticket, deadline)
    }

    /// Returns false if the transaction was committed (see `Transactions::abort`). Waits up to `patience` until no
    /// message is on its way, for two reasons. The coordinator finally refuses an abort that overtakes the registration
    /// of the first partition (librdkafka issue 4849). And an abort purges requests that are not sent yet, although
    /// their messages have numbers.
    pub fn abort_transaction(
        &self,
        ticket: Ticket,
        deadline: Option<Instant>,
        patience: Duration,
    ) -> Result<bool, Error> {
        let client = self.client()?;
        self.transactions.abort(&client, ticket, deadline, || {
            // Without patience nothing more may be sent.
            let _no_linger = (!patience.is_zero()).then(|| self.skip_linger());
            let limit = wait::deadline(Some(patience)).into_iter().chain(deadline).min();
            if self.progress.wait(&Parker::new(), limit, || self.is_flushed()) != Outcome::Ready {
                self.transactions.gap.store(true, Ordering::SeqCst);
            }
        })
    }

    /// The error that ended the client. A disconnected client has none.
    pub fn fatal_error(&self) -> Option<KafkaError> {
        self.with_client(|client| client.fatal_error().is_some().then(|| super::fatal(client))).ok().flatten()
    }

    /// For tests: a fatal error, as if a broker had said so.
    pub fn fail_for_good(&self, code: i32, reason: &str) -> Result<(), Error> {
        check(self.client()?.fail_for_good(code, reason))
    }

    /// At the client's end, when its transaction has no owner any more. The coordinator aborts what cannot be aborted
    /// in time.
    pub(super) fn abort_abandoned(&self, client: &Client, deadline: Option<Instant>) {
        if self.transactions.is_open() {
            let _ = self.transactions.abort(client, self.transactions.ticket(), deadline, || ());
        }
    }
}

/// The group membership of a subscription, for its offsets in a transaction. Blocks shortly. Returns an error when its
/// assignment is lost: other members have its work now.
pub fn group_metadata(subscription: &Subscription) -> Result<GroupMetadata, Error> {
    subscription.check_group()?;
    let client = subscription.client()?;
    let metadata = client.group_metadata().ok_or_else(|| Error::code(codes::UNKNOWN_GROUP));
    // Checked afterwards: a member that has just lost everything has no id, and Kafka would accept its offsets.
    if client.assignment_lost() {
        return Err(Error::code(codes::ASSIGNMENT_LOST));
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::Poller;

    #[test]
    fn a_message_that_a_broker_refused_leaves_a_gap_and_one_that_was_purged_does_not() {
        let transactions = Transactions::default();
        assert!(!transactions.failed(codes::PURGE_QUEUE) && !transactions.failed(codes::TIMED_OUT));
        assert!(!transactions.has_gap());
        assert!(!transactions.failed(codes::MSG_SIZE_TOO_LARGE));
        assert!(transactions.has_gap());
    }

    #[test]
    fn messages_purged_with_an_open_transaction_need_no_event() {
        let transactions = Transactions::default();
        transactions.open.store(true, Ordering::SeqCst);
        let failed =
            [codes::PURGE_QUEUE, codes::PURGE_INFLIGHT, codes::TIMED_OUT].map(|code| transactions.failed(code));
        assert_eq!([true, true, false], failed);
    }

    #[test]
    fn only_the_newest_ticket_has_a_turn() {
        let transactions = Transactions::default();
        let (older, newer) = (transactions.ticket(), transactions.ticket());
        assert_eq!(Some(Error::Interrupted), transactions.turn(older, None).err());
        let turn = transactions.turn(newer, None).expect("its turn");
        let now = Some(Instant::now());
        assert_eq!(Some(Error::code(codes::TIMED_OUT)), transactions.turn(newer, now).err(), "another call runs");
        drop(turn);
        assert!(transactions.turn(newer, now).is_ok());
    }

    /// Its caller was killed, say. The next one would wait for its whole time.
    #[test]
    fn a_call_without_a_caller_gives_its_turn_back_soon() {
        let options = [("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0"), ("transactional.id", "t")];
        let poller = Poller::global().expect("a pipe");
        let producer = Producer::new("test", options, poller).expect("a producer");
        let transactions = producer.transactions();
        let (first, started) = (transactions.ticket(), Instant::now());
        std::thread::scope(|scope| {
            let call = scope.spawn(|| producer.begin_transaction(first, wait::deadline(Some(Duration::from_secs(90)))));
            while !transactions.calling.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let next = transactions.ticket();
            assert!(transactions.turn(next, wait::deadline(Some(Duration::from_secs(60)))).is_ok());
            assert!(call.join().expect("no panic").is_err());
        });
        assert!(started.elapsed() < Duration::from_secs(60));
        producer.close(Duration::ZERO).expect("ours");
    }
}
