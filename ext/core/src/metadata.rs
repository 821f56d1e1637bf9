//! The brokers and topics of a cluster, requested once through a client of its own.

use crate::config;
use crate::error::Error;
use crate::rd::{Client, ClientKind, Topic, codes};

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
    // Its log lines would go to stderr: the answer tells what went wrong.
    let _ = conf.set("log_level", "0");
    let client = Client::new(ClientKind::Producer, conf).map_err(config::refused)?;
    let topic = match topic {
        None => None,
        Some(name) => Some(Topic::new(&client, name).ok_or_else(|| Error::code(codes::UNKNOWN_TOPIC))?),
    };
    let (brokers, topics) = client.metadata(topic.as_ref(), millis).map_err(Error::code)?;
    Ok(Metadata { brokers, topics })
}
