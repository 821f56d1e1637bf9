//! Members of groups with the protocol `consumer` whose heartbeats have ended. librdkafka 2.12 may stop them finally,
//! for example after a broker was frozen for longer than a session. The group goes on without the member, which keeps
//! its partitions, reads nothing and reports nothing. Statistics show it: the coordinator is connected, but no longer
//! answers.

use super::{Subscription, SubscriptionEvent, positions};
use crate::error::KafkaError;
use crate::lock;
use crate::rd::{Client, Conf, Event, codes};
use crate::topic_partitions::{names, plain};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Milliseconds between two looks, where the user wants no statistics.
const LOOKS: &str = "5000";
/// Brokers expect a heartbeat every 5 s, and may be configured to expect one every 15 s.
const SILENCE: Duration = Duration::from_secs(30);

pub(super) struct HeartbeatMonitor {
    /// The user wants no statistics.
    private: bool,
    limit: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The number of the coordinator's answers, and since when it has not changed. `None`: it is not connected, or no
    /// answer is expected.
    answers: Option<(u64, Instant)>,
    over: bool,
}

impl HeartbeatMonitor {
    /// Has librdkafka emit the statistics that it needs.
    pub fn of(conf: &mut Conf, limit: Option<Duration>) -> Self {
        let private = conf.get("statistics.interval.ms").as_deref() == Some("0");
        if private {
            let _ = conf.set("statistics.interval.ms", LOOKS);
        }
        Self { private, limit: limit.unwrap_or(SILENCE), seen: Mutex::default() }
    }

    /// True once: it is silent for too long. `statistics`: `None` where nothing is expected.
    fn ends(&self, statistics: Option<&str>, now: Instant) -> bool {
        let mut seen = lock(&self.seen);
        let answers = statistics.and_then(answers);
        seen.answers = match (seen.answers, answers) {
            (Some((before, since)), Some(answers)) if before == answers => Some((before, since)),
            (_, answers) => answers.map(|answers| (answers, now)),
        };
        let silent = seen.answers.is_some_and(|(_, since)| now.duration_since(since) >= self.limit);
        silent && !std::mem::replace(&mut seen.over, silent)
    }
}

/// How many answers came from the coordinator, if it is connected:
/// `"name":"GroupCoordinator", …, "state":"UP", …, "rx":17, …`
fn answers(statistics: &str) -> Option<u64> {
    let (_, broker) = statistics.split_once("\"name\":\"GroupCoordinator\"")?;
    let (broker, _) = broker.split_once('{').unwrap_or((broker, "")); // its own numbers come before its first part
    let field = |name: &str| broker.split_once(name).map(|(_, rest)| rest.trim_start());
    if !field("\"state\":")?.starts_with("\"UP\"") {
        return None;
    }
    let number = field("\"rx\":")?;
    number.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
}

/// A subscription that leaves sends no more heartbeats, and one that reads assigned partitions never does.
fn expects_heartbeats(subscribed: bool, closing: bool) -> bool {
    subscribed && !closing
}

impl Subscription {
    /// Checks in the statistics whether the member lives. If it does not, its partitions are lost, and only a new
    /// client gets partitions, which the owner must open. Returns true if the statistics were requested only for this
    /// check.
    pub(super) fn check_heartbeats(&self, client: &Client, event: &Event) -> bool {
        let Some(heartbeats) = &self.heartbeats else { return false };
        let expected = expects_heartbeats(self.subscribed.load(Ordering::SeqCst), self.closing.started());
        let statistics = expected.then(|| event.statistics());
        if heartbeats.ends(statistics.as_deref(), Instant::now()) {
            self.lose_all(heartbeats, client);
        }
        heartbeats.private
    }

