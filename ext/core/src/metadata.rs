//! The brokers and topics of a cluster, requested once through a client of its own.

use crate::config;
use crate::error::{Error, KafkaError};
use crate::rd::{Client, ClientKind, Queue, Topic, codes, event_types};

#[derive(Debug)]
pub struct Metadata {
    /// (id, host, port)
    pub brokers: Vec<(i32, String, i32)>,
    /// Name and number of partitions, or the code that the broker gave.
    pub topics: Vec<(String, Result<usize, i32>)>,
}

/// Blocks up to `millis`, plus librdkafka's time to stop.
pub fn fetch<'a>(
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
    topic: Option<&str>,
    millis: i32,
) -> Result<Metadata, Error> {
    let mut conf = config::build(options)?;
    // Its log lines would go to stderr: the answer has the reason.
    let _ = conf.set("log_level", "0");
    conf.set_events(event_types::ERROR);
    let client = Client::new(ClientKind::Producer, conf).map_err(config::refused)?;
    let topic = match topic {
        None => None,
        Some(name) => Some(Topic::new(&client, name).ok_or_else(|| Error::code(codes::UNKNOWN_TOPIC))?),
    };
    let answer = client.metadata(topic.as_ref(), millis);
    let (brokers, topics) = answer.map_err(|code| Error::Kafka(explained(code, &Queue::main(&client))))?;
    Ok(Metadata { brokers, topics })
}

/// The error of an unanswered request with what the client reported meanwhile: a refused password, a closed port.
fn explained(code: i32, queue: &Queue) -> KafkaError {
    let mut error = KafkaError::new(code);
    let reports = std::iter::from_fn(|| queue.poll()).filter(|event| event.kind() == event_types::ERROR);
    let reports = reports.map(|event| KafkaError::of(&event));
    if let Some(last) = reports.filter(|one| one.code != codes::ALL_BROKERS_DOWN).max_by_key(KafkaError::weight) {
        error.reason = format!("{}; last error: {}", error.reason, last.reason);
    }
    error
}
