//! A Kafka cluster inside the process (librdkafka's mock): for tests, examples and demos.

use crate::error::{Error, check};
use crate::rd::{Client, ClientKind, Conf, MockCluster, codes};

pub struct EmbeddedCluster {
    cluster: MockCluster,
}

impl EmbeddedCluster {
    pub fn start(brokers: i32) -> Result<Self, Error> {
        if !(1..=32).contains(&brokers) {
            return Err(Error::Invalid { what: "brokers", value: brokers.to_string(), allowed: "1 to 32" });
        }
        let mut conf = Conf::new();
        // It has no brokers of its own, as it would say on stderr.
        let _ = conf.set("log_level", "0");
        let host = Client::new(ClientKind::Producer, conf).map_err(|reason| Error::from((codes::FAIL, reason)))?;
        let cluster = MockCluster::new(host, brokers).ok_or_else(|| Error::code(codes::FAIL))?;
        // Groups of tests and demos are small: the default wait of 3 s would be wasted.
        cluster.group_delay(0);
        Ok(Self { cluster })
    }

    /// `"127.0.0.1:1234,127.0.0.1:1235"`
    pub fn bootstrap_servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), Error> {
        check(self.cluster.create_topic(name, partitions))
    }

    /// The next requests with this API key fail, one per code.
    pub fn push_errors(&self, api_key: i16, codes: &[i32]) {
        self.cluster.push_errors(api_key, codes);
    }

    /// Metadata reports this error of Kafka's for the topic from now on; 0 for none.
    pub fn topic_error(&self, name: &str, code: i32) -> Result<(), Error> {
        check(self.cluster.topic_error(name, code))
    }

    /// Requests are kept from now on.
    pub fn watch_requests(&self) {
        self.cluster.watch_requests();
    }

    /// The API keys of the requests since `watch_requests`, which ends with that.
    pub fn watched_requests(&self) -> Vec<i16> {
        self.cluster.watched_requests()
    }

    /// Milliseconds that a broker (−1: each) waits before it answers.
    pub fn round_trip_time(&self, broker: i32, millis: i32) -> Result<(), Error> {
        check(self.cluster.round_trip_time(broker, millis))
    }

    /// The next answer of this broker to a request with this API key comes after so many milliseconds.
    pub fn delay_answer(&self, broker: i32, api_key: i16, millis: i32) -> Result<(), Error> {
        check(self.cluster.delay_answer(broker, api_key, millis))
    }

    /// Milliseconds between the heartbeats of a member of the protocol `consumer`.
    pub fn heartbeat_interval(&self, millis: i32) {
        self.cluster.heartbeat_interval(millis);
    }

    pub fn broker_down(&self, broker: i32) -> Result<(), Error> {
        check(self.cluster.broker_down(broker))
    }

    pub fn broker_up(&self, broker: i32) -> Result<(), Error> {
        check(self.cluster.broker_up(broker))
    }
}