    fn lose_all(&self, heartbeats: &HeartbeatMonitor, client: &Client) {
        let all = lock(&self.live).iter().flat_map(|live| live.partitions.values().cloned()).collect::<Vec<_>>();
        let pairs: Vec<_> = all.iter().map(|one| (&*one.topic, one.number)).collect();
        if let Ok(list) = plain(&pairs) {
            let partitions = names(&list);
            self.shut_partitions(Some(&partitions));
            positions::unstore(client, &pairs);
            self.marks.forget(&list);
            let token = self.last_token.fetch_add(1, Ordering::Relaxed) + 1; // nothing is to be given back
            self.mailbox.push(SubscriptionEvent::Revoked { token, partitions, lost: true });
        }
        let reason = format!(
            "the group's coordinator has answered no heartbeat for {} s although it is connected; the partitions are lost, \
             and the member has to join with another client",
            heartbeats.limit.as_secs_f64().round()
        );
        let error = KafkaError { fatal: true, ..KafkaError::with_reason(codes::ASSIGNMENT_LOST, reason) };
        self.mailbox.push(SubscriptionEvent::Error { error, partition: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(state: &str, rx: u64) -> String {
        format!(
            "{{ \"brokers\":{{ \"b:1/1\": {{ \"name\":\"b:1/1\", \"state\":\"UP\", \"rx\":99, \"req\": {{ }} }}, \
             \"GroupCoordinator\": {{ \"name\":\"GroupCoordinator\", \"nodeid\":1, \"source\":\"logical\", \
             \"state\":\"{state}\", \"stateage\":5, \"tx\":8, \"rx\":{rx}, \"rxbytes\":900, \"int_latency\": {{ }} }} }} }}"
        )
    }

    #[test]
    fn the_answers_of_a_connected_coordinator_are_read() {
        assert_eq!(Some(17), answers(&statistics("UP", 17)));
        assert_eq!(None, answers(&statistics("TRY_CONNECT", 17)));
        assert_eq!(None, answers("{ \"brokers\":{ } }"));
    }

    #[test]
    fn connected_coordinator_that_stays_silent_is_reported_once() {
        let heartbeats = HeartbeatMonitor { private: false, limit: Duration::from_secs(10), seen: Mutex::default() };
        let start = Instant::now();
        let at = |seconds, state: &str, rx| {
            heartbeats.ends(Some(&statistics(state, rx)), start + Duration::from_secs(seconds))
        };
        assert!(!at(0, "UP", 5) && !at(9, "UP", 5) && !at(10, "UP", 6), "an answer");
        assert!(!at(19, "UP", 6) && !at(21, "DOWN", 6) && !at(22, "UP", 6), "it was away meanwhile");
        assert!(!at(31, "UP", 6) && !heartbeats.ends(None, start + Duration::from_secs(33)), "nothing was expected");
        assert!(!at(34, "UP", 6) && !at(43, "UP", 6));
        assert!(at(44, "UP", 6));
        assert!(!at(99, "UP", 6), "once");
    }

    #[test]
    fn statistics_are_requested_for_it_unless_the_user_wants_them() {
        let monitor = |millis: Option<&str>, limit| {
            let mut conf = Conf::new();
            millis.iter().for_each(|millis| conf.set("statistics.interval.ms", millis).expect("a good option"));
            let HeartbeatMonitor { private, limit, .. } = HeartbeatMonitor::of(&mut conf, limit);
            (private, limit, conf.get("statistics.interval.ms").unwrap_or_default())
        };
        let limit = Duration::from_secs(7);
        assert_eq!((true, SILENCE, LOOKS.to_owned()), monitor(None, None));
        assert_eq!((false, limit, "250".to_owned()), monitor(Some("250"), Some(limit)));
    }

    #[test]
    fn member_that_leaves_or_has_no_group_expects_no_heartbeats() {
        let expected = [(true, false), (true, true), (false, false), (false, true)]
            .map(|(subscribed, closing)| expects_heartbeats(subscribed, closing));
        assert_eq!([true, false, false, false], expected);
    }
}
